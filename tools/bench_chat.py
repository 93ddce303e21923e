#!/usr/bin/env python3
"""Times fine-tuning on conversations next to TRL, and their encoding next to transformers, in turns.

    python3 tools/bench_chat.py MODEL [--rows N] [--rounds N] [--threads N] [--bf16] [--alone] [--levin FILE]

MODEL is the folder of a model with a chat template, such as SmolLM2-135M-Instruct. The conversations are questions and answers
about this project's pages: sections of them, cut to lengths between 20 and 1,000 words. Encoding: all conversations to ids and
labels, next to `levin tokenize` on the same rendered text and to apply_chat_template in a process on each thread. Training: LoRA of
rank 16 on all linear layers, packed rows of 1,024 tokens, tokens a second without padding; TRL's SFTTrainer with packing, batch 1,
in bf16 where --bf16 says so. Each round starts a fresh process of each side; the best of all rounds counts. TRL, peft and
transformers come from the Python that runs this program; --alone needs none of them.
"""
import argparse
import glob
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
T, RANK, STEPS = 1024, 16, 12


def conversations(n):
    pages = [*sorted(glob.glob(str(ROOT / "docs" / "*.md"))), str(ROOT / "README.md")]
    sections = [t for p in pages for t in re.split(r"(?m)^(?=#{1,3} )", Path(p).read_text(encoding="utf-8")) if len(t.split()) > 20]
    draw = random.Random(1)
    for i in range(n):
        words = sections[i % len(sections)].split(" ")
        yield {"messages": [{"role": "user", "content": f"Question {i}: what does the page say about {words[1]}?"},
                            {"role": "assistant", "content": " ".join(words[:draw.randint(20, 1000)])}]}


# --- the other side: `bench_chat.py --worker encode|train MODEL ROWS THREADS bf16|fp32` ---


def encode_some(arguments):
    model, rows = arguments
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    start = time.perf_counter()
    return sum(len(tokenizer.apply_chat_template(r["messages"], tokenize=True, return_dict=False)) for r in rows), start


def worker_encode(model, rows, threads):
    import multiprocessing

    parts = [(model, rows[i::threads]) for i in range(threads)]
    with multiprocessing.Pool(threads) as pool:
        done = pool.map(encode_some, parts)
    seconds = time.perf_counter() - min(start for _, start in done)  # the clock is the machine's; loading is left out
    print(json.dumps({"tokens": sum(n for n, _ in done), "seconds": seconds}))


def worker_train(model, rows, threads, bf16):
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import SFTConfig, SFTTrainer

    torch.set_num_threads(threads)
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    times = []

    class Clock(TrainerCallback):
        def on_step_end(self, *_, **__):
            times.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        options = SFTConfig(folder, max_steps=STEPS + 2, per_device_train_batch_size=1, max_length=T, packing=True, bf16=bf16, use_cpu=True,
                            save_strategy="no", logging_strategy="no", report_to="none", learning_rate=1e-4, gradient_checkpointing=False,
                            packing_strategy="wrapped")
        trainer = SFTTrainer(AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32), options,
                             train_dataset=Dataset.from_list(rows), callbacks=[Clock()], processing_class=tokenizer,
                             peft_config=LoraConfig(r=RANK, lora_alpha=RANK, target_modules="all-linear", task_type="CAUSAL_LM"))
        trainer.train()
    print(json.dumps({"tokens_per_s": STEPS * T / (times[-1] - times[1])}))  # wrapped rows have no padding


def worker(kind, model, rows, threads, precision):
    rows = [json.loads(line) for line in open(rows, encoding="utf-8")]
    if kind == "encode":
        worker_encode(model, rows, int(threads))
    else:
        worker_train(model, rows, int(threads), precision == "bf16")


# --- levin's side ---


def levin(a, *command, cache=None, stdin=None):
    environment = dict(os.environ, LEVIN_CACHE=cache) if cache else None
    start = time.perf_counter()
    done = subprocess.run([a.levin, *command], stdin=stdin, stdout=subprocess.PIPE, env=environment, check=True, cwd=a.folder)
    return done.stdout, time.perf_counter() - start


def levin_encode(a, rows):
    """Seconds in which the cache is made; the rest of the command is what it takes with the cache."""
    with tempfile.TemporaryDirectory() as cache:
        keys = ["train", rows, f"--model.init={a.model}", "--show-batch", "--quiet", f"--trainer.threads={a.threads}"]
        first = levin(a, *keys, cache=cache)[1]
        return first - min(levin(a, *keys, cache=cache)[1] for _ in range(2))


def levin_train(a, rows):
    keys = [f"--model.init={a.model}", f"--lora.rank={RANK}", "--lora.targets=all-linear", "--data.pack=true", f"--model.block_size={T}",
            "--trainer.batch_size=1", f"--trainer.fast_dev_run={STEPS}", f"--trainer.threads={a.threads}", "--optimizer.lr=1e-4"]
    keys += ["--trainer.precision=bf16-mixed"] * a.bf16
    return json.loads(levin(a, "train", rows, *keys, "--json", "--quiet")[0])["tokens_per_s"]


def peer(a, kind, rows):
    done = subprocess.run([sys.executable, __file__, "--worker", kind, a.model, rows, str(a.threads), "bf16" if a.bf16 else "fp32"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"{kind}: not here ({(done.stderr.strip() or 'no message').splitlines()[-1][:200]})", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=os.path.abspath)
    p.add_argument("--rows", type=int, default=10000)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--bf16", action="store_true")
    p.add_argument("--alone", action="store_true")
    p.add_argument("--levin", type=os.path.abspath, default=str(ROOT / "build/levin"))
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as a.folder:
        all_rows, some_rows, text = (os.path.join(a.folder, f) for f in ("rows.jsonl", "some.jsonl", "text.txt"))
        with open(all_rows, "w", encoding="utf-8") as f, open(some_rows, "w", encoding="utf-8") as g:
            for i, row in enumerate(conversations(a.rows)):
                f.write(json.dumps(row) + "\n")
                if i < 500:
                    g.write(json.dumps(row) + "\n")
        shown, _ = levin(a, "tokenize", f"--chat={all_rows}", f"--tokenizer={a.model}", "--json")
        objects = [json.loads(line) for line in shown.splitlines()]
        tokens = sum(len(o["ids"]) for o in objects)
        with open(text, "w", encoding="utf-8") as f:
            f.writelines(o["text"] for o in objects)
        best = {}
        for _ in range(a.rounds):
            with open(text, "rb") as f:
                plain = levin(a, "tokenize", f"--tokenizer={a.model}", stdin=f)[1]
            figures = {"levin, conversations": levin_encode(a, all_rows), "levin tokenize, the same text": plain}
            other = None if a.alone else peer(a, "encode", all_rows)
            if other:
                figures["transformers, apply_chat_template"] = other["seconds"]
            for name, seconds in figures.items():
                best[name] = min(seconds, best.get(name, seconds))
        print(f"encoding: {a.rows} conversations of {tokens / a.rows:.0f} tokens, {a.threads} threads")
        for name, seconds in best.items():
            print(f"  {name:36} {seconds:8.2f} s  {tokens / seconds:12,.0f} tokens/s", flush=True)
        best = {}
        for _ in range(a.rounds):
            figures = {"levin": levin_train(a, some_rows)}
            other = None if a.alone else peer(a, "train", some_rows)
            if other:
                figures["TRL"] = other["tokens_per_s"]
            for name, rate in figures.items():
                best[name] = max(rate, best.get(name, 0))
        print(f"training: LoRA of rank {RANK}, packed rows of {T} tokens, {'bf16' if a.bf16 else 'fp32'}, {a.threads} threads")
        for name, rate in best.items():
            print(f"  {name:36} {rate:8.0f} tokens/s", flush=True)


if len(sys.argv) > 1 and sys.argv[1] == "--worker":
    worker(*sys.argv[2:])
else:
    main()
