# faults.bash - starts ranks on the hosts h1 and h2, and kills, stops or disconnects one at a random moment; under any launcher.
# It brings the hosts up. Source it first, after hosts.bash or slurm.bash.
#
#   one_fault NAME FAULT MOMENT COMMAND...   COMMAND with a program and its arguments starts ranks, in the background, as
#                                            $pid; one of them gets its FAULT: kill, stop, cut (its host), kill-first,
#                                            stop-first (rank 0), at a MOMENT: start, step, save or end; $run is its folder,
#                                            $hit the victim, empty if the run ended before the fault
#   expect_lost_rank_named                   err says in one sentence which rank is lost, on which host
#   expect_resumable                         the checkpoints of $run are complete
#
# $keys are those of every run, $mpis those of this machine; shared/text.txt is the data. FAULT_SEED repeats a sequence of
# moments, FAULT_TRIES is the number of repetitions, FAULT_MOMENTS="start end" allows these only.
hosts_begin
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
. "$LEVIN_SOURCE/tests/cli/common.bash"
hosts_up 2
sshd_up 2
make_text
mkdir shared
mv text.txt shared/
mpis_here
keys=(--data.path="$PWD/shared/text.txt" --trainer.threads=1)
RANDOM=${FAULT_SEED:=$SRANDOM}
echo "FAULT_SEED=$FAULT_SEED"
read -ra moments <<<"${FAULT_MOMENTS:-start step save end}"
rank_variables='OMPI_COMM_WORLD_RANK|PMI_RANK|SLURM_PROCID|LEVIN_RANK'
cat >hit <<E2
#!/bin/bash
# hit SIGNAL [RANK]: send SIGNAL to RANK, or to a random rank of this host, and print its process id
for p in \$(pgrep -x levin | shuf); do
    if grep -zqE "^($rank_variables)=\${2:-}" "/proc/\$p/environ" 2>/dev/null && kill "-\$1" "\$p" 2>/dev/null; then echo "\$p" && exit; fi
done
exit 1
E2
chmod +x hit

wait_moment() { # MOMENT, while $pid runs
    case $1 in
    start)
        while kill -0 $pid 2>/dev/null && ! on $victim ./hit 0 >/dev/null; do sleep 0.002; done
        sleep "0.$((RANDOM % 7))$((RANDOM % 10))"
        ;;
    step)
        wait_rows "$run" 3
        sleep "$((RANDOM % 2)).$((RANDOM % 10))"
        ;;
    save)
        wait_rows "$run" 3
        while kill -0 $pid 2>/dev/null && [ -z "$(find "$run/checkpoints" -name '.?*' 2>/dev/null)" ]; do :; done
        ;;
    end)
        wait_rows "$run" 29
        sleep "0.0$((RANDOM % 60))"
        ;;
    esac
}
one_fault() {
    local name=$1 fault=$2 moment=$3 steps=1000000000 which=
    shift 3
    run=$PWD/shared/$name-$fault-$moment hit='' victim=$((RANDOM % 2 + 1))
    case $fault in
    cut) victim=2 ;;
    *-first) victim=1 which=0 ;;
    esac
    [ "$moment" != end ] || steps=30
    rm -rf "$run"
    arguments "$run" "${keys[@]}" --trainer.max_steps=$steps --checkpoint.every_n_steps=3 --trainer.val_check_interval=0 \
        --trainer.rank_timeout=6
    "$@" "${all[@]}" >out 2>err &
    pid=$!
    wait_moment "$moment"
    kill -0 $pid 2>/dev/null || return 0
    case $fault in
    kill*) hit=$(on $victim ./hit KILL $which) || hit='' ;;
    stop*) hit=$(on $victim ./hit STOP $which) || hit='' ;;
    cut) unplug 2 && hit=h2 ;;
    esac
}
expect_lost_rank_named() {
    [ "$(grep -cE '^error: ' err)" = 1 ] || { cat out err && fail "expected exactly one line that begins with 'error: '"; }
    grep -qE "^error: ranks? .*( on h$victim|and [0-9]+ others) .*sent no heartbeat since" err || { cat err && fail "no error names the rank"; }
}
expect_resumable() {
    local last
    [ -L "$run/checkpoints/last" ] || [ -e "$run/checkpoints/last" ] || return 0
    check [ -e "$run/checkpoints/last" ] # the link leads to a checkpoint
    last=$(newest "$run")
    arguments "$run" "${keys[@]}" --trainer.max_steps=$((last + 1)) --checkpoint.every_n_steps=3 --trainer.val_check_interval=0
    code 0 "$LEVIN" "${all[@]}" --resume
    silent_about "damaged" err
    silent_about "skipped" err
}
