# comm_intel.sh - every call of src/ranks/comm under Intel MPI, over shared memory and over TCP.
. "$LEVIN_SOURCE/tests/cluster/comm.bash"
every_call intel
export I_MPI_FABRICS=ofi FI_PROVIDER=tcp FI_TCP_IFACE=lo
good "4 ranks over TCP" ranks intel 4 "$program"
