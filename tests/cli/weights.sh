# Weights from other programs: nanoGPT's ckpt.pt, pytorch_model.bin, sharded safetensors and half precision, published
# models by name; added and removed tokens and positions. With PyTorch and transformers (LEVIN_PEERS names an
# environment that has them), both directions are compared with these.
. "$LEVIN_SOURCE/tests/cli/common.bash"
golden=$LEVIN_SOURCE/tests/golden
data=(--data.kind=tokens --data.path="$golden/gpt2/tokens.bin" --trainer.batch_size=5)
loss() { # loss MODEL [keys]
    local model=$1
    shift
    code 0 "$LEVIN" evaluate "$model" "${data[@]}" --json "$@"
    value loss
}
near() { python3 -c 'import sys; a, b, c = map(float, sys.argv[1:]); assert abs(a - b) <= c, (a, b)' "$@"; } # near A B BOUND

# --- every file format of the same weights ---
plain=$(loss "$golden/nanogpt")
near "$plain" "$(loss "$golden/torch/ckpt.pt")" 0
mkdir made
cp "$golden/torch/ckpt.pt" made
near "$plain" "$(loss made)" 0 # a folder that nanoGPT made
near "$(loss "$golden/nanogpt-bias")" "$(loss "$golden/torch/old.pt")" 1e-3 # fp16
near "$(loss "$golden/gpt2")" "$(loss "$golden/torch/gpt2")" 1e-2           # bf16
near "$(loss "$golden/torch/gpt2")" "$(loss "$golden/torch/gpt2/pytorch_model-00001-of-00002.bin")" 0

# --- used like any model: generation, export, training ---
code 0 "$LEVIN" generate "$golden/torch/ckpt.pt" --prompt-ids=1,2 --max-new-tokens=5 --temperature=0
code 0 "$LEVIN" export "$golden/torch/ckpt.pt" hf
near "$plain" "$(loss hf)" 1e-6
code 0 "$LEVIN" export hf back --format=nanogpt
near "$plain" "$(loss back)" 0
# and back into nanoGPT's own format: the same bits in another container
code 0 "$LEVIN" export "$golden/torch/ckpt.pt" again.pt
near "$plain" "$(loss again.pt)" 0
code 0 "$LEVIN" export again.pt from-again
same_file hf/model.safetensors from-again/model.safetensors
python3 -c 'import zipfile; assert zipfile.ZipFile("again.pt").testzip() is None' || fail "its checksums are wrong"
code 2 "$LEVIN" export hf again.pt
says "'again.pt' exists already" err
code 2 "$LEVIN" export hf other.pt --format=mingpt
one_error
says "checkpoints of nanoGPT" err
code 1 "$LEVIN" export "$golden/gpt2" other.pt # tanh GELU
one_error
check [ ! -e other.pt ]
keys=("${data[@]}" --model.dropout=0 --trainer.max_steps=3 --model.block_size=16 --trainer.limit_val_batches=0)
code 0 "$LEVIN" train --run_dir=a --model.init="$golden/nanogpt" "${keys[@]}"
code 0 "$LEVIN" train --run_dir=b --model.init="$golden/torch/ckpt.pt" "${keys[@]}"
same_weights a b

# --- fewer positions, and more or fewer tokens ---
size() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1] + "/config.json"))[sys.argv[2]])' "$@"; } # size DIR KEY
positions=$(size "$golden/gpt2" n_positions) tokens=$(size "$golden/gpt2" vocab_size)
code 0 "$LEVIN" export "$golden/gpt2" cut --block-size=8
check [ "$(size cut n_positions)" = 8 ]
near "$(loss "$golden/gpt2" --model.block_size=8)" "$(loss cut)" 0
code 2 "$LEVIN" export "$golden/gpt2" more --block-size=$((positions + 1))
one_error
says "positions; choose at most that many" err
check [ ! -e more ]
# what follows from the number of positions stays: the original positions of scaled rotary embeddings, and short windows
of() { # of MODEL FAMILY: its loss on windows of 8 tokens of the family's
    code 0 "$LEVIN" evaluate "$1" --data.kind=tokens --data.path="$golden/$2/tokens.bin" --trainer.batch_size=5 --model.block_size=8 --json
    value loss
}
for scaling in '"yarn", "factor": 4.0, "beta_fast": 0.5, "beta_slow": 0.1' '"llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0'; do
    for members in rope_scaling rope_parameters 'rope_scaling rope_parameters'; do
        rm -rf scaled cut
        cp -r "$golden/llama-yarn" scaled
        python3 - "$scaling" $members <<'P'
import json, sys
c = json.load(open("scaled/config.json"))
del c["rope_scaling"]
c |= {member: json.loads('{"rope_theta": %g, "rope_type": %s}' % (c["rope_theta"], sys.argv[1])) for member in sys.argv[2:]}
json.dump(c, open("scaled/config.json", "w"))
P
        code 0 "$LEVIN" export scaled cut --block-size=8
        near "$(of scaled llama-yarn)" "$(of cut llama-yarn)" 0
        check grep -q "\"original_max_position_embeddings\": $(size scaled max_position_embeddings)[,}]*$" cut/config.json
    done
done
# dynamic scaling changes longer texts alone
cp -r "$golden/qwen3" dynamic
sed -i 's/"rope_type": "default"/"rope_type": "dynamic", "factor": 2.0/' dynamic/config.json
near "$(of "$golden/qwen3" qwen3)" "$(of dynamic qwen3)" 0
rm -rf cut
code 0 "$LEVIN" export dynamic cut
check grep -q '"rope_type": "dynamic"' cut/config.json
rm -rf cut
code 0 "$LEVIN" export "$golden/nanochat" cut --block-size=64 # within the windows of 129 positions
near "$(of "$golden/nanochat" nanochat)" "$(of cut nanochat)" 0
rm -rf cut
cp -r "$golden/nanochat" wide
sed -i 's/"sequence_len": 132/"sequence_len": 1024/' wide/config.json
code 2 "$LEVIN" export wide cut --block-size=512
says "the model has 1024 positions, a quarter of which is the short window of its attention; with 512 positions it would have another window" err
check [ ! -e cut ]
# added rows raise the loss by less than log(1 + added / tokens); after their removal the model is the same as before
for model in gpt2 mingpt; do
    had=$(loss "$golden/$model")
    rm -rf padded again
    code 0 "$LEVIN" export "$golden/$model" padded --vocab-size=$((tokens + 7))
    check [ "$(size padded vocab_size)" = $((tokens + 7)) ]
    python3 -c 'import math,sys; a, b, v = map(float, sys.argv[1:]); assert 0 < b - a <= math.log(1 + 7 / v), (a, b)' \
        "$had" "$(loss padded)" "$tokens"
    near "$(loss padded)" "$(loss "$golden/$model" --model.vocab_size=$((tokens + 7)))" 0
    code 0 "$LEVIN" export padded again --vocab-size="$tokens"
    near "$had" "$(loss again)" 0
done
code 0 "$LEVIN" train --run_dir=padded-run --model.init="$golden/gpt2" --model.vocab_size=$((tokens + 7)) "${keys[@]}"
code 0 "$LEVIN" train --run_dir=padded-run --model.init="$golden/gpt2" --model.vocab_size=$((tokens + 7)) "${keys[@]/steps=3/steps=4}" --resume
check [ "$(size padded-run/checkpoints/last vocab_size)" = $((tokens + 7)) ]
# the vocabulary is never smaller than the tokenizer
make_text
code 0 train chars
characters=$(python3 -c 'import json; print(json.load(open("chars/checkpoints/last/state/vocabulary.json"))["vocab_size"])')
code 0 "$LEVIN" export chars wider --vocab-size=$((characters + 3))
code 0 "$LEVIN" export wider narrow --vocab-size="$characters"
code 2 "$LEVIN" export chars less --vocab-size=$((characters - 1))
one_error
says "its tokenizer knows $characters" err

# --- published models by name ---
export HF_HOME=$PWD/cache
HF_HUB_OFFLINE=1 code 1 "$LEVIN" evaluate gpt2 "${data[@]}"
one_error
says "is not in Hugging Face's cache on this machine ('$PWD/cache/hub'), and HF_HUB_OFFLINE disables fetching" err
says "fetching the model 'gpt2'" err
hub=cache/hub/models--openai-community--gpt2
mkdir -p $hub/refs $hub/snapshots
printf 0123abc >$hub/refs/main
cp -r "$golden/gpt2" $hub/snapshots/0123abc
near "$(loss "$golden/gpt2")" "$(loss gpt2)" 0
near "$(loss "$golden/gpt2")" "$(loss openai-community/gpt2)" 0
cp -r "$golden/mingpt" gpt2 # a path takes precedence over a name
near "$(loss "$golden/mingpt")" "$(loss gpt2)" 0
rm -r gpt2

# --- files that are not models ---
spoilt() { # spoilt SENTENCE MODEL
    code 1 "$LEVIN" evaluate "$2" "${data[@]}"
    one_error
    says "$1" err
}
python3 - "$golden" <<'P'
import json, os, pickle, shutil, struct, sys, zipfile
golden = sys.argv[1]

class Evil:
    def __reduce__(self):
        return os.mkdir, ("pwned",)
with zipfile.ZipFile("evil.pt", "w") as z:
    z.writestr("evil/data.pkl", pickle.dumps({"model": Evil(), "model_args": {}}, 2))
with zipfile.ZipFile("sneaky.pt", "w") as z:  # after good members
    z.writestr("a/data.pkl", pickle.dumps({"model": {}, "model_args": {"n_layer": 1}, "config": [1, Evil()]}, 4))
with zipfile.ZipFile("packed.pt", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("a/data.pkl", pickle.dumps({}, 2))
data = open(golden + "/torch/ckpt.pt", "rb").read()
open("cut.pt", "wb").write(data[:len(data) // 2])
open("noise.pt", "wb").write(b"PK\3\4" + bytes(range(256)) * 8)

def other(name, change):  # the safetensors of another model
    shutil.copytree(golden + "/gpt2", name)
    path = name + "/model.safetensors"
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header, rest = json.loads(f.read(n)), f.read()
    header = change(header)
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + rest)
other("renamed", lambda h: {k.replace("mlp", "ffn"): v for k, v in h.items()})
def turn(h):
    w = h["transformer.h.0.mlp.c_fc.weight"]
    w["shape"] = w["shape"][::-1]
    return h
other("turned", turn)
other("twice", lambda h: {{"transformer.h.0.ln_1.bias": "h.0.ln_1.weight"}.get(k, k): v for k, v in h.items()})
P
spoilt "'evil.pt' calls the function 'posix.mkdir', but levin does not execute code" evil.pt
spoilt "'sneaky.pt' calls the function 'posix.mkdir'" sneaky.pt
check [ ! -e pwned ]
spoilt "is compressed, but torch.save() never compresses" packed.pt
spoilt "it is truncated" cut.pt
spoilt "no directory at its end" noise.pt
spoilt "is not a checkpoint of nanoGPT: it has no 'model_args'" "$golden/torch/views.pt"
spoilt "'transformer.h.0.mlp.c_fc.weight' is missing, " renamed
check [ "$(grep -o " is missing" err | wc -l)" = 8 ]
check [ "$(grep -o " is unexpected" err | wc -l)" = 2 ]
says ", and 6 more" err # of 2 layers, 4 tensors each, under two names
spoilt "'transformer.h.0.mlp.c_fc.weight' has shape (" turned
spoilt "expected (" turned
spoilt "'h.0.ln_1.weight' is there under two names, with different values" twice

# --- PyTorch and transformers themselves ---
peers=${LEVIN_PEERS:+$LEVIN_PEERS/bin/}python3
"$peers" -c 'import torch, transformers' 2>/dev/null || { echo "left out: weights in PyTorch and transformers, which are not here"; exit 0; }
mkdir peers
cd peers
"$peers" "$LEVIN_SOURCE/tests/cli/weights_peers.py" || fail "PyTorch and levin do not agree"
