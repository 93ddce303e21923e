"""weights_peers.py - models that transformers and torch write, read by levin, and the other way round; run by weights.sh
in an empty folder."""
import json
import os
import shutil
import struct
import subprocess
from collections import OrderedDict

import torch
import transformers

LEVIN = os.environ["LEVIN"]
T, N = 16, 4
torch.manual_seed(3)
config = transformers.GPT2Config(vocab_size=57, n_positions=T, n_embd=24, n_layer=2, n_head=3, resid_pdrop=0, embd_pdrop=0,
                                 attn_pdrop=0, bos_token_id=0, eos_token_id=0)
tokens = [(i * i + i // 3) % 57 for i in range(T * N + 1)]
with open("peers.bin", "wb") as f:
    f.write(struct.pack(f"<{len(tokens)}H", *tokens))


def logits_of(model):
    with torch.no_grad():
        return model.eval()(torch.tensor(tokens[:T * N]).view(N, T)).logits[:, -1, :8].float()


def levin_logits(path):
    out = subprocess.check_output([LEVIN, "evaluate", path, "--data.kind=tokens", "--data.path=peers.bin", f"--trainer.batch_size={N}",
                                   "--logits", "--json"], stderr=subprocess.DEVNULL)
    return torch.tensor(json.loads(out)["logits"])


def same(what, a, b, bound=2e-5):
    worst = (a - b).abs().max().item()
    print(f"{what}: largest difference {worst:.2e}")
    assert worst < bound, what


def main():
    model = transformers.GPT2LMHeadModel(config)
    want = logits_of(model)
    # every way in which transformers saves; half precision is held against the rounded model itself
    model.save_pretrained("whole")
    same("one safetensors file", levin_logits("whole"), want)
    model.save_pretrained("parts", max_shard_size="20KB")
    assert os.path.exists("parts/model.safetensors.index.json") and len(os.listdir("parts")) > 4
    same("several safetensors files", levin_logits("parts"), want)
    model.transformer.save_pretrained("bare")  # names without `transformer.`
    same("without the head", levin_logits("bare"), want)
    for dtype in (torch.float16, torch.bfloat16):
        half = transformers.GPT2LMHeadModel.from_pretrained("whole").to(dtype)
        half.save_pretrained("half")
        same(str(dtype), levin_logits("half"), logits_of(half.float()))
        shutil.rmtree("half")
    shutil.copytree("whole", "pickled")
    os.remove("pickled/model.safetensors")
    torch.save(model.state_dict(), "pickled/pytorch_model.bin")
    same("pytorch_model.bin", levin_logits("pickled"), want)
    # what levin writes, transformers loads without a word about missing or unexpected weights
    for source in ("pickled", "parts"):
        subprocess.check_call([LEVIN, "export", source, "exported"], stdout=subprocess.DEVNULL)
        loaded, info = transformers.GPT2LMHeadModel.from_pretrained("exported", output_loading_info=True)
        assert not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
        same(f"{source}, exported", logits_of(loaded), want)
        shutil.rmtree("exported")
    subprocess.check_call([LEVIN, "export", "whole", "cut", "--block-size=8"], stdout=subprocess.DEVNULL)
    assert transformers.GPT2LMHeadModel.from_pretrained("cut").transformer.wpe.weight.shape == (8, 24)
    # nanoGPT: its linear weights are (out, in), its GELU is erf
    turned = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
    state = OrderedDict(("_orig_mod." + k, v.t().contiguous() if k.endswith(turned) else v) for k, v in model.state_dict().items())
    sizes = dict(n_layer=2, n_head=3, n_embd=24, block_size=T, bias=True, vocab_size=57, dropout=0.0)
    torch.save({"model": state, "optimizer": None, "model_args": sizes, "iter_num": 5, "best_val_loss": torch.tensor(3.0),
                "config": {"lr": 6e-4}}, "ckpt.pt")
    model.config.activation_function = "gelu"
    for block in model.transformer.h:
        block.mlp.act = torch.nn.GELU()
    same("ckpt.pt of nanoGPT", levin_logits("ckpt.pt"), logits_of(model))
    # what levin writes of it, PyTorch loads, and trusts
    subprocess.check_call([LEVIN, "export", "ckpt.pt", "written.pt"], stdout=subprocess.DEVNULL)
    written = torch.load("written.pt", weights_only=True)
    assert written["model_args"] == sizes, written["model_args"]
    assert written["model"].keys() == {k.removeprefix("_orig_mod.") for k in state}
    assert all(torch.equal(v, state["_orig_mod." + k]) for k, v in written["model"].items())


main()
