#!/usr/bin/env python3
"""Trains llama-124m and pythia-70m in levin and in PyTorch, same weights and same batches, and compares the losses.

    python3 tools/compare_torch.py TEXT [--models NAME,NAME] [--tokenizer MODEL] [--steps N] [--length T] [--batch B]
                                  [--out DIR]

PyTorch's side is transformers' model in fp32, as bench_families.py makes it, with torch.optim.AdamW and clipping by
norm, on one thread and on two; and again in double, the reference for both. Weights are initialized by transformers,
and levin loads them. Batches are the windows of TEXT's tokens in their order (data.sampling=sequential). The environment is
that of bench/peers (LEVIN_PEERS, or build/peers); transformers is installed there if it is missing.

Required: in each of the first 50 steps levin's loss is within 1e-4 of PyTorch's; and in each 50 consecutive steps levin's
mean distance from double is at most twice that of PyTorch on one thread or, if that is larger, twice the distance between
PyTorch on one thread and on two. The latter alone is not enough: on one thread and on two PyTorch adds nearly all sums in the
same order, so that few bits differ and the effect of rounding does not show. The exit status is 1 if one of these fails.

Losses of a finished run stay in DIR/MODEL as a file and are not computed again, so that an interrupted comparison continues;
another number of steps, length or batch needs another DIR.
"""
import argparse
import json
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bench_families import DECODERS, ROOT, model_of, transformers_python  # noqa: E402

LR, LEAST, WARM_UP, BETAS, DECAY, CLIP = 6e-4, 6e-5, 20, (0.9, 0.95), 0.1, 1.0
NEAR, STRETCH = 1e-4, 50


def rate(step, steps):
    """As in src/nets/schedules/schedule.c."""
    if step < WARM_UP:
        return LR * (step + 1) / (WARM_UP + 1)
    return LEAST + 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / (steps - WARM_UP))) * (LR - LEAST)


# --- PyTorch's side: `compare_torch.py --worker fresh NAME FOLDER`, `--worker TOKENS FOLDER SIDE STEPS T B FILE` ---


def fresh(name, folder):
    import torch

    torch.manual_seed(1337)
    model_of(torch, name, 0).save_pretrained(folder)


def train(tokens, folder, side, steps, T, B, out):
    import numpy
    import torch
    import transformers as t
    from make_golden_decoders import compute_in_double

    torch.set_num_threads(2 if side == "torch-2" else 1)
    model = t.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).train()
    if side == "double":
        compute_in_double(model.double())
    parameters = list(model.parameters())
    matrices, vectors = [p for p in parameters if p.dim() > 1], [p for p in parameters if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=1e-8, fused=True)
    ids = numpy.fromfile(tokens, dtype="<u2").astype("int64")
    with open(out + ".part", "w") as losses:
        for step in range(steps):
            at = [(step * B + row) * T for row in range(B)]
            x, y = (torch.tensor(numpy.stack([ids[i + d:i + d + T] for i in at])) for d in (0, 1))
            for group in optimizer.param_groups:
                group["lr"] = rate(step, steps)
            logits = model(input_ids=x, use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.view(B * T, -1), y.view(-1))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, CLIP)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            print(f"{loss.item():.12g}", file=losses, flush=True)
    os.rename(out + ".part", out)


# --- the driver ---


def levin(options, folder, tokens, out):
    run = os.path.join(folder, "run")
    subprocess.run(
        [options.levin, "train", f"--model.init={folder}/fresh", f"--model.block_size={options.length}",
         "--data.kind=tokens", f"--data.path={tokens}", "--data.sampling=sequential",
         f"--optimizer.lr={LR}", f"--optimizer.betas=[{BETAS[0]}, {BETAS[1]}]", f"--optimizer.weight_decay={DECAY}",
         "--optimizer.decay=matrices", "--optimizer.eps=1e-8", "--schedule.kind=cosine", f"--schedule.min_lr={LEAST}",
         f"--schedule.warmup_steps={WARM_UP}", f"--trainer.max_steps={options.steps}",
         f"--trainer.gradient_clip_val={CLIP}", f"--trainer.batch_size={options.batch}", "--trainer.limit_val_batches=0",
         "--checkpoint.every_n_steps=0", f"--run_dir={run}", "--overwrite", "--quiet"], check=True)
    rows = [json.loads(line) for line in open(os.path.join(run, "metrics.jsonl"))]
    with open(out, "w") as losses:
        losses.writelines(f"{row['loss']:.9g}\n" for row in rows if "loss" in row)


SIDES = ("levin", "torch-1", "torch-2", "double")


def losses_of(options, name):
    """A list of losses for each of SIDES."""
    folder, tokens = os.path.join(options.out, name), os.path.join(options.out, "tokens", "train.bin")
    fresh_model, worker = os.path.join(folder, "fresh"), [options.python, os.path.abspath(__file__), "--worker"]
    if not os.path.exists(tokens):
        subprocess.run([options.levin, "prepare", options.text, f"--tokenizer={options.tokenizer}", "--quiet",
                        f"--out={os.path.dirname(tokens)}"], check=True)
    if not os.path.exists(os.path.join(fresh_model, "model.safetensors")):
        os.makedirs(folder, exist_ok=True)
        subprocess.run([*worker, "fresh", name, fresh_model], check=True)
    losses = []
    for side in SIDES:
        out = os.path.join(folder, side + ".txt")
        if not os.path.exists(out) and side == "levin":
            levin(options, folder, tokens, out)
        elif not os.path.exists(out):
            numbers = [str(n) for n in (options.steps, options.length, options.batch)]
            subprocess.run([*worker, tokens, fresh_model, side, *numbers, out], check=True)
        losses.append([float(line) for line in open(out)])
        if len(losses[-1]) != options.steps:
            sys.exit(f"compare_torch: '{out}' has {len(losses[-1])} losses, expected {options.steps}: "
                     "remove it, or name another --out")
    return losses


def judge(name, ours, one, two, exact):
    good = True
    for first in range(0, len(ours), STRETCH):
        part = range(first, min(first + STRETCH, len(ours)))
        mean = lambda a, b: sum(abs(a[i] - b[i]) for i in part) / len(part)  # noqa: E731
        largest = max(abs(ours[i] - one[i]) for i in part)
        distances = [mean(ours, exact), mean(one, exact), mean(one, two)]
        fits = distances[0] <= 2 * max(distances[1:]) and (first > 0 or largest <= NEAR)
        good &= fits
        cells = [name, f"{first + 1} to {part[-1] + 1}", f"{sum(exact[i] for i in part) / len(part):.4f}",
                 *(f"{v:.1e}" for v in (*distances, mean(ours, one), largest)), "yes" if fits else "no"]
        print("| " + " | ".join(cells) + " |", flush=True)
    return good


def main():
    if sys.argv[1:3] == ["--worker", "fresh"]:
        return fresh(*sys.argv[3:])
    if sys.argv[1:2] == ["--worker"]:
        return train(*sys.argv[2:5], *(int(n) for n in sys.argv[5:8]), sys.argv[8])
    parser = argparse.ArgumentParser(description="Train in levin and in PyTorch, and compare the losses of all steps.")
    parser.add_argument("text", help="what to train on; a text of T * B tokens a step at least")
    parser.add_argument("--models", default=",".join(DECODERS), help="which of: " + ", ".join(DECODERS))
    parser.add_argument("--tokenizer", default="gpt2", help="that of a model, or its files")
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--length", type=int, default=128, help="tokens of a window")
    parser.add_argument("--batch", type=int, default=1, help="windows of a step")
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "compare"))
    parser.add_argument("--levin", default=os.path.join(ROOT, "build", "levin"))
    options = parser.parse_args()
    names = options.models.split(",")
    if unknown := [n for n in names if n not in DECODERS]:
        parser.error(f"no model {unknown[0]}; there are {', '.join(DECODERS)}")
    options.python = transformers_python()
    head = ["model", "steps", "loss", "levin from double", "PyTorch from double", "its one thread from two",
            "levin from PyTorch", "at most", "as wanted"]
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head), flush=True)
    # every model is judged, also where one fails
    return 0 if all([judge(name, *losses_of(options, name)) for name in names]) else 1


if __name__ == "__main__":
    sys.exit(main())
