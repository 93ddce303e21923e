# levin launch with each MPI of this machine: the same weights, signals that save, and ranks that are killed or stopped, which
# are named, while no rank waits forever.
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
hosts_begin
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
. "$LEVIN_SOURCE/tests/cli/common.bash"
hosts_up 1
make_text
exact=(--trainer.deterministic=true --trainer.micro_batch_size=1)
endless=(--trainer.max_steps=1000000000 --checkpoint.every_n_steps=1000000 --trainer.val_check_interval=0
    --trainer.rank_timeout=5)
arguments alone "${exact[@]}"
code 0 "$LEVIN" "${all[@]}"

launch=()
use() { # MPI [PATH]: what launches ranks with it, by the program there
    launch=(timeout -k 3 600 "$LEVIN" launch --launcher="${2:-$1}")
    [ "$1" != intel ] || launch=(env PATH="$intel/bin:$PATH" "${launch[@]}")
}
begin() { # run, ranks, keys: in the background, as $pid, when it has made a step
    local run=$1 n=$2
    shift 2
    arguments "$run" "${endless[@]}" "$@"
    "${launch[@]}" -n "$n" -- "${all[@]}" >out 2>err &
    pid=$!
    wait_rows "$run" 20
}
# The child of timeout: signals go to levin launch itself.
launcher() { pgrep -P "$pid" -x levin || pgrep -x -o levin; }
rank() { # the process of rank $1
    local p
    for p in $(pgrep -x levin); do
        if grep -zqxE "(OMPI_COMM_WORLD_RANK|PMI_RANK)=$1" "/proc/$p/environ" 2>/dev/null; then echo "$p" && return; fi
    done
    fail "there is no rank $1"
}
mpis_here
for mpi in "${mpis[@]}"; do
    use $mpi
    for n in 2 3; do
        arguments $mpi-$n "${exact[@]}"
        code 0 "${launch[@]}" -n $n -- "${all[@]}"
        same_run alone $mpi-$n
        says "[0] $mpi-$n: step 8" out
        lacks "[1]" out
    done
    # signals: all save, 75
    for signal in INT TERM USR1; do
        begin $mpi-$signal 2
        kill -$signal "$(launcher)"
        ended
        check [ "$got" = 75 ]
        says "[0] stopped on request after step" err
        check [ -e $mpi-$signal/checkpoints/last ]
        nobody_left
    done
    begin $mpi-twice 2
    kill -INT "$(launcher)"
    kill -INT "$(launcher)" 2>/dev/null || true
    ended
    check [ "$got" = 130 -o "$got" = 75 ]
    nobody_left
    # a rank is killed, one is stopped: 76, named
    for signal in KILL STOP; do
        begin $mpi-$signal 3
        kill -$signal "$(rank 1)"
        ended
        check [ "$got" = 76 ]
        grep -qE "error: ranks? .*(1.* on|and (then )?[0-9]+ other).* sent no heartbeat since" err || { cat err && fail "$mpi: no error names the rank"; }
        [ $signal = KILL ] || check [ "$(grep -c "error: rank 1 on " err)" = 1 ]
        nobody_left
    done
    # levin launch itself is killed: the ranks do not continue without it
    begin $mpi-alone 2
    kill -KILL "$(launcher)"
    ended
    check [ "$got" = 137 ]
    nobody_left
    # a launcher that does not end after all ranks have ended, for example because a rank hangs after it has left the run:
    # levin launch waits ten seconds; the MPI is not involved any more
    if [ "$mpi" = "${mpis[0]}" ]; then
        cat >$mpi-held <<E2
#!/bin/bash
"$(mpi_program $mpi)" "\$@" || exit
[ "\$1" = --version ] || sleep 1000
E2
        chmod +x $mpi-held
        arguments $mpi-late "${exact[@]}" --trainer.rank_timeout=2
        use $mpi "$PWD/$mpi-held"
        code 76 "${launch[@]}" -n 2 -- "${all[@]}"
        says "was terminated: it was still running 10 s after all ranks had finished" err
        one_error
        nobody_left
        same_run alone $mpi-late
        use $mpi
    fi
    # wrong input: 2, one sentence
    arguments $mpi-wrong
    code 2 "${launch[@]}" -n 2 -- "${all[@]}" --trainer.strategy=single_device
    one_error
    arguments $mpi-2
    code 2 "${launch[@]}" -n 2 -- "${all[@]}"
    check [ "$(grep -c 'error: ' err)" = 1 ]
done

# on a terminal rank 0's live line is displayed
if command -v script >/dev/null && [ -n "$(command -v mpirun.openmpi)" ]; then
    use openmpi
    arguments live --trainer.max_steps=400
    TERM=xterm script -qec "${launch[*]} -n 2 -- ${all[*]}" typed >/dev/null
    grep -q $'\rstep .*/400 .*\033\[K' typed || fail "no live line"
    ! grep -q '\[0\] step *[0-9]*/400' typed || fail "the live line has a prefix"
fi
