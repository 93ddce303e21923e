/* launch_slurm.c - levin launch --slurm: writes an sbatch script, for people who may never have seen one. Called by
 * launch.c; nothing is launched here.
 *
 * Options become #SBATCH lines, each with an explanation; below them levin launch starts the ranks, by srun or by the
 * mpirun of --launcher. Slurm sends its signal to the script, which traps and forwards it: a shell that waits for its
 * child would not. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/target.h"
#include "cli/args.h"
#include "cli/launch/launch.h"
#include "settings/device_list.h"

enum { RESTARTS = 3 }; /* unless --max-restarts says otherwise */

struct script {
    struct lvn_cli *c;
    struct lvn_arena *arena;
    struct lvn_text t;      /* the script */
    struct lvn_words train; /* "levin train RECIPE ..." */
    const char *recipe;     /* the operand; without one the run's name */
    const char *name;       /* of the job */
    const char *run_dir;
    const char *out; /* file of the script; "": standard output */
    long nodes;      /* 0, here and below: not given */
    long tasks;
    long per_node; /* tasks on each node */
    long cpus;     /* of a task */
    long restarts; /* --max-restarts */
    long min;      /* --min-ranks */
    bool array;    /* an array job */
};

static const char *text_flag(const struct script *s, enum lvn_flag_id id)
{
    return s->c->flag[id].t;
}

/* A count that two options spell: Slurm's word and levin's. */
static enum lvn_status read_count(const struct script *s, enum lvn_flag_id one, enum lvn_flag_id other, long *out)
{
    const struct lvn_cli *c = s->c;
    char a[LVN_FLAG_TEXT], b[LVN_FLAG_TEXT];
    LVN_CHECK(!c->flag[one].i || !c->flag[other].i || c->flag[one].i == c->flag[other].i, ARG,
              "%s and %s mean the same and differ; give one of them", lvn_flag_text(&lvn_flags[one].option, a),
              lvn_flag_text(&lvn_flags[other].option, b));
    *out = (long)(c->flag[one].i ? c->flag[one].i : c->flag[other].i);
    return LVN_OK;
}

/* A word of an #SBATCH line has letters, digits and those of `others` alone: a blank would end it, a newline would
 * begin another line. */
static enum lvn_status check_word(const struct script *s, enum lvn_flag_id id, const char *others)
{
    char name[LVN_FLAG_TEXT];
    for (const char *p = text_flag(s, id); *p; p++) {
        LVN_CHECK(isalnum((unsigned char)*p) || strchr(others, *p), ARG,
                  "%s: '%s' has a letter that Slurm does not take", lvn_flag_text(&lvn_flags[id].option, name),
                  text_flag(s, id));
    }
    return LVN_OK;
}

/* HH:MM:SS, D-HH:MM:SS or minutes? */
static bool is_time(const char *text)
{
    int digits = 0, colons = 0, dashes = 0;
    for (const char *p = text; *p; p++) {
        digits += isdigit((unsigned char)*p) != 0;
        colons += *p == ':';
        dashes += *p == '-';
        if (!isdigit((unsigned char)*p) && *p != ':' && *p != '-') return false;
    }
    return digits > 0 && colons <= 2 && dashes <= 1 && isdigit((unsigned char)text[0]);
}

static enum lvn_status check_flags(const struct script *s)
{
    static const char word[] = "_-.,+:@/";
    LVN_TRY(check_word(s, LVN_FLAG_launch_job_name, word));
    LVN_TRY(check_word(s, LVN_FLAG_launch_partition, word));
    LVN_TRY(check_word(s, LVN_FLAG_launch_account, word));
    LVN_TRY(check_word(s, LVN_FLAG_launch_mem, ""));
    LVN_TRY(check_word(s, LVN_FLAG_launch_array, ",-%:"));
    LVN_TRY(check_word(s, LVN_FLAG_launch_module, "_-.,+/ "));
    LVN_CHECK(is_time(text_flag(s, LVN_FLAG_launch_time)), ARG, "--time is HH:MM:SS or D-HH:MM:SS, not '%s'",
              text_flag(s, LVN_FLAG_launch_time));
    const char *signal = text_flag(s, LVN_FLAG_launch_signal), *at = strchr(signal, '@');
    LVN_CHECK(
        !strncmp(signal, "USR1@", 5) && at[1] && at[1 + strspn(at + 1, "0123456789")] == '\0', ARG,
        "--signal is USR1@SECONDS before the time limit, not '%s'; on USR1 levin saves, and the job goes back into "
        "the queue",
        signal);
    long ranks = s->tasks ? s->tasks : s->nodes * s->per_node;
    LVN_CHECK(!s->min || s->restarts, ARG, "--min-ranks needs restarts: give --max-restarts, too");
    LVN_CHECK(!ranks || s->min <= ranks, ARG, "--min-ranks %ld is above the %ld rank%s of this job; give %ld at most",
              s->min, ranks, ranks == 1 ? "" : "s", ranks);
    LVN_CHECK(!s->tasks || !s->nodes || !s->per_node || s->tasks == s->nodes * s->per_node, ARG,
              "%ld nodes with %ld ranks each are not %ld ranks; leave one of the three out", s->nodes, s->per_node,
              s->tasks);
    return LVN_OK;
}

/* The command to run, and from its recipe the job's name, run_dir and numbers of nodes and devices. */
static enum lvn_status read_command(struct script *s)
{
    struct lvn_cli *c = s->c, one = {.command = lvn_command_find("train")};
    char *found = lvn_process_find(s->arena, "levin"), self[PATH_MAX] = "", there[PATH_MAX] = "";
    if (!realpath("/proc/self/exe", self) || (found && !realpath(found, there))) there[0] = '\0';
    lvn_words_add(&s->train, "%s", *there && !strcmp(self, there) ? "levin" : self);
    if (c->n_rest) {
        LVN_CHECK(!c->n_operands && !c->n_keys, ARG, "the command after -- is complete; leave '%s' out",
                  c->n_operands ? c->operand[0] : c->keys[0].key);
        LVN_CHECK(!strcmp(c->rest[0], "train"), ARG, "a batch script is for `train`, not for '%s'", c->rest[0]);
        for (int i = 0; i < c->n_rest; i++) lvn_words_add(&s->train, "%s", c->rest[i]);
    } else {
        LVN_CHECK(c->n_operands, ARG, "say for which recipe: levin launch --slurm recipes/dawn.yaml --nodes 4");
        lvn_words_add(&s->train, "train");
        lvn_words_add(&s->train, "%s", c->operand[0]);
        for (int i = 0; i < c->n_keys; i++) lvn_words_add(&s->train, "--%s=%s", c->keys[i].key, c->keys[i].value);
    }
    LVN_TRY(lvn_words_status(&s->train));
    enum lvn_status status = lvn_cli_parse(&one, s->train.n - 2, s->train.word + 2);
    if (!status) status = lvn_cli_settings(&one, one.n_operands ? one.operand[0] : NULL, LVN_USES_ALL);
    if (!status) {
        const struct lvn_settings *r = &one.settings;
        s->recipe = lvn_arena_strdup(s->arena, one.n_operands ? one.operand[0] : r->name);
        s->name = lvn_arena_strdup(s->arena, r->name);
        s->run_dir = lvn_arena_strdup(s->arena, r->run_dir);
        if (!s->nodes && lvn_settings_given(r, LVN_OPT_trainer_num_nodes)) s->nodes = (long)r->trainer.num_nodes;
        if (!s->per_node && !s->tasks && lvn_settings_given(r, LVN_OPT_trainer_devices))
            s->per_node = (long)lvn_devices_count(r);
    }
    lvn_cli_release(&one);
    if (status) return status;
    if (*text_flag(s, LVN_FLAG_launch_job_name)) s->name = text_flag(s, LVN_FLAG_launch_job_name);
    return s->recipe && s->name && s->run_dir ? LVN_OK : LVN_MEMORY;
}

/* --- writing --- */

static void add_hint(struct script *s, const char *command, const char *name, const char *explanation)
{
    char text[300];
    snprintf(text, sizeof text, "%s%s", command, name);
    lvn_text_printf(&s->t, "#     %-30s %s\n", text, explanation);
}

static void add_head(struct script *s)
{
    const char *file = *s->out ? lvn_path_name(s->out) : lvn_arena_printf(s->arena, "%s.sbatch", s->name);
    const char *output = lvn_arena_printf(s->arena, "%s-*.out", s->name);
    if (!file || !output) return;
    lvn_text_printf(&s->t, "#!/bin/bash\n# %s - trains %s on a Slurm cluster.\n#\n", file, s->recipe);
    add_hint(s, "sbatch ", file, "submits it and prints the job's number");
    add_hint(s, "squeue --me", "", "shows what runs (R) and what waits (PD, with the reason)");
    add_hint(s, "tail -f ", output, "shows what it prints");
    add_hint(s, "scancel JOB", "", "ends it; levin saves first, if that takes less than the site's");
    add_hint(s, "", "", "KillWait (30 s as a rule; scontrol show config | grep KillWait)");
    lvn_text_add(
        &s->t,
        "#\n"
        "# A batch script is a shell script. sbatch reads the lines that begin with #SBATCH as options, up to the\n"
        "# first command; then the script waits in the queue until the nodes are free, and runs on the first of them.\n"
        "\n");
    lvn_text_printf(&s->t, "#SBATCH --job-name=%s\n", s->name);
    const char *account = text_flag(s, LVN_FLAG_launch_account), *partition = text_flag(s, LVN_FLAG_launch_partition);
    if (*account) lvn_text_printf(&s->t, "# Who pays.\n#SBATCH --account=%s\n", account);
    if (*partition) {
        lvn_text_printf(&s->t, "# Which of the site's queues: `sinfo` lists them.\n#SBATCH --partition=%s\n",
                        partition);
    }
}

static void add_resources(struct script *s)
{
    struct lvn_text *t = &s->t;
    lvn_text_add(t, "\n# What it takes. A node is a machine, a task is a rank: one process of levin.\n");
    if (s->nodes) lvn_text_printf(t, "#SBATCH --nodes=%ld\n", s->nodes);
    if (s->per_node) lvn_text_printf(t, "#SBATCH --ntasks-per-node=%ld\n", s->per_node);
    if (s->tasks && !(s->nodes && s->per_node)) lvn_text_printf(t, "#SBATCH --ntasks=%ld\n", s->tasks);
    if (s->cpus)
        lvn_text_printf(t, "# CPUs of each task: levin runs as many threads.\n#SBATCH --cpus-per-task=%ld\n", s->cpus);
    const char *mem = text_flag(s, LVN_FLAG_launch_mem);
    if (*mem) lvn_text_printf(t, "# Memory of each node; 0 is all that it has.\n#SBATCH --mem=%s\n", mem);
    if (s->array) {
        lvn_text_printf(
            t,
            "\n# An array job: the script runs once for each number, as a job of its own (%%2 behind the range: two\n"
            "# at a time). SLURM_ARRAY_TASK_ID holds the number.\n#SBATCH --array=%s\n",
            text_flag(s, LVN_FLAG_launch_array));
    }
}

static void add_limits(struct script *s)
{
    struct lvn_text *t = &s->t;
    bool requeue = lvn_cli_on(s->c, LVN_FLAG_launch_requeue);
    const char *signal = text_flag(s, LVN_FLAG_launch_signal);
    lvn_text_printf(t,
                    "\n# How long it may run, HH:MM:SS or D-HH:MM:SS. A job that asks for less starts sooner.\n"
                    "#SBATCH --time=%s\n",
                    text_flag(s, LVN_FLAG_launch_time));
    lvn_text_printf(
        t,
        "# Before that Slurm sends USR1 (it may come up to a minute early): levin finishes its step, saves and\n"
        "# leaves with 75.%s\n# B: the signal goes to this script, which passes it on.\n#SBATCH --signal=B:%s\n",
        requeue ? " After that the job goes back into the queue." : "", signal);
    lvn_text_printf(t, "%s\n",
                    requeue ? "# A job may be put back into the queue: by levin, when time is up or a node is lost (it "
                              "asks for\n# another one in its place), or by Slurm, when the first node is. levin sees "
                              "SLURM_RESTART_COUNT\n# then, and continues from the last checkpoint.\n#SBATCH --requeue"
                            : "#SBATCH --no-requeue");
    if (s->min) {
        lvn_text_add(t, "# A job that loses a node keeps the others: levin continues with those.\n#SBATCH --no-kill\n");
    }
    lvn_text_printf(t,
                    "\n# Where its output goes: %%x is the name, %s. A requeued job\n# must not overwrite its earlier "
                    "output.\n#SBATCH --output=%%x-%s.out\n#SBATCH --open-mode=append\n",
                    s->array ? "%A the array's number, %a the task's" : "%j the number", s->array ? "%A_%a" : "%j");
}

/* The train command of the script; variables of the shell stay unquoted. A task of an array gets its own run_dir, and
 * its own seed unless the command sets trainer.seed. */
static void add_train_command(struct script *s)
{
    struct lvn_words line = {.arena = s->arena};
    bool seed = false;
    for (int i = 0; i < s->train.n; i++) {
        seed |= !strncmp(s->train.word[i], "--trainer.seed", 14);
        if (!s->array || strncmp(s->train.word[i], "--run_dir=", 10)) lvn_words_add(&line, "%s", s->train.word[i]);
    }
    lvn_words_text(&line, &s->t);
    if (s->array) lvn_text_printf(&s->t, " --run_dir=%s-$SLURM_ARRAY_TASK_ID", s->run_dir);
    if (s->array && !seed) lvn_text_add(&s->t, " --trainer.seed=$SLURM_ARRAY_TASK_ID");
}

/* The line that starts levin launch, and the shell code that forwards signals to it. */
static void add_launch(struct script *s)
{
    struct lvn_text *t = &s->t;
    const char *launcher = text_flag(s, LVN_FLAG_launch_launcher);
    bool mpirun = strcmp(launcher, "auto") != 0 && strcmp(launcher, "srun") != 0;
    long tasks = s->tasks ? s->tasks : s->nodes && s->per_node ? s->nodes * s->per_node : 0;
    lvn_text_printf(t, "# levin launch runs %s, saves on signals, and writes the output\n# of each rank to RUN/logs.",
                    mpirun ? "the site's mpirun, which finds the job's nodes" : "srun, as the site's MPI wants it");
    if (s->restarts) {
        lvn_text_printf(t,
                        " If a rank, a link or a node is lost, it continues from the last\n# checkpoint%s, at most %ld "
                        "time%s without a later one in between.",
                        s->min ? ", with the nodes that are left" : "", s->restarts, s->restarts == 1 ? "" : "s");
    }
    lvn_text_printf(
        t, "\n# It runs in the background, because a shell that waits for a foreground command handles no signals.\n");
    struct lvn_words line = {.arena = s->arena};
    const char *logs = text_flag(s, LVN_FLAG_launch_log_dir);
    lvn_words_add(&line, "%s", s->train.word[0]);
    lvn_words_add(&line, "launch");
    if (mpirun) lvn_words_add(&line, "--launcher=%s", launcher);
    if (mpirun && tasks) lvn_words_add(&line, "-n");
    if (mpirun && tasks) lvn_words_add(&line, "%ld", tasks);
    if (s->per_node) lvn_words_add(&line, "--nproc-per-node");
    if (s->per_node) lvn_words_add(&line, "%ld", s->per_node);
    if (s->restarts) lvn_words_add(&line, "--max-restarts=%ld", s->restarts);
    if (s->min) lvn_words_add(&line, "--min-ranks=%ld", s->min);
    if (*logs) lvn_words_add(&line, "--log-dir=%s", logs);
    lvn_words_text(&line, t);
    lvn_text_add(t, " -- ");
    s->train.word++; /* without the program */
    s->train.n--;
    add_train_command(s);
    lvn_text_add(
        t, " &\nlaunch=$!\n"
           "trap 'kill -USR1 $launch' USR1\n"
           "trap 'kill -TERM $launch' TERM\n"
           "# `wait` returns when a signal comes, too: so wait until the process is gone, then ask for its code.\n"
           "while kill -0 $launch 2>/dev/null; do wait $launch || true; done\n"
           "wait $launch\n");
}

static void add_body(struct script *s)
{
    struct lvn_text *t = &s->t;
    const char *modules = text_flag(s, LVN_FLAG_launch_module);
    lvn_text_add(t, "\n# Stop at the first command that fails; its code is the job's.\nset -e\n\n");
    if (*modules) {
        lvn_text_printf(t, "# The site's software that levin uses: its MPI.\nmodule load %s\n\n", modules);
    } else {
        lvn_text_add(
            t, "# The site's MPI, where it is a module: `module avail` shows the names.\n# module load openmpi\n\n");
    }
    if (s->cpus) lvn_text_add(t, "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\n\n");
    if (s->array) {
        lvn_text_add(
            t, "# Each task of the array trains with a seed of its own, in a folder of its own. Other keys can differ\n"
               "# in the same way: rates=(1e-3 6e-4 3e-4); ... --optimizer.lr=${rates[SLURM_ARRAY_TASK_ID - 1]}\n");
    }
    add_launch(s);
}

/* Write it to --out, or print it. */
static enum lvn_status write_script(struct script *s)
{
    const char *text = lvn_text_string(&s->t);
    if (!text) return LVN_MEMORY;
    lvn_cli_add(s->c, "script", json_string(text));
    if (!*s->out) {
        lvn_cli_print(s->c, "%s", text);
        return LVN_OK;
    }
    LVN_TRY(lvn_cli_check_output(s->c, s->out));
    LVN_TRY(lvn_target_write(s->out, text, (int64_t)strlen(text)));
    lvn_cli_print(s->c, "%s is written; submit it with: sbatch %s\n", s->out, s->out);
    return LVN_OK;
}

enum lvn_status lvn_launch_slurm(struct lvn_cli *c)
{
    struct script s = {.c = c, .arena = &c->settings.arena, .train = {.arena = &c->settings.arena}};
    s.out = c->flag[LVN_FLAG_launch_out].t;
    s.nodes = (long)c->flag[LVN_FLAG_launch_nodes].i;
    s.array = *c->flag[LVN_FLAG_launch_array].t;
    s.restarts = c->given[LVN_FLAG_launch_max_restarts] ? (long)c->flag[LVN_FLAG_launch_max_restarts].i : RESTARTS;
    s.min = (long)c->flag[LVN_FLAG_launch_min_ranks].i;
    LVN_TRY(read_count(&s, LVN_FLAG_launch_ntasks, LVN_FLAG_launch_n, &s.tasks));
    LVN_TRY(read_count(&s, LVN_FLAG_launch_ntasks_per_node, LVN_FLAG_launch_nproc_per_node, &s.per_node));
    LVN_TRY(read_count(&s, LVN_FLAG_launch_cpus_per_task, LVN_FLAG_launch_threads, &s.cpus));
    LVN_TRY(check_flags(&s));
    LVN_TRY(read_command(&s));
    add_head(&s);
    add_resources(&s);
    add_limits(&s);
    add_body(&s);
    enum lvn_status status = write_script(&s);
    lvn_text_release(&s.t);
    return status;
}
