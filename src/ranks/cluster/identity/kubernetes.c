/* kubernetes.c - the launcher environment of pods of an indexed job, each of which is one rank. The index alone may
 * number independent jobs; NNODES or WORLD_SIZE shows that the job is one run.
 *
 * A pod with several ranks (GPUS_PER_NODE) is a node, in which levin launch starts the ranks; a rank that it did not
 * start is refused. */

#include "cluster/identity/launcher_env.h"

static enum lvn_evidence evidence(const struct lvn_environment *environment, char *reason)
{
    (void)reason;
    if (!lvn_variable(environment, "JOB_COMPLETION_INDEX")) return LVN_ABSENT;
    const bool joined = lvn_variable(environment, "NNODES") ||
                        (lvn_variable(environment, "WORLD_SIZE") && !lvn_variable(environment, "RANK"));
    return joined ? LVN_UNKNOWN : LVN_ABSENT;
}

/* NNODES counts pods, so if pods have several ranks it is not the number of ranks. */
static bool refuse(const struct lvn_environment *environment, char text[LVN_REFUSAL])
{
    static const char *const names[] = {"GPUS_PER_NODE", "PET_NPROC_PER_NODE", "NPROC_PER_NODE"};
    int n;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *each = lvn_variable(environment, names[i]), *nodes = lvn_variable(environment, "NNODES");
        if (!each || !nodes || (lvn_whole_number(each, 0, &n) && n <= 1)) continue;
        snprintf(text, LVN_REFUSAL,
                 "%s is %.20s and NNODES is %.20s, so each pod runs several ranks, but levin launch did not start this "
                 "process: start it with `levin launch -- train ...`, or set %s to 1 for one rank per pod",
                 names[i], each, nodes, names[i]);
        return true;
    }
    return false;
}

const struct lvn_launcher_env lvn_launcher_env_kubernetes = {
    .name = "kubernetes",
    .title = "an indexed job of Kubernetes",
    .rank = {"JOB_COMPLETION_INDEX"},
    .size = {"NNODES", "WORLD_SIZE"},
    .node = {"NODE_RANK", "JOB_COMPLETION_INDEX"},
    .nodes = {"NNODES", "WORLD_SIZE"},
    .evidence = evidence,
    .refuse = refuse,
    .without_mpi = "these pods are started without MPI: leave trainer.transport at auto, or run `levin launch "
                   "--hostfile HOSTS ...` or mpirun in one of the pods (an MPIJob)",
};
