#!/usr/bin/env python3
"""make_torch - writes tests/golden/torch and tests/fuzz/corpus/torch: the models of tests/golden as files of torch.save(),
for the reader that executes no code (src/files/formats/torch.h).

    ckpt.pt          as nanoGPT saves: a compiled model, optimizer, model_args, plain values, a tied head
    old.pt           the same of nanogpt-bias, in fp16, as PyTorch before 1.6 saved: a stream of pickles
    gpt2/            pytorch_model.bin in two files with an index, bf16, names without `transformer.`, masks
    views.pt         tensors that share a storage: transposed, sliced, expanded; every dtype

tools/golden runs it in an environment that has PyTorch.
"""
import json
import shutil
import sys
from collections import OrderedDict
from pathlib import Path

import torch
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parent.parent
GOLDEN, OUT, CORPUS = ROOT / "tests/golden", ROOT / "tests/golden/torch", ROOT / "tests/fuzz/corpus/torch"
SIZES = ("n_layer", "n_head", "n_embd", "block_size", "bias", "vocab_size", "dropout")


def nanogpt(name, prefix, dtype):
    weights = load_file(GOLDEN / name / "model.safetensors")
    config = json.loads((GOLDEN / name / "config.json").read_text())
    model = OrderedDict((prefix + k, v.to(dtype)) for k, v in weights.items())
    model[prefix + "lm_head.weight"] = model[prefix + "transformer.wte.weight"]
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=6e-4, betas=(0.9, 0.95))
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return {"model": model, "optimizer": optimizer.state_dict(), "model_args": {k: config[k] for k in SIZES},
            "iter_num": 2000, "best_val_loss": torch.tensor(1.5), "config": {"out_dir": "out", "init_from": "scratch",
            "compile": True, "seed": 2 ** 40, "nothing": None, "path": Path("x").name}}


def gpt2():
    folder = OUT / "gpt2"
    folder.mkdir()
    shutil.copy(GOLDEN / "gpt2/config.json", folder)
    weights = {k.removeprefix("transformer."): v.bfloat16()
               for k, v in load_file(GOLDEN / "gpt2/model.safetensors").items()}
    layers = json.loads((folder / "config.json").read_text())["n_layer"]
    for i in range(layers):
        weights[f"h.{i}.attn.bias"] = torch.ones(1, 1, 4, 4, dtype=torch.bool).tril()
        weights[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    names = sorted(weights)
    files = {"pytorch_model-00001-of-00002.bin": names[::2], "pytorch_model-00002-of-00002.bin": names[1::2]}
    for file, part in files.items():
        torch.save({k: weights[k] for k in part}, folder / file)
    index = {"metadata": {"total_size": sum(v.nbytes for v in weights.values())},
             "weight_map": {k: file for file, part in files.items() for k in part}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=2) + "\n")


def views():
    x = torch.arange(24, dtype=torch.float32).view(4, 6)
    kinds = [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
             torch.uint8, torch.bool]
    state = torch.nn.Linear(2, 1).state_dict()  # with an attribute beside its items
    state.clear()
    state.update({"whole": x, "transposed": x.t(), "slice": x[1:3, 2:5], "row": x[2], "expanded": x[0, :1].expand(3),
                  "empty": torch.zeros(0, 3), "scalar": torch.tensor(7.0), "parameter": torch.nn.Parameter(x[3].clone())})
    state.update({str(k).removeprefix("torch."): torch.tensor([0, 1, 1]).to(k) for k in kinds})
    return state


def main():
    for folder in (OUT, CORPUS):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    torch.manual_seed(1)
    torch.save(nanogpt("nanogpt", "_orig_mod.", torch.float32), OUT / "ckpt.pt")
    torch.save(nanogpt("nanogpt-bias", "", torch.float16), OUT / "old.pt", _use_new_zipfile_serialization=False)
    torch.save(views(), OUT / "views.pt")
    gpt2()
    small = {"model": OrderedDict(a=torch.ones(2), b=torch.ones(3, 2).t()), "model_args": {"n": 1, "p": 0.5}, "x": [None]}
    torch.save(small, CORPUS / "zip")
    torch.save(small, CORPUS / "stream", _use_new_zipfile_serialization=False)
    torch.save(views(), CORPUS / "views")
    import pickle
    for protocol in range(2, 6):
        (CORPUS / f"protocol{protocol}").write_bytes(pickle.dumps({"a": (1, 2.5, "x", b"y", True), "b": [[], {}]}, protocol))


if __name__ == "__main__":
    sys.exit(main())
