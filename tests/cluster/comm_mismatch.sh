# comm_mismatch.sh - a launcher and an MPI library that do not belong together, no library, two: one sentence says what to do.
. "$LEVIN_SOURCE/tests/cluster/comm.bash"

said() { # TITLE TEXT COMMAND...: the command must fail, and its error must contain the text
    local what=$1 words=$2
    shift 2
    if "$@" >out 2>&1; then echo "$what did not fail:" && cat out && exit 1; fi
    grep -q -- "$words" out || { echo "$what did not say '$words':" && cat out && exit 1; }
    echo "$what: $(grep -m1 -- "$words" out | cut -c1-200)"
}
tried=0
library() { # soname: its path
    ldconfig -p | awk -v n="$1" '$1 == n { print $NF; exit }'
}
if mpi_here openmpi; then
    tried=1
    said "no such library" "trainer.mpi_library: /nowhere/libmpi.so" ranks openmpi 2 "$program" --library /nowhere/libmpi.so
    said "another library" "is not an MPI library" ranks openmpi 2 "$program" --library libm.so.6
fi
if mpi_here openmpi && mpi_here mpich; then
    said "MPICH under Open MPI" "do not belong together: the launcher started 2 ranks" \
        ranks openmpi 2 "$program" --library "$(library libmpich.so.12)"
    said "Open MPI under MPICH" "start levin with the mpirun of that MPI" \
        ranks mpich 2 "$program" --library "$(library libmpi.so.40)"
    good "the launcher decides between two" ranks mpich 2 "$program"
    grep -q "also installed, but not used: .*libmpi.so.40" out || { echo "the other one is not said:" && cat out && exit 1; }
fi
# A library that crashes during MPI_Init, as Open MPI may.
if mpi_here openmpi && command -v cc >/dev/null; then
    echo 'int MPI_Init_thread(void) { return *(volatile int *)8; }' >crashing.c
    cc -shared -fPIC -o crashing.so crashing.c -Wl,--no-as-needed "$(library libmpi.so.40)"
    said "a library that crashes" "crashed in MPI_Init, as Open MPI may if ranks start at different times; start again" \
        ranks openmpi 2 "$program" --library "$PWD/crashing.so"
fi
# An MPI without its library: an empty file is mounted over it, for these processes only.
if mpi_here openmpi && mpi_here mpich && unshare -m true 2>/dev/null; then
    said "no Open MPI" "no library of Open MPI was found, which is required because the launcher is Open MPI's" \
        ranks openmpi 2 unshare -m bash -c 'mount --bind /dev/null "$(realpath "$1")" && exec "$2"' x \
        "$(library libmpi.so.40)" "$program"
    grep -q "found [^ ]*libmpich.so.12; start levin with the launcher of that one, or install the required one (Debian: openmpi-bin)" out ||
        { echo "no cure:" && cat out && exit 1; }
fi
[ $tried = 1 ] || { echo "skipped: no MPI here (tools/setup.sh --dev installs some)" && exit 77; }
