# Runs over two hosts under each MPI: without a shared file system, with a full disk, and with ranks killed, stopped or
# cut off at moments that chance picks. The lost one is named, nobody waits for ever, and every checkpoint that is there
# can be gone on from. FAULT_SEED repeats a sequence of moments, FAULT_TRIES makes more of them.
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
HOSTS_LIMIT=1100
hosts_begin
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
. "$LEVIN_SOURCE/tests/cli/common.bash"
hosts_up 2
sshd_up 2
make_text
mkdir shared away
mv text.txt shared/
printf 'h1:2\nh2:2\n' >hosts
RANDOM=${FAULT_SEED:-$$}
echo "FAULT_SEED=${FAULT_SEED:-$$}"
keys=(--data.path="$PWD/shared/text.txt" --trainer.threads=1)
endless=(--trainer.max_steps=1000000000 --checkpoint.every_n_steps=7 --trainer.val_check_interval=0 --trainer.rank_timeout=4)

launch=()
use() { # MPI
    launch=(timeout -k 3 100 "$LEVIN" launch --launcher="$1" --ssh="$ssh" --hostfile hosts -n 4 --)
    [ "$1" != intel ] || launch=(env PATH="$intel/bin:$PATH" "${launch[@]}")
}
cat >hit <<'E2'
#!/bin/bash
# hit SIGNAL [RANK]: one of this host's ranks, or any of them
for p in $(pgrep -x levin | shuf); do
    if tr '\0' '\n' <"/proc/$p/environ" | grep -qE "^(OMPI_COMM_WORLD_RANK|PMI_RANK)=${2:-}"; then exec kill "-$1" "$p"; fi
done
exit 1
E2
chmod +x hit
fault() { # kind
    case $1 in
    kill) on 2 ./hit KILL ;;
    stop) on 2 ./hit STOP ;;
    kill-first) on 1 ./hit KILL 0 ;;
    stop-first) on 1 ./hit STOP 0 ;;
    cut) unplug 2 ;;
    esac
}
one_fault() { # MPI, kind
    local run=$1-$2 pid got=0 last where=h2
    [[ $2 != *-first ]] || where=h1
    rm -rf "shared/$run"
    arguments "$PWD/shared/$run" "${keys[@]}" "${endless[@]}"
    on 1 "${launch[@]}" "${all[@]}" >out 2>err &
    pid=$!
    wait_rows "shared/$run" 3
    sleep "$((RANDOM % 2)).$((RANDOM % 10))"
    fault "$2"
    wait $pid || got=$?
    [ "$2" != cut ] || plug 2
    [ $got = 1 ] || { cat err && fail "$1, $2: exit $got"; }
    grep -qE 'error: ranks? .*( on '"$where"'|and [0-9]+ others) .*not been heard of since' err || { cat err && fail "$1, $2: nobody says which rank"; }
    check [ "$(grep -cE '^error: ' err)" = 1 ]
    nobody_left 30 # processes of a host that was cut off end by themselves, a timeout later
    grep -q '"state": "fault"' "shared/$run/status.json" || { cat "shared/$run/status.json" && fail "$1, $2: status.json does not tell"; }
    # what is saved is whole: going on for one step more
    [ -e "shared/$run/checkpoints/last" ] || return 0
    last=$(readlink "shared/$run/checkpoints/last")
    last=${last#step-}
    arguments "$PWD/shared/$run" "${keys[@]}" --trainer.max_steps=$((last + 1)) --checkpoint.every_n_steps=7 --trainer.val_check_interval=0
    code 0 "$LEVIN" "${all[@]}" --resume
    silent_about "damaged" err
}
each() {
    local mpi=$1 try
    use "$mpi"
    # host 2 has a run folder of its own, which stays empty; zero1's state travels too
    for strategy in ddp zero1; do
        mkdir -p "own/$mpi"
        on 2 mount -t tmpfs tmpfs "$PWD/own"
        arguments "$PWD/own/$mpi/$strategy" "${keys[@]}" --trainer.deterministic=true --trainer.micro_batch_size=1 --trainer.strategy=$strategy
        code 0 on 1 "${launch[@]}" "${all[@]}"
        check [ -z "$(on 2 ls "$PWD/own")" ]
        on 2 umount "$PWD/own"
        same_run alone "own/$mpi/$strategy"
    done
    # the disk of rank 0's host is full: said, the run goes on, and its end is no success
    mkdir -p "small/$mpi"
    on 1 mount -t tmpfs -o size=96k tmpfs "$PWD/small/$mpi"
    arguments "$PWD/small/$mpi/run" "${keys[@]}"
    code 1 on 1 "${launch[@]}" "${all[@]}"
    says " could not be saved: cannot write" err
    check [ "$(grep -c '^\[0\] error: ' err)" = 1 ]
    on 1 umount "$PWD/small/$mpi"
    for try in $(seq "${FAULT_TRIES:-1}"); do
        for kind in kill stop cut kill-first stop-first; do one_fault "$mpi" $kind; done
    done
}
arguments alone "${keys[@]}" --trainer.deterministic=true --trainer.micro_batch_size=1
code 0 "$LEVIN" "${all[@]}"
some=0
for mpi in openmpi mpich intel; do
    mpi_here $mpi || { echo "without $mpi, which is not here" && continue; }
    some=1
    each $mpi
done
[ $some = 1 ] || skip "no MPI here (tools/setup.sh --dev installs some)"
