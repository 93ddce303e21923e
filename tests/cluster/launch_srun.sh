# levin launch within a job of a real Slurm of two nodes: srun is chosen, with the right options.
. "$LEVIN_SOURCE/tests/cluster/slurm.bash"
hosts_begin
hosts_up 2
slurm_up 2
allocated() { # code, options of salloc, --, arguments of levin launch
    local wanted=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    srun_code "$wanted" on 1 timeout -k 3 600 salloc -Q "${options[@]}" "$LEVIN" launch "$@"
}
ranks() { says "[0] ranks              $1 on " out; } # all ranks have joined
allocated 0 -N2 --ntasks-per-node=2 -- -- doctor --measure=no
ranks 4
allocated 0 -n3 -- -- doctor --measure=no
ranks 3
allocated 0 -n2 -- --dry-run -- doctor
says "srun --ntasks=2 --mpi=" out
allocated 0 -n2 -- --launcher=openmpi -- doctor --measure=no
ranks 2
for mpi in openmpi mpich; do # not all on the first node, which has four slots
    command -v mpirun.$mpi >/dev/null || continue
    allocated 0 -N2 --ntasks-per-node=4 -- --launcher="$mpi" --nproc-per-node=1 -- doctor --measure=no
    says "[0] ranks              2 on 2 hosts" out
done
allocated 2 -N2 -n2 -- --launcher=levin -- doctor
one_error
says "--launcher=levin would start all ranks on the first of the 2 nodes of Slurm job" err
allocated 0 -N1 -n2 -- --launcher=levin -- doctor --measure=no
ranks 2
# a job step of one node, as of a sweep
srun_code 0 on 1 timeout -k 3 600 salloc -Q -N2 --ntasks-per-node=3 srun -N1 -n1 "$LEVIN" launch --launcher=levin --nproc-per-node=3 -- doctor --measure=no
ranks 3
allocated 2 -n2 -- -- doctor --nix
one_error
allocated 2 -n2 -- -- evaluate none
check [ "$(grep -c 'error: ' err)" = 1 ]
says "there is no model 'none'" err
echo h1 >hosts
allocated 2 -n2 -- --hostfile hosts -- doctor
says "Slurm assigns the hosts" err
# heterogeneous jobs: srun starts one run on all components, levin launch refuses to use the first one alone
allocated 2 -N1 -n2 : -N1 -n1 -- -- doctor
one_error
says "is heterogeneous, and levin launch would use only the first of its 2 components: start the ranks with \`srun --het-group=0-1" err
srun_code 0 on 1 timeout -k 3 600 salloc -Q -N1 -n2 : -N1 -n1 srun --label --kill-on-bad-exit=1 --mpi=none --het-group=0-1 \
    "$LEVIN" doctor --measure=no
says "0: ranks              3 on 2 hosts" out
# variables of a job that has ended are ignored
SLURM_JOB_ID=999 SLURM_NTASKS=7 SLURM_PROCID=3 code 0 on 1 "$LEVIN" launch -n 2 -- doctor --measure=no
says "SLURM_JOB_ID=999 is ignored" err
ranks 2
