/* pals.c - the launcher environment of PALS, the mpiexec of HPE Cray systems with PBS (its processes: palsd).
 *
 * It sets PALS_RANKID, PALS_LOCAL_RANKID and PALS_NODEID, and the same variables PMI_* as MPICH's mpiexec, but no
 * PMI_FD or PMI_PORT: Cray MPICH connects through PMI_CONTROL_PORT. Slurm's plugin cray_shasta and Flux's plugin
 * cray-pals set PALS_RANKID too; such ranks belong to srun and flux. */
#include "cluster/identity/launcher_env.h"

static enum lvn_evidence evidence(const struct lvn_environment *environment, char *reason)
{
    (void)reason;
    const bool other = lvn_variable(environment, "SLURM_STEP_ID") || lvn_variable(environment, "FLUX_TASK_RANK");
    const bool set = lvn_variable(environment, "PALS_RANKID") && lvn_variable(environment, "PMI_SIZE");
    return set && !other ? LVN_UNKNOWN : LVN_ABSENT;
}

const struct lvn_launcher_env lvn_launcher_env_pals = {
    .name = "pals",
    .title = "PALS's mpiexec",
    .rank = {"PALS_RANKID"},
    .size = {"PMI_SIZE"},
    .local_rank = {"PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"},
    .local_size = {"PMI_LOCAL_SIZE"},
    .node = {"PALS_NODEID"},
    .processes = {"palsd*"},
    .launchers = {"mpiexec*"},
    .evidence = evidence,
};
