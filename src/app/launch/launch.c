/* launch.c - levin launch: run a command of levin on many ranks.
 *
 * Checks everything that can be refused (the command, the recipe, the hosts, the launcher) before anything starts;
 * launch_restart.c then runs it. --slurm is not handled here: launch_slurm.c writes the script. */
#include "launch/launch.h"

#include <unistd.h>

#include "base/files.h"
#include "base/getenv.h"
#include "base/random.h"
#include "cli/args.h"
#include "cli/requeue.h"
#include "cluster/identity/identity.h"
#include "comm/comm_kind.h"
#include "formats/json.h"
#include "formats/sha256.h"
#include "host/machine.h"
#include "launch/node_agent.h"
#include "options/device_list.h"
#include "stores/upload_staging.h"

static int64_t flag(const struct lvn_launch *l, enum lvn_flag_id id)
{
    return l->c->flag[id].i;
}

/* --min-ranks excludes settings that are valid for one number of ranks only: a restart with fewer ranks would change
 * them or be refused. */
static enum lvn_status check_min_ranks(const struct lvn_launch *l, const struct levin_settings *s)
{
    const char *key = s->values.trainer.num_nodes               ? "trainer.num_nodes"
                      : lvn_devices_count(&s->values)           ? "trainer.devices"
                      : s->values.trainer.batch_size_per_device ? "trainer.batch_size_per_device"
                      : *s->values.trainer.shares               ? "trainer.shares"
                                                                : NULL;
    LVN_CHECK(!key || !l->request.min_ranks, ARG,
              "--min-ranks continues with fewer ranks, but %s requires a fixed number of ranks: omit one of the two",
              key);
    return LVN_OK;
}

/* The launch's id: derived from LEVIN_JOB_ID if it is set, so that another launch of the job resumes the run; else
 * random. */
static enum lvn_status make_id(struct lvn_launch *l)
{
    unsigned char bytes[(sizeof l->history.id - 1) / 2];
    const char *job = lvn_getenv("LEVIN_JOB_ID");
    LVN_TRY(lvn_random_secret(bytes, sizeof bytes, "the launch's id"));
    lvn_hex_text(bytes, sizeof bytes, l->history.id);
    if (!job) return LVN_OK;
    char digest[LVN_SHA256_TEXT];
    const char *text = lvn_arena_printf(l->arena, "levin job %s", job);
    if (!text) return LVN_MEMORY;
    lvn_sha256_text(text, strlen(text), digest);
    snprintf(l->history.id, sizeof l->history.id, "%.32s", digest);
    l->history.job = true;
    return LVN_OK;
}

/* Read the recipe of train into l->request. */
static enum lvn_status check_recipe(struct lvn_launch *l, struct lvn_cli *launched)
{
    const struct levin_settings *s = &launched->settings;
    if (l->place.on) launched->settings.values.ranks = l->place.nodes * l->place.ranks;
    if (flag(l, LVN_FLAG_launch_n)) launched->settings.values.ranks = (int)flag(l, LVN_FLAG_launch_n);
    LVN_TRY(lvn_cli_settings(launched, launched->n_operands ? launched->operand[0] : NULL, LVN_USES_ALL));
    LVN_TRY(check_min_ranks(l, s));
    const int64_t threads = s->values.trainer.threads, given = flag(l, LVN_FLAG_launch_threads);
    LVN_CHECK(threads <= 0 || !given || threads == given, ARG,
              "--threads is %lld, but ranks use trainer.threads, which is %lld: omit one of the two", (long long)given,
              (long long)threads);
    if (threads > 0) l->resources.threads = (int)threads;
    l->request.run = lvn_arena_strdup(l->arena, s->values.trainer.fast_dev_run ? "" : s->values.run_dir);
    if (!l->request.run) return LVN_MEMORY;
    l->request.resume = lvn_cli_on(launched, LVN_FLAG_train_resume);
    LVN_TRY(make_id(l));
    return lvn_upload_staging_open(l->arena, l->request.run, &l->request.run_dir);
}

/* Collect the values that must be identical on all nodes: the version, the command, and the settings that ranks
 * compare. */
static enum lvn_status collect_keys(struct lvn_launch *l, const struct levin_settings *s)
{
    char text[LVN_VALUE_TEXT];
    struct lvn_words *words = &l->request.keys;
    LVN_LOCAL_TEXT(command);
    for (int i = 0; i < l->c->n_rest; i++) lvn_text_printf(&command, "%s%s", i ? " " : "", l->c->rest[i]);
    LVN_TRY(lvn_text_status(&command));
    words->arena = l->arena;
    lvn_words_add(words, "version");
    lvn_words_add(words, "%s", LVN_VERSION);
    lvn_words_add(words, "command");
    lvn_words_add(words, "%s", command.p ? command.p : "");
    for (int id = 0; id < LVN_OPT_ALL; id++) {
        const struct lvn_option *o = lvn_option_by_id((enum lvn_option_id)id);
        if (!o || o->per_rank) continue;
        lvn_words_add(words, "%s", o->key);
        lvn_words_add(words, "%s", lvn_settings_value(s, o->id, text));
    }
    return lvn_words_status(words);
}

/* Determine how ranks communicate; for every collective command. */
static enum lvn_status check_transport(struct lvn_launch *l, struct lvn_cli *launched)
{
    const struct levin_settings *s = &launched->settings;
    if (!l->request.training) LVN_TRY(lvn_cli_settings(launched, NULL, LVN_USES_SPLIT)); /* ranks check the rest */
    l->request.rank_timeout = s->values.trainer.rank_timeout;
    l->request.stall_timeout = s->values.trainer.stall_timeout;
    l->request.start_timeout = s->values.trainer.start_timeout;
    l->request.mpi_library = lvn_arena_strdup(l->arena, s->values.trainer.mpi_library);
    const struct lvn_comm_kind *kind = lvn_comm_kind_find(s->values.trainer.transport); /* NULL: auto */
    l->request.tcp = kind && kind->connection == LVN_CONNECTED_BY_SOCKETS;
    l->request.mpi = kind && kind->connection == LVN_CONNECTED_BY_LAUNCHER;
    if (!l->request.mpi_library) return LVN_MEMORY;
    if (l->request.tcp && *l->request.mpi_library)
        lvn_log(LVN_LOG_WARN, "trainer.mpi_library is not used, because trainer.transport is %s", kind->name);
    LVN_CHECK(
        !l->place.on || !l->request.mpi, ARG,
        "trainer.transport is %s, but if each node starts its own levin launch no MPI connects the ranks: leave it "
        "at auto",
        s->values.trainer.transport);
    return l->place.on ? collect_keys(l, s) : LVN_OK;
}

/* Check the command after `--` as far as one process can, so that an error in a recipe is printed once and not by each
 * rank. */
static enum lvn_status check_command(struct lvn_launch *l)
{
    struct lvn_cli *c = l->c, launched = {0};
    LVN_CHECK(c->n_rest, ARG, "no command to launch; for example: levin launch -n 4 -- train RECIPE");
    const char *name = c->rest[0];
    launched.command = lvn_command_find(name);
    const char *last = lvn_path_name(name);
    LVN_CHECK(launched.command || strcmp(last, "levin"), ARG,
              "omit '%s': after -- write only levin's command, as in `-- train RECIPE`", name);
    LVN_CHECK(launched.command, ARG, "levin has no command '%.60s'; `levin help` lists the commands", name);
    LVN_CHECK(!launched.command->runs_others, ARG, "levin launch cannot launch itself: omit the second one");
    l->request.mpi_library = l->request.run = l->request.run_dir = "";
    l->request.training = !strcmp(name, "train");
    l->request.collective = launched.command->collective;
    l->request.max_restarts = (int)flag(l, LVN_FLAG_launch_max_restarts);
    l->request.min_ranks = (int)flag(l, LVN_FLAG_launch_min_ranks);
    LVN_CHECK(!l->request.max_restarts || l->request.training, ARG,
              "--max-restarts requires `train`: '%s' saves no checkpoint from which it could restart", name);
    LVN_CHECK(!l->request.min_ranks || l->request.max_restarts, ARG,
              "--min-ranks requires restarts: give --max-restarts, too");
    enum lvn_status status = lvn_cli_parse(&launched, c->n_rest - 1, c->rest + 1);
    const bool help = lvn_cli_on(&launched, LVN_FLAG_any_help);
    if (!status && l->request.training && !help) status = check_recipe(l, &launched);
    if (!status && l->request.collective && !help) status = check_transport(l, &launched);
    lvn_cli_release(&launched);
    return status;
}

/* Ranks start on this machine alone, outside of Slurm, as in a container without Slurm's programs. */
static void ignore_slurm_job(struct lvn_launch *l, const char *reason)
{
    lvn_log(LVN_LOG_WARN, "SLURM_JOB_ID=%s is ignored: %s", getenv("SLURM_JOB_ID"), reason);
    l->request.requeued = lvn_requeue_count() > 0;
}

/* Is SLURM_JOB_ID the id of a running job? A login shell may have a stale value. */
static enum lvn_status detect_slurm_job(struct lvn_launch *l)
{
    const char *job = getenv("SLURM_JOB_ID"), *nodes = getenv("SLURM_JOB_NUM_NODES");
    char *squeue = job ? lvn_process_find(l->arena, "squeue") : NULL;
    LVN_LOCAL_TEXT(output);
    if (job && !squeue) ignore_slurm_job(l, "there is no squeue in PATH");
    if (!squeue) return LVN_OK;
    char *words[] = {squeue, "-h", "-j", (char *)job, "-o", "%T", NULL};
    const double seconds = l->request.start_timeout > 0 ? l->request.start_timeout : 20; /* 0: only --help */
    const int code = lvn_slurm_run(words, seconds, &output);
    const char *text = lvn_text_string(&output);
    if (!text) return LVN_MEMORY;
    if (code && !strstr(text, "Invalid job id")) {
        const bool configured = !strstr(text, "configuration source") && !strstr(text, "process configuration file");
        const char *reason = code == -2 ? "it does not respond" : *text ? text : "no reason given";
        for (const char *p = reason; (p = strchr(p, '\n')) && p[1];) reason = ++p; /* the last line */
        const char *message = lvn_arena_printf(l->arena, "squeue does not report whether this job is running (%.*s)",
                                               (int)strcspn(reason, "\n"), reason);
        if (!message) return LVN_MEMORY;
        LVN_CHECK(!configured || (nodes && !strcmp(nodes, "1")), IO,
                  "SLURM_JOB_ID=%s: %s: try again, or unset SLURM_JOB_ID to start ranks outside of Slurm", job,
                  message);
        ignore_slurm_job(l, message);
        return LVN_OK;
    }
    l->resources.in_slurm = !code && strstr(text, "RUNNING");
    if (!l->resources.in_slurm) lvn_log(LVN_LOG_WARN, "SLURM_JOB_ID=%s is ignored: no such job is running", job);
    return LVN_OK;
}

/* Set the number of ranks, the slots of each host and the maximum number of ranks on a host. */
static enum lvn_status count_ranks(struct lvn_launch *l)
{
    int64_t n = flag(l, LVN_FLAG_launch_n), each = flag(l, LVN_FLAG_launch_nproc_per_node), slots = 0;
    const char *tasks = getenv("SLURM_NTASKS"), *nodes = getenv("SLURM_JOB_NUM_NODES");
    int stated = 0, hosts = l->resources.n_hosts ? l->resources.n_hosts : 1;
    const bool here = l->resources.in_step && !strcmp(l->c->flag[LVN_FLAG_launch_launcher].t, "levin");
    if (l->resources.in_slurm && !l->resources.n_hosts && !here && nodes && strtol(nodes, NULL, 10) > 0)
        hosts = (int)strtol(nodes, NULL, 10);
    for (int i = 0; i < l->resources.n_hosts; i++) stated += l->resources.hosts[i].slots > 0;
    LVN_CHECK(!n || !each || n <= each * hosts, ARG,
              "-n %lld ranks do not fit on %d host%s with --nproc-per-node %lld, which is %lld ranks", (long long)n,
              hosts, hosts == 1 ? "" : "s", (long long)each, (long long)(each * hosts));
    if (!n && each) n = each * hosts;
    for (int i = 0; i < l->resources.n_hosts; i++) {
        if (each) l->resources.hosts[i].slots = (int)each;
        if (!l->resources.hosts[i].slots)
            l->resources.hosts[i].slots = stated || !n ? 1 : (int)((n + hosts - 1) / hosts);
        slots += l->resources.hosts[i].slots;
    }
    if (!n && l->resources.n_hosts) n = slots;
    if (!n && l->resources.in_slurm) n = tasks ? strtol(tasks, NULL, 10) : hosts;
    LVN_CHECK(n > 0, ARG, "the number of ranks is missing; for example: levin launch -n 4 -- train RECIPE");
    LVN_CHECK(!l->resources.n_hosts || n <= slots, ARG, "-n is %lld ranks, but %s has %lld slots; %s-n %lld",
              (long long)n, l->resources.batch_system ? l->resources.hosts_path : "the hosts file", (long long)slots,
              l->resources.batch_system ? "request more from the queue, or use "
                                        : "raise the ranks of its hosts, or use ",
              (long long)slots);
    LVN_CHECK(l->request.min_ranks <= n, ARG,
              "--min-ranks %d exceeds the %lld rank%s of this launch; give at most %lld", l->request.min_ranks,
              (long long)n, n == 1 ? "" : "s", (long long)n);
    if (l->request.min_ranks && !l->resources.n_hosts && !l->resources.in_slurm)
        lvn_log(LVN_LOG_WARN, "--min-ranks is ignored: it applies when a host is lost, and all ranks are on this one");
    l->attempt.ranks = (int)n;
    l->resources.per_node = (int)(each ? each : (n + hosts - 1) / hosts);
    for (int i = 0; i < l->resources.n_hosts; i++) {
        if (l->resources.hosts[i].slots > l->resources.per_node) l->resources.per_node = l->resources.hosts[i].slots;
    }
    if (l->resources.per_node > l->attempt.ranks) l->resources.per_node = l->attempt.ranks;
    lvn_launch_map_ranks(l, l->attempt.ranks);
    return LVN_OK;
}

/* Divide a host's cores among its ranks. Other hosts are assumed to have the same number of cores as this one. */
static void divide_cores(struct lvn_launch *l)
{
    struct lvn_machine machine;
    const char *omp = getenv("OMP_NUM_THREADS"), *slurm = getenv("SLURM_CPUS_ON_NODE");
    lvn_machine_read(&machine);
    l->resources.cores = machine.cores > 0 ? machine.cores : 1;
    if (machine.quota > 0 && machine.quota < l->resources.cores)
        l->resources.cores = machine.quota < 1 ? 1 : (int)machine.quota;
    if (l->resources.in_slurm && slurm && strtol(slurm, NULL, 10) > 0)
        l->resources.cores = (int)strtol(slurm, NULL, 10);
    if (flag(l, LVN_FLAG_launch_threads)) {
        l->resources.threads = (int)flag(l, LVN_FLAG_launch_threads);
    } else if (!l->resources.threads && omp && strtol(omp, NULL, 10) > 0) {
        l->resources.threads = (int)strtol(omp, NULL, 10);
    } else if (!l->resources.threads) {
        l->resources.threads =
            l->resources.cores > l->resources.per_node ? l->resources.cores / l->resources.per_node : 1;
    }
    l->resources.oversubscribed = (int64_t)l->resources.threads * l->resources.per_node > l->resources.cores;
    l->resources.bind = lvn_cli_on(l->c, LVN_FLAG_launch_bind) && !l->resources.oversubscribed && l->attempt.ranks > 1;
    if (!l->resources.oversubscribed) return;
    lvn_log(LVN_LOG_WARN,
            "%d rank%s of %d thread%s share %d core%s: they compete for the cores, so more of them are not faster",
            l->resources.per_node, l->resources.per_node == 1 ? "" : "s", l->resources.threads,
            l->resources.threads == 1 ? "" : "s", l->resources.cores, l->resources.cores == 1 ? "" : "s");
}

/* The attempt's command as a shell line; its variables are set with env. */
static void print_command(struct lvn_launch *l, struct lvn_text *t)
{
    struct lvn_words env = {.arena = l->arena};
    if (l->attempt.drop.n || l->attempt.set.n) lvn_words_add(&env, "env");
    for (int i = 0; i < l->attempt.drop.n; i++) {
        lvn_words_add(&env, "-u");
        lvn_words_add(&env, "%s", l->attempt.drop.word[i]);
    }
    for (int i = 0; i < l->attempt.set.n; i++) {
        if (strncmp(l->attempt.set.word[i], "LEVIN_", 6)) lvn_words_add(&env, "%s", l->attempt.set.word[i]);
    }
    lvn_words_text(&env, t);
    lvn_text_add(t, env.n ? " " : "");
    lvn_words_text(&l->attempt.line, t);
}

/* A command that is not collective runs once, on this machine. */
static enum lvn_status plan_single_process(struct lvn_launch *l)
{
    if (flag(l, LVN_FLAG_launch_n) > 1 || flag(l, LVN_FLAG_launch_nproc_per_node) > 1 ||
        l->c->given[LVN_FLAG_launch_nodes] || *l->c->flag[LVN_FLAG_launch_hostfile].t)
        lvn_log(LVN_LOG_WARN, "'%s' does not use several ranks: it runs once, on this machine", l->c->rest[0]);
    l->launcher.title = "no launcher";
    l->attempt.ranks = l->resources.per_node = 1;
    divide_cores(l);
    return lvn_launch_build_command(l);
}

/* Each node has its own launcher, and this is one of them. */
static enum lvn_status plan_nodes(struct lvn_launch *l)
{
    LVN_TRY(lvn_launch_place_hosts(l));
    LVN_CHECK(l->request.min_ranks <= l->attempt.ranks, ARG,
              "--min-ranks %d exceeds the %d ranks of this launch; give at most %d", l->request.min_ranks,
              l->attempt.ranks, l->attempt.ranks);
    l->resources.ssh = "ssh";
    l->request.requeued = !l->place.node && lvn_requeue_count(); /* node 0 notifies the ranks of all nodes */
    LVN_TRY(lvn_launch_use_levin_ranks(l));
    divide_cores(l);
    return lvn_launch_build_command(l);
}

/* srun starts ranks in the first component of a heterogeneous job, unless it is told which components to use. */
static enum lvn_status check_components(const struct lvn_launch *l)
{
    const char *size = getenv("SLURM_HET_SIZE");
    const long n = l->resources.in_slurm && size ? strtol(size, NULL, 10) : 1;
    LVN_CHECK(n <= 1, ARG,
              "Slurm job %s is heterogeneous, and levin launch would use only the first of its %ld components: start "
              "the ranks with `srun --het-group=0-%ld --kill-on-bad-exit=1 --mpi=... levin %s ...`, or unset "
              "SLURM_HET_SIZE to use the first component",
              getenv("SLURM_JOB_ID"), n, n - 1, l->c->rest[0]);
    return LVN_OK;
}

static const struct lvn_batch_system batch_systems[] = {
#define LVN_BATCH_SYSTEM(...) {__VA_ARGS__},
#include "launch/batch_systems.def"
};

/* The hosts that a batch system has assigned to this job; none if there is no such job. */
static enum lvn_status find_batch_hosts(struct lvn_launch *l)
{
    const struct lvn_batch_system *found = NULL;
    const char *path = NULL;
    for (size_t i = 0; i < sizeof batch_systems / sizeof *batch_systems && !found; i++) {
        const char *variable = batch_systems[i].hosts_variable;
        path = lvn_getenv(variable);
        if (!path) continue;
        if (lvn_path_exists(path))
            found = &batch_systems[i];
        else
            lvn_log(LVN_LOG_WARN, "%s=%s is ignored: the file does not exist", variable, path);
    }
    if (!found) return LVN_OK;
    l->resources.batch_system = found;
    l->resources.hosts_path = path;
    const char *program = lvn_arena_printf(l->arena, "%.*s", (int)strcspn(found->remote, " "), found->remote);
    if (!program) return LVN_MEMORY;
    if (!l->c->given[LVN_FLAG_launch_ssh] && lvn_process_find(l->arena, program)) l->resources.ssh = found->remote;
    LVN_TRY_WHILE(lvn_launch_hosts(l, path), "reading the hosts that %s assigned to this job (%s)", found->title,
                  found->hosts_variable);
    return LVN_OK;
}

/* All checks and decisions before the first attempt, in order. */
static enum lvn_status plan(struct lvn_launch *l)
{
    const char *path = l->c->flag[LVN_FLAG_launch_hostfile].t;
    LVN_TRY(lvn_launch_place_find(&l->place, l->c, l->arena));
    LVN_TRY(check_command(l));
    if (l->place.on && l->request.collective) return plan_nodes(l);
    l->place.on = false;
    if (l->request.collective) LVN_TRY(detect_slurm_job(l));
    struct lvn_identity identity;
    const bool identified = lvn_identity_find(&identity) == LVN_OK;
    if (identified) { /* else no launcher started this process */
        LVN_CHECK(identity.size <= 1, ARG,
                  "this is already rank %d of %d, started by %s: omit `launch` and everything up to --", identity.rank,
                  identity.size, identity.title);
        l->resources.in_step = !strcmp(identity.launcher, "slurm") && identity.nodes == 1;
    }
    lvn_error_clear();
    l->resources.ssh = l->c->flag[LVN_FLAG_launch_ssh].t;
    if (!l->request.collective) return plan_single_process(l);
    LVN_TRY(check_components(l));
    if (*path) LVN_TRY(lvn_launch_hosts(l, path));
    if (!*path && !l->resources.in_slurm) LVN_TRY(find_batch_hosts(l));
    if (identified && *identity.unconnected && !l->resources.n_hosts && !l->resources.in_slurm)
        lvn_log(LVN_LOG_WARN, "ranks on this machine alone: %s", identity.unconnected);
    LVN_CHECK(!*path || !l->resources.in_slurm, ARG, "within Slurm job %s Slurm assigns the hosts: omit --hostfile",
              getenv("SLURM_JOB_ID"));
    LVN_TRY(count_ranks(l));
    LVN_TRY(lvn_launch_pick_launcher(l));
    if (l->resources.n_hosts) LVN_TRY(lvn_launch_check_hosts(l));
    divide_cores(l);
    return lvn_launch_build_command(l);
}

/* Refuse options without effect: without --slurm those of a batch script, whose help begins with "with --slurm:", and
 * with it those that no script has. */
static enum lvn_status check_options(const struct lvn_cli *c, bool slurm)
{
    char name[LVN_FLAG_TEXT];
    for (int i = 0; i < LVN_FLAG_COUNT; i++) {
        const struct lvn_option *o = &lvn_flags[i].option;
        const bool of_script = !strncmp(o->help, "with --slurm:", 13);
        const bool of_launch = i == LVN_FLAG_launch_hostfile || i == LVN_FLAG_launch_node_rank ||
                               i == LVN_FLAG_launch_ssh || i == LVN_FLAG_launch_dry_run;
        if (!c->given[i]) continue;
        lvn_flag_text(o, name);
        LVN_CHECK(slurm || !of_script, ARG, "%s is for the script that --slurm writes: add --slurm, or omit %s", name,
                  name);
        LVN_CHECK(!slurm || !of_launch, ARG, "%s has no effect on the script that --slurm writes: omit it", name);
    }
    return LVN_OK;
}

enum lvn_status lvn_command_launch(struct lvn_cli *c)
{
    struct lvn_launch l = {.c = c, .arena = &c->settings.arena};
    char self[PATH_MAX];
    LVN_LOCAL_TEXT(line);
    const bool slurm = lvn_cli_on(c, LVN_FLAG_launch_slurm);
    LVN_TRY(check_options(c, slurm));
    if (slurm) return lvn_launch_slurm(c);
    LVN_CHECK(!c->n_operands, ARG, "write -- before the command, as in: levin launch -n 4 -- train %s", c->operand[0]);
    LVN_CHECK(!c->n_keys, ARG, "keys of the recipe go after --, as in: levin launch -n 4 -- train --%s=%s",
              c->keys[0].key, c->keys[0].value);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    l.self = lvn_arena_strdup(l.arena, *self ? self : "levin");
    if (!l.self) return LVN_MEMORY;
    LVN_TRY(plan(&l));
    print_command(&l, &line);
    lvn_cli_add(c, "command", lvn_json_text(line.p ? line.p : "", INT64_MAX));
    lvn_cli_add(c, "launcher", json_string(l.launcher.title));
    lvn_cli_add(c, "ranks", json_integer(l.attempt.ranks));
    lvn_cli_add(c, "threads", json_integer(l.resources.threads));
    if (lvn_cli_on(c, LVN_FLAG_launch_dry_run)) {
        lvn_cli_print(c, "%s\n", line.p ? line.p : "");
        return LVN_OK;
    }
    lvn_log(LVN_LOG_DEBUG, "%s", line.p ? line.p : "");
    if (l.place.on && l.place.node) return lvn_node_agent_run(&l, &c->code);
    return lvn_launch_with_restarts(&l, &c->code);
}
