# A run ends if the parameters of one rank diverge, or a bit of its shards flips: the rank and the tensor or block are named, and no
# later checkpoint is left. Here rank 1 uses another learning rate from step 5 on.
. "$LEVIN_SOURCE/tests/cluster/train.bash"
program=$LEVIN_BUILD/tests/train_ranks
export ODD_RANK=1 ODD_STEP=4
drift() {
    local mpi=$1 keys=()
    for check in 3 0; do # at step 6; at the next checkpoint, step 8
        rm -rf run samples && mkdir samples
        arguments run --trainer.max_steps=20 --trainer.check_replicas_every_n_steps=$check --trainer.threads=1
        keys=()
        for key in "${all[@]:1}"; do keys+=("${key#--}"); done
        code 1 ranks "$mpi" 3 "$program" samples "${keys[@]}"
        says "after step $([ $check = 3 ] && echo 6 || echo 8) the parameters of rank 1 on" err
        says "first in 'transformer.wte.weight'" err
        one_error
        check [ "$(readlink run/checkpoints/last)" = step-4 ]
    done
    unset ODD_RANK
    rm -rf run
    code 0 ranks "$mpi" 3 "$program" samples "${keys[@]}"
    export ODD_RANK=1
}
each_mpi drift
# fsdp in groups: of three replicas of the same shards, rank 2's differ
in_groups() {
    export ODD_RANK=2
    rm -rf run samples && mkdir samples
    arguments run --trainer.max_steps=20 --trainer.check_replicas_every_n_steps=3 --trainer.threads=1 --trainer.strategy=fsdp \
        --trainer.fsdp_size=2 --trainer.batch_size=6
    local keys=()
    for key in "${all[@]:1}"; do keys+=("${key#--}"); done
    code 1 ranks "$1" 6 "$program" samples "${keys[@]}"
    says "after step 6 the parameters of rank 2 on" err
    says "differ from those of rank 0 on" err
    one_error
}
! mpi_here openmpi || in_groups openmpi
# --- shards have no replica: updates keep checksums of them, and all ranks compute checksums of gathered parameters ---
unset ODD_RANK
shards=(--trainer.max_steps=20 --trainer.check_replicas_every_n_steps=10 --trainer.threads=1 --model.n_layer=2 --model.n_embd=48
    --model.dropout=0.1 --trainer.batch_size=12)
flipped() { # WHAT RANK BYTE PATTERN [keys]: flip a bit once, before step 6; of gathered parameters at every gather from then on
    local what=$1 rank=$2 byte=$3 pattern=$4 keys=() key
    shift 4
    rm -rf run samples && mkdir samples
    arguments run "${shards[@]}" "$@"
    for key in "${all[@]:1}"; do keys+=("${key#--}"); done
    code 1 env ODD_BIT="$what" ODD_RANK="$rank" ODD_BYTE="$byte" ODD_STEP=5 bash -c '. "$LEVIN_SOURCE/tests/cluster/mpis.bash"; ranks "$@"' \
        - "$mpi" 3 "$program" samples "${keys[@]}"
    grep -q "^error: rank $rank on [^ ]*: by step [0-9]* bits of $pattern" err || { cat err; fail "no $pattern"; }
    one_error
}
right() { # N [keys]: nothing is wrong
    local n=$1
    shift
    arguments run "${shards[@]}" "$@"
    code 0 ranks "$mpi" "$n" "$LEVIN" "${all[@]}" </dev/null
}
in_shards() {
    mpi=$1
    local shard="this rank's shard of" more
    flipped parameters 1 0 "$shard the part outside of blocks (parameters or optimizer state, from 'transformer.wte.weight' on) are not" \
        --trainer.strategy=fsdp
    check [ "$(readlink run/checkpoints/last)" = step-4 ]
    flipped parameters 2 20000 "$shard block" --trainer.strategy=fsdp --checkpoint.every_n_steps=20 --trainer.val_check_interval=0
    flipped parameters 1 20000 "$shard" --trainer.strategy=zero1
    flipped moment 2 0 "$shard" --trainer.strategy=zero1
    flipped moment 0 3 "$shard" --trainer.strategy=zero2 --trainer.precision=bf16-true --optimizer.kind=lion
    flipped parameters 1 -8 "$shard block 1" --trainer.strategy=fsdp --model.freeze=h.1 --optimizer.kind=sgd \
        --optimizer.lr=0.05 # parameters that no update reads
    flipped parameters 1 -8 "$shard the head" --trainer.strategy=fsdp --model.kind=llama --model.freeze=lm_head
    flipped gathered 2 0 "the parameters of .* that were gathered here are not those" --trainer.strategy=fsdp
    flipped gathered 1 0 "the parameters of .* that were gathered here" --trainer.strategy=fsdp --trainer.precision=bf16-mixed
    flipped gathered 0 0 "the parameters of .* that were gathered here" --trainer.strategy=fsdp --trainer.fsdp_reshard=false \
        --trainer.precision=bf16-true
    while read -ra more; do
        rm -rf run
        right "${more[@]}"
    done <<'E2'
3 --trainer.strategy=zero1 --trainer.micro_batch_size=2 --optimizer.state=bf16
2 --trainer.strategy=zero2 --trainer.precision=bf16-mixed --trainer.micro_batch_size=2
4 --trainer.strategy=fsdp --trainer.fsdp_size=2 --model.freeze=h.0 --trainer.recompute=blocks
2 --trainer.strategy=fsdp --trainer.micro_batch_size=2 --optimizer.kind=muon
3 --trainer.strategy=fsdp --trainer.precision=bf16-mixed
2 --trainer.strategy=fsdp --trainer.deterministic=true --trainer.micro_batch_size=2
E2
    right 3 --trainer.max_steps=33 --resume --trainer.strategy=fsdp --trainer.deterministic=true --trainer.micro_batch_size=2
    mv run whole
    right 2 --model.init=whole/checkpoints/last --lora.rank=4 --model.dropout=0 --trainer.strategy=fsdp
}
! mpi_here openmpi || in_shards openmpi
