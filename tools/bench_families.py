#!/usr/bin/env python3
"""Times levin and transformers on the same training steps of GPT-NeoX, Llama and BERT, in turns.

    python3 tools/bench_families.py [--rows NAME,NAME] [--rounds N] [--threads N] [--bf16] [--texts FILE]

The environment is that of bench/peers (LEVIN_PEERS, or build/peers); transformers is installed there if it is missing. Each
round starts a fresh process of each side, one after the other; the best of all rounds counts. Memory is the largest resident
size of the process. The peer runs transformers' own model with the attention that it picks for this machine (sdpa) and
PyTorch's fused AdamW.

The rows of decoders time steps on random tokens. Those of KcBERT fine-tune on labelled texts (--texts: id, document, label,
separated by tabs; ../shared/data/nsmc-train.tsv if it exists) of at most 150 tokens, 32 in a batch, with a vocabulary that
levin makes from the same file: the first texts of the file, twice, of which the second time counts. PyTorch gets them in
batches of similar lengths, as levin does; and padded to 150 tokens, where all steps are alike and three are enough. Their
figures are samples a second.
"""
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bench_peers import ROOT, measure, measure_bf16, peers_python  # noqa: E402

# name: size, batch, T, steps a round, (speed, memory, speed of bf16-mixed against autocast) that levin is expected to reach
DECODERS = {
    "pythia-70m": ("neox", 2, 1024, 3, (1.1, 0.6, 1.8)),
    "llama-124m": ("llama", 1, 1024, 3, (1.1, 0.7, 1.8)),
}
# name: batches, (speed against 150 tokens each, against batches of like lengths). Of few batches the one that holds the
# longest texts would be most of the work, in another share than among the thousands of a whole file.
BERTS = {"kcbert-base": (24, (5.0, 1.3)), "kcbert-large": (12, (5.0, 1.3))}
PADDED = 3  # steps
LENGTH, BATCH, WORDS = 150, 32, 30000


# --- PyTorch's side: `bench_families.py --worker NAME MODE THREADS STEPS [FILE of lengths]` ---


def model_of(torch, name, words):
    import transformers as t

    t.logging.set_verbosity_error()
    if name == "pythia-70m":
        return t.GPTNeoXForCausalLM(t.GPTNeoXConfig(
            vocab_size=50304, hidden_size=512, num_hidden_layers=6, num_attention_heads=8, intermediate_size=2048,
            max_position_embeddings=2048, rotary_pct=0.25))
    if name == "llama-124m":
        return t.LlamaForCausalLM(t.LlamaConfig(
            vocab_size=50304, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=12,
            intermediate_size=2048, max_position_embeddings=1024, tie_word_embeddings=True))
    layers, heads, width = (12, 12, 768) if name == "kcbert-base" else (24, 16, 1024)
    return t.BertForSequenceClassification(t.BertConfig(
        vocab_size=words, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=4 * width, max_position_embeddings=300, num_labels=2))


def lengths_of(vocabulary, texts, like):
    """Of the batches of a file's texts; `like`: in the order of their lengths."""
    import transformers as t

    rows = [row.split("\t") for row in open(texts, encoding="utf-8").read().split("\n")[1:]]
    ids = t.AutoTokenizer.from_pretrained(vocabulary)([row[1] for row in rows if len(row) > 2])["input_ids"]
    lengths = [min(len(i), LENGTH) for i in ids]
    if like:
        lengths.sort(reverse=True)
    return [lengths[i:i + BATCH] for i in range(0, len(lengths), BATCH)]


def batches_of(torch, name, mode, steps, files):
    """Batches of tokens; the first one is not counted, and of texts of like lengths the first `steps`."""
    if name in DECODERS:
        _, B, T, _, _ = DECODERS[name]
        for _ in range(steps + 1):
            ids = torch.randint(50000, (B, T))
            yield {"input_ids": ids, "labels": ids}
        return
    batches = lengths_of(*files, mode == "like")
    for lengths in 2 * batches if mode == "like" else batches[:steps + 1]:
        T = max(lengths) if mode == "like" else LENGTH
        mask = (torch.arange(T)[None] < torch.tensor(lengths)[:, None]).long()
        ids = torch.randint(5, words_of(files[0]), (len(lengths), T)) * mask
        yield {"input_ids": ids, "attention_mask": mask, "labels": torch.randint(2, (len(lengths),))}


def words_of(vocabulary):
    return len(open(os.path.join(vocabulary, "vocab.txt"), encoding="utf-8").read().splitlines())


def worker(name, mode, threads, steps, *files):
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = model_of(torch, name, words_of(files[0]) if files else 0).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    seconds = []
    for batch in batches_of(torch, name, mode, steps, files):
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
    # batches of texts differ in length: the mean of the second pass over them counts
    print(json.dumps({"best_s": sum(seconds[-steps:]) / steps if files else min(seconds[1:])}))


# --- the driver ---


def turns(sides, options):
    results = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side, (command, bf16) in sides.items():
            results[side].append((measure_bf16 if bf16 else measure)(command, options.threads))
    return {side: {"best_s": min(r["best_s"] for r in rs), "resident": max(r["resident"] for r in rs)}
            for side, rs in results.items()}


def peer(name, mode, steps, options, *more):
    return [options.python, os.path.abspath(__file__), "--worker", name, mode, str(options.threads), str(steps), *more]


def decoder(name, options):
    kind, B, T, steps, wanted = DECODERS[name]
    keys = [f"--model.kind={kind}", f"--model.size={name}", f"--model.block_size={T}", f"--trainer.batch_size={B}",
            "--model.vocab_size=50304", "--trainer.gradient_clip_val=1.0", "--optimizer.kind=adamw"]
    levin = [options.levin, "bench", f"--steps={steps}", "--json", "--quiet", *keys]
    sides = {"levin": (levin, False), "eager": (peer(name, "eager", steps, options), False)}
    if options.bf16:
        sides["mixed"] = ([*levin, "--trainer.precision=bf16-mixed"], False)
        sides["autocast"] = (peer(name, "autocast", steps, options), True)
    r = turns(sides, options)
    cells = [name, f"{B * T / r['levin']['best_s']:.0f}", f"{B * T / r['eager']['best_s']:.0f}",
             f"{r['eager']['best_s'] / r['levin']['best_s']:.2f} (>= {wanted[0]})",
             f"{r['levin']['resident'] / r['eager']['resident']:.2f} (<= {wanted[1]})"]
    if options.bf16:
        cells += [f"{B * T / r['mixed']['best_s']:.0f}", f"{B * T / r['autocast']['best_s']:.0f}",
                  f"{r['autocast']['best_s'] / r['mixed']['best_s']:.2f} (>= {wanted[2]})"]
    print("| " + " | ".join(cells) + " |", flush=True)


def bert(name, folder, options):
    steps, wanted = BERTS[name]
    run, vocabulary, texts = (os.path.join(folder, file) for file in ("run", "words", "texts.tsv"))
    with open(options.texts, encoding="utf-8") as whole, open(texts, "w", encoding="utf-8") as part:
        part.writelines(itertools.islice(whole, 1 + steps * BATCH))
    levin = [options.levin, "train", "--model.kind=bert", f"--model.size={name}", "--task.kind=classify",
             f"--model.vocab_size={words_of(vocabulary)}", "--data.kind=labelled", f"--data.path={texts}",
             f"--data.tokenizer={vocabulary}", f"--data.max_length={LENGTH}", "--data.skip_bad_rows=true",
             f"--trainer.batch_size={BATCH}", f"--trainer.max_steps={2 * steps}", "--data.val_fraction=0",
             "--trainer.gradient_clip_val=1.0", "--checkpoint.top_k=0", "--json", "--quiet", "--overwrite",
             f"--run_dir={run}"]
    counted = {"padded": PADDED, "like": steps}
    peers = {mode: peer(name, mode, n, options, vocabulary, texts) for mode, n in counted.items()}
    sides = {"levin": levin, **peers}
    best, resident = dict.fromkeys(sides, float("inf")), dict.fromkeys(sides, 0)
    for _ in range(options.rounds):
        for side, command in sides.items():
            r = measure(command, options.threads)
            if side == "levin":
                rows = [json.loads(line) for line in open(os.path.join(run, "metrics.jsonl"))]
                times = [row["time"] for row in rows if "loss" in row]
                r["best_s"] = (times[-1] - times[steps - 1]) / steps
            best[side], resident[side] = min(best[side], r["best_s"]), max(resident[side], r["resident"])
    cells = [name, *(f"{BATCH / best[s]:.1f}" for s in sides), f"{best['padded'] / best['levin']:.2f} (>= {wanted[0]})",
             f"{best['like'] / best['levin']:.2f} (>= {wanted[1]})", f"{resident['levin'] / resident['padded']:.2f}"]
    print("| " + " | ".join(cells) + " |", flush=True)


def transformers_python():
    python = peers_python()
    if subprocess.run([python, "-c", "import transformers"], capture_output=True).returncode:
        subprocess.run([python, "-m", "pip", "install", "--quiet", "transformers"], check=True)
    return python


def head(*cells):
    print("| " + " | ".join(cells) + " |\n|" + " --- |" * len(cells), flush=True)


def main():
    if sys.argv[1:2] == ["--worker"]:
        return worker(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), *sys.argv[6:])
    parser = argparse.ArgumentParser(description="Time levin and transformers in turns.")
    parser.add_argument("--rows", default=",".join([*DECODERS, *BERTS]), help="which of: " + ", ".join([*DECODERS, *BERTS]))
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action="store_true", help="decoders also in bf16-mixed, beside autocast")
    parser.add_argument("--texts", default=os.path.join(ROOT, "..", "shared", "data", "nsmc-train.tsv"))
    parser.add_argument("--levin", default=os.path.join(ROOT, "build", "levin"))
    options = parser.parse_args()
    rows = options.rows.split(",")
    if unknown := [r for r in rows if r not in {**DECODERS, **BERTS}]:
        parser.error(f"no row {unknown[0]}; there are {', '.join([*DECODERS, *BERTS])}")
    options.python = transformers_python()
    if decoders := [r for r in rows if r in DECODERS]:
        head("model", "levin tok/s", "eager tok/s", "levin : eager", "memory",
             *(["levin bf16-mixed", "autocast", "levin : autocast"] if options.bf16 else []))
        for name in decoders:
            decoder(name, options)
    berts = [r for r in rows if r in BERTS]
    if berts and not os.path.exists(options.texts):
        return print(f"no {options.texts}: --texts names labelled texts for {', '.join(berts)}")
    if berts:
        print()
        head("model", "levin texts/s", "150 tokens each", "like lengths", "levin : 150", "levin : like", "memory")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([options.levin, "tokenizer", "train", "--kind=wordpiece", f"--vocab-size={WORDS}", "--quiet",
                            f"--input={options.texts}", f"--out={folder}/words"], check=True, stdout=subprocess.DEVNULL)
            for name in berts:
                bert(name, folder, options)


if __name__ == "__main__":
    main()
