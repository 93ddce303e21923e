# trainer.strategy zero2: gradients in shards train what zero1 trains, in every number format, in less memory; what it cannot do
# is refused.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
keys=(--data.path=text.txt --model.n_layer=2 --model.n_head=2 --model.n_embd=80 --model.block_size=16 --trainer.batch_size=12
    --trainer.max_steps=8 --trainer.val_check_interval=0 --trainer.threads=1 --checkpoint.every_n_steps=4)
ranks() { # CODE N RUN [keys]
    local wanted=$1 n=$2 run=$3
    shift 3
    rm -rf "$run"
    code "$wanted" "$LEVIN" launch --launcher=levin -n "$n" -- train "${keys[@]}" --run_dir="$run" "$@"
}
close() { # RUN RUN TOLERANCE: losses and norms of all steps
    python3 - "$@" <<'P' || fail "$1 and $2 differ by more than $3"
import json, sys
a, b = ([json.loads(l) for l in open(r + "/metrics.jsonl")] for r in sys.argv[1:3])
assert len(a) == len(b) > 1
for x, y in zip(a, b):
    assert all(abs(x[k] / y[k] - 1) < float(sys.argv[3]) for k in ("loss", "grad_norm")), (x, y)
P
}

# --- one micro-batch: the bits of zero1; several: its losses, up to the order of sums ---
while read -r n tolerance more; do
    read -ra more <<<"$more"
    for strategy in zero1 zero2; do
        ranks 0 $n $strategy "${more[@]}" --trainer.strategy=$strategy --trainer.micro_batch_size=$((12 / n))
        ranks 0 $n $strategy-many "${more[@]}" --trainer.strategy=$strategy --trainer.micro_batch_size=2
    done
    same_weights zero1 zero2
    close zero1-many zero2-many $tolerance
done <<'E2'
2 1e-5 --model.kind=nanogpt
3 1e-2 --model.kind=llama --trainer.precision=bf16-mixed --trainer.reduce_dtype=bf16
2 1e-2 --model.kind=neox --trainer.precision=bf16-true --optimizer.state=bf16
3 1e-5 --model.kind=gpt2 --trainer.recompute=blocks --optimizer.kind=lion --optimizer.lr=1e-4
3 1e-5 --model.kind=nanogpt --model.freeze=h.0 --optimizer.kind=sgd --optimizer.lr=0.05
2 1e-5 --model.kind=nanogpt --trainer.accelerator=reference
E2

# --- on with another strategy ---
keys+=(--model.kind=nanogpt)
ranks 0 2 whole --trainer.strategy=zero1
ranks 0 2 parts --trainer.strategy=zero1 --trainer.max_steps=4
code 0 "$LEVIN" launch --launcher=levin -n 2 -- train "${keys[@]}" --run_dir=parts --trainer.strategy=zero2 --resume
same_weights whole parts

# --- sums in a fixed order: one rank's bits, with whole gradients ---
code 0 "$LEVIN" train "${keys[@]}" --run_dir=one --trainer.deterministic=true --trainer.micro_batch_size=2
ranks 0 3 fixed --trainer.strategy=zero2 --trainer.deterministic=true --trainer.micro_batch_size=2
says "zero2 takes the memory of zero1 here" err
same_weights one fixed

# --- memory ---
for strategy in zero1 zero2; do
    code 0 "$LEVIN" plan "${keys[@]}" --json --ranks=4 --trainer.strategy=$strategy
    cp out $strategy.json
done
python3 - <<'P' || fail "gradients are not divided by the number of ranks"
import json
one, two = (json.load(open(s + ".json"))["memory"] for s in ("zero1", "zero2"))
assert one["optimizer"] == two["optimizer"] and 0.2 < two["gradients"] / one["gradients"] < 0.3
P

# --- a number that is not finite is found, and no rank waits for another ---
ranks 1 2 burst --trainer.strategy=zero2 --optimizer.lr=1e6 --optimizer.kind=sgd --trainer.gradient_clip_val=0
check [ "$(grep -c 'error: ' err)" = 1 ]
says "the first number that is not finite lies in 'gradients " err

# --- refused ---
ranks 2 2 odd --trainer.strategy=zero2 --trainer.micro_batch_size=4
check [ "$(grep -c 'error: ' err)" = 1 ]
says "all ranks must have as many" err
ranks 2 2 measured --trainer.strategy=zero2 --trainer.share=measured
says "trainer.share measured gives fast ranks more" err
