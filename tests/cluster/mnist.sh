# The check of a new cluster, recipes/mnist-autoencoder.yaml, under levin launch and under every MPI alone, from a fresh
# folder: it reports the times over all ranks. The metrics of steps are the same for every number of ranks.
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
. "$LEVIN_SOURCE/tests/cli/common.bash"
mpis_here
serve_digits 330 20
fetch=(--data.url="$url" --data.sha256="$sums")
one_line() { # one_line RANKS: of the times
    check [ "$(grep -c "trained for 1 epoch on $1 rank.* of 1 host: [0-9.]* s from start to finish, [0-9.]* s in the loop" err)" = 1 ]
}

recipe=$LEVIN_SOURCE/recipes/mnist-autoencoder.yaml
code 0 "$LEVIN" train "$recipe" "${fetch[@]}"
one_line 1
silent_about "means over ranks" err
for mpi in "${mpis[@]}"; do
    # from an empty folder: both ranks need the files, and one of them downloads them
    rm -rf data runs
    PATH="$(dirname "$(mpi_program "$mpi")"):$PATH" code 0 ranks "$mpi" 2 "$LEVIN" train "$recipe" "${fetch[@]}"
    one_line 2
    says "as means over ranks; at most" err
    check [ "$(grep -c '"loss"' runs/mnist-autoencoder/metrics.jsonl)" = 151 ] # 303 images, two per step
    case $mpi in openmpi | mpich) ;; *) continue ;; esac
    rm -rf data runs
    code 0 timeout -k 3 600 "$LEVIN" launch --launcher="$mpi" -n 2 -- train "$recipe" "${fetch[@]}"
    one_line 2
    check [ "$(grep -c '"loss"' runs/mnist-autoencoder/metrics.jsonl)" = 151 ]
done

measured() { sed -E 's/, "(tokens_per_s|time|memory_bytes)": [^,}]*//g' "$1/metrics.jsonl"; }
# accuracy, precision, recall and f1 of steps and of validations, over one, two and three ranks
mlp=(train "$LEVIN_SOURCE/recipes/mnist-mlp.yaml" --data.path=data/mnist --trainer.max_epochs=3 --trainer.batch_size=24
    --trainer.deterministic=true --trainer.micro_batch_size=2 --optimizer.lr=1e-3 --checkpoint.every_n_steps=5 --quiet)
code 0 "$LEVIN" "${mlp[@]}" --run_dir=one
check [ "$(grep -c train_f1 one/metrics.jsonl)" = 3 ]
for mpi in "${mpis[@]}"; do
    for n in 2 3; do
        code 0 ranks "$mpi" $n "$LEVIN" "${mlp[@]}" --run_dir="$mpi-$n"
        diff <(measured one) <(measured "$mpi-$n") ||
            fail "$n ranks measure something else than one"
    done
done
