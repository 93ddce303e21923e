# N ranks give the result of one rank: with trainer.deterministic the metrics, the weights and the optimizer's state of any number of
# ranks, under any MPI, with any number of threads, have the bits of one rank that accumulates. Without it they agree to
# rounding.
. "$LEVIN_SOURCE/tests/cluster/train.bash"
mode=(--trainer.deterministic=true --trainer.micro_batch_size=1)
bf16_tolerance=8e-3 # after five steps, if gradients are rounded at different places
near() { # near RUN RUN [how near]: losses, norms and validations, relative
    python3 - "$1" "$2" "${3:-1e-5}" <<'P'
import json, sys
a, b = ([json.loads(line) for line in open(run + "/metrics.jsonl")] for run in sys.argv[1:3])
assert len(a) == len(b) == 6
worst = max(abs(x[k] - y[k]) / abs(x[k]) for x, y in zip(a, b) for k in ("loss", "grad_norm", "val_loss") if k in x)
print(*sys.argv[1:3], "differ by", worst)
assert worst < float(sys.argv[3])
P
}

code 0 train one "${sizes[@]}" "${mode[@]}"
code 0 train two-threads "${sizes[@]/threads=1/threads=2}" "${mode[@]}"
same_run one two-threads
code 0 train three "${sizes[@]}" "${mode[@]/size=1/size=2}" # 6 micro-batches, which 4 ranks cannot share equally
half=(--trainer.precision=bf16-mixed --optimizer.state=bf16)
code 0 train half "${sizes[@]}" "${mode[@]}" "${half[@]}"
true=(--trainer.precision=bf16-true --optimizer.state=bf16)
code 0 train true "${sizes[@]}" "${mode[@]}" "${true[@]}"
code 0 train plain "${sizes[@]}"
near plain one
# the comparison detects a difference
if cmp -s one/checkpoints/last/model.safetensors three/checkpoints/last/model.safetensors; then fail "this test cannot detect a difference"; fi

all_of() {
    local mpi=$1 n strategy
    for n in 2 3 4 8; do
        over "$mpi" $n "$mpi-$n" "${sizes[@]}" "${mode[@]}"
        same_run one "$mpi-$n"
    done
    for n in 2 3 4 6; do # the same number of micro-batches on every rank
        over "$mpi" $n "$mpi-fsdp-$n" "${sizes[@]}" "${mode[@]}" --trainer.strategy=fsdp
        same_run one "$mpi-fsdp-$n"
    done
    for n in 3 8; do
        over "$mpi" $n "$mpi-zero1-$n" "${sizes[@]}" "${mode[@]}" --trainer.strategy=zero1
        same_run one "$mpi-zero1-$n"
    done
    over "$mpi" 2 "$mpi-threads" "${sizes[@]/threads=1/threads=2}" "${mode[@]}"
    same_run one "$mpi-threads"
    over "$mpi" 4 "$mpi-three" "${sizes[@]}" "${mode[@]/size=1/size=2}"
    same_run three "$mpi-three"
    over "$mpi" 3 "$mpi-half" "${sizes[@]}" "${mode[@]}" "${half[@]}"
    same_run half "$mpi-half"
    over "$mpi" 4 "$mpi-half-fsdp" "${sizes[@]}" "${mode[@]}" "${half[@]}" --trainer.strategy=fsdp
    same_run half "$mpi-half-fsdp"
    # weights and gradients in bf16: every node of the tree is rounded, on whichever rank
    for n in 2 3 4; do
        over "$mpi" $n "$mpi-true-$n" "${sizes[@]}" "${mode[@]}" "${true[@]}"
        same_run true "$mpi-true-$n"
        if [ $n = 3 ]; then strategy=fsdp; else strategy=zero1; fi
        over "$mpi" $n "$mpi-true-$strategy-$n" "${sizes[@]}" "${mode[@]}" "${true[@]}" --trainer.strategy=$strategy
        same_run true "$mpi-true-$strategy-$n"
    done
    over "$mpi" 3 "$mpi-true-plain" "${sizes[@]}" "${true[@]}"
    near true "$mpi-true-plain" $bf16_tolerance
    over "$mpi" 3 "$mpi-true-plain-zero1" "${sizes[@]}" "${true[@]}" --trainer.strategy=zero1
    near true "$mpi-true-plain-zero1" $bf16_tolerance
    # not deterministic: sums in buckets agree to rounding, and every run has the same bits
    for strategy in ddp zero1 fsdp; do
        over "$mpi" 3 "$mpi-plain-$strategy" "${sizes[@]}" --trainer.strategy=$strategy
        near plain "$mpi-plain-$strategy"
        over "$mpi" 3 "$mpi-again-$strategy" "${sizes[@]}" --trainer.strategy=$strategy
        same_run "$mpi-plain-$strategy" "$mpi-again-$strategy"
    done
    # gradients sent in bf16: the sum differs slightly, and is the same on all ranks
    for strategy in ddp fsdp; do
        over "$mpi" 3 "$mpi-bf16-$strategy" "${sizes[@]}" --trainer.strategy=$strategy --trainer.reduce_dtype=bf16
        near plain "$mpi-bf16-$strategy" $bf16_tolerance
        if cmp -s "$mpi-plain-$strategy/checkpoints/last/model.safetensors" "$mpi-bf16-$strategy/checkpoints/last/model.safetensors"; then
            fail "$mpi, $strategy: trainer.reduce_dtype=bf16 changes nothing"
        fi
    done
    # batch_size_per_device is the same batch
    over "$mpi" 3 "$mpi-each" "${sizes[@]/batch_size=12/batch_size_per_device=4}" --trainer.batch_size=0
    same_run "$mpi-plain-ddp" "$mpi-each"
}
each_mpi all_of
code 2 train refused "${sizes[@]}" "${mode[@]}" --trainer.reduce_dtype=bf16
says "trainer.deterministic requires the same bits" err

# --- evaluation: each window is scored once, on one of the ranks ---
code 0 "$LEVIN" evaluate one --json --trainer.batch_size=5
mv out alone
evaluated() {
    code 0 ranks "$1" 3 "$LEVIN" evaluate one --json --trainer.batch_size=5
    same_file alone out
}
each_mpi evaluated

# --- frozen parameters and adapters: fewer gradients to add up, shards of a few values ---
parts_of_a_model() {
    local mpi=$1 part strategy keys
    for part in frozen adapted; do
        keys=("${sizes[@]}" "${mode[@]}")
        if [ $part = frozen ]; then keys+=(--model.freeze="wte,h.0"); else keys+=(--model.init=one --lora.rank=2); fi
        [ -e $part ] || code 0 train $part "${keys[@]}"
        for strategy in zero1 fsdp; do
            over "$mpi" 3 "$mpi-$part-$strategy" "${keys[@]}" --trainer.strategy=$strategy
            same_run $part "$mpi-$part-$strategy"
        done
        over "$mpi" 2 "$mpi-$part-buckets" "${keys[@]/deterministic=true/deterministic=false}"
    done
}
each_mpi parts_of_a_model

# --- resuming with another number of ranks, with and without shards ---
resumed() {
    local mpi=$1 step=3 n strategy first=1
    for part in "2 zero1" "3 fsdp" "4 ddp" "2 fsdp" "1 ddp"; do
        read -r n strategy <<<"$part"
        over "$mpi" "$n" "$mpi-parts" "${sizes[@]/max_steps=5/max_steps=$step}" "${mode[@]}" --trainer.strategy="$strategy" \
            --trainer.limit_val_batches=0 $([ $first = 1 ] || echo --resume)
        step=$((step + 2)) first=0
    done
    code 0 train "$mpi-whole" "${sizes[@]/max_steps=5/max_steps=11}" "${mode[@]}" --trainer.limit_val_batches=0
    same_run "$mpi-whole" "$mpi-parts"
    rm -rf "$mpi-whole" "$mpi-parts"
}
each_mpi resumed

# --- all ranks use the lowest instruction set; AVX2 and AVX-512 give the same bits, AMX has its own ---
cat >lesser <<'E2'
#!/bin/bash
# lesser ISA COMMAND...: limits rank 1 to this instruction set
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}
[ "$rank" != 1 ] || export LEVIN_ISA=$1
shift
exec "$@"
E2
chmod +x lesser
lesser() { # ISA MPI
    arguments "$2-lesser" "${sizes[@]}" "${mode[@]}"
    code 0 ranks "$2" 3 ./lesser "$1" "$LEVIN" "${all[@]}"
    same_run "alone-$1" "$2-lesser"
    says "($1)" err
    rm -rf "$2-lesser"
}
best=$("$LEVIN" doctor --json --measure=false | sed 's/.*"instructions":"\([a-z0-9_]*\)".*/\1/')
for isa in generic avx2 avx512 avx512_bf16; do # lowest first
    [ "$isa" != "$best" ] || break
    LEVIN_ISA=$isa code 0 train "alone-$isa" "${sizes[@]}" "${mode[@]}"
    each_mpi lesser $isa
done
[ ! -e alone-avx512 ] || same_run alone-avx2 alone-avx512
