# train.bash - shared by the tests of training over ranks: a tiny model, and the same run under an MPI.
#
#   sizes                          keys of the model: odd sizes, dropout, six sequences in 12 micro-batches or fewer
#   over MPI N RUN [keys]          train RUN on N ranks, exit code 0; output in out and err
#   each_mpi COMMAND...            COMMAND MPI for every installed MPI; skips if there is none
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
sizes=(--model.kind=mingpt --model.n_layer=2 --model.n_head=3 --model.n_embd=39 --model.block_size=37 --model.dropout=0.1
    --trainer.batch_size=12 --trainer.max_steps=5 --trainer.val_check_interval=5 --optimizer.lr=1e-2 --trainer.threads=1)
over() {
    local mpi=$1 n=$2
    shift 2
    arguments "$@"
    code 0 ranks "$mpi" "$n" "$LEVIN" "${all[@]}"
}
each_mpi() {
    local any=0
    for mpi in openmpi mpich intel; do
        if mpi_here $mpi; then any=1; "$@" $mpi; else echo "skipped $mpi, which is not installed"; fi
    done
    [ $any = 1 ] || { echo "skipped: no MPI here (tools/setup.sh --dev installs them)"; exit 77; }
}
