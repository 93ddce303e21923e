#!/usr/bin/env python3
"""Times levin and PyTorch on the same training steps: same model, shapes, numbers of threads, in turns.

    python3 tools/bench_peers.py [--rows NAME,NAME] [--nets NAME,NAME] [--rounds N] [--threads N] [--compiled] [--bf16]
                                 [--levin FILE] [--json FILE]

PyTorch is in a virtual environment: the one that LEVIN_PEERS names, or build/peers, which is made at the first call (some
200 MB of downloads). Each round starts a fresh process of each side, one after the other, so that both see the same load of
the machine; the best step of all rounds counts. Memory is the largest resident size of the process (ru_maxrss), start-up
included. PyTorch's side is that of nanoGPT: scaled_dot_product_attention, fused AdamW, gradients set to None, clipping by
norm; eager, and with torch.compile if --compiled is given. With --bf16 a second table compares trainer.precision bf16-mixed,
and bf16-true with moments in bf16, with PyTorch's autocast in bf16. The nets for MNIST have a separate table of steps:
those of `levin bench` and the same ones in PyTorch, with torch.optim.Adam as examples have it and fused; for the autoencoder,
one picture a step, whole runs of `levin train` with its data are compared with PyTorch's bare steps and with Lightning's
Trainer (installed into the environment if it is missing); both log the loss and save checkpoints in one row, and neither in
the next. The tables end with the ratios and the smallest ones that are acceptable; the exit status does not depend on them.

oneDNN chooses the instructions of PyTorch's bf16; AUTOCAST lists its settings: each is tried if the processor has AMX, the
fastest counts, and the table names it.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import venv

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)

# name: dialect, layers, heads, channels, T, V, B, dropout, bias, steps a round, (speed against eager, memory, against compiled)
ROWS = {
    "nanogpt-128": ("nanogpt", 4, 4, 128, 64, 65, 12, 0.0, False, 100, (2.0, 0.3, None)),
    "gpt-mini": ("mingpt", 6, 6, 192, 128, 65, 64, 0.1, True, 8, (2.0, 0.5, None)),
    "dawn": ("mingpt", 12, 12, 768, 128, 67, 16, 0.1, True, 3, (1.25, 0.5, None)),
    "gpt2-b1": ("nanogpt", 12, 12, 768, 1024, 50304, 1, 0.0, False, 3, (1.3, 0.75, 1.15)),
    "gpt2-b4": ("nanogpt", 12, 12, 768, 1024, 50304, 4, 0.0, False, 2, (1.15, 0.5, None)),
}

# name: batch, steps a round, (speed against eager, against Lightning's loop)
NETS = {
    "mnist-mlp": (128, 300, (4.0, None)),
    "mnist-cnn": (64, 20, (2.0, None)),
    "mnist-autoencoder": (1, 1500, (10.0, 20.0)),
}


# --- PyTorch's side: runs in the other interpreter, as `bench_peers.py --worker ROW eager|compiled|autocast THREADS STEPS` ---


def build_model(torch, row):
    """minGPT (untied head, tanh GELU), nanoGPT (tied head, erf GELU) or GPT-2 (tied, tanh) as one module."""
    from torch import nn
    from torch.nn import functional as F

    dialect, L, H, C, T, V, B, p, bias, _, _ = row

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(C))
            self.bias = nn.Parameter(torch.zeros(C)) if bias else None

        def forward(self, x):
            return F.layer_norm(x, (C,), self.weight, self.bias, 1e-5)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = Norm(), Norm()
            self.c_attn, self.c_proj = nn.Linear(C, 3 * C, bias=bias), nn.Linear(C, C, bias=bias)
            self.c_fc, self.c_down = nn.Linear(C, 4 * C, bias=bias), nn.Linear(4 * C, C, bias=bias)
            self.gelu = nn.GELU(approximate="none" if dialect == "nanogpt" else "tanh")
            self.drop = nn.Dropout(p)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (y.view(b, t, H, C // H).transpose(1, 2) for y in self.c_attn(self.ln_1(x)).split(C, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=p if self.training else 0.0, is_causal=True)
            x = x + self.drop(self.c_proj(y.transpose(1, 2).contiguous().view(b, t, C)))
            return x + self.drop(self.c_down(self.gelu(self.c_fc(self.ln_2(x)))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe, self.drop = nn.Embedding(V, C), nn.Embedding(T, C), nn.Dropout(p)
            self.h = nn.ModuleList(Block() for _ in range(L))
            self.ln_f, self.lm_head = Norm(), nn.Linear(C, V, bias=False)
            for name, w in self.named_parameters():
                if w.dim() >= 2:
                    nn.init.normal_(w, std=0.02)
            if dialect != "mingpt":
                self.wte.weight = self.lm_head.weight

        def forward(self, ids, labels):
            x = self.drop(self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device)))
            for block in self.h:
                x = block(x)
            logits = self.lm_head(self.ln_f(x))
            return F.cross_entropy(logits.view(-1, V), labels.view(-1), ignore_index=-1)

    return GPT()


def worker(name, mode, threads, steps):
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    row = ROWS[name]
    T, V, B = row[4], row[5], row[6]
    model = build_model(torch, row)
    groups = [{"params": [w for w in model.parameters() if w.dim() >= 2], "weight_decay": 0.1},
              {"params": [w for w in model.parameters() if w.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
    run = torch.compile(model) if mode == "compiled" else model
    ids, labels = torch.randint(V, (B, T)), torch.randint(V, (B, T))
    seconds = []
    for _ in range(steps + 2):
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"):
            loss = run(ids, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
    seconds = sorted(seconds[2:])
    print(json.dumps({"best_s": seconds[0], "median_s": seconds[len(seconds) // 2], "torch": torch.__version__}))


def build_net(torch, name):
    """The net, and its loss from pixels (B,1,28,28), as the net sees them, and labels (B)."""
    from torch import nn
    from torch.nn import functional as F

    if name == "mnist-cnn":
        net = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                            nn.Dropout(0.25), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5),
                            nn.Linear(128, 10))
    elif name == "mnist-mlp":
        net = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.ReLU(),
                            nn.Dropout(0.1), nn.Linear(64, 10))
    else:
        net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 3), nn.Linear(3, 128), nn.ReLU(),
                            nn.Linear(128, 784))
        return net, lambda x, labels: F.mse_loss(net(x), x.flatten(1))
    return net, lambda x, labels: F.cross_entropy(net(x), labels)


def net_worker(name, mode, threads, steps):
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    B = NETS[name][0]
    net, loss_of = build_net(torch, name)
    if mode.startswith("lightning"):
        return lightning_worker(torch, net, loss_of, steps, mode == "lightning")
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=mode == "fused")
    x, labels = torch.rand(B, 1, 28, 28), torch.randint(10, (B,))
    seconds = []
    for _ in range(steps + 5):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss_of(x, labels).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    seconds = sorted(seconds[5:])
    mean = sum(seconds) / len(seconds)
    print(json.dumps({"best_s": seconds[0], "median_s": seconds[len(seconds) // 2], "mean_s": mean}))


def lightning_worker(torch, net, loss_of, steps, logs):
    """The Trainer with the loss logged, its logger of CSV files and its checkpoints; or with none of that."""
    import logging
    import warnings

    import lightning

    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net

        def training_step(self, batch, i):
            if i == 50:
                self.start = time.perf_counter()
            loss = loss_of(*batch)
            if logs:
                self.log("train_loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    data = torch.utils.data.TensorDataset(torch.rand(steps + 50, 1, 28, 28), torch.randint(10, (steps + 50,)))
    module = Module()
    with tempfile.TemporaryDirectory() as folder:
        logger = lightning.pytorch.loggers.CSVLogger(folder) if logs else False
        trainer = lightning.Trainer(accelerator="cpu", max_epochs=1, logger=logger, enable_checkpointing=logs,
                                    enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=1, shuffle=True))
    each = (time.perf_counter() - module.start) / steps
    print(json.dumps({"best_s": each, "median_s": each, "mean_s": each}))


# --- the driver --------------------------------------------------------------------------------------------------


def peers_python():
    """The interpreter that has PyTorch; creates build/peers if none is given."""
    folder = os.environ.get("LEVIN_PEERS") or os.path.join(ROOT, "build", "peers")
    python = folder if os.path.isfile(folder) else os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        if os.environ.get("LEVIN_PEERS"):
            sys.exit(f"bench_peers: LEVIN_PEERS={folder} has no bin/python")
        print(f"installing PyTorch into {folder} (once)", file=sys.stderr)
        venv.create(folder, with_pip=True)
    if subprocess.run([python, "-c", "import torch, numpy"], capture_output=True).returncode:
        pip = [python, "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "20", "torch", "numpy"]
        cpu_only = ["--extra-index-url", "https://pypi.org/simple", "--index-url", "https://download.pytorch.org/whl/cpu"]
        if subprocess.run(pip + cpu_only).returncode and subprocess.run(pip).returncode:
            sys.exit("bench_peers: PyTorch could not be installed; set LEVIN_PEERS to an environment that has it")
    return python


# oneDNN's choice by itself; AMX also where it is not asked for; and, where both die of an illegal instruction, without.
AMX_SETTINGS = [{}, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX"}]
WITHOUT_AMX = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}


def has_amx():
    try:
        return "amx_bf16" in open("/proc/cpuinfo").read()
    except OSError:
        return False


def measure(command, threads, **more):
    """The JSON object that the command prints, with the peak of its memory; None where it dies of an illegal instruction."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), **more)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode == -signal.SIGILL:
        return None
    if process.returncode:
        sys.exit(f"bench_peers: {' '.join(command)} failed")
    result = json.loads(text)
    result["resident"] = usage.ru_maxrss * 1024
    result["setting"] = more.get("ONEDNN_MAX_CPU_ISA", "")
    return result


def measure_bf16(command, threads):
    """PyTorch in bf16, by the setting of oneDNN that is fastest."""
    runs = [measure(command, threads, **more) for more in (AMX_SETTINGS if has_amx() else AMX_SETTINGS[:1])]
    runs = [r for r in runs if r] or [measure(command, threads, **WITHOUT_AMX)]
    if not runs[0]:
        sys.exit(f"bench_peers: {' '.join(command)} dies of an illegal instruction")
    return min(runs, key=lambda r: r["best_s"])


def levin_command(levin, row, precision="32-true", state="fp32"):
    dialect, L, H, C, T, V, B, p, bias, steps, _ = row
    keys = {
        "model.kind": dialect, "model.n_layer": L, "model.n_head": H, "model.n_embd": C, "model.block_size": T,
        "model.vocab_size": V, "model.dropout": p, "model.bias": str(bias).lower(), "trainer.batch_size": B,
        "optimizer.kind": "adamw", "optimizer.lr": 1e-3, "optimizer.betas": "[0.9,0.99]",
        "trainer.precision": precision, "optimizer.state": state, "optimizer.weight_decay": 0.1, "optimizer.decay": "matrices", "trainer.gradient_clip_val": 1.0,
    }
    return [levin, "bench", f"--steps={steps}", "--json"] + [f"--{k}={v}" for k, v in keys.items()]


def best(results):
    return {"best_s": min(r["best_s"] for r in results), "median_s": sorted(r["median_s"] for r in results)[len(results) // 2],
            "resident": max(r["resident"] for r in results), "setting": min(results, key=lambda r: r["best_s"])["setting"]}


def bench_row(name, options, python):
    row = ROWS[name]
    sides = {"levin": levin_command(options.levin, row)}
    modes = ["eager"] + (["compiled"] if options.compiled or row[10][2] else [])
    if options.bf16:
        sides["levin-bf16"] = levin_command(options.levin, row, "bf16-mixed")
        sides["levin-bf16-true"] = levin_command(options.levin, row, "bf16-true", "bf16")
        modes.append("autocast")
    for mode in modes:
        sides[mode] = [python, os.path.abspath(__file__), "--worker", name, mode, str(options.threads), str(row[9])]
    results = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side, command in sides.items():
            results[side].append((measure_bf16 if side == "autocast" else measure)(command, options.threads))
            if not results[side][-1]:
                sys.exit(f"bench_peers: {' '.join(command)} dies of an illegal instruction")
    return {side: best(r) for side, r in results.items()}


def draw_digits(folder, n):
    sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
    import drawn_digits
    drawn_digits.write(folder, "train", n, drawn_digits.random.Random(5))


def bench_net(name, options, python):
    B, steps, wanted = NETS[name]
    keys = [f"--model.kind={name}", "--data.kind=mnist", "--optimizer.kind=adam", "--optimizer.lr=1e-3",
            "--optimizer.betas=[0.9,0.999]", "--optimizer.weight_decay=0", "--trainer.gradient_clip_val=0",
            f"--trainer.batch_size={B}", f"--trainer.threads={options.threads}"]
    modes = ["eager", "fused"] + (["lightning", "lightning-bare"] if wanted[1] else [])
    if wanted[1] and subprocess.run([python, "-c", "import lightning"], capture_output=True).returncode:
        subprocess.run([python, "-m", "pip", "install", "--quiet", "lightning"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        if wanted[1]:
            draw_digits(folder, 4000)
            levin = [options.levin, "train", *keys, f"--data.path={folder}", "--trainer.max_epochs=8", "--json", "--quiet",
                     "--trainer.limit_val_batches=0", f"--run_dir={folder}/run", "--overwrite"]
        else:
            levin = [options.levin, "bench", f"--steps={steps}", "--json", *keys]
        sides = {"levin": levin}
        if wanted[1]:
            sides["levin-bare"] = levin + ["--checkpoint.every_n_steps=0", "--logger.csv=false", "--logger.jsonl=false",
                                           "--logger.tensorboard=false"]
        for mode in modes:
            sides[mode] = [python, os.path.abspath(__file__), "--net-worker", name, mode, str(options.threads), str(steps)]
        results = {side: [] for side in sides}
        for _ in range(options.rounds):
            for side, command in sides.items():
                r = measure(command, options.threads)
                if wanted[1]:  # whole runs: means
                    r["best_s"] = r["median_s"] = r["seconds"] / r["step"] if side.startswith("levin") else r["mean_s"]
                results[side].append(r)
    return {side: best(r) for side, r in results.items()}


def print_net(name, sides):
    print_net_row(name, name, sides)
    if "levin-bare" in sides:
        bare = {side: sides.get(f"{side}-bare", figures) for side, figures in sides.items()}
        print_net_row(name, f"{name}, no logs", bare)


def print_net_row(name, title, sides):
    B, _, wanted = NETS[name]

    def ratio(side, least):
        if side not in sides:
            return ""
        return f"{sides[side]['best_s'] / sides['levin']['best_s']:.2f}" + (f" (>= {least})" if least else "")

    steps = [f"{1 / sides[s]['best_s']:.0f}" if s in sides else "" for s in ("levin", "eager", "fused", "lightning")]
    print("| " + " | ".join([title, str(B), *steps, ratio("eager", wanted[0]), ratio("fused", None),
                             ratio("lightning", wanted[1])]) + " |", flush=True)


def print_row(name, sides):
    B, T, wanted = ROWS[name][6], ROWS[name][4], ROWS[name][10]
    levin, eager = sides["levin"], sides["eager"]

    def speed(side):
        return f"{B * T / side['best_s']:.0f}"

    compiled = sides.get("compiled")
    ratio, memory = eager["best_s"] / levin["best_s"], levin["resident"] / eager["resident"]
    cells = [name, speed(levin), speed(eager), speed(compiled) if compiled else "", f"{ratio:.2f} (>= {wanted[0]})",
             (f"{compiled['best_s'] / levin['best_s']:.2f}" + (f" (>= {wanted[2]})" if wanted[2] else "")) if compiled else "",
             f"{levin['resident'] / 2**20:.0f}", f"{eager['resident'] / 2**20:.0f}", f"{memory:.2f} (<= {wanted[1]})"]
    print("| " + " | ".join(cells) + " |", flush=True)


def print_bf16(name, sides, side):
    levin, wide, peer = sides[side], sides["levin"], sides["autocast"]
    tokens = ROWS[name][6] * ROWS[name][4]
    note = f" ({peer['setting']})" if peer["setting"] else " (AMX)" if has_amx() else " (no AMX here)"
    cells = [name, side[len("levin-"):], f"{tokens / levin['best_s']:.0f}", f"{tokens / peer['best_s']:.0f}{note}",
             f"{wide['best_s'] / levin['best_s']:.2f} (>= 0.97)", f"{peer['best_s'] / levin['best_s']:.2f}",
             f"{levin['resident'] / 2**20:.0f}", f"{peer['resident'] / 2**20:.0f}",
             f"{levin['resident'] / peer['resident']:.2f} (<= 0.5)"]
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    if sys.argv[1:2] == ["--net-worker"]:
        return net_worker(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    if sys.argv[1:2] == ["--worker"]:
        return worker(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    parser = argparse.ArgumentParser(description="Time levin and PyTorch in turns.")
    parser.add_argument("--rows", default=None, help="which of: " + ", ".join(ROWS))
    parser.add_argument("--nets", default=None, help="which of: " + ", ".join(NETS) + "; without --rows these alone")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compiled", action="store_true", help="torch.compile in every row")
    parser.add_argument("--bf16", action="store_true", help="also in bf16")
    parser.add_argument("--levin", default=os.path.join(ROOT, "build", "levin"))
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    neither = options.rows is None and options.nets is None
    rows = list(ROWS) if neither else options.rows.split(",") if options.rows else []
    nets = list(NETS) if neither else options.nets.split(",") if options.nets else []
    if unknown := [r for r in rows if r not in ROWS] + [n for n in nets if n not in NETS]:
        parser.error(f"no row {unknown[0]}; there are {', '.join(ROWS)}; and nets {', '.join(NETS)}")
    python = peers_python()
    figures = bench_rows(rows, options, python) if rows else {}
    if nets:
        heads = ["net", "batch", "levin steps/s", "eager steps/s", "fused steps/s", "Lightning steps/s", "levin : eager",
                 "levin : fused", "levin : Lightning"]
        print("\n| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads), flush=True)
    for name in nets:
        figures[name] = bench_net(name, options, python)
        print_net(name, figures[name])
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"threads": options.threads, "rows": figures}, f, indent=1)


def bench_rows(rows, options, python):
    heads = ["model", "levin tok/s", "eager tok/s", "compiled tok/s", "levin : eager", "levin : compiled", "levin MiB",
             "eager MiB", "memory"]
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads), flush=True)
    figures = {}
    for name in rows:
        figures[name] = bench_row(name, options, python)
        print_row(name, figures[name])
    if options.bf16:
        heads = ["model", "precision", "levin tok/s", "autocast tok/s", "levin : its fp32", "levin : autocast", "levin MiB",
                 "autocast MiB", "memory"]
        print("\n| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
        for name in rows:
            print_bf16(name, figures[name], "levin-bf16")
            print_bf16(name, figures[name], "levin-bf16-true")
    return figures


if __name__ == "__main__":
    main()
