/* launch.c - levin launch: a command of levin on many ranks.
 *
 * Everything that can be refused is refused before anything starts: the command, the recipe, the hosts, the launcher.
 * Then the launcher's command line is made (launch_command_line.c) and run (launch_run.c). */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/files.h"
#include "cli/launch/launch.h"
#include "cluster/identity/identity.h"
#include "host/machine.h"
#include "settings/device_list.h"
#include "stores/upload_staging.h"

static int64_t flag(const struct lvn_launch *l, enum lvn_flag_id id)
{
    return l->c->flag[id].i;
}

/* What a restart on fewer ranks would change, or be refused for. */
static enum lvn_status check_fewer(const struct lvn_launch *l, const struct lvn_settings *s)
{
    const char *key = s->trainer.num_nodes               ? "trainer.num_nodes"
                      : lvn_devices_count(s)             ? "trainer.devices"
                      : s->trainer.batch_size_per_device ? "trainer.batch_size_per_device"
                      : *s->trainer.shares               ? "trainer.shares"
                                                         : NULL;
    LVN_CHECK(!key || !l->min_ranks, ARG,
              "--min-ranks goes on with fewer ranks, and %s holds for one number of them: leave one of the two out",
              key);
    return LVN_OK;
}

static enum lvn_status make_id(struct lvn_launch *l)
{
    unsigned char bytes[(sizeof l->id - 1) / 2];
    LVN_CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes, IO, "no random bytes for the launch's name: %s",
              strerror(errno));
    lvn_hex_text(bytes, sizeof bytes, l->id);
    return LVN_OK;
}

static enum lvn_status check_recipe(struct lvn_launch *l, struct lvn_cli *one)
{
    const struct lvn_settings *s = &one->settings;
    if (flag(l, LVN_FLAG_launch_n)) one->settings.ranks = (int)flag(l, LVN_FLAG_launch_n);
    LVN_TRY(lvn_cli_settings(one, one->n_operands ? one->operand[0] : NULL, LVN_USES_ALL));
    LVN_TRY(check_fewer(l, s));
    if (s->trainer.threads > 0) l->threads = (int)s->trainer.threads;
    l->run = lvn_arena_strdup(l->arena, s->trainer.fast_dev_run ? "" : s->run_dir);
    if (!l->run) return LVN_MEMORY;
    l->resumes = lvn_cli_on(one, LVN_FLAG_train_resume);
    LVN_TRY(make_id(l));
    return lvn_upload_staging_open(l->arena, l->run, &l->run_dir);
}

/* What joins the ranks. */
static enum lvn_status check_transport(struct lvn_launch *l, struct lvn_cli *one)
{
    const struct lvn_settings *s = &one->settings;
    if (!l->training) LVN_TRY(lvn_cli_settings(one, NULL, 0));
    l->rank_timeout = s->trainer.rank_timeout;
    l->stall_timeout = s->trainer.stall_timeout;
    l->mpi_library = lvn_arena_strdup(l->arena, s->trainer.mpi_library);
    l->tcp = s->trainer.transport == LVN_TRAINER_TRANSPORT_TCP;
    l->mpi = s->trainer.transport == LVN_TRAINER_TRANSPORT_MPI;
    if (!l->mpi_library) return LVN_MEMORY;
    if (l->tcp && *l->mpi_library)
        lvn_log(LVN_LOG_WARN, "trainer.mpi_library is not used, because trainer.transport is tcp");
    return LVN_OK;
}

/* The command behind `--`, checked as far as one process can: what is wrong with a recipe is said once, not by every
 * rank. */
static enum lvn_status check_command(struct lvn_launch *l)
{
    struct lvn_cli *c = l->c, one = {0};
    LVN_CHECK(c->n_rest, ARG, "say what to launch: levin launch -n 4 -- train RECIPE");
    const char *name = c->rest[0];
    one.command = lvn_command_find(name);
    const char *last = lvn_path_name(name);
    LVN_CHECK(one.command || strcmp(last, "levin"), ARG,
              "leave '%s' out: the command of levin stands behind --, as in `-- train RECIPE`", name);
    LVN_CHECK(one.command, ARG, "levin has no command '%.60s' to launch; `levin help` lists them", name);
    LVN_CHECK(!one.command->runs_others, ARG, "levin launch cannot launch itself: leave the second one out");
    l->mpi_library = l->run = l->run_dir = "";
    l->training = !strcmp(name, "train");
    l->together = one.command->together;
    l->max_restarts = (int)flag(l, LVN_FLAG_launch_max_restarts);
    l->min_ranks = (int)flag(l, LVN_FLAG_launch_min_ranks);
    LVN_CHECK(!l->max_restarts || l->training, ARG, "--max-restarts is for `train`: '%s' saves nothing to restart from",
              name);
    LVN_CHECK(!l->min_ranks || l->max_restarts, ARG,
              "--min-ranks is about restarts, of which there are none: give --max-restarts, too");
    enum lvn_status status = lvn_cli_parse(&one, c->n_rest - 1, c->rest + 1);
    const bool asked = lvn_cli_on(&one, LVN_FLAG_any_help);
    if (!status && l->training && !asked) status = check_recipe(l, &one);
    if (!status && l->together && !asked) status = check_transport(l, &one);
    lvn_cli_release(&one);
    return status;
}

static void find_self(struct lvn_launch *l)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0) n = 0;
    path[n] = '\0';
    l->self = lvn_arena_strdup(l->arena, n ? path : "levin");
}

/* Does SLURM_JOB_ID name a job that runs? A login shell may have kept it from somewhere. */
static bool find_allocation(struct lvn_launch *l)
{
    const char *job = getenv("SLURM_JOB_ID");
    char *squeue = job ? lvn_process_find(l->arena, "squeue") : NULL;
    if (!job) return false;
    LVN_LOCAL_TEXT(said);
    char *words[] = {squeue, "-h", "-j", (char *)job, "-o", "%T", NULL};
    int code = squeue ? lvn_process_run(words, 20, &said) : -1;
    bool runs = code == 0 && said.p && strstr(said.p, "RUNNING");
    if (!runs) lvn_log(LVN_LOG_WARN, "SLURM_JOB_ID=%s is left over: no such job is running; it is not used", job);
    return runs;
}

/* How many ranks, and how many on each host. */
static enum lvn_status count_ranks(struct lvn_launch *l)
{
    int64_t n = flag(l, LVN_FLAG_launch_n), each = flag(l, LVN_FLAG_launch_nproc_per_node), slots = 0;
    const char *tasks = getenv("SLURM_NTASKS"), *nodes = getenv("SLURM_JOB_NUM_NODES");
    int stated = 0, hosts = l->n_hosts ? l->n_hosts : 1;
    if (l->allocation && !l->n_hosts && nodes && strtol(nodes, NULL, 10) > 0) hosts = (int)strtol(nodes, NULL, 10);
    for (int i = 0; i < l->n_hosts; i++) stated += l->hosts[i].slots > 0;
    LVN_CHECK(!n || !each || n <= each * hosts, ARG,
              "-n %lld ranks do not fit on %d host%s with --nproc-per-node %lld; that makes %lld", (long long)n, hosts,
              hosts == 1 ? "" : "s", (long long)each, (long long)(each * hosts));
    if (!n && each) n = each * hosts;
    for (int i = 0; i < l->n_hosts; i++) {
        if (each) l->hosts[i].slots = (int)each;
        if (!l->hosts[i].slots) l->hosts[i].slots = stated || !n ? 1 : (int)((n + hosts - 1) / hosts);
        slots += l->hosts[i].slots;
    }
    if (!n && l->n_hosts) n = slots;
    if (!n && l->allocation) n = tasks ? strtol(tasks, NULL, 10) : hosts;
    LVN_CHECK(n > 0, ARG, "say how many ranks: levin launch -n 4 -- train RECIPE");
    LVN_CHECK(!l->n_hosts || n <= slots, ARG, "-n %lld ranks, and %s has room for %lld; %s-n %lld", (long long)n,
              l->site ? l->hosts_path : "the hosts file", (long long)slots,
              l->site ? "ask the queue for more, or " : "raise the ranks of its hosts, or ", (long long)slots);
    LVN_CHECK(l->min_ranks <= n, ARG, "--min-ranks %d is above the %lld rank%s of this launch; give %lld at most",
              l->min_ranks, (long long)n, n == 1 ? "" : "s", (long long)n);
    if (l->min_ranks && !l->n_hosts && !l->allocation)
        lvn_log(LVN_LOG_WARN,
                "--min-ranks is not used: it is about hosts that are lost, and all ranks are on this one");
    l->ranks = (int)n;
    l->per_node = (int)(each ? each : (n + hosts - 1) / hosts);
    for (int i = 0; i < l->n_hosts; i++) {
        if (l->hosts[i].slots > l->per_node) l->per_node = l->hosts[i].slots;
    }
    if (l->per_node > l->ranks) l->per_node = l->ranks;
    lvn_launch_map_ranks(l, l->ranks);
    return LVN_OK;
}

/* Cores of a host, shared out. Other hosts are taken to be like this one. */
static void share_cores(struct lvn_launch *l)
{
    struct lvn_machine m;
    const char *omp = getenv("OMP_NUM_THREADS"), *slurm = getenv("SLURM_CPUS_ON_NODE");
    lvn_machine_read(&m);
    l->cores = m.cores > 0 ? m.cores : 1;
    if (m.quota > 0 && m.quota < l->cores) l->cores = m.quota < 1 ? 1 : (int)m.quota;
    if (l->allocation && slurm && strtol(slurm, NULL, 10) > 0) l->cores = (int)strtol(slurm, NULL, 10);
    if (flag(l, LVN_FLAG_launch_threads)) {
        l->threads = (int)flag(l, LVN_FLAG_launch_threads);
    } else if (!l->threads && omp && strtol(omp, NULL, 10) > 0) {
        l->threads = (int)strtol(omp, NULL, 10);
    } else if (!l->threads) {
        l->threads = l->cores > l->per_node ? l->cores / l->per_node : 1;
    }
    l->crowded = (int64_t)l->threads * l->per_node > l->cores;
    l->bind = lvn_cli_on(l->c, LVN_FLAG_launch_bind) && !l->crowded && l->ranks > 1;
    if (!l->crowded) return;
    lvn_log(LVN_LOG_WARN, "%d rank%s of %d thread%s share %d core%s: they take turns, so more of them are no faster",
            l->per_node, l->per_node == 1 ? "" : "s", l->threads, l->threads == 1 ? "" : "s", l->cores,
            l->cores == 1 ? "" : "s");
}

/* The line as a shell takes it, with the variables before it. */
static void describe(struct lvn_launch *l, struct lvn_text *t)
{
    struct lvn_words env = {.arena = l->arena};
    if (l->drop.n || l->set.n) lvn_words_add(&env, "env");
    for (int i = 0; i < l->drop.n; i++) {
        lvn_words_add(&env, "-u");
        lvn_words_add(&env, "%s", l->drop.word[i]);
    }
    for (int i = 0; i < l->set.n; i++) {
        if (strncmp(l->set.word[i], "LEVIN_", 6)) lvn_words_add(&env, "%s", l->set.word[i]);
    }
    lvn_words_text(&env, t);
    lvn_text_add(t, env.n ? " " : "");
    lvn_words_text(&l->line, t);
}

/* What is no work for ranks is not done by each of them. */
static enum lvn_status once(struct lvn_launch *l)
{
    if (flag(l, LVN_FLAG_launch_n) > 1 || *l->c->flag[LVN_FLAG_launch_hostfile].t)
        lvn_log(LVN_LOG_WARN, "'%s' is the work of one process: it runs once, on this machine", l->c->rest[0]);
    l->allocation = false;
    l->title = "no launcher";
    l->ranks = l->per_node = 1;
    share_cores(l);
    return lvn_launch_line(l);
}

static enum lvn_status plan(struct lvn_launch *l)
{
    const char *path = l->c->flag[LVN_FLAG_launch_hostfile].t;
    LVN_TRY(check_command(l));
    l->allocation = find_allocation(l);
    struct lvn_identity id;
    if (lvn_identity_find(&id) == LVN_OK) {
        LVN_CHECK(id.size <= 1, ARG,
                  "this is rank %d of %d of %s already, which starts the ranks by itself: leave `launch` and all up to "
                  "-- out",
                  id.rank, id.size, id.title);
    }
    lvn_error_clear();
    l->ssh = l->c->flag[LVN_FLAG_launch_ssh].t;
    if (!l->together) return once(l);
    if (*path) LVN_TRY(lvn_launch_hosts(l, path));
    if (!*path && !l->allocation) LVN_TRY(lvn_launch_site(l));
    LVN_CHECK(!*path || !l->allocation, ARG, "within Slurm job %s the hosts are Slurm's: leave --hostfile out",
              getenv("SLURM_JOB_ID"));
    LVN_TRY(count_ranks(l));
    LVN_TRY(lvn_launch_find(l));
    if (l->n_hosts) LVN_TRY(lvn_launch_reach(l));
    share_cores(l);
    return lvn_launch_line(l);
}

static enum lvn_status run(struct lvn_launch *l)
{
    LVN_LOCAL_TEXT(line);
    LVN_TRY(plan(l));
    describe(l, &line);
    lvn_cli_add(l->c, "command", json_string(line.p ? line.p : ""));
    lvn_cli_add(l->c, "launcher", json_string(l->title));
    lvn_cli_add(l->c, "ranks", json_integer(l->ranks));
    lvn_cli_add(l->c, "threads", json_integer(l->threads));
    enum lvn_status status = LVN_OK;
    if (lvn_cli_on(l->c, LVN_FLAG_launch_dry_run)) {
        lvn_cli_print(l->c, "%s\n", line.p ? line.p : "");
    } else {
        lvn_log(LVN_LOG_DEBUG, "%s", line.p ? line.p : "");
        status = lvn_launch_run(l, &l->c->code);
    }
    return status;
}

enum lvn_status lvn_command_launch(struct lvn_cli *c)
{
    struct lvn_arena *arena = &c->settings.arena;
    struct lvn_launch l = {
        .c = c, .arena = arena, .line = {.arena = arena}, .set = {.arena = arena}, .drop = {.arena = arena}};
    if (lvn_cli_on(c, LVN_FLAG_launch_slurm)) return lvn_launch_slurm(c);
    LVN_CHECK(!c->n_operands, ARG, "put -- before the command, as in: levin launch -n 4 -- train %s", c->operand[0]);
    LVN_CHECK(!c->n_keys, ARG, "keys of the recipe go after --, as in: levin launch -n 4 -- train --%s=%s",
              c->keys[0].key, c->keys[0].value);
    find_self(&l);
    if (!l.self) return LVN_MEMORY;
    return run(&l);
}
