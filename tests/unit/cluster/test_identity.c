/* test_identity.c - covers: src/ranks/cluster/identity/identity.c src/ranks/cluster/identity/environment.c
 * src/ranks/cluster/rendezvous/local_ranks.c src/ranks/cluster/identity/launcher_exit.c
 *
 * The identity of this process, with fake environments and ancestors. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cluster/identity/environment.h"
#include "cluster/identity/launcher_exit.h"
#include "cluster/rendezvous/local_ranks.h"

enum { VARIABLES = 40, OPEN_SOCKET = 9 };

/* Process names from the parent up; the first has pid 100, the next 101, ... this one 99. */
struct scene {
    const char *title;
    const char *above[6];
    bool container;
    const char *variables[VARIABLES];
    /* wanted: a family with rank, size, local_rank, local_size, node, nodes; or a part of the sentence */
    const char *family;
    int rank, size, local_rank, local_size, node, nodes;
    const char *rank_from, *says, *ignored;
};

/* clang-format off */
#define OMPI(rank, size) \
    "OMPI_COMM_WORLD_RANK", rank, "OMPI_COMM_WORLD_SIZE", size, "OMPI_COMM_WORLD_LOCAL_RANK", "1", \
        "OMPI_COMM_WORLD_LOCAL_SIZE", "2", "PMIX_NAMESPACE", "719519744", "PMIX_RANK", rank
#define HYDRA(rank, size) \
    "PMI_RANK", rank, "PMI_SIZE", size, "PMI_FD", "9", "MPI_LOCALRANKID", "0", "MPI_LOCALNRANKS", "2"
#define PALS_ONLY "PALS_RANKID", "5", "PALS_LOCAL_RANKID", "1", "PALS_NODEID", "1", "PMI_CONTROL_PORT", "20001"
#define PALS PALS_ONLY, "PMI_RANK", "5", "PMI_SIZE", "8", "PMI_LOCAL_RANK", "1", "PMI_LOCAL_SIZE", "4"
#define STEP(rank, size, pid) \
    "SLURM_JOB_ID", "2", "SLURM_STEP_ID", "0", "SLURM_PROCID", rank, "SLURM_NTASKS", size, "SLURM_STEP_NUM_TASKS", \
        size, "SLURM_LOCALID", "1", "SLURM_NODEID", "1", "SLURM_STEP_NUM_NODES", "2", "SLURM_NNODES", "2", \
        "SLURM_STEP_TASKS_PER_NODE", "2(x2)", "SLURM_TASK_PID", pid
#define BATCH \
    "SLURM_JOB_ID", "2", "SLURM_PROCID", "0", "SLURM_NTASKS", "4", "SLURM_NNODES", "2", "SLURM_TASK_PID", "100"
#define TORCHRUN(rank, size) "TORCHELASTIC_RUN_ID", "x", "RANK", rank, "WORLD_SIZE", size, "LOCAL_RANK", "0"
#define FLUX(rank, size) \
    "FLUX_TASK_RANK", rank, "FLUX_JOB_SIZE", size, "FLUX_TASK_LOCAL_ID", "1", "FLUX_JOB_NNODES", "2", \
        "PMI_RANK", rank, "PMI_SIZE", size, "PMI_FD", "9"
#define LOCAL "local", 0, 1, 0, 1, 0, 1, ""

static const struct scene scenes[] = {
    {"nothing", {"bash"}, false, {NULL}, LOCAL, NULL, NULL},
    {"mpirun, own host", {"mpirun", "bash"}, false, {OMPI("3", "4")}, "openmpi", 3, 4, 1, 2, -1, -1,
     "OMPI_COMM_WORLD_RANK", NULL, NULL},
    {"mpirun.openmpi, a wrapper between", {"bash", "mpirun.openmpi", "bash"}, false, {OMPI("0", "4")}, "openmpi",
     0, 4, 1,
     2, -1, -1, "OMPI_COMM_WORLD_RANK", NULL, NULL},
    {"orted over ssh", {"orted", "sshd", "systemd"}, false, {OMPI("1", "2")}, "openmpi", 1, 2, 1, 2, -1, -1,
     "OMPI_COMM_WORLD_RANK", NULL, NULL},
    {"hydra", {"hydra_pmi_proxy", "mpiexec.hydra", "bash"}, false, {HYDRA("1", "4")}, "hydra", 1, 4, 0, 2, -1, -1,
     "PMI_RANK", NULL, NULL},
    {"srun", {"slurmstepd", "slurmd"}, false, {STEP("3", "4", "99")}, "slurm", 3, 4, 1, 2, 1, 2, "SLURM_PROCID", NULL,
     NULL},
    {"srun --mpi=pmi2", {"slurmstepd"}, false, {STEP("3", "4", "99"), "PMI_RANK", "3", "PMI_SIZE", "4", "PMI_FD", "9",
     "PMI_JOBID", "2.0"}, "slurm", 3, 4, 1, 2, 1, 2, "SLURM_PROCID", NULL, NULL},
    {"srun --mpi=pmix", {"bash", "slurmstepd"}, false, {STEP("1", "4", "100"), "PMIX_RANK", "1", "PMIX_NAMESPACE",
     "slurm.pmix.2.0"}, "slurm", 1, 4, 1, 2, 1, 2, "SLURM_PROCID", NULL, NULL},
    {"srun into a container", {"sh"}, true, {STEP("1", "4", "3141")}, "slurm", 1, 4, 1, 2, 1, 2, "SLURM_PROCID", NULL,
     NULL},
    {"uneven tasks", {"slurmstepd"}, false, {"SLURM_STEP_ID", "0", "SLURM_PROCID", "3", "SLURM_NTASKS", "5",
     "SLURM_NODEID", "1", "SLURM_STEP_TASKS_PER_NODE", "3,1(x2)", "SLURM_TASK_PID", "99"}, "slurm", 3, 5, -1, 1, 1,
     -1,
     "SLURM_PROCID", NULL, NULL},
    {"batch shell", {"bash", "slurmstepd"}, false, {BATCH}, LOCAL, NULL, NULL},
    {"interactive step", {"bash", "slurmstepd"}, false, {BATCH, "SLURM_STEP_ID", "4294967290"}, LOCAL, NULL, NULL},
    {"mpirun in a batch shell", {"mpirun", "bash", "slurmstepd"}, false, {BATCH, OMPI("2", "4")}, "openmpi", 2, 4,
     1, 2, -1,
     -1, "OMPI_COMM_WORLD_RANK", NULL, NULL},
    {"mpirun whose orted srun started", {"orted", "slurmstepd"}, false, {STEP("0", "1", "100"), OMPI("2", "4")},
     "openmpi",
     2, 4, 1, 2, -1, -1, "OMPI_COMM_WORLD_RANK", NULL, "closer"},
    {"hydra whose proxy srun started", {"hydra_pmi_proxy", "slurmstepd"}, false, {STEP("0", "1", "100"), HYDRA("2",
     "4")},
     "hydra", 2, 4, 0, 2, -1, -1, "PMI_RANK", NULL, "closer"},
    {"srun, mpirun's variables exported", {"slurmstepd"}, false, {STEP("3", "4", "99"), OMPI("7", "8")}, "slurm",
     3, 4, 1, 2,
     1, 2, "SLURM_PROCID", NULL, "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE ignored"},
    {"srun --mpi=pmix, the same", {"slurmstepd"}, false, {STEP("3", "4", "99"), "OMPI_COMM_WORLD_RANK", "7",
     "OMPI_COMM_WORLD_SIZE", "8", "PMIX_NAMESPACE", "slurm.pmix.2.0"}, "slurm", 3, 4, 1, 2, 1, 2, "SLURM_PROCID",
     NULL,
     "srun's"},
    {"srun, nonsense from elsewhere", {"slurmstepd"}, false, {STEP("3", "4", "99"), "PMI_RANK", "x", "PMI_SIZE", "8"},
     "slurm", 3, 4, 1, 2, 1, 2, "SLURM_PROCID", NULL, "PMI_RANK"},
    {"hydra in an old shell of srun", {"hydra_pmi_proxy", "mpiexec.hydra", "bash"}, false, {STEP("3", "4", "7777"),
     HYDRA("1", "2")}, "hydra", 1, 2, 0, 2, -1, -1, "PMI_RANK", NULL, "SLURM_PROCID"},
    {"hydra in an old shell of mpirun", {"hydra_pmi_proxy", "mpiexec.hydra", "bash"}, false, {OMPI("3", "4"),
     HYDRA("1", "2")}, "hydra", 1, 2, 0, 2, -1, -1, "PMI_RANK", NULL, "OMPI_COMM_WORLD_RANK"},
    {"mpirun in an old shell of hydra", {"mpirun"}, false, {OMPI("3", "4"), "PMI_RANK", "1", "PMI_SIZE", "2",
     "PMI_FD",
     "12"}, "openmpi", 3, 4, 1, 2, -1, -1, "OMPI_COMM_WORLD_RANK", NULL, "PMI_FD 12 is not"},
    {"mpirun in a pod, and RANK", {"orted"}, true, {OMPI("3", "4"), "JOB_COMPLETION_INDEX", "1", "NNODES", "2",
     "RANK", "9",
     "WORLD_SIZE", "4", "MASTER_ADDR", "x"}, "openmpi", 3, 4, 1, 2, -1, -1, "OMPI_COMM_WORLD_RANK", NULL, "RANK"},
    {"old variables of mpirun", {"bash"}, false, {OMPI("3", "4")}, LOCAL, NULL, "no mpirun is an ancestor"},
    {"written by hand, as of mpirun", {"bash"}, true, {"OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "4"},
     LOCAL,
     NULL, "no variable contains"},
    {"mpirun, in a container without its folder", {"bash", "orted"}, false, {OMPI("3", "4"), "PMIX_SERVER_TMPDIR",
     "/gone"}, "openmpi", 3, 4, 1, 2, -1, -1, "OMPI_COMM_WORLD_RANK", NULL, NULL},
    {"mpirun of one rank, in a container", {"bash"}, true, {OMPI("0", "1"), "PMIX_SERVER_TMPDIR", "/gone"}, "openmpi",
     0, 1, 1, 2, -1, -1, "OMPI_COMM_WORLD_RANK", NULL, NULL},
    {"old variables of hydra", {"bash"}, false, {"PMI_RANK", "3", "PMI_SIZE", "4"}, LOCAL, NULL, "PMI_FD"},
    {"old variables of srun", {"bash", "login"}, false, {STEP("3", "4", "7777")}, LOCAL, NULL, "slurmstepd"},
    {"old RANK", {"bash"}, false, {"RANK", "3"}, LOCAL, NULL, "RANK is 3, but WORLD_SIZE is not set"},
    {"a RANK that is no rank", {"bash"}, false, {"RANK", "low"}, LOCAL, NULL, "RANK is low, but WORLD_SIZE is not set"},
    {"a node without a number", {"bash"}, false, {"NNODES", "2"}, LOCAL, NULL, "NNODES is 2, but NODE_RANK is not set"},
    {"one node", {"bash"}, false, {"NNODES", "1"}, LOCAL, NULL, NULL},
    {"old RANK and WORLD_SIZE", {"bash"}, false, {"RANK", "3", "WORLD_SIZE", "4"}, LOCAL, NULL, "MASTER_ADDR"},
    {"levin launch", {"levin", "bash"}, false, {"LEVIN_RANK", "1", "LEVIN_SIZE", "2", "LEVIN_LOCAL_RANK", "1",
     "LEVIN_LOCAL_SIZE", "2", "LEVIN_NODE", "0", "LEVIN_NODES", "1", "SLURM_NTASKS", "4"}, "levin", 1, 2, 1, 2, 0, 1,
     "LEVIN_RANK", NULL, NULL},
    {"levin launch inside of mpirun", {"levin", "mpirun"}, false, {"LEVIN_RANK", "1", "LEVIN_SIZE", "2", OMPI("0",
     "1")},
     "levin", 1, 2, -1, -1, -1, -1, "LEVIN_RANK", NULL, "closer"},
    {"jsrun", {"jsmd", "init"}, false, {"JSM_NAMESPACE_RANK", "1", "JSM_NAMESPACE_SIZE", "2",
     "JSM_NAMESPACE_LOCAL_RANK",
     "1"}, "lsf", 1, 2, 1, -1, -1, -1, "JSM_NAMESPACE_RANK", NULL, NULL},
    {"mvapich", {"mpispawn"}, false, {"MV2_COMM_WORLD_RANK", "1", "MV2_COMM_WORLD_SIZE", "2",
     "MV2_COMM_WORLD_LOCAL_RANK",
     "1"}, "mvapich", 1, 2, 1, -1, -1, -1, "MV2_COMM_WORLD_RANK", NULL, NULL},
    {"PALS", {"palsd"}, false, {PALS}, "pals", 5, 8, 1, 4, 1, -1, "PALS_RANKID", NULL, NULL},
    {"PALS, in a container", {"sh"}, true, {PALS}, "pals", 5, 8, 1, 4, 1, -1, "PALS_RANKID", NULL, NULL},
    {"hydra in a rank of PALS", {"hydra_pmi_proxy", "bash"}, false, {PALS_ONLY, HYDRA("1", "2")}, "hydra", 1, 2, 0, 2,
     -1, -1, "PMI_RANK", NULL, "PALS_RANKID"},
    {"srun on a Cray", {"slurmstepd"}, false, {PALS, STEP("5", "8", "100")}, "slurm", 5, 8, 1, 2, 1, 2, "SLURM_PROCID",
     NULL, NULL},
    {"a pod alone", {"sh"}, true, {"JOB_COMPLETION_INDEX", "0", "NNODES", "1"}, "kubernetes", 0, 1, -1, -1, 0, 1,
     "JOB_COMPLETION_INDEX", NULL, NULL},
    {"an index alone numbers jobs", {"sh"}, true, {"JOB_COMPLETION_INDEX", "5"}, LOCAL, NULL, NULL},
    {"torchrun of one", {"torchrun"}, false, {TORCHRUN("0", "1")}, "torchrun", 0, 1, 0, -1, -1, -1, "RANK", NULL,
     NULL},
    {"pods", {"sh"}, true, {"JOB_COMPLETION_INDEX", "1", "NNODES", "2"}, "kubernetes", 1, 2, -1, -1, 1, 2,
     "JOB_COMPLETION_INDEX", NULL, NULL},
    {"pods of one rank", {"sh"}, true, {"JOB_COMPLETION_INDEX", "1", "NNODES", "2", "GPUS_PER_NODE", "1"}, "kubernetes",
     1, 2, -1, -1, 1, 2, "JOB_COMPLETION_INDEX", NULL, NULL},
    {"ranks that levin launch started in a pod", {"levin"}, true, {"JOB_COMPLETION_INDEX", "1", "NNODES", "2",
     "GPUS_PER_NODE", "2", "LEVIN_RANK", "3", "LEVIN_SIZE", "4", "LEVIN_LOCAL_RANK", "1", "LEVIN_LOCAL_SIZE", "2"},
     "levin", 3, 4, 1, 2, -1, -1, "LEVIN_RANK", NULL, "JOB_COMPLETION_INDEX"},
    {"pods with WORLD_SIZE", {"sh"}, true, {"JOB_COMPLETION_INDEX", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "x"},
     "kubernetes", 1, 2, -1, -1, 1, 2, "JOB_COMPLETION_INDEX", NULL, NULL},
    {"old WORLD_SIZE", {"bash"}, false, {"WORLD_SIZE", "4"}, LOCAL, NULL, "WORLD_SIZE is 4, but RANK is not set"},
    {"PALS without PMI", {"palsd"}, false, {PALS_ONLY}, LOCAL, NULL, "PALS_RANKID is 5, but PMI_SIZE is not set"},
    {"flux", {"flux-shell", "flux-broker-1"}, false, {FLUX("1", "4")}, "flux", 1, 4, 1, -1, -1, 2, "FLUX_TASK_RANK",
     NULL, NULL},
    {"flux, in a container", {"sh"}, true, {FLUX("1", "4")}, "flux", 1, 4, 1, -1, -1, 2, "FLUX_TASK_RANK", NULL, NULL},
    {"flux with the plugin cray-pals", {"flux-shell"}, false, {FLUX("5", "8"), PALS_ONLY}, "flux", 5, 8, 1, -1, -1, 2,
     "FLUX_TASK_RANK", NULL, NULL},
    {"hydra in a task of flux", {"hydra_pmi_proxy", "flux-shell"}, false, {HYDRA("1", "2"), FLUX("0", "1")}, "hydra", 1,
     2, 0, 2, -1, -1, "PMI_RANK", NULL, "FLUX_TASK_RANK and FLUX_JOB_SIZE ignored: another launcher"},
    {"old variables of flux", {"bash"}, false, {FLUX("1", "4")}, LOCAL, NULL, "flux-shell is not an ancestor"},
    {"torchrun", {"python3"}, false, {TORCHRUN("1", "2")}, "torchrun", 1, 2, 0, -1, -1, -1, "RANK", NULL, NULL},
    {"torchrun under srun", {"python3", "slurmstepd"}, false, {STEP("0", "1", "101"), TORCHRUN("1", "2")}, "torchrun",
     1, 2, 0, -1, -1, -1, "RANK", NULL, "SLURM_PROCID and SLURM_STEP_NUM_TASKS ignored"},
    {"kubeflow", {"sh"}, true, {"RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "x", "MASTER_PORT", "1"}, "kubeflow", 1,
     2, -1, -1, -1, -1, "RANK", NULL, NULL},
    /* refused */
    {"mpirun that ended, in a container", {"bash"}, true, {OMPI("3", "4"), "PMIX_SERVER_TMPDIR", "/gone"},
     .says = "this container has no folder '/gone' (PMIX_SERVER_TMPDIR)"},
    {"no size", {"mpirun"}, false, {"OMPI_COMM_WORLD_RANK", "1", "PMIX_NAMESPACE", "1"},
     .says = "OMPI_COMM_WORLD_RANK is set, but OMPI_COMM_WORLD_SIZE is not"},
    {"no rank", {"slurmstepd"}, false, {"SLURM_STEP_ID", "0", "SLURM_NTASKS", "4", "SLURM_TASK_PID", "99"},
     .says = "SLURM_NTASKS is set, but SLURM_PROCID is not"},
    {"a pod of several ranks", {"sh"}, true, {"JOB_COMPLETION_INDEX", "1", "NNODES", "2", "GPUS_PER_NODE", "8"},
     .says = "GPUS_PER_NODE is 8 and NNODES is 2, so each pod runs several ranks, but levin launch did not start this "
             "process: start it with `levin launch -- train ...`"},
    {"a pod of as many ranks as GPUs", {"sh"}, true,
     {"JOB_COMPLETION_INDEX", "1", "NNODES", "2", "NPROC_PER_NODE", "auto"}, .says = "NPROC_PER_NODE is auto"},
    {"no RANK", {"sh"}, true, {"WORLD_SIZE", "2", "MASTER_ADDR", "x", "MASTER_PORT", "1"},
     .says = "WORLD_SIZE is set, but RANK is not"},
    {"empty size", {"mpirun"}, false, {"OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "", "PMIX_NAMESPACE",
     "1"},
     .says = "OMPI_COMM_WORLD_SIZE is not"},
    {"negative", {"mpirun"}, false, {OMPI("-1", "4")}, .says = "OMPI_COMM_WORLD_RANK is '-1'"},
    {"no number", {"bash"}, false, {"PMI_RANK", "1x", "PMI_SIZE", "4"}, .says = "PMI_RANK is '1x'"},
    {"none at all", {"slurmstepd"}, false, {STEP("0", "0", "99")}, .says = "SLURM_STEP_NUM_TASKS is '0'"},
    {"rank too large", {"hydra_pmi_proxy"}, false, {HYDRA("4", "4")}, .says = "ranks are 0 to 3"},
    {"huge", {"hydra_pmi_proxy"}, false, {HYDRA("99999999999999999999", "4")}, .says = "PMI_RANK is '9999"},
    {"of levin launch", {"levin"}, false, {"LEVIN_RANK", "two", "LEVIN_SIZE", "2"}, .says = "LEVIN_RANK is 'two'"},
    {"LEVIN_RANK alone", {"levin"}, false, {"LEVIN_RANK", "1"}, .says = "LEVIN_SIZE is not"},
};

/* clang-format on */

static const char *variable(const struct lvn_environment *s, const char *name)
{
    for (const char *const *p = s->variables; *p; p += 2) {
        if (!strcmp(*p, name)) return p[1];
    }
    return NULL;
}

static bool socket_open(const struct lvn_environment *s, int fd)
{
    (void)s;
    return fd == OPEN_SOCKET;
}

static bool path_exists(const struct lvn_environment *s, const char *path)
{
    (void)s;
    return strcmp(path, "/gone") != 0;
}

static void all_scenes(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        const struct scene *w = &scenes[i];
        struct lvn_environment s = {.variable = variable,
                                    .socket_open = socket_open,
                                    .path_exists = path_exists,
                                    .variables = w->variables,
                                    .complete = !w->container,
                                    .pid = 99};
        for (; s.n_ancestors < 6 && w->above[s.n_ancestors]; s.n_ancestors++) {
            s.ancestors[s.n_ancestors].pid = 100 + s.n_ancestors;
            snprintf(s.ancestors[s.n_ancestors].name, sizeof s.ancestors[0].name, "%s", w->above[s.n_ancestors]);
        }
        struct lvn_identity id;
        enum lvn_status status = lvn_identity_find_in(&id, &s);
        bool good = w->says
                        ? status == LVN_ARG && strstr(levin_error_text(), w->says) && !strchr(levin_error_text(), '\n')
                        : status == LVN_OK && !strcmp(id.launcher, w->family) && id.rank == w->rank &&
                              id.size == w->size && id.local_rank == w->local_rank && id.local_size == w->local_size &&
                              id.node == w->node && id.nodes == w->nodes && !strcmp(id.rank_from, w->rank_from) &&
                              id.evidence[0] && (id.launched || strncmp(id.evidence, "started by", 10) != 0) &&
                              (w->ignored ? strstr(id.ignored, w->ignored) || strstr(id.unconnected, w->ignored)
                                          : !*id.ignored && !*id.unconnected);
        if (good) continue;
        wrong++;
        if (status) {
            print_message("%s: %s\n", w->title, levin_error_text());
        } else {
            print_message("%s: %s %d of %d, local %d of %d, node %d of %d, from '%s', ignored '%s' '%s'\n", w->title,
                          id.launcher, id.rank, id.size, id.local_rank, id.local_size, id.node, id.nodes, id.rank_from,
                          id.ignored, id.unconnected);
        }
    }
    assert_int_equal(wrong, 0);
}

/* srun without MPI: the rendezvous is on the first node, unless a file of hosts orders the tasks. */
static void host_of_task_0(void **state)
{
    (void)state;
    static const char *const block[] = {STEP("1", "4", "99"), "SLURM_STEP_NODELIST", "n[1-2]", NULL},
                             *const file[] = {STEP("1", "4", "99"), "SLURM_STEP_NODELIST", "n[1-2]",
                                              "SLURM_DISTRIBUTION", "arbitrary",           NULL};
    struct lvn_environment s = {
        .variable = variable, .socket_open = socket_open, .path_exists = path_exists, .variables = block, .pid = 99};
    struct lvn_identity id;
    assert_int_equal(lvn_identity_find_in(&id, &s), LVN_OK);
    assert_int_equal(strncmp(id.endpoint, "n1:", 3), 0);
    s.variables = file;
    assert_int_equal(lvn_identity_find_in(&id, &s), LVN_OK);
    assert_string_equal(id.endpoint, "");
    assert_non_null(strstr(id.no_endpoint, "arbitrary"));
}

/* The real environment: this test has a parent, and runs below no launcher. */
static void real(void **state)
{
    (void)state;
    struct lvn_environment s;
    lvn_environment_read(&s);
    assert_true(s.n_ancestors >= 1 && s.ancestors[0].pid > 0 && s.ancestors[0].name[0]);
    assert_false(s.socket_open(&s, 1 << 20));
    assert_true(s.path_exists(&s, "/"));
    setenv("LEVIN_RANK", "3", 1);
    setenv("LEVIN_SIZE", "x", 1);
    struct lvn_identity id;
    assert_int_equal(lvn_identity_find(&id), LVN_ARG);
    assert_non_null(strstr(levin_error_text(), "LEVIN_SIZE is 'x'"));
    setenv("LEVIN_SIZE", "4", 1);
    assert_int_equal(lvn_identity_find(&id), LVN_OK);
    assert_true(id.rank == 3 && id.size == 4 && id.host[0]);
    assert_false(id.launched);
}

static pid_t stopped_rank(const char *variable)
{
    char *words[] = {"sh", "-c", "kill -STOP $$", NULL}, *environment[] = {(char *)variable, NULL};
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        execve("/bin/sh", words, environment);
        _exit(1);
    }
    assert_true(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    return pid;
}

/* Ranks 0 and 2 are stopped, and another process that is not a rank; this is rank 1. */
static void local_ranks(void **state)
{
    (void)state;
    struct lvn_stopped *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct lvn_identity who = {.rank = 1, .rank_from = "SOME_RANK"};
    assert_true(seen != MAP_FAILED);
    pid_t pids[] = {stopped_rank("SOME_RANK=2"), stopped_rank("SOME_RANK=0"), stopped_rank("OTHER=1"), fork()};
    if (pids[3] == 0) {
        lvn_local_ranks_stopped(&who, seen);
        _exit(0);
    }
    waitpid(pids[3], NULL, 0);
    for (int i = 0; i < 3; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    assert_int_equal(seen->n, 2);
    assert_int_equal(seen->below, 1);
    assert_int_equal(seen->rank, 0);
    assert_int_equal(seen->pid, pids[1]);
    munmap(seen, sizeof *seen);
}

/* The topmost of consecutive launcher processes; none for srun, which ends by itself. */
static void launchers(void **state)
{
    (void)state;
    const struct {
        const char *family, *above[5];
        int pid;
    } all[] = {{"openmpi", {"mpirun", "bash"}, 100},
               {"openmpi", {"orted", "sshd"}, 100},
               {"openmpi", {"orted", "mpirun.openmpi", "bash", "mpirun"}, 101},
               {"openmpi", {"bash", "prterun", "sh"}, 101},
               {"hydra", {"hydra_pmi_proxy", "mpiexec.mpich", "timeout"}, 101},
               {"hydra", {"hydra_pmi_proxy", "hydra_bstrap_pr", "mpiexec.hydra", "levin"}, 102},
               {"hydra", {"hydra_pmi_proxy", "sshd"}, 100},
               {"hydra", {"bash", "mpiexec"}, 0},
               {"slurm", {"slurmstepd", "slurmd"}, 0},
               {"local", {"bash", "mpirun"}, 0}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        struct lvn_environment s = {.pid = 99};
        for (; s.n_ancestors < 5 && all[k].above[s.n_ancestors]; s.n_ancestors++) {
            s.ancestors[s.n_ancestors].pid = 100 + s.n_ancestors;
            snprintf(s.ancestors[s.n_ancestors].name, sizeof s.ancestors[0].name, "%s", all[k].above[s.n_ancestors]);
        }
        assert_int_equal(lvn_launcher_pid(&s, all[k].family), all[k].pid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_scenes), cmocka_unit_test(host_of_task_0),
                                       cmocka_unit_test(real), cmocka_unit_test(local_ranks),
                                       cmocka_unit_test(launchers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
