/* kubeflow.c - the launcher environment of pods of Kubeflow's training operator, and of anybody who sets the four
 * variables of PyTorch by hand.
 *
 * RANK and WORLD_SIZE without MASTER_ADDR connect nothing: they are stale. */
#include <stdio.h>

#include "cluster/identity/launcher_env.h"

static enum lvn_evidence evidence(const struct lvn_environment *s, char *reason)
{
    const char *rank = lvn_variable(s, "RANK"), *size = lvn_variable(s, "WORLD_SIZE");
    if (lvn_variable(s, "TORCHELASTIC_RUN_ID")) return LVN_ABSENT;
    if (!rank && (!size || lvn_variable(s, "JOB_COMPLETION_INDEX"))) return LVN_ABSENT;
    if (lvn_variable(s, "MASTER_ADDR")) return LVN_UNKNOWN;
    if (!rank || !size) return LVN_ABSENT; /* one alone may mean anything */
    snprintf(reason, 160, "MASTER_ADDR is not set with them");
    return LVN_DEAD;
}

const struct lvn_launcher_env lvn_launcher_env_kubeflow = {
    .name = "kubeflow",
    .title = "Kubeflow or a hand-made PyTorch environment",
    .rank = {"RANK"},
    .size = {"WORLD_SIZE"},
    .local_rank = {"LOCAL_RANK"},
    .local_size = {"LOCAL_WORLD_SIZE"},
    .evidence = evidence,
    .without_mpi = "RANK and WORLD_SIZE are not variables of an MPI: leave trainer.transport at auto, or start one pod "
                   "or host with `levin launch --hostfile HOSTS ...` or mpirun (an MPIJob in Kubeflow)",
};
