# levin launch within a real Slurm of two nodes: srun is found and told what to do.
. "$LEVIN_SOURCE/tests/cluster/slurm.bash"
hosts_begin
. "$LEVIN_SOURCE/tests/cli/common.bash"
hosts_up 2
slurm_up 2
on 1 timeout -k 3 60 salloc -Q -N2 --ntasks-per-node=2 "$LEVIN" launch -- doctor --measure=no >out 2>err
cat out err | head -50
for r in 0 1 2 3; do says "[$r] cores" out; done
