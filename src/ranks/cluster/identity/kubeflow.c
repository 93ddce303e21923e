/* kubeflow.c - the launcher environment of pods of Kubeflow's training operator, and of users who set the four
 * variables of PyTorch themselves.
 *
 * RANK and WORLD_SIZE without MASTER_ADDR cannot connect ranks, so they are stale. */

#include "cluster/identity/launcher_env.h"

static enum lvn_evidence evidence(const struct lvn_environment *environment, char *reason)
{
    const char *rank = lvn_variable(environment, "RANK"), *size = lvn_variable(environment, "WORLD_SIZE");
    if (lvn_variable(environment, "TORCHELASTIC_RUN_ID")) return LVN_ABSENT;
    if (!rank && (!size || lvn_variable(environment, "JOB_COMPLETION_INDEX"))) return LVN_ABSENT;
    if (lvn_variable(environment, "MASTER_ADDR")) return LVN_UNKNOWN;
    if (!rank || !size) return LVN_ABSENT; /* one of them alone may have another meaning */
    snprintf(reason, 160, "MASTER_ADDR is not set");
    return LVN_DEAD;
}

const struct lvn_launcher_env lvn_launcher_env_kubeflow = {
    .name = "kubeflow",
    .title = "Kubeflow, or PyTorch's variables set by the user",
    .rank = {"RANK"},
    .size = {"WORLD_SIZE"},
    .local_rank = {"LOCAL_RANK"},
    .local_size = {"LOCAL_WORLD_SIZE"},
    .evidence = evidence,
    .without_mpi = "RANK and WORLD_SIZE are not variables of an MPI: leave trainer.transport at auto, or run "
                   "`levin launch --hostfile HOSTS ...` or mpirun on one pod or host (an MPIJob in Kubeflow)",
};
