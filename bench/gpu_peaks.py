#!/usr/bin/env python3
"""What PyTorch reaches on this GPU, operation by operation, to be compared with `levin bench --parts`: a copy, the matrix
multiplications of GPT-2 124M, GPT-2 1.5B and a Llama of 0.9B (forward, dx, dW), and attention by flash attention and cuDNN,
deterministic or not. One line each: name, median of 20 in ms, TFLOP/s or GB/s. bench/gpu_once calls it.

    bench/gpu_peaks.py [--device cpu --divide N]    for tests: sizes divided by N
"""
import argparse
import statistics
import sys
import time

try:
    import torch
except ImportError:
    sys.exit("bench/gpu_peaks.py: PyTorch is not installed in this Python; run the script with one in which it is")

# rows, inputs, outputs of the multiplications of a layer and of the head
MATMULS = {"124m": (32768, [(768, 2304), (768, 768), (768, 3072), (3072, 768), (768, 50304)]),
           "1.5b": (16384, [(1600, 4800), (1600, 1600), (1600, 6400), (6400, 1600)]),
           "llama": (16384, [(2048, 2048), (2048, 1024), (2048, 5632), (5632, 2048)])}
ATTENTION = {"124m": (32, 12, 1024, 64), "1.5b": (16, 25, 1024, 64), "llama": (8, 16, 2048, 128)}


def median(device, call):
    seconds = []
    for k in range(23):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[3:])


def print_row(name, seconds, amount, unit):
    print(f"{name:44} {seconds * 1e3:9.3f} ms {amount / seconds / (1e12 if unit == 'TFLOP/s' else 1e9):9.1f} {unit}",
          flush=True)


def matmuls(device, divide):
    make = lambda *shape: torch.randn(*shape, device=device, dtype=torch.bfloat16)
    for model, (rows, shapes) in MATMULS.items():
        for n_in, n_out in shapes:
            R, K, N = rows // divide, max(8, n_in // divide), max(8, n_out // divide)
            x, w, dy = make(R, K), make(K, N), make(R, N)
            for what, call in (("y", lambda: x @ w), ("dx", lambda: dy @ w.t()), ("dW", lambda: x.t() @ dy)):
                print_row(f"{model} {R} x {K} x {N} {what}", median(device, call), 2.0 * R * K * N, "TFLOP/s")


def attention(device, divide):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kinds = [("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)]
    if device == "cpu":
        kinds = [("math", SDPBackend.MATH)]
    for model, (B, H, T, D) in ATTENTION.items():
        B, T = max(1, B // divide), max(16, T // divide)
        q, k, v = (torch.randn(B, H, T, D, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
        dy = torch.randn(B, H, T, D, device=device, dtype=torch.bfloat16)
        for name, kind in kinds:
            for deterministic in (False, True):
                torch.use_deterministic_algorithms(deterministic)
                run = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                label = f"{model} attention {name}{' deterministic' if deterministic else ''}"
                try:
                    with sdpa_kernel(kind):
                        print_row(label + " forward", median(device, run), 2.0 * B * H * T * T * D, "TFLOP/s")
                        y = run()
                        back = lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)
                        print_row(label + " backward", median(device, back), 5.0 * B * H * T * T * D, "TFLOP/s")
                except RuntimeError as why:
                    print(f"{label}: {str(why).splitlines()[0][:100]}", flush=True)
    torch.use_deterministic_algorithms(False)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--device", default="cuda")
    options.add_argument("--divide", type=int, default=1)
    o = options.parse_args()
    if o.device == "cuda" and not torch.cuda.is_available():
        sys.exit("bench/gpu_peaks.py: PyTorch finds no GPU of CUDA")
    x = torch.zeros(2**30 // o.divide, dtype=torch.uint8, device=o.device)
    y = torch.empty_like(x)
    print_row("copy", median(o.device, lambda: y.copy_(x)), 2.0 * x.numel(), "GB/s")
    matmuls(o.device, o.divide)
    attention(o.device, o.divide)


main()
