# levin export: each format and back gives the same weights and the same loss; transformers, if installed, loads the
# exported model and computes the same.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
loss() { # loss MODEL: over the validation part
    code 0 "$LEVIN" evaluate "$1" --data.path=text.txt --trainer.batch_size=16 --json
    value loss
}
same_loss() { # same_loss MODEL: as the run's, in $want
    python3 -c 'import sys; a, b = map(float, sys.argv[1:]); assert abs(a - b) < 1e-6, (a, b)' "$want" "$(loss "$1")"
}

for kind in nanogpt mingpt gpt2 nanogpt-bias; do
    rm -rf run hf other back
    keys=(--model.kind="${kind%-bias}" --model.n_layer=2 --model.dropout=0)
    if [ "$kind" = nanogpt-bias ]; then keys+=(--model.bias=true); fi
    code 0 train run "${keys[@]}" --trainer.max_steps=4 --optimizer.lr=1e-2
    code 0 "$LEVIN" export run hf
    # a checkpoint already has the first format
    same_file run/checkpoints/last/model.safetensors hf/model.safetensors
    want=$(loss run)
    same_loss hf
    for dialect in nanogpt mingpt huggingface; do
        # a format that cannot represent the model is refused
        if ! "$LEVIN" export hf other --format=$dialect >out 2>err; then
            one_error
            echo "$kind as $dialect: $(cat err)"
            check [ ! -e other/model.safetensors ]
            case $kind-$dialect in
            nanogpt-nanogpt | nanogpt-bias-nanogpt | mingpt-mingpt | *-huggingface) fail "$kind as $dialect: refused" ;;
            esac
            rm -rf other
            continue
        fi
        check [ "$(python3 -c 'import json; print(json.load(open("other/config.json"))["model_type"])')" = "${dialect/huggingface/gpt2}" ]
        same_loss other
        code 0 "$LEVIN" export other back --format=huggingface
        same_file hf/model.safetensors back/model.safetensors
        rm -rf other back
    done
done

# linear weights are transposed in nanogpt's files
rm -rf other
code 0 "$LEVIN" export hf other --format=nanogpt --json
json 'isinstance(d, dict)'
python3 - <<'P'
import json, struct
def header(path):
    with open(path, "rb") as f: return json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
a, b = header("hf/model.safetensors"), header("other/model.safetensors")
name = "transformer.h.0.mlp.c_fc.weight"
assert a[name]["shape"] == [16, 64] and b[name]["shape"] == [64, 16], (a[name], b[name])
P
# bf16 in a folder: half the bytes
code 0 "$LEVIN" export hf halved --type=bf16
python3 - <<'P'
import json, os, struct
def values(path):
    data = open(path, "rb").read()
    n, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", 0)
    return {k: (v["dtype"], data[8 + n:][slice(*v["data_offsets"])]) for k, v in header.items()}
a, b = values("hf/model.safetensors"), values("halved/model.safetensors")
assert a.keys() == b.keys() and {v[0] for v in b.values()} == {"BF16"}
def rounded(bits): return (bits + 0x7fff + (bits >> 16 & 1)) >> 16
for k in a:
    want = [rounded(x) for x, in struct.iter_unpack("<I", a[k][1])]
    assert want == [x for x, in struct.iter_unpack("<H", b[k][1])], k
config = json.load(open("halved/config.json"))
assert "bfloat16" in (config.get("dtype"), config.get("torch_dtype")), config
P
code 0 "$LEVIN" evaluate halved --data.path=text.txt
code 2 "$LEVIN" export hf halved.pt --type=bf16 --format=nanogpt
says "may be f32 or bf16 for a model in a folder" err
# existing files are not overwritten
code 2 "$LEVIN" export hf other
one_error
says "'other' already contains a model" err
code 2 "$LEVIN" export hf run
says "'run' is a run's folder" err
check [ ! -e run/config.json ]
code 2 "$LEVIN" export hf new --format=onnx
one_error
says "onnx" err
check [ ! -e new ]
# a number that is not finite is found while files are written: nothing is left
cp -r hf broken
python3 - <<'P'
import struct
with open("broken/model.safetensors", "r+b") as f:
    f.seek(8 + struct.unpack("<Q", f.read(8))[0])
    f.write(struct.pack("<f", float("nan")))
P
code 1 "$LEVIN" export broken new
one_error
says "holds a number that is not finite" err
check [ ! -e new ]

mapfile -t kinds < <(decoders && echo nanochat-2025)
if [ -n "${LVN_SANITIZE:-}" ] || ! python3 -c 'import transformers, torch' 2>/dev/null; then
    echo "left out: exported models as transformers reads them; it is not installed, or sanitizers check levin alone"
    kinds=()
fi
for kind in "${kinds[@]}"; do
    rm -rf trained read
    keys=(--model.kind=$kind --model.dropout=0 --model.n_layer=2)
    case $kind in
    neox) keys+=(--model.rotary_pct=0.5) ;;
    llama) keys+=(--model.bias=true --model.n_kv_head=2) ;;
    mistral | qwen2 | gemma*) keys+=(--model.sliding_window=6) ;;
    esac
    code 0 train trained "${keys[@]}" --trainer.max_steps=4 --optimizer.lr=1e-2
    code 0 "$LEVIN" export trained read
    python3 - <<'P' || fail "transformers computes something else from $kind"
import json, os, struct, subprocess
import torch, transformers
model = transformers.AutoModelForCausalLM.from_pretrained("read").eval()
tokens = [(i * i + i // 3) % model.config.vocab_size for i in range(16 * 4 + 1)]
open("windows.bin", "wb").write(struct.pack("<%dH" % len(tokens), *tokens))
found = json.loads(subprocess.check_output([os.environ["LEVIN"], "evaluate", "read", "--data.kind=tokens",
    "--data.path=windows.bin", "--trainer.batch_size=4", "--logits", "--json"]))["logits"]
with torch.no_grad():
    want = model(torch.tensor(tokens[:64]).view(4, 16)).logits[:, -1, :8]
worst = (torch.tensor(found) - want).abs().max().item()
print("largest difference", worst)
assert worst < 1e-4, worst
P
done

# --- other file types are refused; the message lists the formats ---
train chars >/dev/null 2>&1
for out in out.onnx out.safetensors OUT.BIN; do
    code 2 "$LEVIN" export chars $out
    one_error
    says "'$out': levin cannot write .${out#*.} files; OUT is a folder (--format huggingface, nanogpt, mingpt), a file OUT.gguf for llama.cpp, or OUT.pt" err
    check [ ! -e $out ]
done
code 0 "$LEVIN" export chars version-1.2

# --- characters are a tokenizer for other programs, too: an id is the rank among the characters ---
for model in chars/checkpoints/last version-1.2; do
    python3 - $model <<'P'
import json, sys
read = lambda name: json.load(open(sys.argv[1] + "/" + name))
characters, tokenizer = read("state/vocabulary.json")["vocabulary"], read("tokenizer.json")
assert tokenizer["model"]["type"] == "BPE" and tokenizer["model"]["merges"] == [] and tokenizer["decoder"]["type"] == "Fuse"
assert tokenizer["model"]["vocab"] == {c: i for i, c in enumerate(characters)}
assert read("tokenizer_config.json")["tokenizer_class"] == "PreTrainedTokenizerFast"
try:
    import transformers
except ImportError:
    sys.exit(print("left out: the tokenizer as transformers reads it, which is not installed"))
text = open("text.txt").read()[:2000]
t = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
ids = t(text)["input_ids"]
assert ids == [characters.index(c) for c in text] and t.decode(ids) == text
P
done
code 0 "$LEVIN" generate version-1.2 --prompt=the --max-new-tokens=2 --json # and levin reads it as before
json '"text" in d["samples"][0]'

# --- nanoGPT samples from a .pt file ---
code 0 "$LEVIN" export run ckpt.pt
says "nanoGPT can sample from it, but not continue training" out
same_loss ckpt.pt
rm ckpt.pt
code 0 "$LEVIN" export hf ckpt.pt # without a run
says "nanoGPT can sample from it, but not continue training" out
