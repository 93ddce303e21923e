/* launch_command_line.c - the command line of each family of launchers, and the variables that go with it.
 *
 * Every family is told: how many ranks and where, to mark each line with its rank, to keep ranks on cores of their own
 * (their own hwloc knows the machine), and, on one machine, to listen on the loopback only. Variables that another
 * launcher left in the environment are taken away: they would tell ranks, or the launcher itself, lies. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/files.h"
#include "cli/launch/launch.h"
#include "host/library.h"

extern char **environ;

static bool on_one_machine(const struct lvn_launch *l)
{
    for (int i = 0; i < l->n_hosts; i++) {
        if (l->hosts[i].ranks && !l->hosts[i].here) return false;
    }
    return !l->allocation;
}

/* "node1:2,node2:2" */
static enum lvn_status add_hosts(struct lvn_launch *l, const char *option)
{
    LVN_LOCAL_TEXT(t);
    for (int i = 0; i < l->n_hosts; i++) {
        const struct lvn_host *h = &l->hosts[i];
        if (h->ranks) lvn_text_printf(&t, "%s%s:%d", t.n ? "," : "", h->name, h->slots);
    }
    const char *list = lvn_text_string(&t);
    if (list) {
        lvn_words_add(&l->line, "%s", option);
        lvn_words_add(&l->line, "%s", list);
    }
    return list ? LVN_OK : LVN_MEMORY;
}

static void mca(struct lvn_launch *l, const char *option, const char *name, const char *value)
{
    lvn_words_add(&l->line, "%s", option);
    lvn_words_add(&l->line, "%s", name);
    lvn_words_add(&l->line, "%s", value);
}

bool lvn_launch_exported(const char *variable)
{
    static const char *const begin[] = {"LEVIN_", "OMP_", "GOMP_", "DNNL_", "MALLOC_"};
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) {
        if (!strncmp(variable, begin[i], strlen(begin[i]))) return true;
    }
    return false;
}

/* Open MPI's daemons on other hosts pass on what they are told by name. The place where ranks meet is not known yet. */
static void export_names(struct lvn_launch *l)
{
    static const char *const meeting[] = {"LEVIN_RENDEZVOUS", "LEVIN_RENDEZVOUS_TOKEN"};
    for (int i = 0; i < 2 && l->training; i++) {
        lvn_words_add(&l->line, "-x");
        lvn_words_add(&l->line, "%s", meeting[i]);
    }
    for (int pass = 0; pass < 2; pass++) {
        char **list = pass ? environ : l->set.word;
        for (int i = 0; list && list[i] && (pass || i < l->set.n); i++) {
            bool twice = false;
            size_t n = strcspn(list[i], "=");
            for (int k = 0; pass && k < l->set.n; k++) twice |= !strncmp(l->set.word[k], list[i], n + 1);
            for (int k = 0; k < 2 && l->training; k++)
                twice |= n == strlen(meeting[k]) && !strncmp(meeting[k], list[i], n);
            if (twice || !lvn_launch_exported(list[i])) continue;
            lvn_words_add(&l->line, "-x");
            lvn_words_add(&l->line, "%.*s", (int)n, list[i]);
        }
    }
}

static enum lvn_status line_openmpi(struct lvn_launch *l)
{
    char address[64], network[64];
    const char *where = "lo";
    lvn_words_add(&l->line, "-n");
    lvn_words_add(&l->line, "%d", l->ranks);
    lvn_words_add(&l->line, "--tag-output");
    if (l->n_hosts) LVN_TRY(add_hosts(l, "--host"));
    if (!on_one_machine(l)) {
        LVN_TRY(lvn_launch_address(l, NULL, address, network));
        where = network;
        if (l->c->given[LVN_FLAG_launch_ssh])
            mca(l, "--mca", l->major >= 5 ? "plm_ssh_agent" : "plm_rsh_agent", l->ssh);
        export_names(l);
    } else if (l->crowded || !l->n_hosts) {
        lvn_words_add(&l->line, "--oversubscribe"); /* its own count of cores may differ: asked for is asked for */
    }
    if (!l->bind) {
        lvn_words_add(&l->line, "--bind-to");
        lvn_words_add(&l->line, "none");
    } else {
        lvn_words_add(&l->line, "--map-by");
        lvn_words_add(&l->line, "slot:PE=%d", l->threads);
        lvn_words_add(&l->line, "--bind-to");
        lvn_words_add(&l->line, "core");
    }
    if (*where) {
        bool loopback = on_one_machine(l); /* which version 5 refuses to listen on */
        if (l->major < 5) mca(l, "--mca", "oob_tcp_if_include", where);
        if (l->major >= 5 && !loopback) mca(l, "--prtemca", "prte_if_include", where);
        mca(l, "--mca", "btl_tcp_if_include", where);
    }
    /* Its hwloc would ask OpenCL for devices, and an LLVM in there takes the handler of USR1 away from it. */
    if (!getenv("HWLOC_COMPONENTS")) lvn_words_add(&l->set, "HWLOC_COMPONENTS=-opencl");
    if (geteuid() == 0) { /* asked for by starting levin as root: containers know no other user */
        lvn_words_add(&l->set, "OMPI_ALLOW_RUN_AS_ROOT=1");
        lvn_words_add(&l->set, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
        if (l->major >= 5) lvn_words_add(&l->set, "PRTE_ALLOW_RUN_AS_ROOT=1");
        if (l->major >= 5) lvn_words_add(&l->set, "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1");
    }
    return LVN_OK;
}

static enum lvn_status line_hydra(struct lvn_launch *l)
{
    bool even = true, intel = l->launcher == LVN_LAUNCHER_INTEL;
    lvn_words_add(&l->line, "-n");
    lvn_words_add(&l->line, "%d", l->ranks);
    lvn_words_add(&l->line, "-prepend-rank");
    int slots = 0;
    for (int i = 0; i < l->n_hosts; i++) {
        const struct lvn_host *h = &l->hosts[i];
        if (h->ranks && !slots) slots = h->slots;
        even &= !h->ranks || h->slots == slots;
    }
    if (l->n_hosts) {
        LVN_CHECK(even || !intel, ARG,
                  "Intel MPI wants the same number of ranks on each host: give it with --nproc-per-node");
        if (even) {
            lvn_words_add(&l->line, "-ppn");
            lvn_words_add(&l->line, "%d", slots);
        }
        struct lvn_text t = {0};
        for (int i = 0; i < l->n_hosts; i++) {
            if (!l->hosts[i].ranks) continue;
            lvn_text_printf(&t, "%s%s", t.n ? "," : "", l->hosts[i].name);
            if (!even) lvn_text_printf(&t, ":%d", l->hosts[i].slots);
        }
        lvn_words_add(&l->line, "-hosts");
        lvn_words_add(&l->line, "%s", t.p ? t.p : "");
        lvn_text_release(&t);
    }
    char address[64], network[64];
    LVN_TRY(lvn_launch_address(l, NULL, address, network));
    LVN_CHECK(!strchr(address, ':'), ARG,
              "%s wants IPv4 between hosts, and only %s leads to them: --launcher=openmpi and --launcher=levin do with "
              "IPv6",
              l->title, address);
    if (on_one_machine(l)) {
        lvn_words_add(&l->line, "-iface");
        lvn_words_add(&l->line, "lo");
    } else if (!l->allocation && l->c->given[LVN_FLAG_launch_ssh]) { /* a queue's own is known to them */
        const char *program = lvn_process_find(l->arena, l->ssh);
        lvn_words_add(&l->line, "-launcher");
        lvn_words_add(&l->line, "ssh");
        lvn_words_add(&l->line, "-launcher-exec");
        lvn_words_add(&l->line, "%s", program ? program : l->ssh);
    }
    if (intel) {
        const char *folder = lvn_path_dir(l->arena, l->program), *root = folder ? lvn_path_dir(l->arena, folder) : NULL;
        if (root && !getenv("I_MPI_ROOT")) lvn_words_add(&l->set, "I_MPI_ROOT=%s", root);
        lvn_words_add(&l->set, "I_MPI_PIN=%d", l->bind);
        if (l->bind) lvn_words_add(&l->set, "I_MPI_PIN_CELL=core");
        if (l->bind) lvn_words_add(&l->set, "I_MPI_PIN_DOMAIN=%d", l->threads);
    } else if (l->bind) {
        lvn_words_add(&l->line, "-bind-to");
        lvn_words_add(&l->line, "core:%d", l->threads);
    }
    return LVN_OK;
}

/* --- levin ranks --- */

static enum lvn_status line_own(struct lvn_launch *l)
{
    LVN_LOCAL_TEXT(t);
    lvn_words_add(&l->line, "ranks");
    for (int i = 0; i < l->n_hosts; i++) {
        const struct lvn_host *h = &l->hosts[i];
        if (h->ranks) lvn_text_printf(&t, "%s%s:%d", t.n ? "," : "", h->name, h->ranks);
    }
    if (!l->n_hosts) lvn_text_printf(&t, "127.0.0.1:%d", l->ranks);
    lvn_words_add(&l->line, "--hosts=%s", t.p ? t.p : "");
    if (strcmp(l->ssh, "ssh")) lvn_words_add(&l->line, "--ssh=%s", l->ssh);
    lvn_words_add(&l->line, "--");
    return LVN_OK;
}

/* --- srun --- */

/* How srun's tasks find each other: Open MPI's library wants PMIx, those of MPICH's kind want PMI-2; the wrong one
 * gives every task its own little world. */
static enum lvn_status choose_plugin(struct lvn_launch *l, const char **plugin)
{
    const char *library = lvn_path_name(l->mpi_library);
    LVN_LOCAL_TEXT(said);
    char *words[] = {(char *)l->program, "--mpi=list", NULL};
    lvn_process_run(words, 20, &said);
    const char *list = said.p ? said.p : "";
    bool pmix = strstr(list, "pmix"), pmi2 = strstr(list, "pmi2"), cray = strstr(list, "cray_shasta");
    bool open = strstr(library, ".so.40") || (!*library && pmix && lvn_library_exists("libmpi.so.40"));
    bool other = !open && (*library || lvn_library_exists("libmpi.so.12") || lvn_library_exists("libmpich.so.12"));
    *plugin = "none";
    if (l->tcp) return LVN_OK;
    if (l->ranks == 1 && !open && !other) return LVN_OK;
    *plugin = "pmix";
    if (open && pmix) return LVN_OK;
    *plugin = "pmi2";
    if (other && pmi2) return LVN_OK;
    *plugin = "cray_shasta";
    if (cray && lvn_library_exists("libmpi_gnu_123.so.12")) return LVN_OK;
    LVN_CHECK(open || other || lvn_library_exists("libmpi.so.40"), ARG,
              "no MPI library is found on this node: module load one (module avail shows the names), or set "
              "trainer.mpi_library");
    LVN_FAIL(
        ARG,
        "this Slurm has no way to start the ranks of the MPI that is here (`srun --mpi=list` shows neither pmix nor "
        "pmi2 for it); use --launcher=openmpi, mpich or intel");
}

/* A restart leaves nodes out, and does not wait for what a lost node still has of the last attempt. */
static void add_nodes(struct lvn_launch *l)
{
    LVN_LOCAL_TEXT(out);
    int nodes = 0;
    for (int i = 0; i < l->n_hosts; i++) {
        const struct lvn_host *h = &l->hosts[i];
        nodes += h->ranks > 0;
        if (h->down || h->faults >= LVN_HOST_FAULTS) lvn_text_printf(&out, "%s%s", out.n ? "," : "", h->name);
    }
    if (out.p) lvn_words_add(&l->line, "--nodes=%d", nodes);
    if (out.p) lvn_words_add(&l->line, "--exclude=%s", out.p);
    if (l->restart) lvn_words_add(&l->line, "--overlap");
}

static enum lvn_status line_srun(struct lvn_launch *l)
{
    const char *tasks = getenv("SLURM_NTASKS"), *plugin;
    lvn_words_add(&l->line, "--ntasks=%d", l->ranks);
    if (l->c->given[LVN_FLAG_launch_nproc_per_node])
        lvn_words_add(&l->line, "--ntasks-per-node=%d", (int)l->c->flag[LVN_FLAG_launch_nproc_per_node].i);
    add_nodes(l);
    LVN_TRY(choose_plugin(l, &plugin));
    lvn_words_add(&l->line, "--mpi=%s", plugin);
    lvn_words_add(&l->line, "--label");
    lvn_words_add(&l->line, "--kill-on-bad-exit=1");
    lvn_words_add(&l->line, "--export=ALL");
    bool more = tasks && strtol(tasks, NULL, 10) > 0 && l->ranks > strtol(tasks, NULL, 10);
    if (l->crowded || more) {
        lvn_words_add(&l->line, "--overcommit");
    } else {
        lvn_words_add(&l->line, "--cpus-per-task=%d", l->threads);
    }
    lvn_words_add(&l->line, "--cpu-bind=%s", l->bind ? "cores" : "none");
    return LVN_OK;
}

/* --- variables --- */

static bool is_stale(const struct lvn_launch *l, const char *variable)
{
    static const char *const begin[] = {"PMI_",
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
                                        "LEVIN_NODES="};
    if (!l->allocation && !strncmp(variable, "SLURM_", 6) && strncmp(variable, "SLURM_CONF=", 11)) return true;
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) {
        if (!strncmp(variable, begin[i], strlen(begin[i]))) return true;
    }
    return false;
}

static void variables(struct lvn_launch *l)
{
    struct winsize size = {0};
    for (char **e = environ; *e; e++) {
        if (is_stale(l, *e)) lvn_words_add(&l->drop, "%.*s", (int)strcspn(*e, "="), *e);
    }
    lvn_words_add(&l->set, "LEVIN_LAUNCH=%s", l->title);
    if (*l->id) lvn_words_add(&l->set, "LEVIN_LAUNCH_ID=%s", l->id);
    if (l->restart) lvn_words_add(&l->set, "LEVIN_RESTART=%d", l->restart);
    if (l->restart && l->goes_on) lvn_words_add(&l->set, "LEVIN_RUN_BEGUN=1");
    lvn_words_add(&l->set, "OMP_NUM_THREADS=%d", l->threads);
    if (l->crowded && !getenv("OMP_WAIT_POLICY")) lvn_words_add(&l->set, "OMP_WAIT_POLICY=passive");
    const char *term = getenv("TERM");
    bool live = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    if (live && ioctl(STDERR_FILENO, TIOCGWINSZ, &size)) size.ws_col = 80;
    if (live && l->launcher != LVN_LAUNCHER_DIRECT)
        lvn_words_add(&l->set, "LEVIN_TERMINAL=%d", size.ws_col ? size.ws_col : 80);
}

/* Is the variable of `entry` (NAME=VALUE) among these (NAME, or NAME=VALUE)? */
static bool among(const struct lvn_words *w, const char *entry)
{
    size_t n = strcspn(entry, "=");
    for (int i = 0; i < w->n; i++) {
        if (strcspn(w->word[i], "=") == n && !strncmp(w->word[i], entry, n)) return true;
    }
    return false;
}

enum lvn_status lvn_launch_environment(const struct lvn_launch *l, struct lvn_words *out)
{
    for (char **e = environ; *e; e++) {
        if (!among(&l->drop, *e) && !among(&l->set, *e)) lvn_words_add(out, "%s", *e);
    }
    for (int i = 0; i < l->set.n; i++) lvn_words_add(out, "%s", l->set.word[i]);
    return lvn_words_status(out);
}

enum lvn_status lvn_launch_line(struct lvn_launch *l)
{
    l->line = l->set = l->drop = (struct lvn_words){.arena = l->arena};
    variables(l);
    if (l->launcher != LVN_LAUNCHER_DIRECT) lvn_words_add(&l->line, "%s", l->program);
    switch (l->launcher) {
    case LVN_LAUNCHER_DIRECT:
        break;
    case LVN_LAUNCHER_SRUN:
        LVN_TRY(line_srun(l));
        break;
    case LVN_LAUNCHER_OPENMPI:
        LVN_TRY(line_openmpi(l));
        break;
    case LVN_LAUNCHER_MPICH:
    case LVN_LAUNCHER_INTEL:
        LVN_TRY(line_hydra(l));
        break;
    case LVN_LAUNCHER_OWN:
        LVN_TRY(line_own(l));
        break;
    }
    if (l->launcher != LVN_LAUNCHER_OWN) lvn_words_add(&l->line, "%s", l->self);
    for (int i = 0; i < l->c->n_rest; i++) lvn_words_add(&l->line, "%s", l->c->rest[i]);
    LVN_TRY(lvn_words_status(&l->set));
    LVN_TRY(lvn_words_status(&l->drop));
    return lvn_words_status(&l->line);
}
