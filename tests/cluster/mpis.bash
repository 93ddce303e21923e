# mpis.bash - finds the installed MPIs, and starts ranks under them.
#
#   mpi_here openmpi|mpich|intel     whether it is installed; LEVIN_INTEL_MPI names the folder of Intel MPI
#   mpi_program MPI                  the path of its launcher
#   mpis_here                        sets $mpis to those that are installed, prints which are not; skips if there is none
#   ranks MPI N PROGRAM...           N ranks on this machine
#
# Intel MPI is looked for in LEVIN_INTEL_MPI, parts/intel-mpi (tools/setup.sh --dev puts it there), /opt/intel.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export HWLOC_COMPONENTS=-opencl # an OpenCL driver with LLVM replaces mpirun's USR1 handler
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl_tcp_if_include=lo
intel=
for folder in "${LEVIN_INTEL_MPI:-}" "$LEVIN_SOURCE/parts/intel-mpi" /opt/intel/oneapi/mpi/latest; do
    [ -n "$folder" ] && [ -x "$folder/bin/mpiexec.hydra" ] && intel=$folder && break
done

mpi_program() { # the launcher of an MPI; fails if it is not installed
    case $1 in
    openmpi) command -v mpirun.openmpi ;;
    mpich) command -v mpiexec.mpich ;;
    intel) [ -n "$intel" ] && echo "$intel/bin/mpiexec.hydra" ;;
    esac
}
mpi_here() { mpi_program "$1" >/dev/null; }
mpis_here() {
    local mpi
    mpis=()
    for mpi in openmpi mpich intel; do
        if mpi_here $mpi; then mpis+=($mpi); else echo "skipped $mpi, which is not installed"; fi
    done
    [ ${#mpis[@]} -gt 0 ] || { echo "skipped: no MPI here (tools/setup.sh --dev installs some)" && exit 77; }
}
mpi_or_skip() {
    mpi_here "$1" || { echo "skipped: no $1 here (tools/setup.sh --dev installs it)" && exit 77; }
}
ranks() { # MPI, number of ranks, program and arguments
    local n=$2 start
    start=(timeout -k 3 "${LIMIT:-600}" "$(mpi_program "$1")")
    case $1 in
    mpich) start+=(-iface lo) ;;
    intel) start=(env I_MPI_ROOT="$intel" "${start[@]}") ;; # only for Intel MPI, because levin searches libraries there
    esac
    shift 2
    "${start[@]}" -n "$n" "$@"
}
