#!/usr/bin/env python3
"""Writes tests/golden/peft: adapters of tests/golden/llama as PEFT saves them, with PEFT's results for them, for
tests/cli/adapters_peft.sh.

    python3 tools/make_golden_peft.py [OUT]        needs torch, safetensors, transformers, peft

    rslora      use_rslora and lora_dropout
    tokens      trainable_token_indices, with a tied head

Each folder is one of PEFT's, apart from the path of the base model. expected.safetensors holds PEFT's results in fp32:

    merged.NAME     the weights that merge_and_unload() changes, for the model with the adapters
    step.NAME       the tensors of the adapters after one step of SGD (learning rate RATE, without dropout) on the first
                    BATCH windows of T tokens of tests/golden/llama/tokens.bin
"""

import json
import os
import shutil
import sys

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from torch.nn import functional as F
from transformers import AutoModelForCausalLM

BATCH, T, RATE = 4, 16, 0.5
LLAMA = os.path.join(os.path.dirname(__file__), "../tests/golden/llama")
CASES = {
    "rslora": dict(r=4, lora_alpha=6, use_rslora=True, lora_dropout=0.25, target_modules=["q_proj", "v_proj"]),
    "tokens": dict(r=2, lora_alpha=4, target_modules=["q_proj", "up_proj"], trainable_token_indices=[58, 5, 59, 17, 60]),
}


def base():
    return AutoModelForCausalLM.from_pretrained(LLAMA, dtype=torch.float32)


def step(model):
    """One step of SGD; the tensors by the names in PEFT's files."""
    tokens = torch.from_numpy(np.fromfile(os.path.join(LLAMA, "tokens.bin"), "<u2").astype(np.int64))
    rows = torch.stack([tokens[i * T:(i + 1) * T + 1] for i in range(BATCH)])
    logits = model(rows[:, :-1]).logits
    F.cross_entropy(logits.reshape(BATCH * T, -1), rows[:, 1:].reshape(-1)).backward()
    after = {}
    for name, p in model.named_parameters():
        if p.requires_grad:
            after["step." + name.replace(".default", "")] = (p - RATE * p.grad).detach().contiguous()
    return after


def main(out):
    for number, (name, config) in enumerate(CASES.items()):
        torch.manual_seed(number + 1)
        folder = os.path.join(out, "peft", name)
        shutil.rmtree(folder, ignore_errors=True)
        model = get_peft_model(base(), LoraConfig(task_type="CAUSAL_LM", **config))
        with torch.no_grad():
            for p in model.parameters():
                if p.requires_grad:
                    p.add_(torch.randn_like(p) * 0.2)
        model.save_pretrained(folder)
        path = os.path.join(folder, "adapter_config.json")
        saved = json.load(open(path))
        saved["base_model_name_or_path"] = "base"
        saved["target_modules"].sort()
        with open(path, "w") as f:
            json.dump(saved, f, indent=1, sort_keys=True)
            f.write("\n")
        os.remove(os.path.join(folder, "README.md"))
        model = PeftModel.from_pretrained(base(), folder, is_trainable=True).eval()  # without dropout
        expected = step(model)
        names = {n[5:] for n in expected}
        assert names == set(load_file(os.path.join(folder, "adapter_model.safetensors")))
        before = base().state_dict()
        for n, w in model.merge_and_unload().state_dict().items():
            if not torch.equal(w, before[n]):
                expected["merged." + n] = w.detach().clone().contiguous()
        save_file(expected, os.path.join(folder, "expected.safetensors"))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../tests/golden"))
