#!/usr/bin/env python3
"""Writes tests/golden/digits: PyTorch's results, in double, for the three nets for MNIST and for convolutions, for
tests/unit/models/test_golden_mnist.c.

    python3 tools/make_golden_digits.py [OUT]        needs torch, numpy, safetensors

Inputs are not stored: pixels, labels and weights follow a formula that both sides compute (drawn()). Of large results, sixteen
sums with random signs and the norm are stored: the root mean square of the differences of these sums estimates the distance of
two tensors, whichever elements differ. MODEL.safetensors holds, for a net without dropout,

    prediction        (6, K)
    losses            (6) of each sample: cross-entropy, or the sum of the squared errors
    gradient.NAME     of the mean loss over the 6 samples: (17) the norm and the sums
    update.NAME       the same for the change of a weight in five Adam steps; batches of 2, repeated

and MODEL.json the mean loss, and loss and gradient norm of each step. conv2d.safetensors: for each of CASES the output and
the gradients of sum((y - target)^2) with respect to x, w and b, as norm and sums; conv2d.json has the cases.
"""

import json
import math
import os
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

SAMPLES, BATCH, STEPS = 6, 2, 5
ADAM = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
SUMS = 16

# N, C, H, W, O, KH, KW, with a bias, with a ReLU
CASES = [
    (1, 1, 5, 5, 1, 3, 3, 1, 0), (2, 1, 9, 11, 4, 3, 3, 1, 0), (3, 1, 28, 28, 32, 3, 3, 1, 1),
    (2, 32, 11, 13, 64, 3, 3, 1, 1), (2, 3, 11, 13, 5, 3, 5, 1, 0), (1, 7, 15, 10, 3, 5, 2, 0, 0),
    (2, 16, 6, 6, 17, 1, 1, 1, 0), (2, 5, 10, 7, 6, 4, 4, 1, 0), (1, 2, 10, 21, 33, 6, 3, 1, 1),
    (3, 12, 13, 13, 8, 5, 5, 1, 0), (1, 64, 7, 7, 10, 7, 7, 0, 0), (4, 3, 32, 31, 16, 7, 7, 1, 1),
    (2, 20, 5, 42, 9, 2, 9, 1, 0), (5, 33, 6, 7, 2, 2, 3, 1, 1),
]


def hashes(name, n):
    """n numbers of 32 bits: FNV-1a of the name as a seed, then a mixing function (murmur3's) of the place."""
    seed = 2166136261
    for c in name.encode():
        seed = (seed ^ c) * 16777619 & 0xFFFFFFFF
    with np.errstate(over="ignore"):
        h = np.arange(n, dtype=np.uint32) * np.uint32(0x9E3779B9) + np.uint32(seed)
        h = (h ^ h >> np.uint32(16)) * np.uint32(0x85EBCA6B)
        h = (h ^ h >> np.uint32(13)) * np.uint32(0xC2B2AE35)
        return h ^ h >> np.uint32(16)


def drawn(name, scale, *shape):
    """Values in [-scale, scale) that fp32 holds exactly; the scale is a power of two."""
    values = hashes(name, math.prod(shape)).astype(np.int32) >> 8
    return (torch.from_numpy(values.astype(np.float64)) * (scale / 2**23)).view(shape)


def weights(name, *shape):
    """(out, ...): within about two over the root of how many numbers one output reads."""
    return drawn(name, 2.0 ** (1 - math.floor(math.log2(math.prod(shape[1:])) / 2 + 0.5)), *shape)


def held(x):
    """The norm of a tensor, and sums of its elements with the signs that the bits of hashes give."""
    x = x.detach().reshape(-1).numpy()
    h = hashes("signs", x.size)
    signs = [1.0 - 2.0 * (h >> np.uint32(k) & np.uint32(1)).astype(np.float64) for k in range(SUMS)]
    return torch.tensor([math.sqrt((x * x).sum())] + [(s * x).sum() for s in signs], dtype=torch.float64)


def linear(w, name, x):
    return F.linear(x, w[name + ".weight"], w[name + ".bias"])


def conv(w, name, x):
    return F.conv2d(x, w[name + ".weight"], w[name + ".bias"])


def cnn(w, x):
    x = F.max_pool2d(F.relu(conv(w, "conv2", F.relu(conv(w, "conv1", x)))), 2).flatten(1)
    return linear(w, "fc2", F.relu(linear(w, "fc1", x)))


def mlp(w, x):
    return linear(w, "fc3", F.relu(linear(w, "fc2", F.relu(linear(w, "fc1", x.flatten(1))))))


def autoencoder(w, x):
    code = linear(w, "encoder.2", F.relu(linear(w, "encoder.0", x.flatten(1))))
    return linear(w, "decoder.2", F.relu(linear(w, "decoder.0", code)))


# name: forward, its layers (of weights: the shape), mean and standard deviation of pixels, does it classify
NETS = {
    "mnist-cnn": (cnn, {"conv1": (32, 1, 3, 3), "conv2": (64, 32, 3, 3), "fc1": (128, 9216), "fc2": (10, 128)},
                  0.1307, 0.3081, True),
    "mnist-mlp": (mlp, {"fc1": (64, 784), "fc2": (64, 64), "fc3": (10, 64)}, 0.1307, 0.3081, True),
    "mnist-autoencoder": (autoencoder, {"encoder.0": (128, 784), "encoder.2": (3, 128), "decoder.0": (128, 3),
                                        "decoder.2": (784, 128)}, 0.0, 1.0, False),
}


def net(name):
    forward, layers, mean, std, classifies = NETS[name]
    w = {}
    for layer, shape in layers.items():
        w[layer + ".weight"] = weights(layer + ".weight", *shape).requires_grad_()
        w[layer + ".bias"] = drawn(layer + ".bias", 0.25, shape[0]).requires_grad_()
    pixels = torch.from_numpy((hashes("pixels", SAMPLES * 784) >> np.uint32(24)).astype(np.float64))
    labels = torch.from_numpy((hashes("label", SAMPLES) % np.uint32(10)).astype(np.int64))
    x = (pixels.view(SAMPLES, 1, 28, 28) / 255 - mean) / std

    def losses_of(rows):
        y = forward(w, x[rows])
        if classifies:
            return y, F.cross_entropy(y, labels[rows], reduction="none"), 1
        return y, ((y - x[rows].flatten(1)) ** 2).sum(1), 784

    start = {k: v.detach().clone() for k, v in w.items()}
    y, losses, numbers = losses_of(slice(0, SAMPLES))
    (losses.mean() / numbers).backward()
    out = {"prediction": y.detach(), "losses": losses.detach()}
    out |= {"gradient." + k: held(v.grad) for k, v in w.items()}
    meta = {"loss": losses.mean().item() / numbers, "step_losses": [], "step_grad_norms": [], "batch_size": BATCH,
            "steps": STEPS, "torch": torch.__version__, **ADAM}
    optimizer = torch.optim.Adam(w.values(), **ADAM)
    for step in range(STEPS):
        optimizer.zero_grad()
        first = step % (SAMPLES // BATCH) * BATCH
        loss = losses_of(slice(first, first + BATCH))[1].mean() / numbers
        loss.backward()
        meta["step_losses"].append(loss.item())
        meta["step_grad_norms"].append(math.sqrt(sum((v.grad**2).sum().item() for v in w.values())))
        optimizer.step()
    return out | {"update." + k: held(v.detach() - start[k]) for k, v in w.items()}, meta


def convolution(i, case):
    N, C, H, W, O, KH, KW, bias, relu = case
    x, w, b = drawn(f"{i}.x", 1.0, N, C, H, W), weights(f"{i}.w", O, C, KH, KW), drawn(f"{i}.b", 0.25, O)
    for t in (x, w, b):
        t.requires_grad_()
    y = F.conv2d(x, w, b if bias else None)
    y = F.relu(y) if relu else y
    ((y - drawn(f"{i}.target", 1.0, *y.shape)) ** 2).sum().backward()
    out = {f"{i}.y": held(y), f"{i}.x": held(x.grad), f"{i}.w": held(w.grad)}
    return out | ({f"{i}.b": held(b.grad)} if bias else {})


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "tests", "golden")
    out = os.path.join(out, "digits")
    os.makedirs(out, exist_ok=True)
    torch.set_num_threads(1)
    for name in NETS:
        tensors, meta = net(name)
        save_file(tensors, os.path.join(out, name + ".safetensors"))
        with open(os.path.join(out, name + ".json"), "w") as f:
            json.dump(meta, f, indent=1)
            f.write("\n")
        print(f"{name}: loss {meta['loss']:.6f}, gradient norms", *(f"{x:.4f}" for x in meta["step_grad_norms"]))
    tensors = {}
    for i, case in enumerate(CASES):
        tensors |= convolution(i, case)
    save_file(tensors, os.path.join(out, "conv2d.safetensors"))
    with open(os.path.join(out, "conv2d.json"), "w") as f:
        f.write("[\n" + ",\n".join(" " + json.dumps(c) for c in CASES) + "\n]\n")


if __name__ == "__main__":
    main()
