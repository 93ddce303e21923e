# comm_hosts.sh - every call of src/ranks/comm between hosts, over TCP, under Open MPI, MPICH and Intel MPI.
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
hosts_begin
. "$LEVIN_SOURCE/tests/cluster/comm.bash"
hosts_up 3
sshd_up 3
unset OMPI_MCA_oob_tcp_if_include OMPI_MCA_btl_tcp_if_include
printf 'h%d slots=2\n' 1 2 3 >open
printf 'h%d:2\n' 1 2 3 >hydra

over_hosts() { # MPI, number of ranks, ranks a host
    local mpi=$1 n=$2 each=$3
    shift 3
    case $mpi in
    openmpi) on 1 timeout -k 3 600 mpirun.openmpi -n "$n" --map-by "ppr:$each:node" --hostfile open \
        --mca plm_rsh_agent "$ssh" --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --mca pml ob1 \
        --mca btl tcp,self,vader "$@" ;;
    mpich) on 1 timeout -k 3 600 mpiexec.mpich -launcher ssh -launcher-exec "$ssh" -iface eth0 -f hydra -n "$n" -ppn "$each" "$@" ;;
    intel) on 1 env I_MPI_ROOT="$intel" I_MPI_HYDRA_BOOTSTRAP=ssh I_MPI_HYDRA_BOOTSTRAP_EXEC="$ssh" I_MPI_HYDRA_IFACE=eth0 \
        FI_PROVIDER=tcp FI_TCP_IFACE=eth0 timeout -k 3 600 "$intel/bin/mpiexec.hydra" -f hydra -n "$n" -ppn "$each" "$@" ;;
    esac
}
mpis_here
for mpi in "${mpis[@]}"; do
    good "$mpi, 3 hosts" over_hosts $mpi 3 1 "$program"
    good "$mpi, 2 ranks on each of 2 hosts" over_hosts $mpi 4 2 "$program"
done
