/* flux.c - the launcher environment of tasks of Flux (its process: flux-shell).
 *
 * A task also has PMI_RANK, PMI_SIZE and the connection PMI_FD to flux-shell, as a rank of hydra has; they belong to
 * this file. The shell or script of an allocation (flux alloc, flux batch) has none of these variables. Source:
 * flux-environment(7). */
#include "cluster/identity/launcher_env.h"

static enum lvn_evidence evidence(const struct lvn_environment *environment, char *reason)
{
    if (!lvn_variable(environment, "FLUX_TASK_RANK") && !lvn_variable(environment, "FLUX_JOB_SIZE")) return LVN_ABSENT;
    if (!environment->complete || lvn_launcher_env_depth(&lvn_launcher_env_flux, environment)) return LVN_UNKNOWN;
    snprintf(reason, 160, "flux did not start this process (flux-shell is not an ancestor)");
    return LVN_DEAD;
}

const struct lvn_launcher_env lvn_launcher_env_flux = {
    .name = "flux",
    .title = "flux run",
    .rank = {"FLUX_TASK_RANK"},
    .size = {"FLUX_JOB_SIZE"},
    .local_rank = {"FLUX_TASK_LOCAL_ID"},
    .nodes = {"FLUX_JOB_NNODES"},
    .processes = {"flux-shell"},
    .evidence = evidence,
};
