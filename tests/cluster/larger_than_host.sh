# fsdp: a model whose training state is three times the memory of each of four hosts trains on them, is killed while it saves, is resumed,
# and has the bits of a run that was not killed; one host refuses it.
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
hosts_begin
. "$LEVIN_SOURCE/tests/cli/common.bash"
limit=250000000
groups=/sys/fs/cgroup/memory/levin-$$-$RANDOM
for i in 1 2 3 4; do
    mkdir "$groups-$i" 2>/dev/null && echo $limit >"$groups-$i/memory.limit_in_bytes" 2>/dev/null || skip "no memory cgroups (version 1) here"
done
trap 'for i in 1 2 3 4; do rmdir "$groups-$i" 2>/dev/null || true; done' EXIT
hosts_up 4
make_text
keys=(--data.path=text.txt --model.kind=nanogpt --model.n_layer=60 --model.n_head=4 --model.n_embd=256 --model.block_size=32
    --trainer.batch_size=4 --trainer.val_check_interval=0 --trainer.threads=1 --trainer.recompute=blocks --trainer.strategy=fsdp)
port=29400
begin() { # RUN [keys]: four ranks, each in the memory of its host
    port=$((port + 1)) pids=()
    for i in 1 2 3 4; do
        on $i bash -c 'echo 0 >"$0/cgroup.procs" && exec "$@"' "$groups-$i" env RANK=$((i - 1)) WORLD_SIZE=4 LOCAL_RANK=0 \
            LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.0.1 MASTER_PORT=$port "$LEVIN" train "${keys[@]}" --run_dir="$1" "${@:2}" >"out.$i" 2>"err.$i" &
        pids+=($!)
    done
}
finish() { # CODE
    local i=0 got
    for p in "${pids[@]}"; do
        got=0 i=$((i + 1))
        { wait $p || got=$?; } 2>/dev/null
        [ $got = "$1" ] || { cat err.*; fail "rank $((i - 1)): exit $got, expected $1"; }
    done
}

# training state: 16 bytes for each parameter
code 0 "$LEVIN" plan "${keys[@]}" --trainer.max_steps=3 --ranks=4 --json
python3 - $limit <<'P' || fail "the model is too small or too large for this test"
import json, sys
d, limit = json.load(open("out")), int(sys.argv[1])
print(d["parameters"], d["memory"]["process"], limit)
assert 16 * d["parameters"] > 3 * limit and d["memory"]["process"] < limit
P
code 1 on 1 bash -c 'echo 0 >"$0/cgroup.procs" && exec "$@"' "$groups-1" "$LEVIN" train "${keys[@]/strategy=fsdp/strategy=auto}" \
    --trainer.max_steps=3 --run_dir=alone
one_error

begin whole --trainer.max_steps=3 --checkpoint.every_n_steps=3
finish 0
begin killed --trainer.max_steps=3 --checkpoint.every_n_steps=1
saving() { compgen -G "killed/checkpoints/.step-2*" >/dev/null; }
until saving; do kill -0 "${pids[0]}" || { cat err.*; fail "the run ended"; }; sleep 0.01; done
on 2 pkill -KILL -x levin
for p in "${pids[@]}"; do { wait $p || true; } 2>/dev/null; done
nobody_left
[ ! -e killed/checkpoints/step-2 ] || echo "step-2 was complete before the ranks were killed"
begin killed --trainer.max_steps=3 --checkpoint.every_n_steps=1 --resume
finish 0
same_weights whole killed
for i in 1 2 3 4; do
    echo "host h$i: at most $(cat "$groups-$i/memory.max_usage_in_bytes") bytes, including the page cache"
    check [ "$(sed -n 's/^oom_kill //p' "$groups-$i/memory.oom_control")" = 0 ]
done
