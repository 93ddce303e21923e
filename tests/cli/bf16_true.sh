# trainer.precision: bf16-true. Weights and gradients take half the memory, checkpoints are in bf16, a resumed run has
# the same bits, and other commands work on such runs: evaluation, generation, adapters, frozen parameters, other
# precisions.
# label: long
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
true=(--trainer.precision=bf16-true)
near() { python3 -c 'import sys; a, b, d = map(float, sys.argv[1:]); print(a, b); assert abs(a - b) < d, (a, b)' "$@"; }
types() { # types FILE WANTED: all tensors are of this type
    python3 - "$@" <<'P'
import json, struct, sys
with open(sys.argv[1], "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
kinds = {t["dtype"] for name, t in header.items() if name != "__metadata__"}
assert kinds == {sys.argv[2]}, kinds
P
}

# --- memory, as planned ---
plan() { code 0 "$LEVIN" plan --data.path=text.txt --model.n_layer=2 --model.n_head=2 --model.n_embd=64 --model.block_size=32 --json "$@"; }
memory() { python3 -c 'import json; print(json.load(open("out"))["memory"]["'"$1"'"])'; }
plan --trainer.precision=bf16-mixed
parameters=$(memory parameters) gradients=$(memory gradients) optimizer=$(memory optimizer)
plan "${true[@]}"
check [ $((2 * $(memory parameters))) = "$parameters" ]
check [ $((2 * $(memory gradients))) = "$gradients" ]
check [ "$(memory optimizer)" = "$optimizer" ]
plan "${true[@]}" --optimizer.state=bf16
check [ $((2 * $(memory optimizer))) = "$optimizer" ]
# more than 64 partial sums are summed in fp32, and a line says so
plan "${true[@]}" --trainer.batch_size=128 --trainer.micro_batch_size=2
check [ $((2 * $(memory gradients))) = "$gradients" ]
plan "${true[@]}" --trainer.batch_size=130 --trainer.micro_batch_size=2
check [ "$(memory gradients)" = "$gradients" ]
check [ $((2 * $(memory parameters))) = "$parameters" ]
code 0 "$LEVIN" plan --data.path=text.txt --model.n_layer=1 --model.n_head=2 --model.n_embd=64 --model.block_size=32 \
    "${true[@]}" --trainer.batch_size=130 --trainer.micro_batch_size=2
says "Gradients are summed in fp32" out

# --- it learns as fp32 does, also with many micro-batches, whose gradients are added in bf16; the rate falls to 0, because one
# step at a high rate moves the loss by more ---
learn=(--trainer.max_steps=60 --optimizer.lr=3e-3 --schedule.kind=linear --trainer.batch_size=32 --trainer.limit_val_batches=20 --trainer.val_check_interval=60)
code 0 train wide "${learn[@]}" --json
wide=$(value val_loss)
for keys in "" "--trainer.micro_batch_size=1" "--trainer.micro_batch_size=1 --trainer.deterministic=true" "--optimizer.state=bf16"; do
    rm -rf half
    # shellcheck disable=SC2086
    code 0 train half "${learn[@]}" "${true[@]}" $keys --json
    near "$wide" "$(value val_loss)" 0.02
done

# --- a checkpoint is bf16, and other programs load it ---
types half/checkpoints/last/model.safetensors BF16
says '"dtype": "bfloat16"' half/checkpoints/last/config.json
code 0 "$LEVIN" evaluate half --trainer.precision=32-true --json
loss=$(value loss)
code 0 "$LEVIN" evaluate half "${true[@]}" --json
near "$loss" "$(value loss)" 0.01
code 0 "$LEVIN" evaluate half "${true[@]}" --trainer.micro_batch_size=1 --gradients=many.safetensors
types many.safetensors F32
code 0 "$LEVIN" evaluate half "${true[@]}" --trainer.micro_batch_size=16 --trainer.limit_test_batches=8 \
    --gradients=few.safetensors
types few.safetensors BF16
code 0 "$LEVIN" generate half --prompt="int " --max-new-tokens=20
code 0 "$LEVIN" export half exported
code 0 "$LEVIN" evaluate exported --data.path=text.txt --json
code 0 train from-half --model.init=half --trainer.max_steps=4
types from-half/checkpoints/last/model.safetensors F32
code 0 train from-wide --model.init=wide --trainer.max_steps=4 "${true[@]}" --trainer.val_check_interval=4 --trainer.limit_val_batches=20 --json
near "$(value start_val_loss)" "$wide" 0.2 # rounding hardly changes the loss; other batches do

# --- resuming: the same bits; with samples in between, which decode with weights in bf16 ---
for keys in "--model.dropout=0.1" "--optimizer.kind=sgd --optimizer.state=fp32" "--optimizer.state=bf16 --sample.every_n_steps=2"; do
    rm -rf one two
    # shellcheck disable=SC2086
    { code 0 train one "${true[@]}" --trainer.micro_batch_size=2 $keys
      code 0 train two "${true[@]}" --trainer.micro_batch_size=2 $keys --trainer.max_steps=4
      code 0 train two "${true[@]}" --trainer.micro_batch_size=2 $keys --resume; }
    same_run one two
done
code 0 train two --trainer.max_steps=12 --resume --optimizer.state=bf16 --trainer.micro_batch_size=2 # the run continues in fp32
types two/checkpoints/last/model.safetensors F32
code 0 train two --trainer.max_steps=16 --resume --optimizer.state=bf16 --trainer.micro_batch_size=2 "${true[@]}"
types two/checkpoints/last/model.safetensors BF16

# --- parts of a model ---
code 0 train frozen "${true[@]}" --model.freeze="wte,wpe,ln_1" --trainer.max_steps=4
cp -r frozen/checkpoints/step-4 before
code 0 train frozen "${true[@]}" --model.freeze="wte,wpe,ln_1" --resume
python3 - before frozen/checkpoints/last <<'P'
import json, struct, sys
def load(path):
    with open(path + "/model.safetensors", "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    header.pop("__metadata__", None)
    return {n: data[slice(*t["data_offsets"])] for n, t in header.items()}
a, b = map(load, sys.argv[1:])
same = {n for n in a if a[n] == b[n]}
frozen = {n for n in a if "wte" in n or "wpe" in n or "ln_1" in n}
assert frozen and frozen <= same and len(same) < len(a), (frozen, same)
P
code 0 train adapted "${true[@]}" --model.init=half --lora.rank=2 --optimizer.lr=1e-2 --trainer.max_steps=4
types adapted/checkpoints/last/adapter/adapter_model.safetensors BF16
code 0 train adapted "${true[@]}" --model.init=half --lora.rank=2 --optimizer.lr=1e-2 --resume
code 0 train whole "${true[@]}" --model.init=half --lora.rank=2 --optimizer.lr=1e-2
same_weights adapted whole
code 0 "$LEVIN" generate adapted --prompt="int " --max-new-tokens=5
