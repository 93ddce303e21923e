#!/usr/bin/env python3
"""Times a base in nf4 next to transformers, peft and bitsandbytes on this CPU, in turns.

    python3 tools/bench_quantized.py MODEL [--rounds N] [--threads N] [--length N] [--tokens N] [--levin FILE]

MODEL is the folder of a Llama model in 16 or 32 bits, such as `levin export FILE.gguf FOLDER` writes. A step: LoRA of rank 16 on all
linear layers, one row of --length tokens; levin in bf16-true, bitsandbytes with its computing type in bf16 and in fp32. Decoding:
greedy, one prompt, the time of --tokens tokens less that of one. Each round starts a fresh process of each side; the best of all
rounds counts. torch, transformers, peft and bitsandbytes come from the Python that runs this program.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RANK, STEPS, PROMPT = 16, 3, "The capital of France is"


# --- the other side: `bench_quantized.py --worker step|decode MODEL bf16|fp32 THREADS LENGTH TOKENS` ---


def worker(kind, path, precision, threads, length, tokens):
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

    torch.set_num_threads(threads)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    options = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype)
    model = AutoModelForCausalLM.from_pretrained(path, quantization_config=options, dtype=dtype, device_map="cpu")
    times = []
    if kind == "step":
        model = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=RANK, target_modules="all-linear", task_type="CAUSAL_LM"))
        model.train()
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
        ids = torch.randint(0, model.config.vocab_size, (1, length))
        for _ in range(STEPS + 1):
            start = time.perf_counter()
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            times.append(time.perf_counter() - start)
    else:
        ids = AutoTokenizer.from_pretrained(path)(PROMPT, return_tensors="pt").input_ids
        with torch.inference_mode():
            for n in (1, 1, tokens):
                start = time.perf_counter()
                model.generate(ids, min_new_tokens=n, max_new_tokens=n, do_sample=False)
                times.append(time.perf_counter() - start)
        times = [(times[2] - times[1]) / (tokens - 1)]
    print(json.dumps(min(times[1:] or times)))


def peer(a, kind, precision):
    command = [sys.executable, __file__, "--worker", kind, a.model, precision, *map(str, (a.threads, a.length, a.tokens))]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"{kind}: not here ({(done.stderr.strip() or 'no message').splitlines()[-1][:200]})", flush=True)
        return float("inf")
    return json.loads(done.stdout.splitlines()[-1])


# --- levin's side ---


def levin(a, *command):
    start = time.perf_counter()
    done = subprocess.run([a.levin, *command, "--quiet", "--json", f"--trainer.threads={a.threads}", "--model.quantize=nf4",
                           "--trainer.precision=bf16-true"], stdout=subprocess.PIPE, check=True, cwd=a.folder)
    return json.loads(done.stdout), time.perf_counter() - start


def levin_step(a):
    return levin(a, "bench", f"--model.init={a.model}", f"--lora.rank={RANK}", "--lora.targets=all-linear", "--trainer.batch_size=1",
                 f"--model.block_size={a.length}", f"--steps={STEPS}")[0]["best_s"]


def levin_decode(a):
    seconds = [levin(a, "generate", a.model, f"--prompt={PROMPT}", "--temperature=0", "--ignore-eos", f"--max-new-tokens={n}")[1]
               for n in (1, 1, 16 * a.tokens)]
    return (seconds[2] - min(seconds[:2])) / (16 * a.tokens - 1)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=os.path.abspath)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--length", type=int, default=512)
    p.add_argument("--tokens", type=int, default=16)
    p.add_argument("--levin", type=os.path.abspath, default=str(ROOT / "build/levin"))
    a = p.parse_args()
    best = {}
    with tempfile.TemporaryDirectory() as a.folder:
        for _ in range(a.rounds):
            for kind, own in ("step", levin_step), ("decode", levin_decode):
                figures = {"levin": own(a), "bitsandbytes, bf16": peer(a, kind, "bf16"), "bitsandbytes, fp32": peer(a, kind, "fp32")}
                for side, seconds in figures.items():
                    best[kind, side] = min(seconds, best.get((kind, side), seconds))
    for kind, n in ("step", a.length), ("decode", 1):
        print(f"{kind}, {a.threads} threads")
        for side in "levin", "bitsandbytes, bf16", "bitsandbytes, fp32":
            seconds = best[kind, side]
            print(f"  {side:20} {1e3 * seconds:9.1f} ms {n / seconds:9.1f} tokens/s, levin takes {best[kind, 'levin'] / seconds:.3f} of it")


if len(sys.argv) > 1 and sys.argv[1] == "--worker":
    worker(*sys.argv[2:5], *map(int, sys.argv[5:]))
else:
    main()
