# comm_mpich.sh - every call of src/ranks/comm under MPICH, over shared memory and over TCP.
. "$LEVIN_SOURCE/tests/cluster/comm.bash"
every_call mpich
export UCX_TLS=tcp,self UCX_NET_DEVICES=lo
good "4 ranks over TCP" ranks mpich 4 "$program"
