#!/usr/bin/env python3
"""Times training on real texts of uneven length: padded rows, and rows of packed documents (data.pack), in turns.

    python3 tools/bench_packing.py [--peers] [--bf16] [--rounds N] [--threads N] [--levin FILE] [--json FILE]

The texts are the sections of this project's pages, tokenized with a vocabulary that levin makes of them. Rates are tokens a
second without padding. A padded row holds one document, a packed row all that fit; both have 1,024 tokens, and longer documents
are truncated. With --peers PyTorch trains the same model on the same rows: with scaled_dot_product_attention (causal; for packed
rows with a block-diagonal mask), and with flex_attention, compiled, where this machine can compile it. Each round starts a fresh
process of each side, one after the other; the best rate of all rounds counts. --bf16: bf16-mixed, and PyTorch's autocast.
"""

import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bench_peers import ROOT, peers_python  # noqa: E402

L, H, C, T, V, B, STEPS = 4, 6, 384, 1024, 4096, 4, 10
PEERS = {"SDPA": "padded rows, SDPA", "mask": "packed rows, SDPA with a block-diagonal mask", "flex": "packed rows, flex_attention"}


# --- PyTorch's side: `bench_packing.py --worker MODE THREADS bf16|fp32 FOLDER` ---


def rows_of(folder, packed):
    """Batches of B rows of T tokens: ids, labels, and where each token's document begins."""
    import array

    ids = array.array("H", open(os.path.join(folder, "train.bin"), "rb").read())
    end = json.load(open(os.path.join(folder, "train.bin.json")))["end_token"]
    documents, first = [], 0
    for i, token in enumerate(ids):
        if token == end:
            documents.append(list(ids[first:i + 1])[:T])
            first = i + 1
    rows = []
    for d in sorted(documents, key=len, reverse=True) if packed else documents:
        row = next((r for r in rows if packed and sum(map(len, r)) + len(d) <= T), None)
        if row is None:
            rows.append([d])
        else:
            row.append(d)
    for i in range(0, len(rows) - B + 1, B):
        batch = {"ids": [], "labels": [], "segments": [], "tokens": 0}
        for row in rows[i:i + B]:
            ids, labels, segments = [], [], []
            for d in row:
                segments += len(d) * [len(ids)]
                ids += d
                labels += d[1:] + [-1]
            batch["tokens"] += len(ids)
            rest = T - len(ids)
            batch["segments"].append(segments + list(range(len(ids), T)))
            batch["ids"].append(ids + rest * [0])
            batch["labels"].append(labels + rest * [-1])
        yield batch


def build_model(torch, attend):
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(C), nn.LayerNorm(C)
            self.c_attn, self.c_proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
            self.c_fc, self.c_down = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

        def forward(self, x, mask):
            b, t, _ = x.shape
            q, k, v = (y.view(b, t, H, C // H).transpose(1, 2) for y in self.c_attn(self.ln_1(x)).split(C, dim=2))
            x = x + self.c_proj(attend(q, k, v, mask).transpose(1, 2).contiguous().view(b, t, C))
            return x + self.c_down(F.gelu(self.c_fc(self.ln_2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(V, C), nn.Embedding(T, C)
            self.h = nn.ModuleList(Block() for _ in range(L))
            self.ln_f, self.lm_head = nn.LayerNorm(C), nn.Linear(C, V, bias=False)
            self.wte.weight = self.lm_head.weight

        def forward(self, ids, labels, positions, mask):
            x = self.wte(ids) + self.wpe(positions)
            for block in self.h:
                x = block(x, mask)
            return F.cross_entropy(self.lm_head(self.ln_f(x)).view(-1, V), labels.view(-1), ignore_index=-1)

    return GPT()


def worker(mode, threads, bf16, folder):
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(threads)
    if mode == "flex":
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        flex = torch.compile(flex_attention)
        model = build_model(torch, lambda q, k, v, mask: flex(q, k, v, block_mask=mask))
    elif mode == "mask":
        model = build_model(torch, lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    else:
        model = build_model(torch, lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    tokens, start = 0, None
    for i, batch in zip(range(STEPS + 2), rows_of(folder, mode != "SDPA")):
        if i == 2:
            start = time.perf_counter()
        ids, labels, segments = (torch.tensor(batch[k]) for k in ("ids", "labels", "segments"))
        t = torch.arange(T)
        mask = None
        if mode == "mask":
            mask = ((segments[:, None, :] == segments[:, :, None]) & (t[None, :, None] >= t[None, None, :]))[:, None]
        elif mode == "flex":
            mask = create_block_mask(lambda b, h, q, k: (q >= k) & (segments[b, q] == segments[b, k]), B, None, T, T,
                                     device="cpu")
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = model(ids, labels, t - segments, mask)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tokens += batch["tokens"] if i >= 2 else 0
    print(json.dumps({"tokens_per_s": tokens / (time.perf_counter() - start)}))


# --- levin's side ---


def prepare(levin, folder):
    """Token files of the sections: train.bin, whose documents are packed, and padded.bin, one document in each T tokens."""
    import array

    pages = [*sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))), os.path.join(ROOT, "README.md")]
    texts = [t for p in pages for t in re.split(r"(?m)^(?=#{1,3} )", open(p, encoding="utf-8").read()) if t.strip()]
    with open(os.path.join(folder, "texts.jsonl"), "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"text": t}) + "\n" for t in texts)

    def run(*command):
        subprocess.run([levin, *command, "--quiet"], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    run("tokenizer", "train", "--kind=bpe", "--input=texts.jsonl", "--out=tokenizer", f"--vocab-size={V}")
    run("prepare", "texts.jsonl", "--tokenizer=tokenizer", "--out=.", "--val-fraction=0")
    ids = array.array("H", open(os.path.join(folder, "train.bin"), "rb").read())
    end = json.load(open(os.path.join(folder, "train.bin.json")))["end_token"]
    padded, row, real, rows = array.array("H"), [], 0, 0
    for token in ids:
        row.append(token)
        if token != end:
            continue
        row = row[:T]
        real += len(row)
        rows += 1
        padded.extend(row + (T - len(row)) * [0])
        row = []
    padded.append(0)
    padded.tofile(open(os.path.join(folder, "padded.bin"), "wb"))
    return {"documents": rows, "mean": real / rows, "fill": real / (rows * T)}


def levin_rate(a, folder, packed, fill):
    keys = ["--model.kind=nanogpt", f"--model.n_layer={L}", f"--model.n_head={H}", f"--model.n_embd={C}",
            f"--model.block_size={T}", f"--model.vocab_size={V}", f"--trainer.batch_size={B}", "--trainer.fast_dev_run=%d" % STEPS,
            f"--trainer.threads={a.threads}"] + ["--trainer.precision=bf16-mixed"] * a.bf16
    keys += (["--data.path=train.bin", "--data.pack=true", "--data.overlong=truncate"] if packed else
             ["--data.path=padded.bin", "--data.sampling=sequential"])
    done = subprocess.run([a.levin, "train", *keys, "--json", "--quiet"], cwd=folder, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["tokens_per_s"] * (1 if packed else fill)


def peer_rate(a, folder, python, mode):
    done = subprocess.run([python, __file__, "--worker", mode, str(a.threads), "bf16" if a.bf16 else "fp32", folder],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"{PEERS[mode]}: not here ({(done.stderr.strip() or 'no message').splitlines()[-1][:150]})", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])["tokens_per_s"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--peers", action="store_true")
    p.add_argument("--bf16", action="store_true")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--levin", default=os.path.join(ROOT, "build", "levin"))
    p.add_argument("--json")
    a = p.parse_args()
    a.levin = os.path.abspath(a.levin)
    python = peers_python() if a.peers else None
    with tempfile.TemporaryDirectory() as folder:
        texts = prepare(a.levin, folder)
        names = ["levin, padded rows", "levin, packed rows"] + [f"PyTorch, {PEERS[m]}" for m in PEERS if a.peers]
        best = dict.fromkeys(names)
        for _ in range(a.rounds):
            rates = [levin_rate(a, folder, packed, texts["fill"]) for packed in (False, True)]
            rates += [peer_rate(a, folder, python, mode) for mode in PEERS if a.peers]
            for name, rate in zip(names, rates):
                best[name] = max(rate or 0, best[name] or 0)
    print(f"{texts['documents']} texts of {texts['mean']:.0f} tokens on average, rows of {T}, {B} in a batch, "
          f"{'bf16' if a.bf16 else 'fp32'}, {a.threads} threads; tokens/s without padding")
    for name in names:
        if best[name]:
            print(f"{name:60} {best[name]:10,.0f} {best[name] / best['levin, padded rows']:6.2f} times padded rows", flush=True)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump({"texts": texts, "tokens_per_s": best}, f)


if len(sys.argv) > 1 and sys.argv[1] == "--worker":
    worker(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "bf16", sys.argv[5])
else:
    main()
