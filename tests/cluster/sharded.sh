# trainer.strategy zero2 and fsdp: gradients, and parameters, in shards train what zero1 trains, in every number format, in less
# memory; what they cannot do is refused.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
keys=(--data.path=text.txt --model.n_layer=2 --model.n_head=2 --model.n_embd=80 --model.block_size=16 --trainer.batch_size=12
    --trainer.threads=1 --checkpoint.every_n_steps=4)
short=(--trainer.max_steps=8 --trainer.val_check_interval=0)
ranks() { # CODE N RUN [keys]
    local wanted=$1 n=$2 run=$3
    shift 3
    rm -rf "$run"
    code "$wanted" "$LEVIN" launch --launcher=levin -n "$n" -- train "${keys[@]}" "${short[@]}" --run_dir="$run" "$@"
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
    ranks 0 $n fsdp-many "${more[@]}" --trainer.strategy=fsdp --trainer.micro_batch_size=2
    same_weights zero2-many fsdp-many
    same_metrics zero2-many fsdp-many
done <<'E2'
2 1e-5 --model.kind=nanogpt
3 1e-2 --model.kind=llama --trainer.precision=bf16-mixed --trainer.reduce_dtype=bf16
2 1e-2 --model.kind=neox --trainer.precision=bf16-true --optimizer.state=bf16
2 1e-2 --model.kind=gpt2 --trainer.precision=bf16-mixed --trainer.recompute=blocks --model.freeze=h.0
3 1e-5 --model.kind=gpt2 --trainer.recompute=blocks --optimizer.kind=lion --optimizer.lr=1e-4
3 1e-5 --model.kind=nanogpt --model.freeze=h.0 --optimizer.kind=sgd --optimizer.lr=0.05
2 1e-5 --model.kind=nanogpt --trainer.accelerator=reference
3 1e-2 --model.kind=llama --optimizer.kind=muon --optimizer.lr=1e-3 --trainer.precision=bf16-true --optimizer.state=bf16
E2

# --- few rows, which are not rounded, on one rank of two ---
for strategy in zero2 fsdp; do
    ranks 0 2 few-$strategy --model.kind=nanogpt --trainer.strategy=$strategy --trainer.precision=bf16-mixed \
        --trainer.batch_size=3 --model.block_size=8
done
same_weights few-zero2 few-fsdp

# --- validations and samples; resuming with another strategy and another number of ranks ---
keys+=(--model.kind=nanogpt)
keys+=(--sample.every_n_steps=4 --sample.max_new_tokens=20)
mode=(--trainer.val_check_interval=2 --trainer.limit_val_batches=3 --trainer.deterministic=true --trainer.micro_batch_size=2)
code 0 "$LEVIN" train "${keys[@]}" "${mode[@]}" --trainer.max_steps=8 --run_dir=one
moved() { # N STRATEGY STEPS [--resume]
    code 0 "$LEVIN" launch --launcher=levin -n "$1" -- train "${keys[@]}" "${mode[@]}" --run_dir=moved --trainer.strategy="$2" \
        --trainer.max_steps="$3" "${@:4}"
}
moved 2 fsdp 2
moved 3 zero1 4 --resume
moved 3 fsdp 6 --resume
says "fsdp keeps whole gradients on every rank here" err
moved 2 zero2 8 --resume
says "zero2 keeps whole gradients on every rank here" err
same_run one moved
same_file one/samples.txt moved/samples.txt

# --- only rank 0 reads the prompt: the others have another home folder, without the file ---
mkdir home
echo "the owl" >home/prompt.txt
prompted=("${mode[@]}" --trainer.max_steps=4 --sample.prompt=FILE:~/prompt.txt --trainer.stall_timeout=20)
HOME=$PWD/home code 0 "$LEVIN" train "${keys[@]}" "${prompted[@]}" --run_dir=prompted
for rank in 0 1; do
    HOME=$PWD/home$([ $rank = 0 ] || echo less) RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 \
        MASTER_PORT=29483 "$LEVIN" train "${keys[@]}" "${prompted[@]}" --run_dir=prompted-fsdp --trainer.strategy=fsdp >"out.$rank" 2>&1 &
    started[rank]=$!
done
for rank in 0 1; do wait "${started[rank]}" || fail "rank $rank: $(cat out.$rank)"; done
same_file prompted/samples.txt prompted-fsdp/samples.txt

# --- groups of ranks that divide the model: one rank's bits, and the same sums up to their order ---
mode=("${mode[@]/micro_batch_size=2/micro_batch_size=1}")
code 0 "$LEVIN" train "${keys[@]}" "${mode[@]}" --trainer.max_steps=4 --run_dir=single
code 0 "$LEVIN" launch --launcher=levin -n 6 -- train "${keys[@]}" "${mode[@]}" --trainer.max_steps=2 --run_dir=grouped \
    --trainer.strategy=fsdp --trainer.fsdp_size=3
code 0 "$LEVIN" launch --launcher=levin -n 6 -- train "${keys[@]}" "${mode[@]}" --trainer.max_steps=4 --run_dir=grouped \
    --trainer.strategy=fsdp --trainer.fsdp_size=2 --resume
same_run single grouped
same_file single/samples.txt grouped/samples.txt
ranks 0 4 whole --trainer.strategy=ddp --trainer.micro_batch_size=1
ranks 0 4 pairs --trainer.strategy=fsdp --trainer.micro_batch_size=1 --trainer.fsdp_size=2
close whole pairs 1e-5
ranks 0 4 half --trainer.strategy=fsdp --trainer.micro_batch_size=1 --trainer.fsdp_size=2 --trainer.reduce_dtype=bf16 \
    --trainer.precision=bf16-mixed --trainer.fsdp_reshard=false
close whole half 1e-2

# --- an optimizer on whole matrices: one rank's bits by every strategy, after moving from any to any, and in groups ---
mode+=(--optimizer.kind=muon --optimizer.ns_steps=4 --optimizer.variant=nanochat --schedule.kind=wsd --schedule.decay_steps=6)
code 0 "$LEVIN" train "${keys[@]}" "${mode[@]}" --trainer.max_steps=6 --run_dir=matrices
for strategy in ddp zero1 zero2 fsdp; do
    for n in 2 3; do
        ranks 0 $n each "${mode[@]}" --trainer.strategy=$strategy --trainer.max_steps=6
        same_run matrices each
    done
done
rm -rf moved
moved 2 fsdp 2 --trainer.fsdp_size=2 --trainer.fsdp_reshard=false
moved 3 zero1 4 --resume # settings of the former strategy are dropped
says "trainer.fsdp_reshard: false -> true; trainer.fsdp_size: 2 -> 0" err
moved 4 fsdp 6 --resume --trainer.fsdp_size=2
same_run matrices moved
for strategy in ddp zero2; do
    ranks 0 2 $strategy-matrices --optimizer.kind=muon --optimizer.variant=nanochat --trainer.strategy=$strategy --trainer.micro_batch_size=3
done
close ddp-matrices zero2-matrices 1e-4

# --- parts of a step are timed ---
for strategy in zero2 fsdp; do
    code 0 "$LEVIN" launch --launcher=levin -n 2 -- bench "${keys[@]:1}" --model.vocab_size=65 --trainer.strategy=$strategy --parts --steps=2
done

# --- memory ---
for strategy in zero1 zero2 fsdp; do
    code 0 "$LEVIN" plan "${keys[@]}" "${short[@]}" --json --ranks=4 --trainer.strategy=$strategy
    cp out $strategy.json
done
python3 - <<'P' || fail "gradients or parameters are not divided by the number of ranks"
import json
one, two, all = (json.load(open(s + ".json"))["memory"] for s in ("zero1", "zero2", "fsdp"))
assert one["optimizer"] == two["optimizer"] == all["optimizer"] and one["parameters"] == two["parameters"]
assert 0.2 < two["gradients"] / one["gradients"] < 0.3 and 0.2 < all["parameters"] / one["parameters"] < 0.3
P

# embedding and head are gathered separately, and their gradients are reduced separately
code 0 "$LEVIN" plan "${keys[@]}" "${short[@]}" --json --ranks=4 --trainer.strategy=fsdp --model.kind=llama --model.vocab_size=65536
json 'd["memory"]["arena"] < 3 * 4 * 65536 * 80'

# --- a number that is not finite is found, and no rank waits for another ---
for precision in 32-true bf16-mixed; do
    for strategy in zero2 fsdp; do
        ranks 1 2 burst --trainer.strategy=$strategy --optimizer.lr=1e6 --optimizer.kind=sgd --trainer.gradient_clip_val=0 \
            --trainer.precision=$precision
        check [ "$(grep -c 'error: ' err)" = 1 ]
        grep -o "the first value that is not finite is in '[^']*'" err >$strategy.found
    done
    same_file zero2.found fsdp.found
done

# --- keys of fsdp where auto needs no shards ---
ranks 0 2 chosen --trainer.fsdp_reshard=false
says "trainer.fsdp_reshard has no effect, because trainer.strategy auto chose ddp; set trainer.strategy=fsdp to use it" err

# --- refused ---
for strategy in zero2 fsdp; do
    ranks 2 2 odd --trainer.strategy=$strategy --trainer.micro_batch_size=4
    check [ "$(grep -c 'error: ' err)" = 1 ]
    says "all ranks must have the same number" err
    ranks 2 2 unequal --trainer.strategy=$strategy --trainer.shares=1,3
    says "but trainer.shares gives each its own" err
done
ranks 2 4 thirds --trainer.strategy=fsdp --trainer.fsdp_size=3
says "trainer.fsdp_size 3 does not divide 4 ranks into groups of several" err
ranks 2 2 alone --trainer.strategy=fsdp --trainer.fsdp_size=1
ranks 2 2 other --trainer.strategy=zero1 --trainer.fsdp_size=2
says "trainer.fsdp_size is for trainer.strategy fsdp" err
ranks 2 2 other --trainer.strategy=zero1 --trainer.fsdp_reshard=false
says "trainer.fsdp_reshard is for trainer.strategy fsdp" err
