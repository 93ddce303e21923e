/* openmpi.c - the launcher environment of Open MPI's mpirun (its processes: orted; prted since 5.0; on its own host
 * mpirun itself).
 *
 * A rank also has the address of its local PMIx server, whose folder exists as long as the job. In a container the
 * folder may be missing although mpirun runs; MPI then connects nevertheless. srun provides PMIx too, with its own
 * namespace. */

#include "cluster/identity/launcher_env.h"

static bool runs_below_mpirun(const struct lvn_environment *environment)
{
    return lvn_launcher_env_depth(&lvn_launcher_env_openmpi, environment) > 0;
}

static enum lvn_evidence evidence(const struct lvn_environment *environment, char *reason)
{
    static const char *const job_variables[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid",
                                                "OMPI_MCA_orte_hnp_uri"};
    if (!lvn_variable(environment, "OMPI_COMM_WORLD_RANK") && !lvn_variable(environment, "OMPI_COMM_WORLD_SIZE"))
        return LVN_ABSENT;
    const char *job_variable = NULL, *space = lvn_variable(environment, "PMIX_NAMESPACE");
    for (int i = 0; i < 4 && !job_variable; i++) job_variable = lvn_variable(environment, job_variables[i]);
    const char *dead = !job_variable                           ? "no variable contains the job of an mpirun"
                       : space && !strncmp(space, "slurm.", 6) ? "the PMIx server is srun's"
                       : environment->complete && !runs_below_mpirun(environment)
                           ? "no mpirun is an ancestor of this process"
                           : NULL;
    if (dead) snprintf(reason, 160, "%s", dead);
    return dead ? LVN_DEAD : LVN_UNKNOWN;
}

/* In a container that shows neither the mpirun nor its folder, each rank would be a run by itself. */
static bool refuse(const struct lvn_environment *environment, char text[LVN_REFUSAL])
{
    const char *folder = lvn_variable(environment, "PMIX_SERVER_TMPDIR"),
               *size = lvn_variable(environment, "OMPI_COMM_WORLD_SIZE");
    char reason[160];
    if (!folder || !size || !strcmp(size, "1") || environment->path_exists(environment, folder) ||
        environment->complete || runs_below_mpirun(environment) || evidence(environment, reason) != LVN_UNKNOWN)
        return false;
    snprintf(text, LVN_REFUSAL,
             "OMPI_COMM_WORLD_SIZE is %.10s, but this container has no folder '%.60s' (PMIX_SERVER_TMPDIR), through "
             "which mpirun connects its ranks: mount it; or, if that mpirun has ended, unset OMPI_COMM_WORLD_RANK and "
             "OMPI_COMM_WORLD_SIZE",
             size, folder);
    return true;
}

const struct lvn_launcher_env lvn_launcher_env_openmpi = {
    .name = "openmpi",
    .title = "Open MPI's mpirun",
    .rank = {"OMPI_COMM_WORLD_RANK"},
    .size = {"OMPI_COMM_WORLD_SIZE"},
    .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
    .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
    .processes = {"orted", "prted", "prterun*", "prte", "orterun*", "mpirun*", "mpiexec*"},
    .launchers = {"mpirun*"},
    .evidence = evidence,
    .refuse = refuse,
};
