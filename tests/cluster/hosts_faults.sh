# levin launch over two hosts with each MPI: without a shared file system, with a full disk, and with ranks killed, stopped or
# cut off at random moments (faults.bash). The lost rank is named, no rank waits forever, and every checkpoint can be resumed.
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
. "$LEVIN_SOURCE/tests/cluster/faults.bash"
printf 'h1:2\nh2:2\n' >hosts
launch=()
use() { # MPI
    launch=(timeout -k 3 600 "$LEVIN" launch --launcher="$1" --ssh="$ssh" --hostfile hosts -n 4 --)
    [ "$1" != intel ] || launch=(env PATH="$intel/bin:$PATH" "${launch[@]}")
}
a_fault() { # MPI, fault, moment
    local got=0 fault=$2 moment=$3
    one_fault "$@" on 1 "${launch[@]}"
    echo "$1: $fault, $moment${hit:+, hit}"
    wait $pid || got=$?
    [ "$fault" != cut ] || plug 2
    nobody_left # processes of a host that was cut off end by themselves after a timeout
    case $moment in
    start) # only the launcher knows of a rank that dies before it has joined
        check [ -n "$hit" ] && check [ $got != 0 ] && check [ "$(grep -cE '^error: ' err)" -ge 1 ] ;;
    end) # after all ranks have finished, no rank is reported as lost
        [ $got = 0 ] || { check [ -n "$hit" ] && check [ $got = 76 ] && { grep -qE "^error: .* after all ranks had finished" err || expect_lost_rank_named; }; } ;;
    *)
        [ -n "$hit" ] || { cat out err && fail "exit $got before a rank was hit"; }
        check [ $got = 76 ]
        expect_lost_rank_named
        grep -q '"state": "fault"' "$run/status.json" || { cat "$run/status.json" && fail "$1, $fault: status.json does not report the fault"; }
        ;;
    esac
    expect_resumable
}
each() {
    local mpi=$1 try
    use "$mpi"
    # host 2 has a separate run folder, which stays empty; the state of zero1 is sent, too
    for strategy in ddp zero1; do
        mkdir -p "own/$mpi"
        on 2 mount -t tmpfs tmpfs "$PWD/own"
        arguments "$PWD/own/$mpi/$strategy" "${keys[@]}" --trainer.deterministic=true --trainer.micro_batch_size=1 --trainer.strategy=$strategy
        code 0 on 1 "${launch[@]}" "${all[@]}"
        check [ -z "$(on 2 ls "$PWD/own")" ]
        on 2 umount "$PWD/own"
        same_run alone "own/$mpi/$strategy"
    done
    # the disk of rank 0's host is full before anything is saved: the run ends with an error
    mkdir -p "small/$mpi"
    on 1 mount -t tmpfs -o size=96k tmpfs "$PWD/small/$mpi"
    arguments "$PWD/small/$mpi/run" "${keys[@]}"
    code 1 on 1 "${launch[@]}" "${all[@]}"
    says " could not be saved: cannot write" err
    check [ "$(grep -c '^\[0\] error: ' err)" = 1 ]
    on 1 umount "$PWD/small/$mpi"
    for try in $(seq "${FAULT_TRIES:-1}"); do
        for fault in kill stop cut kill-first stop-first; do a_fault "$mpi" $fault "${moments[RANDOM % ${#moments[@]}]}"; done
    done
}
arguments alone "${keys[@]}" --trainer.deterministic=true --trainer.micro_batch_size=1
code 0 "$LEVIN" "${all[@]}"
for mpi in "${mpis[@]}"; do each "$mpi"; done
