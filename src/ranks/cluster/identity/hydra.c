/* hydra.c - the launcher environment of hydra, the mpiexec of MPICH and of Intel MPI (its processes:
 * hydra_pmi_proxy, hydra_bstrap_proxy).
 *
 * A rank has a connection to the proxy (PMI_FD) or the proxy's address (PMI_PORT). srun --mpi=pmi2 sets the same
 * variables and also the job of Slurm; those belong to slurm.c, and those of a task of Flux to flux.c. Those of PALS,
 * without a proxy, belong to pals.c. */

#include "cluster/identity/launcher_env.h"

static enum lvn_evidence evidence(const struct lvn_environment *environment, char *reason)
{
    int fd;
    const char *job = lvn_variable(environment, "PMI_JOBID"), *open = lvn_variable(environment, "PMI_FD");
    if (!lvn_variable(environment, "PMI_RANK") && !lvn_variable(environment, "PMI_SIZE")) return LVN_ABSENT;
    if (job && !lvn_variable(environment, "MPI_LOCALRANKID") && lvn_variable(environment, "SLURM_STEP_ID"))
        return LVN_ABSENT;
    const bool proxy = open || lvn_variable(environment, "PMI_PORT");
    if (!proxy && lvn_variable(environment, "PALS_RANKID")) return LVN_ABSENT;
    bool ancestors = lvn_launcher_env_depth(&lvn_launcher_env_hydra, environment) > 0;
    if (!ancestors && lvn_variable(environment, "FLUX_TASK_RANK")) return LVN_ABSENT;
    if (!proxy) {
        snprintf(reason, 160, "no connection to an mpiexec (PMI_FD)");
        return LVN_DEAD;
    }
    if (open && (!lvn_whole_number(open, 0, &fd) || !environment->socket_open(environment, fd))) {
        snprintf(reason, 160, "PMI_FD %.20s is not an open connection", open);
        return LVN_DEAD;
    }
    if (environment->complete && !ancestors && !lvn_variable(environment, "PMI_PORT")) {
        snprintf(reason, 160, "no mpiexec is an ancestor of this process");
        return LVN_DEAD;
    }
    return LVN_UNKNOWN;
}

const struct lvn_launcher_env lvn_launcher_env_hydra = {
    .name = "hydra",
    .title = "hydra's mpiexec (MPICH, Intel MPI)",
    .rank = {"PMI_RANK"},
    .size = {"PMI_SIZE"},
    .local_rank = {"MPI_LOCALRANKID"},
    .local_size = {"MPI_LOCALNRANKS"},
    .processes = {"hydra_pmi_proxy", "hydra_bstrap_p*", "pmi_proxy"},
    .launchers = {"mpiexec*", "mpirun*"},
    .evidence = evidence,
};
