# comm.bash - shared by comm_openmpi.sh, comm_mpich.sh and comm_intel.sh: every call of src/ranks/comm under one MPI.
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
program=$LEVIN_BUILD/tests/comm_ranks

good() { # title, then a command that must report success
    local what=$1
    shift
    "$@" >out 2>&1 || { echo "$what failed:" && cat out && exit 1; }
    grep -q "all as it should be" out || { echo "$what did not report success:" && cat out && exit 1; }
    echo "$what: $(grep -m1 ' ranks: ' out)"
}
every_call() { # MPI
    mpi_or_skip "$1"
    for n in 2 3 4 8; do good "$n ranks" ranks "$1" $n "$program"; done
    good "8 ranks as of 4 hosts" ranks "$1" 8 "$program" --per-host 2
    good "6 ranks as of 2 hosts" ranks "$1" 6 "$program" --per-host 3
    good "3 ranks, messages of at most 4096 bytes" ranks "$1" 3 "$program" --cut 4096
}
