# comm_openmpi.sh - every call of src/ranks/comm under Open MPI, over shared memory and over TCP.
. "$LEVIN_SOURCE/tests/cluster/comm.bash"
every_call openmpi
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self
good "4 ranks over TCP" ranks openmpi 4 "$program"
