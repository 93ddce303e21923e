/* slurm.c - the launcher environment of srun's tasks (its process: slurmstepd).
 *
 * A batch script and the shell of an allocation have SLURM_PROCID and SLURM_NTASKS too, without being a task. Only a
 * step has SLURM_STEP_ID, and the steps that Slurm creates for batch scripts, interactive shells and itself have
 * numbers near 2^32. SLURM_TASK_PID is the process that slurmstepd started: this one, or an ancestor. */

#include "cluster/identity/launcher_env.h"

static bool ancestors(const struct lvn_environment *environment, int pid)
{
    bool found = pid == environment->pid;
    for (int i = 0; i < environment->n_ancestors && !found; i++) found = environment->ancestors[i].pid == pid;
    return found;
}

static enum lvn_evidence evidence(const struct lvn_environment *environment, char *reason)
{
    int pid = -1;
    const char *step = lvn_variable(environment, "SLURM_STEP_ID"), *task = lvn_variable(environment, "SLURM_TASK_PID");
    if (!step || strtoul(step, NULL, 10) >= 0xfffffff0ul) return LVN_ABSENT;
    if (!lvn_variable(environment, "SLURM_PROCID") && !lvn_variable(environment, "SLURM_NTASKS")) return LVN_ABSENT;
    bool ours = task && lvn_whole_number(task, 1, &pid) && ancestors(environment, pid);
    if (ours) {
        snprintf(reason, 160, "SLURM_TASK_PID %d is an ancestor of this process", pid);
        return LVN_ALIVE;
    }
    if (lvn_launcher_env_depth(&lvn_launcher_env_slurm, environment)) return LVN_UNKNOWN;
    if (environment->complete ||
        (!task && !lvn_variable(environment, "PMI_FD") && !lvn_variable(environment, "PMIX_NAMESPACE"))) {
        snprintf(reason, 160, "srun did not start this process (slurmstepd is not an ancestor)");
        return LVN_DEAD;
    }
    return LVN_UNKNOWN;
}

/* Tasks of a node, from a list "2(x2),1". */
static int tasks_of(const char *list, int node)
{
    while (*list) {
        char *end;
        long tasks = strtol(list, &end, 10), times = 1;
        if (end == list) return -1;
        if (!strncmp(end, "(x", 2)) {
            times = strtol(end + 2, &end, 10);
            if (*end++ != ')') return -1;
        }
        if (node < times) return (int)tasks;
        node -= (int)times;
        if (*end && *end != ',') return -1;
        list = *end ? end + 1 : end;
    }
    return -1;
}

/* With a file of hosts (SLURM_HOSTFILE) the list of nodes is sorted, but tasks follow the file. */
static bool is_arbitrary(const struct lvn_environment *environment)
{
    const char *distribution = lvn_variable(environment, "SLURM_DISTRIBUTION");
    return distribution && !strncmp(distribution, "arbitrary", 9);
}

/* The first node of a list, which runs task 0: "n[03-05,9],m" -> "n03". */
static void first_node(const char *list, char *out, size_t capacity)
{
    size_t name = strcspn(list, "[,");
    const char *number = list[name] == '[' ? list + name + 1 : "";
    snprintf(out, capacity, "%.*s%.*s", (int)name, list, (int)strcspn(number, "-,]"), number);
}

/* Without srun's PMI or PMIx there is no MPI. The rendezvous is then on the host of task 0, at a port computed from the
 * step. */
static void set_endpoint(const struct lvn_environment *environment, struct lvn_identity *identity)
{
    enum { STEPS = 16 };
    static const char *const pmi_variables[] = {"PMI_RANK",    "PMI_FD",    "PMI_CONTROL_PORT",
                                                "PALS_RANKID", "PMIX_RANK", "PMIX_NAMESPACE"};
    const char *nodes = lvn_variable(environment, "SLURM_STEP_NODELIST"),
               *job = lvn_variable(environment, "SLURM_JOB_ID");
    const char *step = lvn_variable(environment, "SLURM_STEP_ID");
    for (size_t i = 0; i < sizeof pmi_variables / sizeof *pmi_variables; i++)
        if (lvn_variable(environment, pmi_variables[i])) return;
    identity->without_mpi =
        "srun started these ranks without MPI: use srun --mpi=pmix (for Open MPI) or srun --mpi=pmi2 "
        "(for MPICH, Intel MPI, MVAPICH); `srun --mpi=list` shows the supported values; or leave "
        "trainer.transport at auto";
    if (!nodes || !job || !step || lvn_variable(environment, "MASTER_ADDR")) return;
    if (is_arbitrary(environment)) {
        identity->no_endpoint = "with srun --distribution=arbitrary, no variable names the host of task 0";
        return;
    }
    char host[256];
    first_node(nodes, host, sizeof host);
    unsigned long number = strtoul(job, NULL, 10) * STEPS + strtoul(step, NULL, 10) % STEPS;
    snprintf(identity->endpoint, sizeof identity->endpoint, "%s:%d", host, lvn_launcher_env_port(number));
}

static void more(const struct lvn_environment *environment, struct lvn_identity *identity)
{
    const char *list = lvn_variable(environment, "SLURM_STEP_TASKS_PER_NODE");
    if (list && identity->node >= 0) identity->local_size = tasks_of(list, identity->node);
    set_endpoint(environment, identity);
}

const struct lvn_launcher_env lvn_launcher_env_slurm = {
    .name = "slurm",
    .title = "srun",
    .rank = {"SLURM_PROCID"},
    .size = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
    .local_rank = {"SLURM_LOCALID"},
    .node = {"SLURM_NODEID"},
    .nodes = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"},
    .processes = {"slurmstepd*"},
    .evidence = evidence,
    .more = more,
};
