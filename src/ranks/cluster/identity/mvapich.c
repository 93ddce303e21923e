/* mvapich.c - the launcher environment of MVAPICH's mpirun_rsh (its processes: mpispawn). Its mpiexec is hydra,
 * which sets these variables too. */

#include "cluster/identity/launcher_env.h"

static enum lvn_evidence evidence(const struct lvn_environment *environment, char *reason)
{
    if (!lvn_variable(environment, "MV2_COMM_WORLD_RANK") && !lvn_variable(environment, "MV2_COMM_WORLD_SIZE"))
        return LVN_ABSENT;
    if (!environment->complete || lvn_launcher_env_depth(&lvn_launcher_env_mvapich, environment)) return LVN_UNKNOWN;
    snprintf(reason, 160, "no mpirun_rsh or mpiexec is an ancestor of this process");
    return LVN_DEAD;
}

const struct lvn_launcher_env lvn_launcher_env_mvapich = {
    .name = "mvapich",
    .title = "MVAPICH's mpirun_rsh",
    .rank = {"MV2_COMM_WORLD_RANK"},
    .size = {"MV2_COMM_WORLD_SIZE"},
    .local_rank = {"MV2_COMM_WORLD_LOCAL_RANK"},
    .local_size = {"MV2_COMM_WORLD_LOCAL_SIZE"},
    .processes = {"mpispawn", "hydra_pmi_proxy", "pmi_proxy"},
    .launchers = {"mpirun*", "mpiexec*"},
    .evidence = evidence,
};
