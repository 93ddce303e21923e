/* launch_command_line.c - the command line of each launcher, and its environment variables. Called before each attempt.
 *
 * The command line tells the launcher how many ranks to start on which hosts, to prefix each output line with its rank,
 * to bind ranks to cores (the launcher has its own hwloc), and, on one machine, to listen only on the loopback
 * interface. Variables that another launcher left in the environment are removed, because they would mislead the ranks
 * or the launcher. launch_launcher.c has selected the launcher. */
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/files.h"
#include "host/library.h"
#include "launch/launch.h"

extern char **environ;

static bool on_one_machine(const struct lvn_launch *l)
{
    for (int i = 0; i < l->resources.n_hosts; i++) {
        if (l->resources.hosts[i].ranks && !l->resources.hosts[i].here) return false;
    }
    return !l->resources.in_slurm;
}

/* "node1:2,node2:2" */
static enum lvn_status add_hosts(struct lvn_launch *l, const char *option)
{
    LVN_LOCAL_TEXT(t);
    for (int i = 0; i < l->resources.n_hosts; i++) {
        const struct lvn_host *host = &l->resources.hosts[i];
        if (host->ranks) lvn_text_printf(&t, "%s%s:%d", t.n ? "," : "", host->name, host->slots);
    }
    const char *list = lvn_text_string(&t);
    if (list) {
        lvn_words_add(&l->attempt.line, "%s", option);
        lvn_words_add(&l->attempt.line, "%s", list);
    }
    return list ? LVN_OK : LVN_MEMORY;
}

static void add_mca(struct lvn_launch *l, const char *option, const char *name, const char *value)
{
    lvn_words_add(&l->attempt.line, "%s", option);
    lvn_words_add(&l->attempt.line, "%s", name);
    lvn_words_add(&l->attempt.line, "%s", value);
}

bool lvn_launch_exports(const char *variable)
{
    static const char *const prefixes[] = {"LEVIN_", "OMP_", "GOMP_", "DNNL_", "MALLOC_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (!strncmp(variable, prefixes[i], strlen(prefixes[i]))) return true;
    }
    return false;
}

/* True if `words` (NAME or NAME=VALUE each) contains the variable of `entry` (NAME=VALUE). */
static bool has_variable(const struct lvn_words *words, const char *entry)
{
    size_t n = strcspn(entry, "=");
    for (int i = 0; i < words->n; i++) {
        if (strcspn(words->word[i], "=") == n && !strncmp(words->word[i], entry, n)) return true;
    }
    return false;
}

/* Open MPI's daemons on other hosts pass on only variables named with -x. The rendezvous is named before its address is
 * known, because the server starts later. */
static void add_exports(struct lvn_launch *l)
{
    static const char *const rendezvous[] = {"LEVIN_RENDEZVOUS", "LEVIN_RENDEZVOUS_TOKEN"};
    for (int i = 0; i < 2 && l->request.training; i++) {
        lvn_words_add(&l->attempt.line, "-x");
        lvn_words_add(&l->attempt.line, "%s", rendezvous[i]);
    }
    for (int pass = 0; pass < 2; pass++) {
        char **list = pass ? environ : l->attempt.set.word;
        for (int i = 0; list && list[i] && (pass || i < l->attempt.set.n); i++) {
            size_t n = strcspn(list[i], "=");
            bool already_added = pass && has_variable(&l->attempt.set, list[i]);
            bool dropped = pass && has_variable(&l->attempt.drop, list[i]);
            for (int k = 0; k < 2 && l->request.training; k++)
                already_added |= n == strlen(rendezvous[k]) && !strncmp(rendezvous[k], list[i], n);
            if (already_added || dropped || !lvn_launch_exports(list[i])) continue;
            lvn_words_add(&l->attempt.line, "-x");
            lvn_words_add(&l->attempt.line, "%.*s", (int)n, list[i]);
        }
    }
}

/* The ranks of each node if an mpirun finds the nodes of a Slurm job itself and --nproc-per-node is given; else 0. */
static int ranks_each(const struct lvn_launch *l)
{
    return l->resources.in_slurm && !l->resources.n_hosts ? (int)l->c->flag[LVN_FLAG_launch_nproc_per_node].i : 0;
}

static enum lvn_status build_openmpi(struct lvn_launch *l)
{
    char address[64], network[64];
    const char *interface = "lo";
    lvn_words_add(&l->attempt.line, "-n");
    lvn_words_add(&l->attempt.line, "%d", l->attempt.ranks);
    lvn_words_add(&l->attempt.line, "--tag-output");
    if (l->resources.n_hosts) LVN_TRY(add_hosts(l, "--host"));
    if (!on_one_machine(l)) {
        LVN_TRY(lvn_launch_address(l, address, network));
        interface = network;
        if (l->c->given[LVN_FLAG_launch_ssh])
            add_mca(l, "--mca", l->launcher.major >= 5 ? "plm_ssh_agent" : "plm_rsh_agent", l->resources.ssh);
        add_exports(l);
    } else if (l->resources.oversubscribed || !l->resources.n_hosts) {
        /* mpirun may count fewer cores than levin, and would then refuse the requested number of ranks */
        lvn_words_add(&l->attempt.line, "--oversubscribe");
    }
    const int each = ranks_each(l);
    LVN_LOCAL_TEXT(map);
    if (each) lvn_text_printf(&map, "ppr:%d:node", each);
    if (l->resources.bind) lvn_text_printf(&map, "%s:PE=%d", each ? "" : "slot", l->resources.threads);
    LVN_TRY(lvn_text_status(&map));
    if (map.n) lvn_words_add(&l->attempt.line, "--map-by");
    if (map.n) lvn_words_add(&l->attempt.line, "%s", map.p);
    lvn_words_add(&l->attempt.line, "--bind-to");
    lvn_words_add(&l->attempt.line, l->resources.bind ? "core" : "none");
    if (*interface) {
        bool loopback = on_one_machine(l); /* version 5 refuses to listen on it */
        if (l->launcher.major < 5) add_mca(l, "--mca", "oob_tcp_if_include", interface);
        if (l->launcher.major >= 5 && !loopback) add_mca(l, "--prtemca", "prte_if_include", interface);
        add_mca(l, "--mca", "btl_tcp_if_include", interface);
    }
    /* mpirun's hwloc probes OpenCL; the driver's LLVM then replaces mpirun's SIGUSR1 handler. */
    if (!getenv("HWLOC_COMPONENTS")) lvn_words_add(&l->attempt.set, "HWLOC_COMPONENTS=-opencl");
    if (geteuid() == 0) { /* root, which is the only user in many containers */
        lvn_words_add(&l->attempt.set, "OMPI_ALLOW_RUN_AS_ROOT=1");
        lvn_words_add(&l->attempt.set, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
        if (l->launcher.major >= 5) lvn_words_add(&l->attempt.set, "PRTE_ALLOW_RUN_AS_ROOT=1");
        if (l->launcher.major >= 5) lvn_words_add(&l->attempt.set, "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1");
    }
    return LVN_OK;
}

/* MPICH and Intel MPI. */
static enum lvn_status build_hydra(struct lvn_launch *l)
{
    bool even = true, intel = l->launcher.kind == LVN_LAUNCHER_INTEL;
    lvn_words_add(&l->attempt.line, "-n");
    lvn_words_add(&l->attempt.line, "%d", l->attempt.ranks);
    lvn_words_add(&l->attempt.line, "-prepend-pattern"); /* -prepend-rank is "[%r] ", which texts may contain */
    lvn_words_add(&l->attempt.line, "[%%r]" LVN_HYDRA_PREFIX_END);
    int slots = ranks_each(l);
    for (int i = 0; i < l->resources.n_hosts; i++) {
        const struct lvn_host *host = &l->resources.hosts[i];
        if (host->ranks && !slots) slots = host->slots;
        even &= !host->ranks || host->slots == slots;
    }
    LVN_CHECK(even || !intel, ARG,
              "Intel MPI requires the same number of ranks on each host: set it with --nproc-per-node");
    if (even && slots) {
        lvn_words_add(&l->attempt.line, "-ppn");
        lvn_words_add(&l->attempt.line, "%d", slots);
    }
    if (l->resources.n_hosts) {
        LVN_LOCAL_TEXT(t);
        for (int i = 0; i < l->resources.n_hosts; i++) {
            if (!l->resources.hosts[i].ranks) continue;
            lvn_text_printf(&t, "%s%s", t.n ? "," : "", l->resources.hosts[i].name);
            if (!even) lvn_text_printf(&t, ":%d", l->resources.hosts[i].slots);
        }
        const char *list = lvn_text_string(&t);
        if (!list) return LVN_MEMORY;
        lvn_words_add(&l->attempt.line, "-hosts");
        lvn_words_add(&l->attempt.line, "%s", list);
    }
    char address[64], network[64];
    LVN_TRY(lvn_launch_address(l, address, network));
    LVN_CHECK(!strchr(address, ':'), ARG,
              "%s requires IPv4 between hosts, but they are reachable only at %s: use --launcher=openmpi or "
              "--launcher=levin, which support IPv6",
              l->launcher.title, address);
    if (on_one_machine(l)) {
        lvn_words_add(&l->attempt.line, "-iface");
        lvn_words_add(&l->attempt.line, "lo");
    } else if (!l->resources.in_slurm &&
               l->c->given[LVN_FLAG_launch_ssh]) { /* it detects the remote shells of batch systems itself */
        const char *program = lvn_process_find(l->arena, l->resources.ssh);
        lvn_words_add(&l->attempt.line, "-launcher");
        lvn_words_add(&l->attempt.line, "ssh");
        lvn_words_add(&l->attempt.line, "-launcher-exec");
        lvn_words_add(&l->attempt.line, "%s", program ? program : l->resources.ssh);
    }
    if (intel) {
        const char *folder = lvn_path_dir(l->arena, l->launcher.program),
                   *root = folder ? lvn_path_dir(l->arena, folder) : NULL;
        if (root && !getenv("I_MPI_ROOT")) lvn_words_add(&l->attempt.set, "I_MPI_ROOT=%s", root);
        lvn_words_add(&l->attempt.set, "I_MPI_PIN=%d", l->resources.bind);
        if (l->resources.bind) lvn_words_add(&l->attempt.set, "I_MPI_PIN_CELL=core");
        if (l->resources.bind) lvn_words_add(&l->attempt.set, "I_MPI_PIN_DOMAIN=%d", l->resources.threads);
    } else if (l->resources.bind) {
        lvn_words_add(&l->attempt.line, "-bind-to");
        lvn_words_add(&l->attempt.line, "core:%d", l->resources.threads);
    }
    return LVN_OK;
}

/* --- levin ranks --- */

static enum lvn_status build_levin_ranks(struct lvn_launch *l)
{
    LVN_LOCAL_TEXT(t);
    lvn_words_add(&l->attempt.line, "ranks");
    if (l->place.on && l->place.node) { /* node 0 sends which ranks to start */
        lvn_words_add(&l->attempt.line, "--part");
        lvn_words_add(&l->attempt.line, "--");
        return LVN_OK;
    }
    for (int i = 0; i < l->resources.n_hosts; i++) {
        const struct lvn_host *host = &l->resources.hosts[i];
        if (!host->ranks) continue;
        lvn_text_add(&t, t.n ? "," : "");
        if (!l->place.on)
            lvn_text_printf(&t, "%s:%d", host->name, host->ranks);
        else if (host->here)
            lvn_text_printf(&t, "127.0.0.1:%d", host->ranks);
        else
            lvn_text_printf(&t, "@%d:%d", host->connection ? host->connection : i, host->ranks);
    }
    if (!l->resources.n_hosts) lvn_text_printf(&t, "127.0.0.1:%d", l->attempt.ranks);
    const char *hosts = lvn_text_string(&t);
    if (!hosts) return LVN_MEMORY;
    lvn_words_add(&l->attempt.line, "--hosts=%s", hosts);
    if (strcmp(l->resources.ssh, "ssh")) lvn_words_add(&l->attempt.line, "--ssh=%s", l->resources.ssh);
    lvn_words_add(&l->attempt.line, "--");
    return LVN_OK;
}

/* --- srun --- */

/* The srun plugin through which tasks connect: Open MPI's library needs PMIx, libraries with MPICH's ABI need PMI-2.
 * With the wrong one every task believes that it is the only rank. */
static enum lvn_status choose_plugin(const struct lvn_launch *l, const char **plugin)
{
    enum { LIST_TIMEOUT = 20 }; /* seconds */
    const char *library = lvn_path_name(l->request.mpi_library);
    LVN_LOCAL_TEXT(output);
    char *words[] = {(char *)l->launcher.program, "--mpi=list", NULL};
    *plugin = "none";
    if (l->request.tcp) return LVN_OK;
    const int code = lvn_process_run(words, LIST_TIMEOUT, &output);
    LVN_CHECK(code != -1, IO, "`srun --mpi=list` could not be started: %s", strerror(errno));
    LVN_CHECK(code != -2, IO,
              "`srun --mpi=list` did not end within %d s, so the MPIs of this Slurm are unknown; try it in a shell",
              LIST_TIMEOUT);
    const char *list = lvn_text_string(&output);
    if (!list) return LVN_MEMORY;
    LVN_CHECK(!code, IO, "`srun --mpi=list` failed, so the MPIs of this Slurm are unknown (%.*s); try it in a shell",
              (int)strcspn(list, "\n"), list);
    bool pmix = strstr(list, "pmix"), pmi2 = strstr(list, "pmi2"), cray = strstr(list, "cray_shasta");
    bool open = strstr(library, ".so.40") || (!*library && pmix && lvn_library_exists("libmpi.so.40"));
    bool other = !open && (*library || lvn_library_exists("libmpi.so.12") || lvn_library_exists("libmpich.so.12"));
    if (l->attempt.ranks == 1 && !open && !other) return LVN_OK;
    *plugin = "pmix";
    if (open && pmix) return LVN_OK;
    *plugin = "pmi2";
    if (other && pmi2) return LVN_OK;
    *plugin = "cray_shasta";
    if (cray && lvn_library_exists("libmpi_gnu_123.so.12")) return LVN_OK;
    LVN_CHECK(open || other || lvn_library_exists("libmpi.so.40"), ARG,
              "no MPI library was found on this node: load a module (module avail shows the names), or set "
              "trainer.mpi_library");
    LVN_FAIL(
        ARG,
        "this Slurm cannot start ranks of the installed MPI (`srun --mpi=list` shows neither pmix nor pmi2 for it); "
        "use --launcher=openmpi, mpich or intel");
}

/* A restart excludes nodes; --overlap prevents it from waiting for a job step that a lost node still occupies. */
static enum lvn_status add_nodes(struct lvn_launch *l)
{
    LVN_LOCAL_TEXT(out);
    int nodes = 0;
    for (int i = 0; i < l->resources.n_hosts; i++) {
        const struct lvn_host *host = &l->resources.hosts[i];
        nodes += host->ranks > 0;
        if (host->down || host->faults >= LVN_HOST_FAULTS) lvn_text_printf(&out, "%s%s", out.n ? "," : "", host->name);
    }
    LVN_TRY(lvn_text_status(&out));
    if (out.n) lvn_words_add(&l->attempt.line, "--nodes=%d", nodes);
    if (out.n) lvn_words_add(&l->attempt.line, "--exclude=%s", out.p);
    if (l->history.restarts) lvn_words_add(&l->attempt.line, "--overlap");
    return LVN_OK;
}

static enum lvn_status build_srun(struct lvn_launch *l)
{
    const char *tasks = getenv("SLURM_NTASKS");
    lvn_words_add(&l->attempt.line, "--ntasks=%d", l->attempt.ranks);
    if (l->c->given[LVN_FLAG_launch_nproc_per_node])
        lvn_words_add(&l->attempt.line, "--ntasks-per-node=%d", (int)l->c->flag[LVN_FLAG_launch_nproc_per_node].i);
    LVN_TRY(add_nodes(l));
    if (!l->launcher.plugin) LVN_TRY(choose_plugin(l, &l->launcher.plugin)); /* the same in a restart */
    lvn_words_add(&l->attempt.line, "--mpi=%s", l->launcher.plugin);
    lvn_words_add(&l->attempt.line, "--label");
    lvn_words_add(&l->attempt.line, "--kill-on-bad-exit=1");
    lvn_words_add(&l->attempt.line, "--export=ALL");
    bool more_than_job = tasks && strtol(tasks, NULL, 10) > 0 && l->attempt.ranks > strtol(tasks, NULL, 10);
    if (l->resources.oversubscribed || more_than_job) {
        lvn_words_add(&l->attempt.line, "--overcommit");
    } else {
        lvn_words_add(&l->attempt.line, "--cpus-per-task=%d", l->resources.threads);
    }
    lvn_words_add(&l->attempt.line, "--cpu-bind=%s", l->resources.bind ? "cores" : "none");
    return LVN_OK;
}

/* --- variables --- */

/* True for a variable with which a launcher identifies ranks: it is stale, from the launcher that started this process.
 */
static bool is_stale(const struct lvn_launch *l, const char *variable)
{
    static const char *const prefixes[] = {"PMI_",
                                           "PMIX_",
                                           "OMPI_COMM_",
                                           "OMPI_UNIVERSE_",
                                           "OMPI_APP_",
                                           "OMPI_ARGV",
                                           "OMPI_COMMAND",
                                           "OMPI_FILE_",
                                           "OMPI_FIRST_",
                                           "OMPI_NUM_APP",
                                           "OMPI_MCA_orte_",
                                           "OMPI_MCA_ess",
                                           "OMPI_MCA_pmix",
                                           "HYDI_",
                                           "MPI_LOCAL",
                                           "MV2_COMM_",
                                           "TORCHELASTIC_",
                                           "JSM_NAMESPACE_",
                                           "FLUX_TASK_",
                                           "FLUX_JOB_SIZE=",
                                           "RANK=",
                                           "WORLD_SIZE=",
                                           "LOCAL_RANK=",
                                           "GROUP_RANK=",
                                           "LOCAL_WORLD_SIZE=",
                                           "NODE_RANK=",
                                           "MASTER_ADDR=",
                                           "MASTER_PORT=",
                                           "JOB_COMPLETION_INDEX=",
                                           "LEVIN_RANK=",
                                           "LEVIN_SIZE=",
                                           "LEVIN_LOCAL_",
                                           "LEVIN_NODE=",
                                           "LEVIN_LAUNCH_ID=",
                                           "LEVIN_RESTART=",
                                           "LEVIN_RUN_BEGUN=",
                                           "LEVIN_RENDEZVOUS=",
                                           "LEVIN_RENDEZVOUS_TOKEN=",
                                           "LEVIN_TERMINAL=",
                                           "GROUP_WORLD_SIZE=",
                                           "PET_",
                                           "NNODES=",
                                           "GPUS_PER_NODE=",
                                           "NPROC_PER_NODE=",
                                           "LEVIN_NODES="};
    if (!l->resources.in_slurm && !strncmp(variable, "SLURM_", 6) && strncmp(variable, "SLURM_CONF=", 11)) return true;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (!strncmp(variable, prefixes[i], strlen(prefixes[i]))) return true;
    }
    return false;
}

static void set_variables(struct lvn_launch *l)
{
    struct winsize size = {0};
    for (char **e = environ; *e; e++) {
        if (is_stale(l, *e)) lvn_words_add(&l->attempt.drop, "%.*s", (int)strcspn(*e, "="), *e);
    }
    lvn_words_add(&l->attempt.set, "LEVIN_LAUNCH=%s", l->launcher.title);
    if (*l->history.id) lvn_words_add(&l->attempt.set, "LEVIN_LAUNCH_ID=%s", l->history.id);
    const bool requeued = l->request.requeued;
    const bool resumes = l->history.restarts || l->history.job || requeued; /* an earlier one may have begun the run */
    if (resumes) lvn_words_add(&l->attempt.set, "LEVIN_RESTART=%d", l->history.restarts);
    if (resumes && (l->history.run_begun || requeued)) lvn_words_add(&l->attempt.set, "LEVIN_RUN_BEGUN=1");
    lvn_words_add(&l->attempt.set, "OMP_NUM_THREADS=%d", l->resources.threads);
    if (l->resources.oversubscribed && !getenv("OMP_WAIT_POLICY"))
        lvn_words_add(&l->attempt.set, "OMP_WAIT_POLICY=passive");
    const char *term = getenv("TERM");
    bool live = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    if (live && ioctl(STDERR_FILENO, TIOCGWINSZ, &size)) size.ws_col = 80;
    if (live && l->launcher.kind != LVN_LAUNCHER_DIRECT)
        lvn_words_add(&l->attempt.set, "LEVIN_TERMINAL=%d", size.ws_col ? size.ws_col : 80);
}

enum lvn_status lvn_launch_environment(const struct lvn_launch *l, struct lvn_words *out)
{
    for (char **e = environ; *e; e++) {
        if (!has_variable(&l->attempt.drop, *e) && !has_variable(&l->attempt.set, *e)) lvn_words_add(out, "%s", *e);
    }
    for (int i = 0; i < l->attempt.set.n; i++) lvn_words_add(out, "%s", l->attempt.set.word[i]);
    return lvn_words_status(out);
}

enum lvn_status lvn_launch_build_command(struct lvn_launch *l)
{
    l->attempt.line = l->attempt.set = l->attempt.drop = (struct lvn_words){.arena = l->arena};
    set_variables(l);
    if (l->launcher.kind != LVN_LAUNCHER_DIRECT) lvn_words_add(&l->attempt.line, "%s", l->launcher.program);
    switch (l->launcher.kind) {
    case LVN_LAUNCHER_DIRECT:
        break;
    case LVN_LAUNCHER_SRUN:
        LVN_TRY(build_srun(l));
        break;
    case LVN_LAUNCHER_OPENMPI:
        LVN_TRY(build_openmpi(l));
        break;
    case LVN_LAUNCHER_MPICH:
    case LVN_LAUNCHER_INTEL:
        LVN_TRY(build_hydra(l));
        break;
    case LVN_LAUNCHER_LEVIN:
        LVN_TRY(build_levin_ranks(l));
        break;
    }
    if (l->launcher.kind != LVN_LAUNCHER_LEVIN) lvn_words_add(&l->attempt.line, "%s", l->self);
    for (int i = 0; i < l->c->n_rest; i++) lvn_words_add(&l->attempt.line, "%s", l->c->rest[i]);
    LVN_TRY(lvn_words_status(&l->attempt.set));
    LVN_TRY(lvn_words_status(&l->attempt.drop));
    return lvn_words_status(&l->attempt.line);
}
