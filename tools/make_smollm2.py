#!/usr/bin/env python3
"""make_smollm2.py SOURCE FOLDER - writes SmolLM2-135M-Instruct as a Hugging Face directory, from its GGUF file below SOURCE.

Ends with 77 and a sentence if something is missing. Needs NumPy and tokenizers: parts/tensorboard and
parts/real/tokenizers have them (tools/setup.sh --dev).
"""
import json
import struct
import sys
from pathlib import Path

from make_real_tokens import from_gguf  # ends with 77 without tokenizers

sys.path.append(str(Path(__file__).resolve().parent.parent / "parts/tensorboard"))
try:
    import numpy as np
except ImportError:
    print("skipped: Python finds no NumPy (tools/setup.sh --dev installs it)")
    sys.exit(77)
from gguf import Reader

# Hugging Face's name of a layer's tensor, GGUF's name
LAYER = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def config(m):
    get = lambda key: m["llama." + key]
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
            "vocab_size": get("vocab_size"), "hidden_size": get("embedding_length"),
            "num_hidden_layers": get("block_count"), "num_attention_heads": get("attention.head_count"),
            "num_key_value_heads": get("attention.head_count_kv"), "intermediate_size": get("feed_forward_length"),
            "max_position_embeddings": get("context_length"), "rope_theta": get("rope.freq_base"),
            "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
            "bos_token_id": m["tokenizer.ggml.bos_token_id"], "eos_token_id": m["tokenizer.ggml.eos_token_id"],
            "torch_dtype": "float32"}


def unpermuted(w, heads):
    """GGUF has the two halves of a rotated head interleaved; Hugging Face has one after the other."""
    return w.reshape(heads, w.shape[0] // heads // 2, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


def tensors(r, c):
    yield "model.embed_tokens.weight", r.tensor("token_embd.weight")
    for i in range(c["num_hidden_layers"]):
        for name, theirs in LAYER.items():
            w = r.tensor(f"blk.{i}.{theirs}.weight")
            heads = {"attn_q": c["num_attention_heads"], "attn_k": c["num_key_value_heads"]}.get(theirs)
            yield f"model.layers.{i}.{name}.weight", unpermuted(w, heads) if heads else w
    yield "model.norm.weight", r.tensor("output_norm.weight")


def write_safetensors(path, named):
    header, at = {}, 0
    for name, w in named:
        header[name] = {"dtype": "F32", "shape": list(w.shape), "data_offsets": [at, at + w.nbytes]}
        at += w.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, w in named:
            f.write(np.ascontiguousarray(w, "<f4").tobytes())


def main():
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    found = sorted(source.rglob("*.gguf"))
    if not found:
        print(f"skipped: no GGUF file below {source} (tools/setup.sh --dev installs it)")
        return 77
    r = Reader(found[0])
    c = config(r.metadata)
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(c, indent=1))
    write_safetensors(out / "model.safetensors", list(tensors(r, c)))
    from_gguf(r.metadata).save(str(out / "tokenizer.json"))
    (out / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": r.metadata["tokenizer.chat_template"]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
