# Goodput survives the loss of a machine: a run in a store that is resumed on another machine still counts its restarts, the
# lost steps and the seconds until the next step. levin watch shows them.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
s3_server
make_text
there=s3root/bucket/run
begin() { # begin MACHINE [keys]: starts the job on this machine, in the background
    local machine=$1
    shift
    arguments s3://bucket/run --trainer.max_steps=100000000 --trainer.val_check_interval=0 --logger.curve=false --trainer.threads=1 \
        --trainer.log_every_n_steps=1000 "$@"
    LEVIN_JOB_ID=job LEVIN_CACHE=$PWD/$machine "$LEVIN" "${all[@]}" --resume >out 2>err &
    pid=$!
}
status() { # status EXPRESSION: of d (status.json in the store), g (its goodput) and at (its time when the machine was lost)
    python3 -c 'import json,sys,time; d = json.load(open(sys.argv[1])); g, at = d["goodput"], float(sys.argv[3]); assert eval(sys.argv[2]), (sys.argv[2], d)' \
        $there/status.json "$1" "${at:-0}"
}
lost() { # lost MACHINE: with its disk
    kill -KILL $pid
    ended
    at=$(python3 -c 'import json; print(json.load(open("'$there'/status.json"))["time"])')
    steps=$(python3 -c 'import json; print(json.load(open("'$there'/status.json"))["step"])')
    rm -rf "$1"
}
code 1 "$LEVIN" watch s3://bucket/run --once
says "s3://bucket/run/status.json does not exist: the run has not begun" err
code 1 "$LEVIN" watch s3://nobucket/run --once
one_error
begin one --checkpoint.every_n_steps=500
soon test -s $there/checkpoints/last
# between checkpoints status.json is uploaded, too, ten seconds after the last upload
first=$(grep -o '[0-9]*$' $there/checkpoints/last)
later() { status "d['state'] == 'running' and d['step'] > $first and g['restarts'] == 0"; }
soon later
code 0 "$LEVIN" watch s3://bucket/run --once
says "s3://bucket/run: running, step " out
lost one
kept=$(grep -o '[0-9]*$' $there/checkpoints/last)
# the second machine saves no checkpoint, and is lost as well
begin two --checkpoint.every_n_steps=1000000000
restarted() { status "g['restarts'] == 1 and g['restart_seconds'] is not None and d['step'] > $kept"; }
soon restarted
status "0 < g['restart_seconds'] < time.time() - at and g['steps_computed'] == max($kept, $steps) + d['step'] - $kept"
lost two
begin three --checkpoint.every_n_steps=1000000000
again() { status "g['restarts'] == 2 and g['restart_seconds'] is not None and d['step'] > $kept"; }
soon again
status "g['steps_computed'] > g['steps_kept'] and abs(g['ratio'] - g['steps_kept'] / g['steps_computed']) < 1e-5"
status "g['steps_computed'] - g['steps_kept'] >= $steps - $kept" # what the second one computed is lost
kill -TERM $pid
ended
check [ $got = 75 ]
status "d['state'] == 'stopped' and g['restarts'] == 2"
tail -n 1 $there/metrics.jsonl | grep -q '"restarts": 2,' || { tail -n 1 $there/metrics.jsonl && fail "the metrics do not count the restarts"; }
code 0 timeout 600 "$LEVIN" watch s3://bucket/run
says "s3://bucket/run: stopped, step " out
says "losses " out
grep -qE "^goodput [0-9.]+ % \([0-9]+ of [0-9]+ steps kept\), 2 restarts, the last took " out || { cat out && fail "watch"; }
code 0 "$LEVIN" watch s3://bucket/run --json
json 'd["state"] == "stopped" and d["goodput"]["restarts"] == 2 and not d["stale"] and d["max_steps"] == 100000000'
