/* openmpi.c - the launcher environment of Open MPI's mpirun (its processes: orted; prted since 5.0; on its own host
 * mpirun itself).
 *
 * A rank also has the address of its local PMIx server, whose folder exists as long as the job. srun provides PMIx too,
 * with its own namespace. */

#include "cluster/identity/launcher_env.h"

static enum lvn_evidence evidence(const struct lvn_environment *environment, char *reason)
{
    static const char *const job_variables[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid",
                                                "OMPI_MCA_orte_hnp_uri"};
    if (!lvn_variable(environment, "OMPI_COMM_WORLD_RANK") && !lvn_variable(environment, "OMPI_COMM_WORLD_SIZE"))
        return LVN_ABSENT;
    const char *job_variable = NULL, *space = lvn_variable(environment, "PMIX_NAMESPACE"),
               *folder = lvn_variable(environment, "PMIX_SERVER_TMPDIR");
    for (int i = 0; i < 4 && !job_variable; i++) job_variable = lvn_variable(environment, job_variables[i]);
    const char *dead = !job_variable                           ? "no variable contains the job of an mpirun"
                       : space && !strncmp(space, "slurm.", 6) ? "the PMIx server is srun's"
                       : folder && !environment->path_exists(environment, folder)
                           ? "the folder of that mpirun does not exist"
                       : environment->complete && !lvn_launcher_env_depth(&lvn_launcher_env_openmpi, environment)
                           ? "no mpirun is an ancestor of this process"
                           : NULL;
    if (dead) snprintf(reason, 160, "%s", dead);
    return dead ? LVN_DEAD : LVN_UNKNOWN;
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
};
