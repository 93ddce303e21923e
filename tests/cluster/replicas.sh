# A run ends if the parameters of one rank diverge: the rank and the tensor are named, and no later checkpoint is left. Here rank 1
# uses another learning rate from step 5 on.
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
