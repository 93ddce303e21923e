# Signals that ask levin train to stop: also SIGHUP of a closed terminal, unless started by nohup, and also before the first step,
# while the run waits for data.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
endless=(--trainer.max_steps=1000000000 --checkpoint.every_n_steps=1000000 --trainer.val_check_interval=0)
catches() { # SIGNAL: the process $pid catches it
    local number
    number=$(kill -l "$1")
    [ $((0x$(awk '$1 == "SigCgt:" { print $2 }' /proc/$pid/status) >> (number - 1) & 1)) = 1 ]
}
stopped_well() { # RUN
    ended
    [ "$got" = 75 ] || { cat out err && fail "exit $got"; }
    says "stopped on request after step" err
    check [ -s "$1/checkpoints/last/model.safetensors" ]
}

# --- in a step ---
for signal in HUP TERM; do
    start run-$signal "${endless[@]}"
    kill -$signal $pid
    stopped_well run-$signal
done
# of a run that was started from data, the printed command continues it to its last step
"$LEVIN" train text.txt --run_dir=of-data --model.n_layer=1 --model.n_head=2 --model.n_embd=16 "${endless[@]}" >out 2>err &
pid=$!
wait_rows of-data 3
kill -TERM $pid
stopped_well of-data
check grep -qx '    levin train of-data --resume' out
for signal in HUP TERM; do
    arguments launched-$signal "${endless[@]}"
    "$LEVIN" launch -n 1 -- "${all[@]}" >out 2>err &
    pid=$!
    wait_rows launched-$signal 3
    kill -$signal $pid
    stopped_well launched-$signal
done
# in a job of Slurm, whose processes are below slurmstepd, USR1 requeues it; scontrol is called again if Slurm does not respond
cp "$(readlink -f /bin/bash)" slurmstepd
mkdir bin
cat >bin/scontrol <<'END'
#!/bin/sh
echo "$@" >>asked
[ "$(wc -l <asked)" = 1 ] || exit 0
echo "slurm_requeue error: Unable to contact slurm controller (connect failure)"
exit 1
END
chmod +x bin/scontrol
arguments requeued "${endless[@]}"
SLURM_JOB_ID=5 PATH=$PWD/bin:$PATH ./slurmstepd -c '"$@" & echo $! >job; wait $!' x "$LEVIN" "${all[@]}" >out 2>err &
pid=$!
wait_rows requeued 3
kill -USR1 "$(cat job)"
stopped_well requeued
says "job 5 is back in the queue, and continues when Slurm starts it again" err
check [ "$(uniq -c asked | xargs)" = "2 requeue 5" ]
# nohup: it continues when the terminal is closed
for how in alone launched; do
    arguments nohup-$how "${endless[@]}"
    [ $how = alone ] || all=(launch -n 1 -- "${all[@]}")
    nohup "$LEVIN" "${all[@]}" >out 2>err &
    pid=$!
    wait_rows nohup-$how 3
    kill -HUP $pid
    [ $how = alone ] || kill -HUP "$(pgrep -P $pid -x levin)"
    n=$(rows nohup-$how)
    wait_rows nohup-$how $((n + 20))
    kill -TERM $pid
    stopped_well nohup-$how
    check [ "$(rows nohup-$how)" -ge $((n + 20)) ]
done

# --- before the first step: nothing is saved, and the run does not wait for a file that does not open ---
[ -z "${LVN_SANITIZE:-}" ] || { echo "sanitizers want to be loaded first: no run waits for its data here" && exit; }
export LD_PRELOAD STILL_FILE=text.txt
LD_PRELOAD=$(dirname "$LEVIN")/tests/double/libstill.so
echo yes >text.txt.still
for signal in INT TERM HUP; do
    arguments waits-$signal "${endless[@]}"
    "$LEVIN" "${all[@]}" >out 2>err &
    pid=$!
    soon catches $signal
    kill -$signal $pid
    ended
    [ "$got" = 75 ] || { cat out err && fail "$signal: exit $got"; }
    says "stopped on request before the first step" err
    silent_about "error:" err
    check [ ! -e waits-$signal/checkpoints/last ]
done
arguments waits-launched "${endless[@]}"
"$LEVIN" launch -n 1 -- "${all[@]}" >out 2>err &
pid=$!
child() { pgrep -P $pid -x -f '[^ ]*levin train .*'; } # its arguments are those of levin launch, whose signals it catches, until it executes levin train
soon child
launch=$pid pid=$(child)
soon catches USR1
kill -TERM "$launch"
pid=$launch
ended
[ "$got" = 75 ] || { cat out err && fail "under levin launch: exit $got"; }
says "stopped on request before the first step" err
silent_about "error:" err
