# label: soak
# Many faults at random moments, on hosts with every launcher that is installed: Open MPI, MPICH, Intel MPI, levin's own TCP
# connections, and srun in a Slurm. A rank, the launcher, its daemon, levin launch or a host is killed, stopped or cut off, the link
# between two hosts is cut, or long packets get lost. The run continues by itself or ends within its limit; the rank, host or link
# at fault is named; no process is left; and the result has the bits of an undisturbed run.
# SOAK_FAULTS is their number (100), SOAK_SEED repeats a sequence, SOAK_ONLY="launcher what how" one of them.
# Prints a line for every fault, and at the end how many went as expected.
HOSTS=4 HOSTS_LIMIT=14000
. "$LEVIN_SOURCE/tests/cluster/slurm.bash"
. "$LEVIN_SOURCE/tests/cluster/restart.bash"
launchers=(levin)
for mpi in openmpi mpich intel; do ! mpi_here $mpi || launchers+=($mpi); done
printf 'h%d:1\n' 1 2 3 4 >hosts # three ranks, and a spare host
if [ -x /usr/sbin/slurmctld ] && [ -n "$(mpi_plugin)" ]; then
    slurm_up 4
    launchers+=(srun)
fi
echo "launchers: ${launchers[*]}"
RANDOM=${SOAK_SEED:=$SRANDOM}
echo "SOAK_SEED=$SOAK_SEED"
steps=${SOAK_STEPS:-1000} limit=300
keys=("${exact[@]}" --trainer.max_steps=$steps --checkpoint.every_n_steps=50 --trainer.stall_timeout=8 --model.n_embd=48)
arguments alone "${keys[@]}"
code 0 "$LEVIN" "${all[@]}"
faults=("rank kill" "rank kill" "rank stop" "launcher kill" "launcher stop" "daemon kill" "daemon stop" "launch kill" "launch stop"
    "host cut" "host kill" "link cut" "packets lost")

start_run() { # LAUNCHER RUN: in the background, as $pid
    local with=() allocation=()
    case $1 in
    intel) with=(env PATH="$intel/bin:$PATH") ;;
    srun) allocation=(salloc --quiet --no-kill -N 3 --ntasks-per-node=1 -w "h[1-3]") ;;
    esac
    arguments "$2" "${keys[@]}"
    if [ "$1" = srun ]; then
        on 1 timeout -k 3 $limit "${allocation[@]}" "$LEVIN" launch --max-restarts=2 --min-ranks=2 -- "${all[@]}" >out 2>err &
    else
        on 1 timeout -k 3 $limit "${with[@]}" "$LEVIN" launch --launcher="$1" --ssh="$ssh" --hostfile hosts --max-restarts=2 -n 3 -- "${all[@]}" >out 2>err &
    fi
    pid=$!
}
process() { # LAUNCHER WHAT: its pid, "" if it does not exist
    case $1:$2 in
    *:rank) rank $which ;;
    *:launch) pgrep -o -f "^[^ ]*/levin launch " ;;
    levin:launcher) pgrep -o -f "^[^ ]*/levin ranks --hosts" ;;
    openmpi:launcher) pgrep -o -x "mpirun|mpirun.openmpi" ;;
    mpich:launcher | intel:launcher) pgrep -o -x "mpiexec.*" ;;
    srun:launcher) pgrep -o -x srun ;;
    levin:daemon) pgrep -f "^[^ ]*/levin ranks --part" | head -1 ;;
    openmpi:daemon) pgrep -n -x orted ;;
    mpich:daemon | intel:daemon) pgrep -n -x "hydra_.*" ;;
    srun:daemon) pgrep -n -f "^slurmstepd: \[[0-9]*\.[0-9]" ;;
    esac || true
}
apart() { for pair in "2 3" "3 2"; do on "${pair% *}" ip neigh replace "10.77.0.${pair#* }" lladdr 02:00:00:00:00:09 dev eth0 nud permanent; done; }
strike() { # LAUNCHER WHAT HOW: status 1 if there was nothing to hit
    local p
    case "$2 $3" in
    "host cut") unplug $((which + 1)) ;;
    "host kill") on $((which + 1)) bash -c 'kill -KILL -1' || true ;;
    "link cut") apart ;;
    "packets lost") for i in 1 2 3; do on $i ip link set dev eth0 gso_max_segs 1; done; ip link set v3 mtu 1000 ;;
    *)
        p=$(process "$1" "$2")
        [ -n "$p" ] || return 1
        if [ "$3" = kill ]; then kill -KILL "$p"; else kill -STOP "$p"; fi
        ;;
    esac
}
repair() { # undo the fault
    for i in 1 2 3 4; do plug $i; done
    for pair in "2 3" "3 2"; do on "${pair% *}" ip neigh del "10.77.0.${pair#* }" dev eth0 2>/dev/null || true; done
    ip link set v3 mtu 1500
    for i in 2 3; do
        on $i pgrep -x sshd >/dev/null || on $i "$(command -v sshd || echo /usr/sbin/sshd)" -f "$net/ssh/server" -E /run/sshd.log
        [[ " ${launchers[*]} " != *" srun "* ]] || on $i pgrep -x slurmd >/dev/null || { slurm_passwords $i && on $i slurmd; }
    done
}
wait_end() { # wait for $pid; do what the fault requires meanwhile
    local n
    for ((n = 0; n < limit * 10; n++)); do
        kill -0 $pid 2>/dev/null || break
        # a link is repaired when the run has reported it
        if [ "$what" = link ] || [ "$what" = packets ]; then ! grep -q "^error: " err || repair; fi
        # a stopped levin launch is killed here when its ranks have ended
        if [ "$what $how" = "launch stop" ] && ! pgrep -f "^[^ ]*/levin train " >/dev/null; then pkill -KILL -f "^[^ ]*/levin launch "; fi
        sleep 0.1
    done
    ended
}
wrong() { echo "    wrong: $*" && bad=1; }
judge() {
    case "$what $how" in
    "launch "*)
        [ $got != 0 ] || [ $launcher = srun ] || wrong "levin launch was ended, and the code is 0" ;; # salloc exits with 0
    *)
        [ $got = 0 ] || wrong "exit code $got"
        # only the launcher knows of a rank that dies before it has joined
        [ "$what" != rank ] || [ $moment = start ] || ! grep -q "^restart " err || grep -E "^error: " err | head -1 | grep -qE "ranks? ([0-9,-]*,)?$which(,[0-9,-]*)? on h$((which + 1))|ranks? [0-9,-]* (on h[1-3]|and)" ||
            wrong "rank $which on h$((which + 1)) is not named"
        [ "$what" != host ] || ! grep -q "^restart " err || grep -E "^error: " err | head -1 | grep -qE " on h$((which + 1))|rank $which " ||
            wrong "h$((which + 1)) is not named"
        [ "$what" != link ] || ! grep -q "^restart " err || grep -qE "^error: (no rank has made progress|ranks? .*(1|2) on h[23])" err || wrong "the link is not named"
        ;;
    esac
    [ "$got" -lt 124 ] || [ $got = 137 ] || wrong "not over within $limit s"
}
none_left() { # no rank, no levin launch; processes other than ranks that the test stopped are killed here
    local tries
    case "$what $how" in "launcher stop" | "daemon stop") pkill -KILL -f "^[^ ]*/levin ranks |^orted|/orted |hydra_|^mpirun|^mpiexec|^srun|^slurmstepd: " || true ;; esac
    for tries in $(seq 400); do
        pgrep -x levin >/dev/null || return 0
        sleep 0.1
    done
    ps -eo pid,stat,args | grep levin | grep -v grep | cut -c1-150
    pkill -KILL -x levin || true
    return 1
}
one() { # LAUNCHER WHAT HOW
    local launcher=$1 run=soak bad=0 moment=step
    what=$2 how=$3 which=$((RANDOM % 3)) got=0
    [ "$what" != host ] || which=$((RANDOM % 2 + 1))
    [ $((RANDOM % 4)) != 0 ] || moment=start
    case "$what $how" in "launch "* | "link "* | "packets "*) moment=step ;; esac # before its first checkpoint a run starts from the beginning
    rm -rf $run
    start_run $launcher $run
    if [ $moment = start ]; then
        while kill -0 $pid 2>/dev/null && ! pgrep -f "^[^ ]*/levin train " >/dev/null; do sleep 0.005; done
    else
        while kill -0 $pid 2>/dev/null && [ ! -e $run/checkpoints/last ]; do sleep 0.005; done
    fi
    sleep "0.$((RANDOM % 6))$((RANDOM % 10))"
    kill -0 $pid 2>/dev/null && strike $launcher $what $how || { kill -KILL $(pgrep -x levin) 2>/dev/null; repair; ended; return 2; }
    began=$SECONDS
    wait_end
    judge
    repair
    none_left || wrong "processes are left"
    if [ "$what" = launch ]; then
        arguments $run "${keys[@]}"
        "$LEVIN" "${all[@]}" --resume >again 2>&1 || wrong "it cannot be resumed: $(tail -1 again)"
    fi
    cmp -s alone/checkpoints/last/model.safetensors $run/checkpoints/last/model.safetensors || wrong "other bits"
    [ $launcher != srun ] || { on 1 scancel -u "$(id -un)"; soon all_idle 4; }
    echo "$launcher: $what $how, $moment, rank $which: $((SECONDS - began)) s, code $got, $(grep -c '^restart ' err || true) restarts$([ $bad = 0 ] || echo ', WRONG')"
    [ $bad = 0 ] || { sed 's/^/      /' err | grep -vE "saved|step " | cut -c1-300 | tail -12; }
    return $bad
}
right=0 done=0 tried=0
while [ $done -lt "${SOAK_FAULTS:-100}" ] && [ $tried -lt $((2 * ${SOAK_FAULTS:-100} + 20)) ]; do
    tried=$((tried + 1))
    read -r what how <<<"${faults[RANDOM % ${#faults[@]}]}"
    launcher=${launchers[RANDOM % ${#launchers[@]}]}
    [ -z "${SOAK_ONLY:-}" ] || read -r launcher what how <<<"$SOAK_ONLY"
    case "$launcher $what $how" in "srun host kill") continue ;; esac # its daemons would have to be started again
    result=0
    one "$launcher" "$what" "$how" || result=$?
    [ $result != 2 ] || continue
    done=$((done + 1))
    [ $result != 0 ] || right=$((right + 1))
done
echo "$right of $done faults ended as promised"
check [ $right = $done ] && check [ $done -gt 0 ]
