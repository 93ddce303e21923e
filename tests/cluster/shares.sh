# trainer.share: ranks that compute unequal parts of a step give the result of one rank, bitwise in deterministic mode and up to
# rounding without; a slow rank gets less; shares are in settings.yaml and in checkpoints, and a resumed run keeps them.
. "$LEVIN_SOURCE/tests/cluster/train.bash"
mpis_here
mpi=${mpis[0]}
mode=(--trainer.deterministic=true --trainer.micro_batch_size=1)
measured=--trainer.share=measured
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
shares() { # shares RUN WANTED: in the run's settings, its checkpoint's, and its checkpoint's state
    has "  shares: \"$2\"" "$1/settings.yaml" && has "  shares: \"$2\"" "$1/checkpoints/last/state/settings.yaml" &&
        has "\"shares\": \"$2\"" "$1/checkpoints/last/state/state.json" || fail "$1: not $2 everywhere"
}
unequal() { # unequal N RUN SHARES [keys]
    local n=$1 run=$2 shares=$3
    shift 3
    over "$mpi" "$n" "$run" "${sizes[@]}" $measured --trainer.shares="$shares" --trainer.check_replicas_every_n_steps=2 "$@"
    shares "$run" "$shares"
}

# --- the same bits; with more and fewer leaves than a complete node of the tree, and zero1 ---
code 0 train one "${sizes[@]}" "${mode[@]}"
for s in 9,3 1,11; do
    unequal 2 "tree-$s" $s "${mode[@]}"
    same_run one "tree-$s"
done
unequal 3 tree-zero1 5,6,1 "${mode[@]}" --trainer.strategy=zero1
same_run one tree-zero1
half=(--trainer.precision=bf16-true --optimizer.state=bf16)
code 0 train half "${sizes[@]}" "${mode[@]}" "${half[@]}"
unequal 3 tree-half 2,9,1 "${mode[@]}" "${half[@]}"
same_run half tree-half

# --- the same mean to rounding: rows, micro-batches, strategies, number types; validation is shared in the same way ---
code 0 train plain "${sizes[@]}"
unequal 2 rows 10,2
near plain rows
unequal 3 rows-zero1 1,3,8 --trainer.strategy=zero1
near plain rows-zero1
unequal 2 micro 2,1 --trainer.accumulate_grad_batches=3
near plain micro
unequal 2 clipped 3,9 --trainer.gradient_clip_algorithm=value --trainer.gradient_clip_val=0.01
code 0 train clipped-one "${sizes[@]}" --trainer.gradient_clip_algorithm=value --trainer.gradient_clip_val=0.01
near clipped-one clipped 1e-4
unequal 2 rows-half 3,9 "${half[@]}"
near half rows-half 8e-3
unequal 2 rows-bf16 3,9 --trainer.reduce_dtype=bf16
near plain rows-bf16 8e-3

# --- measured shares: each part is computed by exactly one rank ---
over "$mpi" 2 own "${sizes[@]}" "${mode[@]}" $measured
same_run one own
grep -qE '^  shares: "[0-9]+,[0-9]+"$' own/settings.yaml || fail "no shares in settings.yaml"
has "measured shares: ranks compute " err
# one rank has nothing to divide
code 0 train alone "${sizes[@]}" "${mode[@]}" $measured
same_run one alone

# --- a rank that is stopped nine tenths of the time ---
cat >slowly <<'S'
#!/bin/bash
if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}" = 1 ]; then
    python3 -c 'import os, signal, sys, time
pid = int(sys.argv[1])
try:
    while True:
        os.kill(pid, signal.SIGSTOP); time.sleep(0.018)
        os.kill(pid, signal.SIGCONT); time.sleep(0.002)
except ProcessLookupError: pass' $$ </dev/null >/dev/null 2>&1 &
fi
exec "$@"
S
chmod +x slowly
slow() { # on a busy machine the other rank may not get more
    local a b
    rm -rf slow
    arguments slow "${sizes[@]}" "${mode[@]}" $measured
    ranks "$mpi" 2 ./slowly "$LEVIN" "${all[@]}" >out 2>err || { cat out err && return 1; }
    IFS=, read -r a b < <(sed -n 's/^  shares: "\(.*\)"$/\1/p' slow/settings.yaml)
    echo "the fast rank computes $a, the slow one $b"
    [ $((a + b)) = 12 ] && [ "$a" -gt "$b" ]
}
slow || slow || slow || fail "a slow rank computes as much as a fast one"
same_run one slow

# --- shares that no longer fit the speeds change during the run; the bits stay, and a resumed run keeps the last shares ---
arguments moved "${sizes[@]/max_steps=5/max_steps=1000000}" "${mode[@]}" $measured --trainer.shares=11,1 \
    --trainer.limit_val_batches=0 --checkpoint.every_n_steps=200
ranks "$mpi" 2 "$LEVIN" "${all[@]/val_check_interval=5/val_check_interval=0}" >out 2>err &
pid=$!
changed() { kill -0 $pid && has "  shares: " moved/settings.yaml && ! has '"11,1"' moved/settings.yaml; }
soon changed
kill -USR1 "$(python3 -c 'import json; print(json.load(open("moved/status.json"))["ranks"][0]["pid"])')"
ended
has "speeds have changed: ranks compute " err
check [ $got = 75 ]
now=$(sed -n 's/^  shares: "\(.*\)"$/\1/p' moved/settings.yaml)
shares moved "$now"
step=$(readlink moved/checkpoints/last)
one=("${sizes[@]/max_steps=5/max_steps=${step#step-}}" "${mode[@]}" --trainer.limit_val_batches=0)
code 0 train steady "${one[@]/val_check_interval=5/val_check_interval=0}"
same_weights steady moved

# --- resuming: the checkpoint's shares, or new ones for another number of ranks ---
going_on=("${one[@]/max_steps=${step#step-}/max_steps=$((${step#step-} + 3))}" $measured --resume)
over "$mpi" 2 moved "${going_on[@]/val_check_interval=5/val_check_interval=0}"
shares moved "$now"
silent_about "settings differ from the run so far: trainer.shares" err
going_on=("${one[@]/max_steps=${step#step-}/max_steps=$((${step#step-} + 6))}" $measured --resume)
over "$mpi" 3 moved "${going_on[@]/val_check_interval=5/val_check_interval=0}"
has "shares of 2 ranks ($now) were given, but there are now 3; they are measured again" err
grep -qE '"shares": "[0-9]+,[0-9]+,[0-9]+"' moved/checkpoints/last/state/state.json || fail "no shares of three ranks"
code 0 train steady "${going_on[@]/val_check_interval=5/val_check_interval=0}"
same_weights steady moved

# --- refusals ---
refused() { # refused N WORDS KEYS: one sentence, before anything is trained
    local n=$1 words=$2
    shift 2
    rm -rf refused
    arguments refused "${sizes[@]}" "$@"
    code 2 ranks "$mpi" "$n" "$LEVIN" "${all[@]}"
    [ "$(grep -c 'error: ' err)" = 1 ] || { cat err && fail "not one sentence"; }
    has "$words" err
}
refused 2 "trainer.shares is '3,3', 6 in total, but a step has 12 to share out" $measured --trainer.shares=3,3
refused 2 "trainer.shares is '4,4,4', for 3 ranks, but 2 are started" $measured --trainer.shares=4,4,4
refused 2 "trainer.shares is '12,0'; expected integers" $measured --trainer.shares=12,0
refused 2 "set it to measured, or leave trainer.shares out" --trainer.shares=6,6
refused 4 "4 ranks cannot share the 3 micro-batches of a step" $measured --trainer.accumulate_grad_batches=3
sizes=("${sizes[@]/batch_size=12/batch_size=1000000000}")
refused 2 "rank 0 on $(hostname): a share of 199999 of the 200000 micro-batches of a step (trainer.shares 199999,1) needs " $measured \
    --trainer.micro_batch_size=5000 --trainer.deterministic=true --trainer.shares=199999,1
