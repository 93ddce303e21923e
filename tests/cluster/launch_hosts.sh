# levin launch over hosts that ssh reaches: Open MPI's and MPICH's launchers, and errors found before anything starts.
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
hosts_begin
. "$LEVIN_SOURCE/tests/cli/common.bash"
hosts_up 3
sshd_up 2
launch() { # code, arguments
    local wanted=$1
    shift
    code "$wanted" on 1 timeout -k 3 600 "$LEVIN" launch --ssh="$ssh" --hostfile hosts "$@"
}
ranks() { says "[0] ranks              $1 on $2 hosts" out; } # ranks, hosts: all have joined
for mpi in openmpi mpich; do
    command -v mpirun.$mpi >/dev/null || { echo "skipped $mpi, which is not installed" && continue; }
    printf 'h1\nh2\n' >hosts
    launch 0 --launcher=$mpi -n 4 -- doctor --measure=no
    ranks 4 2
    printf 'h1:1\nh2 slots=2 # the larger one\n' >hosts
    launch 0 --launcher=$mpi -- doctor --measure=no
    ranks 3 2
    launch 0 --launcher=$mpi --nproc-per-node 1 -- doctor --measure=no
    ranks 2 2
    launch 2 --launcher=$mpi -- evaluate none
    check [ "$(grep -c 'error: ' err)" = 1 ]
done
echo h1 >hosts
launch 0 -n 1 -- doctor --measure=no
printf 'h1\nh3\n' >hosts
launch 2 -n 2 -- doctor
one_error
says "hosts:2: the host 'h3' cannot be reached with ssh without a password" err
unplug 2
printf 'h1\nh2\n' >hosts
launch 2 -n 2 -- doctor
one_error
says "hosts:2: the host 'h2'" err
plug 2
