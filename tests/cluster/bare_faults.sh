# Ranks on two hosts, started by an MPI launcher without levin launch, are killed, stopped or disconnected at the start, during a
# step, during a save and at the end. The survivors name the lost rank, end by themselves, and leave a run that can be resumed.
. "$LEVIN_SOURCE/tests/cluster/slurm.bash"
. "$LEVIN_SOURCE/tests/cluster/faults.bash"
unset OMPI_MCA_oob_tcp_if_include OMPI_MCA_btl_tcp_if_include
printf 'h%d slots=2\n' 1 2 >open
printf 'h%d:2\n' 1 2 >hydra
start_under() { # LAUNCHER PROGRAM...
    local launcher=$1
    shift
    case $launcher in
    openmpi) on 1 mpirun.openmpi -n 4 --map-by ppr:2:node --hostfile open --mca plm_rsh_agent "$ssh" --mca btl_tcp_if_include eth0 \
        --mca oob_tcp_if_include eth0 --mca pml ob1 --mca btl tcp,self,vader "$@" ;;
    mpich) on 1 mpiexec.mpich -launcher ssh -launcher-exec "$ssh" -iface eth0 -f hydra -n 4 -ppn 2 "$@" ;;
    intel) on 1 env I_MPI_ROOT="$intel" I_MPI_HYDRA_BOOTSTRAP=ssh I_MPI_HYDRA_BOOTSTRAP_EXEC="$ssh" I_MPI_HYDRA_IFACE=eth0 \
        FI_PROVIDER=tcp FI_TCP_IFACE=eth0 "$intel/bin/mpiexec.hydra" -f hydra -n 4 -ppn 2 "$@" ;;
    srun) on 1 srun --mpi=$plugin $kill_flag -N2 --ntasks-per-node=2 "$@" ;;
    esac
}
living() { # ranks that are neither stopped nor dead
    local p
    for p in $(pgrep -x levin); do ! grep -q '^State:.*[RSD]' "/proc/$p/status" 2>/dev/null || return 0; done
    return 1
}
none_living() { ! living; }
launchers() { ps -eo pid=,comm= | awk '$2 ~ /^(mpirun|orted|mpiexec|hydra_|srun$|levin$)/ { print $1 }'; } # launchers, and levin (ranks)
try() { # LAUNCHER FAULT MOMENT
    local got=0 launcher=$1 fault=$2 moment=$3
    kill_flag=--kill-on-bad-exit=0
    [ "$fault" != stop ] || [ "$moment" = step ] || [ "$moment" = save ] || kill_flag=-K1 # otherwise srun waits for a stopped task
    one_fault "$@" start_under "$launcher" "$LEVIN"
    echo "$launcher: $fault, $moment${hit:+, hit}"
    soon none_living
    # before ranks have joined, mpirun and mpiexec wait forever for a host that is cut off, and all launchers wait for a
    # stopped rank at the end; between these moments the ranks end the launchers
    if [ "$fault:$moment" = cut:start ] || [ "$moment" = end ]; then kill -KILL $(launchers) 2>/dev/null || true; fi
    [ "$fault" != cut ] || plug 2
    wait $pid || got=$?
    nobody_left
    [ "$moment" = end ] || [ -n "$hit" ] || { cat out err && fail "exit $got before a rank was hit"; }
    case $launcher:$fault:$moment in
    *:end) [ -n "$hit" ] || [ $got = 0 ] || { cat out err && fail "exit $got, although no rank was hit"; } ;;
    *:kill:start) check [ $got != 0 ] ;;
    openmpi:kill:* | mpich:kill:* | intel:kill:*) check [ $got != 0 ] ;; # the launcher may kill the ranks that would report
    *:start) named_at_start "$fault" && check [ $got != 0 ] ;;
    *) expect_lost_rank_named && check [ $got != 0 ] ;;
    esac
    expect_resumable
    [ "$launcher" != srun ] || { on 1 scancel -u "$(id -un)" && soon all_idle 2; }
}
# Before ranks have joined, each host reports separately, unless the launcher kills it first.
named_at_start() { # FAULT
    local said
    said=$(grep -cE '^error: ' err) || true
    [ "$said" -ge 1 ] && [ "$said" -le 2 ] || { cat out err && fail "$said error messages from two hosts"; }
    [ "$1" = cut ] || grep -qE '^error: .*(is stopped, and the other ranks wait|sent no heartbeat since|has not joined)' err || { cat out err && fail "no rank reports which one is stopped"; }
}
for launcher in "${mpis[@]}"; do
    for _ in $(seq "${FAULT_TRIES:-1}"); do
        for fault in kill stop cut; do try $launcher $fault "${moments[RANDOM % ${#moments[@]}]}"; done
    done
done
command -v slurmctld /usr/sbin/slurmctld >/dev/null || { echo "without srun: no slurmctld here" && exit 0; }
slurm_up 2
plugin=$(mpi_plugin)
for _ in $(seq "${FAULT_TRIES:-1}"); do
    for fault in kill stop; do try srun $fault "${moments[RANDOM % ${#moments[@]}]}"; done
done
