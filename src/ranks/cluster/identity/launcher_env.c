/* launcher_env.c - see launcher_env.h: the launchers, and their table. */
#include "cluster/identity/launcher_env.h"

int lvn_launcher_env_port(unsigned long number)
{
    enum { FIRST_PORT = 20000, PORTS = 12000 };
    return FIRST_PORT + (int)(number % PORTS);
}

int lvn_launcher_env_depth(const struct lvn_launcher_env *launcher, const struct lvn_environment *environment)
{
    for (int i = 0; i < environment->n_ancestors; i++)
        if (lvn_is_among(launcher->processes, environment->ancestors[i].name)) return i + 1;
    return 0;
}

/* --- ranks that levin launch has started without MPI --- */

static const struct lvn_launcher_env levin = {
    .name = "levin",
    .title = "levin launch",
    .rank = {"LEVIN_RANK"},
    .size = {"LEVIN_SIZE"},
    .local_rank = {"LEVIN_LOCAL_RANK"},
    .local_size = {"LEVIN_LOCAL_SIZE"},
    .node = {"LEVIN_NODE"},
    .nodes = {"LEVIN_NODES"},
    .processes = {"levin*"},
    .without_mpi = "levin launch started these ranks without an MPI: leave trainer.transport at auto, or set "
                   "trainer.mpi_library to the MPI library",
};

/* --- Open MPI's mpirun (its processes: orted; prted since 5.0; on its own host mpirun itself) ---
 *
 * A rank also has the address of its local PMIx server, whose folder exists as long as the job. In a container the
 * folder may be missing although mpirun runs; MPI then connects nevertheless. srun provides PMIx too, with its own
 * namespace. */

static const struct lvn_launcher_env openmpi;

static bool runs_below_mpirun(const struct lvn_environment *environment)
{
    return lvn_launcher_env_depth(&openmpi, environment) > 0;
}

static enum lvn_evidence openmpi_evidence(const struct lvn_environment *environment, char *reason)
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

/* True in a container that shows neither mpirun nor its folder, because each rank would be a run by itself. */
static bool openmpi_refuse(const struct lvn_environment *environment, char text[LVN_REFUSAL])
{
    const char *folder = lvn_variable(environment, "PMIX_SERVER_TMPDIR"),
               *size = lvn_variable(environment, "OMPI_COMM_WORLD_SIZE");
    char reason[160];
    if (!folder || !size || !strcmp(size, "1") || environment->path_exists(environment, folder) ||
        environment->complete || runs_below_mpirun(environment) || openmpi_evidence(environment, reason) != LVN_UNKNOWN)
        return false;
    snprintf(text, LVN_REFUSAL,
             "OMPI_COMM_WORLD_SIZE is %.10s, but this container has no folder '%.60s' (PMIX_SERVER_TMPDIR), through "
             "which mpirun connects its ranks: mount it; or, if that mpirun has ended, unset OMPI_COMM_WORLD_RANK and "
             "OMPI_COMM_WORLD_SIZE",
             size, folder);
    return true;
}

static const struct lvn_launcher_env openmpi = {
    .name = "openmpi",
    .title = "Open MPI's mpirun",
    .rank = {"OMPI_COMM_WORLD_RANK"},
    .size = {"OMPI_COMM_WORLD_SIZE"},
    .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
    .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
    .processes = {"orted", "prted", "prterun*", "prte", "orterun*", "mpirun*", "mpiexec*"},
    .launchers = {"mpirun*"},
    .evidence = openmpi_evidence,
    .refuse = openmpi_refuse,
};

/* --- tasks of Flux (its process: flux-shell) ---
 *
 * A task also has PMI_RANK, PMI_SIZE and the connection PMI_FD to flux-shell, as a rank of hydra has; they belong to
 * Flux. The shell or script of an allocation (flux alloc, flux batch) has none of these variables. Source:
 * flux-environment(7). */

static const struct lvn_launcher_env flux;

static enum lvn_evidence flux_evidence(const struct lvn_environment *environment, char *reason)
{
    if (!lvn_variable(environment, "FLUX_TASK_RANK") && !lvn_variable(environment, "FLUX_JOB_SIZE")) return LVN_ABSENT;
    if (!environment->complete || lvn_launcher_env_depth(&flux, environment)) return LVN_UNKNOWN;
    snprintf(reason, 160, "flux did not start this process (flux-shell is not an ancestor)");
    return LVN_DEAD;
}

static const struct lvn_launcher_env flux = {
    .name = "flux",
    .title = "flux run",
    .rank = {"FLUX_TASK_RANK"},
    .size = {"FLUX_JOB_SIZE"},
    .local_rank = {"FLUX_TASK_LOCAL_ID"},
    .nodes = {"FLUX_JOB_NNODES"},
    .processes = {"flux-shell"},
    .evidence = flux_evidence,
};

/* --- hydra, the mpiexec of MPICH and of Intel MPI (its processes: hydra_pmi_proxy, hydra_bstrap_proxy) ---
 *
 * A rank has a connection to the proxy (PMI_FD) or the proxy's address (PMI_PORT). srun --mpi=pmi2 sets the same
 * variables and also the job of Slurm; then they belong to srun. In a task of Flux they belong to Flux, and without a
 * proxy, beside the variables of PALS, to PALS. */

static const struct lvn_launcher_env hydra;

static enum lvn_evidence hydra_evidence(const struct lvn_environment *environment, char *reason)
{
    int fd;
    const char *job = lvn_variable(environment, "PMI_JOBID"), *open = lvn_variable(environment, "PMI_FD");
    if (!lvn_variable(environment, "PMI_RANK") && !lvn_variable(environment, "PMI_SIZE")) return LVN_ABSENT;
    if (job && !lvn_variable(environment, "MPI_LOCALRANKID") && lvn_variable(environment, "SLURM_STEP_ID"))
        return LVN_ABSENT;
    const bool proxy = open || lvn_variable(environment, "PMI_PORT");
    if (!proxy && lvn_variable(environment, "PALS_RANKID")) return LVN_ABSENT;
    bool ancestors = lvn_launcher_env_depth(&hydra, environment) > 0;
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

static const struct lvn_launcher_env hydra = {
    .name = "hydra",
    .title = "hydra's mpiexec (MPICH, Intel MPI)",
    .rank = {"PMI_RANK"},
    .size = {"PMI_SIZE"},
    .local_rank = {"MPI_LOCALRANKID"},
    .local_size = {"MPI_LOCALNRANKS"},
    .processes = {"hydra_pmi_proxy", "hydra_bstrap_p*", "pmi_proxy"},
    .launchers = {"mpiexec*", "mpirun*"},
    .evidence = hydra_evidence,
};

/* --- MVAPICH's mpirun_rsh (its processes: mpispawn) ---
 *
 * Its mpiexec is hydra, which sets these variables too. */

static const struct lvn_launcher_env mvapich;

static enum lvn_evidence mvapich_evidence(const struct lvn_environment *environment, char *reason)
{
    if (!lvn_variable(environment, "MV2_COMM_WORLD_RANK") && !lvn_variable(environment, "MV2_COMM_WORLD_SIZE"))
        return LVN_ABSENT;
    if (!environment->complete || lvn_launcher_env_depth(&mvapich, environment)) return LVN_UNKNOWN;
    snprintf(reason, 160, "no mpirun_rsh or mpiexec is an ancestor of this process");
    return LVN_DEAD;
}

static const struct lvn_launcher_env mvapich = {
    .name = "mvapich",
    .title = "MVAPICH's mpirun_rsh",
    .rank = {"MV2_COMM_WORLD_RANK"},
    .size = {"MV2_COMM_WORLD_SIZE"},
    .local_rank = {"MV2_COMM_WORLD_LOCAL_RANK"},
    .local_size = {"MV2_COMM_WORLD_LOCAL_SIZE"},
    .processes = {"mpispawn", "hydra_pmi_proxy", "pmi_proxy"},
    .launchers = {"mpirun*", "mpiexec*"},
    .evidence = mvapich_evidence,
};

/* --- PALS, the mpiexec of HPE Cray systems with PBS (its processes: palsd) ---
 *
 * It sets PALS_RANKID, PALS_LOCAL_RANKID and PALS_NODEID, and the same variables PMI_* as MPICH's mpiexec, but no
 * PMI_FD or PMI_PORT: Cray MPICH connects through PMI_CONTROL_PORT. Slurm's plugin cray_shasta and Flux's plugin
 * cray-pals set PALS_RANKID too; such ranks belong to srun and flux. */

static enum lvn_evidence pals_evidence(const struct lvn_environment *environment, char *reason)
{
    (void)reason;
    const bool other = lvn_variable(environment, "SLURM_STEP_ID") || lvn_variable(environment, "FLUX_TASK_RANK");
    const bool set = lvn_variable(environment, "PALS_RANKID") && lvn_variable(environment, "PMI_SIZE");
    return set && !other ? LVN_UNKNOWN : LVN_ABSENT;
}

static const struct lvn_launcher_env pals = {
    .name = "pals",
    .title = "PALS's mpiexec",
    .rank = {"PALS_RANKID"},
    .size = {"PMI_SIZE"},
    .local_rank = {"PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"},
    .local_size = {"PMI_LOCAL_SIZE"},
    .node = {"PALS_NODEID"},
    .processes = {"palsd*"},
    .launchers = {"mpiexec*"},
    .evidence = pals_evidence,
};

/* --- jsrun, the launcher of LSF (its process: jsmd) --- */

static const struct lvn_launcher_env lsf = {
    .name = "lsf",
    .title = "jsrun",
    .rank = {"JSM_NAMESPACE_RANK"},
    .size = {"JSM_NAMESPACE_SIZE"},
    .local_rank = {"JSM_NAMESPACE_LOCAL_RANK"},
    .local_size = {"JSM_NAMESPACE_LOCAL_SIZE"},
    .processes = {"jsmd*", "jsm"},
};

/* --- torchrun's workers, recognized by TORCHELASTIC_RUN_ID: RANK and WORLD_SIZE
 * alone may have another origin ---
 *
 * Source: torch.distributed.elastic.agent.server.api, the environment of a worker; TORCHELASTIC_USE_AGENT_STORE. */

static enum lvn_evidence torchrun_evidence(const struct lvn_environment *environment, char *reason)
{
    (void)reason;
    if (!lvn_variable(environment, "TORCHELASTIC_RUN_ID")) return LVN_ABSENT;
    return lvn_variable(environment, "RANK") || lvn_variable(environment, "WORLD_SIZE") ? LVN_UNKNOWN : LVN_ABSENT;
}

/* While torchrun runs, its own store may listen at MASTER_PORT; another port is computed from it. */
static void torchrun_more(const struct lvn_environment *environment, struct lvn_identity *identity)
{
    const char *host = lvn_variable(environment, "MASTER_ADDR"), *port = lvn_variable(environment, "MASTER_PORT");
    const char *has_store = lvn_variable(environment, "TORCHELASTIC_USE_AGENT_STORE");
    int number;
    if (!host || !port || !has_store || strcmp(has_store, "True") || !lvn_whole_number(port, 1, &number)) return;
    snprintf(identity->endpoint, sizeof identity->endpoint, "%s:%d", host,
             lvn_launcher_env_port((unsigned long)number));
}

static const struct lvn_launcher_env torchrun = {
    .name = "torchrun",
    .title = "torchrun",
    .rank = {"RANK"},
    .size = {"WORLD_SIZE"},
    .local_rank = {"LOCAL_RANK"},
    .local_size = {"LOCAL_WORLD_SIZE"},
    .node = {"GROUP_RANK"},
    .nodes = {"GROUP_WORLD_SIZE"},
    .processes = {"torchrun", "python*", "pt_elastic*", "pt_main_thread"},
    .evidence = torchrun_evidence,
    .more = torchrun_more,
    .without_mpi = "torchrun starts ranks without MPI: leave trainer.transport at auto, or use mpirun or srun",
};

/* --- pods of Kubeflow's training operator, and of users who set the four
 * variables of PyTorch themselves ---
 *
 * RANK and WORLD_SIZE without MASTER_ADDR cannot connect ranks, so they are stale. */

static enum lvn_evidence kubeflow_evidence(const struct lvn_environment *environment, char *reason)
{
    const char *rank = lvn_variable(environment, "RANK"), *size = lvn_variable(environment, "WORLD_SIZE");
    if (lvn_variable(environment, "TORCHELASTIC_RUN_ID")) return LVN_ABSENT;
    if (!rank && (!size || lvn_variable(environment, "JOB_COMPLETION_INDEX"))) return LVN_ABSENT;
    if (lvn_variable(environment, "MASTER_ADDR")) return LVN_UNKNOWN;
    if (!rank || !size) return LVN_ABSENT; /* one of them alone may have another meaning */
    snprintf(reason, 160, "MASTER_ADDR is not set");
    return LVN_DEAD;
}

static const struct lvn_launcher_env kubeflow = {
    .name = "kubeflow",
    .title = "Kubeflow, or PyTorch's variables set by the user",
    .rank = {"RANK"},
    .size = {"WORLD_SIZE"},
    .local_rank = {"LOCAL_RANK"},
    .local_size = {"LOCAL_WORLD_SIZE"},
    .evidence = kubeflow_evidence,
    .without_mpi = "RANK and WORLD_SIZE are not variables of an MPI: leave trainer.transport at auto, or run "
                   "`levin launch --hostfile HOSTS ...` or mpirun on one pod or host (an MPIJob in Kubeflow)",
};

/* --- pods of an indexed job, each of which is one rank. The index alone may
 * number independent jobs; NNODES or WORLD_SIZE shows that the job is one run ---
 *
 * A pod with several ranks (GPUS_PER_NODE) is a node, in which levin launch starts the ranks; a rank that it did not
 * start is refused. */

static enum lvn_evidence kubernetes_evidence(const struct lvn_environment *environment, char *reason)
{
    (void)reason;
    if (!lvn_variable(environment, "JOB_COMPLETION_INDEX")) return LVN_ABSENT;
    const bool joined = lvn_variable(environment, "NNODES") ||
                        (lvn_variable(environment, "WORLD_SIZE") && !lvn_variable(environment, "RANK"));
    return joined ? LVN_UNKNOWN : LVN_ABSENT;
}

/* NNODES counts pods, so if pods have several ranks it is not the number of ranks. */
static bool kubernetes_refuse(const struct lvn_environment *environment, char text[LVN_REFUSAL])
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

static const struct lvn_launcher_env kubernetes = {
    .name = "kubernetes",
    .title = "an indexed job of Kubernetes",
    .rank = {"JOB_COMPLETION_INDEX"},
    .size = {"NNODES", "WORLD_SIZE"},
    .node = {"NODE_RANK", "JOB_COMPLETION_INDEX"},
    .nodes = {"NNODES", "WORLD_SIZE"},
    .evidence = kubernetes_evidence,
    .refuse = kubernetes_refuse,
    .without_mpi = "these pods are started without MPI: leave trainer.transport at auto, or run `levin launch "
                   "--hostfile HOSTS ...` or mpirun in one of the pods (an MPIJob)",
};

/* --- the table ---
 *
 * The order matters only if no ancestor shows which launcher is the innermost: then the earlier row has priority. */

const struct lvn_launcher_env *const lvn_launcher_envs[] = {
    &levin, &openmpi, &flux, &hydra, &mvapich, &pals, &lvn_launcher_env_slurm, &lsf, &torchrun, &kubeflow, &kubernetes};

const struct lvn_launcher_env *lvn_launcher_env_find(const char *name)
{
    for (int i = 0; i < LVN_LAUNCHER_ENVS; i++)
        if (name && !strcmp(lvn_launcher_envs[i]->name, name)) return lvn_launcher_envs[i];
    return NULL;
}
