# levin launch without an MPI: it starts the ranks itself, on this machine and over hosts, with the same bits, prefixes, exit
# codes, signals, logs and restarts as with an MPI, and leaves no process running if a rank is killed, stopped or cut off.
HOSTS=3
. "$LEVIN_SOURCE/tests/cluster/restart.bash"
mkdir bin
ln -s "$(command -v ssh)" bin/
bare=(env PATH="$PWD/bin" "$LEVIN" launch) # this PATH has no MPI
over=(on 1 timeout -k 3 600 "${bare[@]}" --ssh="$ssh" --hostfile hosts)
keys=(--trainer.deterministic=true --trainer.micro_batch_size=1 --trainer.threads=1)
arguments one "${keys[@]}"
code 0 "$LEVIN" "${all[@]}"

# this machine
for n in 2 3; do
    arguments tcp-$n "${keys[@]}"
    code 0 timeout 600 "${bare[@]}" -n $n -- "${all[@]}"
    says "there is no mpirun in PATH: levin connects the ranks with TCP" err
    says "[0] tcp-$n: step 8" out
    lacks "[1]" out
    same_run one tcp-$n
    check grep -q "^--- .* rank $((n - 1)) of $n on " "tcp-$n/logs/rank-$((n - 1)).log"
done
arguments asked "${keys[@]}" --trainer.transport=tcp --trainer.strategy=zero1
code 0 timeout 600 "$LEVIN" launch -n 2 -- "${all[@]}"
same_run one asked
code 0 "$LEVIN" launch --dry-run -n 2 -- "${all[@]}"
says "levin ranks --hosts=127.0.0.1:2 -- train" out
code 0 "${bare[@]}" -n 2 -- doctor --measure=no
says "[0] ranks              2 on 1 host" out
code 0 "${bare[@]}" -n 2 -- evaluate one --json
json 'd["loss"] > 0'
code 2 "${bare[@]}" -n 2 -- evaluate none
check [ "$(grep -c 'error: ' err)" = 1 ]
arguments asked "${keys[@]}"
code 2 "${bare[@]}" -n 2 -- "${all[@]}"
check [ "$(grep -c 'error: ' err)" = 1 ]
arguments none "${keys[@]}" --trainer.transport=mpi
code 2 "${bare[@]}" -n 2 -- "${all[@]}"
one_error
says "2 ranks require an MPI, but there is no mpirun in PATH" err
code 2 "$LEVIN" launch --launcher=levin -n 2 -- "${all[@]}"
one_error
says "--launcher=levin connects ranks with TCP, but trainer.transport requires an MPI" err

# the same connections below another launcher
for mpi in openmpi mpich; do
    mpi_here $mpi || continue
    arguments $mpi "${keys[@]}" --trainer.transport=tcp --trainer.strategy=zero1
    code 0 timeout 600 "$LEVIN" launch --launcher=$mpi -n 3 -- "${all[@]}"
    same_run one $mpi
    code 0 timeout 600 "$LEVIN" launch --launcher=$mpi -n 2 -- doctor --measure=no --trainer.transport=tcp
    says "none: TCP" out
done

# signals: all save
launcher() { pgrep -P "$pid" -x levin || echo "$pid"; }
for signal in INT TERM USR1; do
    arguments $signal "${keys[@]}" --trainer.max_steps=1000000000 --checkpoint.every_n_steps=1000000 --trainer.val_check_interval=0
    timeout -k 3 600 "${bare[@]}" -n 2 -- "${all[@]}" >out 2>err &
    pid=$!
    wait_rows $signal 10
    kill -$signal "$(pgrep -x -o levin)"
    ended
    check [ "$got" = 75 ]
    says "[0] stopped on request after step" err
    check [ -e $signal/checkpoints/last ]
    nobody_left
done

# a rank is killed: both start again, because the machine is not lost
lose_rank 1 here timeout -k 3 600 "${bare[@]}" --max-restarts=1 --min-ranks=1 -n 2 --
check [ $got = 0 ]
says "warning: --min-ranks is ignored" err
grep -qE "^restart 1 of 1: continuing from step [0-9]+ with 2 ranks$" err || { cat err && fail "not with both"; }
same_run alone here

# over hosts, one of which is a spare host
printf 'h1:1\nh2:2\nh3:1\n' >hosts
arguments hosts-3 "${keys[@]}"
code 0 "${over[@]}" -n 3 -- "${all[@]}"
same_run one hosts-3
check grep -q "^--- .* rank 2 of 3 on h2" hosts-3/logs/rank-2.log
lacks "[1]" out

# a rank is killed, a host cut off: the run continues on the spare host, with the same bits
lose_rank 2 killed "${over[@]}" --max-restarts=1 -n 3 --
check [ $got = 0 ]
grep -qE "^error: rank 2 on h2 has sent no heartbeat since" err || { cat err && fail "no error names the lost rank"; }
same_run alone killed
printf 'h1:1\nh2:1\nh3:1\n' >hosts
lose=cut_off lose_rank 1 spare "${over[@]}" --max-restarts=1 -n 2 --
check [ $got = 0 ]
grep -qE "^restart 1 of 1: continuing from step [0-9]+ with 2 ranks on h1, h3; excluded: h2 \(does not respond\)$" err || { cat err && fail "no h3"; }
same_run alone spare
plug 2
nobody_left

# two hosts that cannot reach each other: reported before anything is trained, by the one that connects
apart() { for pair in "2 3" "3 2"; do on "${pair% *}" ip neigh "$1" "10.77.0.${pair#* }" lladdr 02:00:00:00:00:09 dev eth0 nud permanent; done; }
apart replace
arguments cut "${keys[@]}" --trainer.rank_timeout=2
code 76 "${over[@]}" -n 3 -- "${all[@]}"
one_error
says "error: rank 2 on h3: cannot reach rank 1 (h2 port " err
apart del

# any of its processes is killed or stopped: the run ends, and no process is left
part() { pgrep -x -f '[^ ]*/levin ranks --part'; }
main() { pgrep -x -f '[^ ]*/levin ranks --hosts.*'; }
launch_itself() { pgrep -x -o levin; }
for what in part main launch_itself; do
    for signal in KILL STOP; do
        run=$what-$signal
        arguments $run "${keys[@]}" --trainer.max_steps=1000000000 --checkpoint.every_n_steps=1000000 --trainer.val_check_interval=0 \
            --trainer.rank_timeout=2
        "${over[@]}" -n 2 -- "${all[@]}" >out 2>err &
        pid=$!
        wait_rows $run 20
        if [ $what:$signal = part:STOP ]; then kill -STOP "$(rank 1)"; else kill -$signal "$($what)"; fi
        case $what:$signal in
        main:STOP | launch_itself:STOP) # the ranks do not miss it, or end; the stopped process is killed here, so that its code means nothing
            sleep 1
            pkill -KILL -f '^[^ ]*/levin (ranks|launch) .*' || true
            ended
            ;;
        *)
            ended
            check [ $got != 0 ]
            ;;
        esac
        nobody_left
    done
done
