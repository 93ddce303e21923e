/* kubernetes.c - the launcher environment of pods of an indexed job. The index alone may number independent jobs;
 * NNODES or WORLD_SIZE shows that the job is one run. */
#include "cluster/identity/launcher_env.h"

static enum lvn_evidence evidence(const struct lvn_environment *s, char *reason)
{
    (void)reason;
    if (!lvn_variable(s, "JOB_COMPLETION_INDEX")) return LVN_ABSENT;
    const bool joined = lvn_variable(s, "NNODES") || (lvn_variable(s, "WORLD_SIZE") && !lvn_variable(s, "RANK"));
    return joined ? LVN_UNKNOWN : LVN_ABSENT;
}

const struct lvn_launcher_env lvn_launcher_env_kubernetes = {
    .name = "kubernetes",
    .title = "an indexed job of Kubernetes",
    .rank = {"JOB_COMPLETION_INDEX"},
    .size = {"NNODES", "WORLD_SIZE"},
    .node = {"NODE_RANK", "JOB_COMPLETION_INDEX"},
    .nodes = {"NNODES", "WORLD_SIZE"},
    .evidence = evidence,
    .without_mpi = "such pods are started without MPI: leave trainer.transport at auto, or let one pod run `levin "
                   "launch --hostfile HOSTS ...` or mpirun over the others (an MPIJob)",
};
