# 128 ranks of a tiny model on this machine, however few cores it has: they join, train and end, over an MPI and over levin's own
# connections.
. "$LEVIN_SOURCE/tests/cluster/train.bash"
export LIMIT=1800 LEVIN_BUILD
n=${MANY:-128}
few=(--model.kind=mingpt --model.n_layer=1 --model.n_head=1 --model.n_embd=8 --model.block_size=8 --trainer.batch_size=$n
    --trainer.max_steps=3 --trainer.val_check_interval=3 --trainer.threads=1 --trainer.rank_timeout=120)
ended() { # RUN: it ended as expected
    check [ "$(jq -r .state "$1/status.json")" = done ]
    check [ "$(jq '.ranks | length' "$1/status.json")" = "$n" ]
    check [ "$(jq '[.ranks[] | select(.step == 3)] | length' "$1/status.json")" = "$n" ]
}
for mpi in openmpi mpich; do
    mpi_here $mpi || { echo "skipped $mpi, which is not installed"; continue; }
    arguments "by-$mpi" "${few[@]}"
    start=$SECONDS
    code 0 timeout -k 3 "$LIMIT" "$LEVIN" launch --launcher "$(mpi_program $mpi)" -n "$n" -- "${all[@]}"
    ended "by-$mpi"
    echo "$mpi: $((SECONDS - start)) s"
done
arguments by-tcp "${few[@]}"
start=$SECONDS
ulimit -Sn 256 # each rank raises it
pids=()
for ((i = 0; i < n; i++)); do
    env RANK=$i WORLD_SIZE="$n" MASTER_ADDR=127.0.0.1 MASTER_PORT=29477 timeout -k 3 "$LIMIT" "$LEVIN" "${all[@]}" >"out.$i" 2>&1 &
    pids[i]=$!
done
bad=0
for ((i = 0; i < n; i++)); do wait "${pids[i]}" || bad=$?; done
check [ $bad = 0 ]
ended by-tcp
echo "connections of levin's own: $((SECONDS - start)) s"
