# Ranks together read exactly the samples that one rank reads, each as often, in training and in validation; for any number of
# ranks, and whether micro-batches or rows are divided.
. "$LEVIN_SOURCE/tests/cluster/train.bash"
program=$LEVIN_BUILD/tests/train_ranks
read_by() { # read_by RUN: every window that was read, sorted
    sort -n "$1"/samples.*
}
keys() { # keys RUN [keys]: those of a tiny run as key=value
    arguments "$@"
    keys=()
    for key in "${all[@]:1}"; do keys+=("${key#--}"); done
}
epoch=(--model.block_size=64 --trainer.batch_size=10 --trainer.max_steps=0 --trainer.max_epochs=2 --trainer.val_check_interval=1.0
    --trainer.limit_val_batches=1.0 --checkpoint.every_n_steps=0 --trainer.threads=1)
head -c 20000 text.txt >short.txt
mpi_here openmpi || mpi_here mpich || { echo "skipped: neither Open MPI nor MPICH here"; exit 77; }
mpi=openmpi
mpi_here openmpi || mpi=mpich
for mode in rows micro; do
    for sampling in permutation sequential; do
        for n in 1 2 3 4; do
            run=$mode-$sampling-$n
            mkdir $run.samples
            own=("${epoch[@]}" --data.path=short.txt --data.sampling=$sampling)
            [ $mode = rows ] || own+=(--trainer.micro_batch_size=2)
            keys $run "${own[@]}"
            code 0 ranks $mpi $n "$program" $run.samples "${keys[@]}"
            read_by $run.samples >$run.read
            check [ "$(wc -l <$run.read)" -gt 400 ]
            [ $n = 1 ] || same_file $mode-$sampling-1.read $run.read
        done
    done
done
# an epoch of permuted windows holds each once: two epochs, each with its own cut
check [ "$(grep '^0 ' rows-permutation-1.read | uniq -d | wc -l)" = 0 ]
