# Steps whose batch has no label: no loss, no change of a parameter or a moment, counted, reported once; the same on ranks, in
# micro-batches, after an interruption, in 16-mixed and on a device. A validation or an evaluation without labels.
# label: slow
. "$LEVIN_SOURCE/tests/cli/common.bash"
export XDG_CACHE_HOME=$PWD/cache
for i in $(seq 60); do echo '{"text": "the of a"}'; done >rows.jsonl
sizes=(--model.kind=bert --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --model.dropout=0
    --data.kind=labelled --data.path=rows.jsonl --data.tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert"
    --task.kind=mlm --task.mask_fraction=0.1 --trainer.max_steps=12 --checkpoint.every_n_steps=1 --checkpoint.top_k=99)
one=("${sizes[@]}" --trainer.batch_size=1 --trainer.val_check_interval=0)

unchanged() { # unchanged RUN: parameters and moments are unchanged exactly in the steps whose loss is null
    python3 - "$1" <<'P'
import csv, json, sys
run = sys.argv[1]
rows = [json.loads(line) for line in open(run + "/metrics.jsonl")]
table = [r for r in csv.DictReader(open(run + "/metrics.csv")) if r["lr"]]
rows = [r for r in rows if "lr" in r]
assert len(rows) == len(table) and rows[-1]["step"] == len(rows), len(rows)
def bits(step):
    at = f"{run}/checkpoints/step-{step}/"
    return [open(at + name, "rb").read() for name in ("model.safetensors", "state/optimizer.safetensors")]
none = [r["step"] for r in rows if r["loss"] is None]
assert 1 < len(none) < len(rows) - 1, none
for r, cells in zip(rows, table):
    assert (r["loss"] is None) == (cells["loss"] == "") == (r["grad_norm"] is None) == (cells["grad_norm"] == ""), r
    if r["step"] > 1:
        assert (bits(r["step"]) == bits(r["step"] - 1)) == (r["loss"] is None), r
assert "nan" not in open(run + "/metrics.csv").read()
print(len(none))
P
}

code 0 "$LEVIN" train "${one[@]}" --run_dir=adamw --json
none=$(unchanged adamw)
json "d['steps_without_labels'] == $none and d['step'] == 12"
check [ "$(grep -c "counts, so it has no loss and changes nothing" err)" = 1 ]
says "$none of 12 steps had no label that counts, and changed nothing" err
says "loss -" err

# The first step with labels is Adam's first: it changes parameters by the learning rate, also after steps without labels.
python3 - <<'P'
import json, struct, array
rows = [json.loads(line) for line in open("adamw/metrics.jsonl")]
first = next(r["step"] for r in rows if r["loss"] is not None)
def values(step):
    text = open(f"adamw/checkpoints/step-{step}/model.safetensors", "rb").read()
    n = struct.unpack("<Q", text[:8])[0]
    return {k: array.array("f", text[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in json.loads(text[8:8 + n]).items() if k != "__metadata__"}
assert first > 2, first  # choose another seed
a, b = values(first - 1), values(first)
most = max(abs(x - y) for k in a for x, y in zip(a[k], b[k]) if "bias" in k)
assert 0.99 < most / rows[first - 1]["lr"] < 1.01, (most, rows[first - 1])
P

# --- interrupted and resumed: the same bits, and the same count ---
code 0 "$LEVIN" train "${one[@]}" --run_dir=parts --trainer.max_steps=7
code 0 "$LEVIN" train parts --resume --trainer.max_steps=12 --json
json "d['steps_without_labels'] == $none"
same_run adamw parts

# --- other optimizers, micro-batches, deterministic, 16-mixed ---
for more in --optimizer.kind=sgd --optimizer.kind=lion --optimizer.kind=muon --trainer.precision=bf16-true \
    "--trainer.batch_size=2 --trainer.micro_batch_size=1 --task.mask_fraction=0.06" --trainer.deterministic=true; do
    rm -rf other
    read -ra options <<<"$more"
    code 0 "$LEVIN" train "${one[@]}" "${options[@]}" --run_dir=other
    unchanged other
done
for device in opencl cuda; do
    for precision in 32-true 16-mixed; do
        rm -rf other
        if "$LEVIN" train "${one[@]}" --trainer.accelerator=$device --trainer.precision=$precision --run_dir=other >out 2>err; then
            unchanged other
        else
            grep -qE "found no device|which was not found|has no GPU|no device" err || fail "$(cat err)"
            if [ $device = opencl ] && opencl_here; then fail "levin does not find the device: $(cat err)"; fi
        fi
    done
done

# --- two ranks, of which one may have labels ---
two=("${one[@]}" --trainer.batch_size=2 --trainer.deterministic=true --task.mask_fraction=0.06)
code 0 "$LEVIN" train "${two[@]}" --run_dir=whole
for strategy in ddp zero1 zero2 fsdp; do
    rm -rf other
    code 0 "$LEVIN" launch --launcher=levin -n 2 -- train "${two[@]}" --trainer.strategy=$strategy --run_dir=other
    unchanged other
    same_weights whole other
done

# --- validation without labels: no loss, reported once, never the best ---
code 0 "$LEVIN" train "${sizes[@]}" --task.mask_fraction=0.001 --trainer.batch_size=1 --trainer.val_check_interval=4 \
    --trainer.limit_val_batches=2 --run_dir=empty --json
json "d['val_loss'] is None and d['best_val_loss'] is None"
check [ "$(grep -c "no label of the validation data counts, so validation has no loss" err)" = 1 ]
says "validation loss -, perplexity -" err
lacks nan empty/metrics.csv
check [ ! -e empty/checkpoints/best ]
python3 -c 'import json; assert all(r["val_loss"] is None for r in map(json.loads, open("empty/metrics.jsonl")) if "val_loss" in r)'
code 2 "$LEVIN" evaluate empty --data.path=rows.jsonl --data.split=all --trainer.limit_test_batches=1
one_error
says "no label of 'all' counts, so there is no loss to compute" err
