# Bad input: one clear sentence, exit code 1 (bad data) or 2 (bad options), and no folder remains.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text

refused() { # refused CODE SENTENCE [keys]: train with these keys
    local want=$1 sentence=$2
    shift 2
    code "$want" train bad "$@"
    one_error
    says "$sentence" err
    [ ! -e bad ] || fail "train $*: a run folder remains: $(find bad)"
    [ ! -s out ] || fail "train $*: says something on stdout: $(cat out)"
}

# --- texts ---
refused 1 "missing.txt" --data.path=missing.txt
: >empty.txt
refused 1 "'empty.txt' is empty" --data.path=empty.txt
printf 'a' >one.txt
refused 1 "'one.txt' is a single character long" --data.path=one.txt
printf 'a%.0s' {1..500} >same.txt
refused 1 "'same.txt' is one and the same character throughout" --data.path=same.txt
printf 'abc\xff' >latin.txt
refused 1 "byte 0xff at offset 3" --data.path=latin.txt
head -c 4096 "$LEVIN" >binary.txt
refused 1 "binary.txt" --data.path=binary.txt
printf 'too short' >short.txt
refused 1 "short.txt" --data.path=short.txt
says "16" err # the length of a block
mkdir folder
refused 1 "folder" --data.path=folder
refused 2 "data.path" --data.path=
refused 2 "unknown key 'data.pth'; did you mean 'data.path'?" --data.pth=text.txt

# --- token files ---
tokens() { python3 -c 'import struct, sys; v = [int(x) for x in sys.argv[2:]]; open(sys.argv[1], "wb").write(struct.pack("<%dH" % len(v), *v))' "$@"; }
# shellcheck disable=SC2046
tokens good.bin $(seq 0 99)
code 0 train tokens --data.kind=tokens --data.path=good.bin --model.vocab_size=100
head -c 199 good.bin >odd.bin
refused 1 "'odd.bin' has 199 bytes" --data.kind=tokens --data.path=odd.bin
: >empty.bin
refused 1 "'empty.bin' is empty" --data.kind=tokens --data.path=empty.bin
refused 1 "missing.bin" --data.kind=tokens --data.path=missing.bin
refused 1 "99" --data.kind=tokens --data.path=good.bin --model.vocab_size=99
says "good.bin" err
head -c 20 good.bin >few.bin
refused 1 "few.bin" --data.kind=tokens --data.path=few.bin
cp good.bin wide.bin
printf '{"dtype": "uint32"}' >wide.bin.json
refused 1 "wide.bin" --data.kind=tokens --data.path=wide.bin --model.vocab_size=100
printf '{"dtype": "float32"}' >wide.bin.json
refused 1 "float32" --data.kind=tokens --data.path=wide.bin
printf '{"dtype": ' >wide.bin.json
refused 1 "'wide.bin.json' is not JSON" --data.kind=tokens --data.path=wide.bin

# --- sizes and keys ---
refused 2 "is not a multiple of model.n_head" --model.n_head=3
refused 2 "model.n_head" --model.n_head=0
refused 2 "trainer.micro_batch_size" --trainer.micro_batch_size=3
refused 2 "optimizer.lr" --optimizer.lr=fast
refused 2 "optimizer.lr" --optimizer.lr=-1
refused 2 "model.n_layer" --model.n_layer=99999999999999999999
refused 2 "trainer.precision" --trainer.precision=16-mixed
refused 2 "data.kind" --data.kind=chras
printf 'model: {n_layer: 1, n_layer: 2}\n' >twice.yaml
code 2 "$LEVIN" train twice.yaml --run_dir=bad
one_error
says "twice.yaml:1" err
code 2 "$LEVIN" train missing.yaml --run_dir=bad
one_error
says "missing.yaml" err
[ ! -e bad ]

# --- a model that fits no machine: reported before anything is allocated, with sizes that would fit ---
refused 1 "this run needs 75 TiB" --model.n_layer=400 --model.n_embd=32768 --model.n_head=64 --trainer.batch_size=1 --trainer.val_check_interval=0
says "trainer.precision=bf16-true needs" err
says "choose a smaller" err
refused 2 "more than any machine can store" --model.n_layer=10000 --model.n_embd=1048576

# --- folders ---
if [ "$(id -u)" != 0 ]; then
    mkdir locked
    chmod 555 locked
    code 1 train locked/run
    one_error
    says "locked/run" err
fi
code 1 train /proc/levin/run
one_error
says "/proc/levin" err
echo text >file
code 1 train file
says "the run folder 'file' is a file" err
code 1 train file/run
one_error
check [ "$(cat file)" = text ]

# --- model directories ---
code 0 train good
model() { # model NAME: a copy of the good one, to be damaged
    rm -rf "$1"
    cp -rL good/checkpoints/last "$1"
    rm -rf "$1/state" # no longer a checkpoint
}
spoilt() { # spoilt CODE SENTENCE DIR: by train, evaluate and export in the same way
    refused "$1" "$2" --model.init="$3"
    code "$1" "$LEVIN" evaluate "$3" --data.path=text.txt --trainer.batch_size=4
    one_error
    says "$2" err
    code "$1" "$LEVIN" export "$3" exported
    one_error
    says "$2" err
    check [ ! -e exported/model.safetensors ]
}
patch_float() { # patch_float FILE TENSOR VALUE: its last number
    python3 - "$@" <<'P'
import json, struct, sys
path, name, value = sys.argv[1:]
with open(path, "r+b") as f:
    n = struct.unpack("<Q", f.read(8))[0]
    f.seek(8 + n + json.loads(f.read(n))[name]["data_offsets"][1] - 4)
    f.write(struct.pack("<f", float(value)))
P
}
tiny_keys=("${tiny[@]}")
tiny=(--data.path=text.txt --trainer.batch_size=4 --trainer.max_steps=8 --trainer.limit_val_batches=4)
code 0 train from-good --model.init=good
for value in nan inf -inf; do
    model m
    patch_float m/model.safetensors transformer.h.0.mlp.c_fc.weight $value
    spoilt 1 "transformer.h.0.mlp.c_fc.weight" m
done
model m
rm m/config.json
spoilt 1 "'m'" m
model m
echo '{"model_type": "gpt2",' >m/config.json
spoilt 1 "m/config.json" m
model m
sed -i 's/"gpt2"/"bert"/' m/config.json
spoilt 1 "bert" m
model m
sed -i 's/"n_layer": 1/"n_layer": 2/' m/config.json
spoilt 1 "h.1." m
model m
sed -i 's/"n_embd": 16/"n_embd": 20/' m/config.json
spoilt 1 "m" m
model m
sed -i 's/"n_head": 2/"n_head": 0/' m/config.json
spoilt 1 "n_head" m
model m
sed -i '1s/{/{"quantization_config": {"quant_method": "fp8"},/' m/config.json
spoilt 1 "quantization_config (fp8) says that the weights are quantized" m
model m
sed -i '1s/{/{"is_causal": false,/' m/config.json
spoilt 1 "is_causal is false; this version has true" m
model m
rm m/model.safetensors
spoilt 1 "m" m
model m
truncate -s -100 m/model.safetensors
spoilt 1 "model.safetensors" m
model m
python3 -c 'import struct
with open("m/model.safetensors", "r+b") as f: f.write(struct.pack("<Q", 1 << 60))'
spoilt 1 "model.safetensors" m
spoilt 2 "nowhere" nowhere
refused 2 "model.block_size is 17, but the model in" --model.init=good --model.block_size=17
# keys of new models, which a loaded one contradicts
for key in n_layer=3 kind=gpt2 size=gpt2 bias=true; do
    refused 2 "model.${key%%=*}" --model.init=good --model.$key
    code 2 "$LEVIN" evaluate good --data.path=text.txt --model.$key
    says "leave it out" err
done
refused 2 "'good' is given as the base model of loaded adapters, and 'good/checkpoints" --model.init=good --lora.base=good
code 0 "$LEVIN" evaluate good --data.path=text.txt --trainer.limit_test_batches=1 --model.n_layer=1 --model.kind=nanogpt
for keys in n_layer:\ 3 kind:\ gpt2 size:\ gpt2; do
    echo "model: {init: good, $keys}" >other.yaml
    for command in train plan evaluate; do
        code 2 "$LEVIN" $command other.yaml --data.path=text.txt
        one_error
        says "model.${keys%%:*}" err
        says "leave it out" err
    done
done
echo 'model: {kind: gpt2, size: gpt2, n_layer: 3, block_size: 12}' >other.yaml # model.init on the command line replaces a recipe's model
code 0 "$LEVIN" train other.yaml --model.init=good --data.path=text.txt --trainer.max_steps=1 --run_dir=replaced
code 1 grep -E "size: gpt2|n_layer|kind: gpt2" replaced/settings.yaml
says "block_size: 12" replaced/settings.yaml
tiny=("${tiny_keys[@]}")

# --- a loss that is not finite stops the run, names the tensor and leaves the last checkpoint whole ---
code 1 train wild --optimizer.lr=1e6 --optimizer.kind=sgd --trainer.gradient_clip_val=0 --checkpoint.every_n_steps=1 --trainer.max_steps=200 \
    --trainer.val_check_interval=0
one_error
says "the first value that is not finite is in '" err
check [ -e wild/checkpoints/last/state/manifest.json ]
at=$(readlink wild/checkpoints/last)
check [ "$(grep -c '"loss"' wild/metrics.jsonl)" = "${at#step-}" ]
says "step $((${at#step-} + 1)): the loss is" err
code 0 "$LEVIN" export wild/checkpoints/last whole # the weights that are kept are finite
