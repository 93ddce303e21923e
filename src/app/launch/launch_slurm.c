/* launch_slurm.c - levin launch --slurm: writes an sbatch script with explanations, for users who do not know Slurm.
 * Called by launch.c; nothing is launched here.
 *
 * Options become #SBATCH lines, each with an explanation. After them levin launch starts the ranks, with srun or the
 * mpirun of --launcher. Slurm sends its signal to the script, which traps and forwards it, because a shell that waits
 * for its child does not. */
#include <unistd.h>

#include "base/files.h"
#include "base/redact.h"
#include "base/target.h"
#include "cli/args.h"
#include "formats/json.h"
#include "launch/launch.h"
#include "options/device_list.h"

enum { RESTARTS = 3 }; /* default of --max-restarts */

struct script {
    struct lvn_cli *c;
    struct lvn_arena *arena;
    struct lvn_text t;      /* the script */
    struct lvn_words train; /* "levin train RECIPE ..." */
    const char *recipe;     /* the operand; without one the run's name */
    const char *name;       /* of the job */
    const char *run_dir;
    const char *out; /* file of the script; "": standard output */
    long nodes;      /* 0, here and below: not set */
    long tasks;
    long per_node; /* tasks on each node */
    long cpus;     /* of a task */
    long restarts; /* --max-restarts */
    long min;      /* --min-ranks */
    bool array;    /* an array job */
};

static const char *text_flag(const struct script *script, enum lvn_flag_id id)
{
    return script->c->flag[id].t;
}

/* A count that two options can set: Slurm's name and levin's. */
static enum lvn_status read_count(const struct script *script, enum lvn_flag_id one, enum lvn_flag_id other, long *out)
{
    const struct lvn_cli *c = script->c;
    char a[LVN_FLAG_TEXT], b[LVN_FLAG_TEXT];
    LVN_CHECK(!c->flag[one].i || !c->flag[other].i || c->flag[one].i == c->flag[other].i, ARG,
              "%s and %s have the same meaning but differ; give one of them", lvn_flag_text(&lvn_flags[one].option, a),
              lvn_flag_text(&lvn_flags[other].option, b));
    *out = (long)(c->flag[one].i ? c->flag[one].i : c->flag[other].i);
    return LVN_OK;
}

/* A word of an #SBATCH line may have only letters, digits and the characters of `others`: a blank would end it, a
 * newline would begin another line. */
static enum lvn_status check_word(const struct script *script, enum lvn_flag_id id, const char *others)
{
    char name[LVN_FLAG_TEXT];
    for (const char *p = text_flag(script, id); *p; p++) {
        LVN_CHECK(isalnum((unsigned char)*p) || strchr(others, *p), ARG,
                  "%s: '%s' has a character that Slurm does not accept", lvn_flag_text(&lvn_flags[id].option, name),
                  text_flag(script, id));
    }
    return LVN_OK;
}

/* True for HH:MM:SS, D-HH:MM:SS or minutes. */
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

static enum lvn_status check_flags(const struct script *script)
{
    static const char word[] = "_-.,+:@/";
    LVN_TRY(check_word(script, LVN_FLAG_launch_job_name, word));
    LVN_TRY(check_word(script, LVN_FLAG_launch_partition, word));
    LVN_TRY(check_word(script, LVN_FLAG_launch_account, word));
    LVN_TRY(check_word(script, LVN_FLAG_launch_mem, ""));
    LVN_TRY(check_word(script, LVN_FLAG_launch_array, ",-%:"));
    LVN_TRY(check_word(script, LVN_FLAG_launch_module, "_-.,+/ "));
    LVN_CHECK(script->nodes == 1 || strcmp(text_flag(script, LVN_FLAG_launch_launcher), "levin") != 0, ARG,
              "--launcher=levin starts ranks on the first node of a Slurm job only: omit it, so that srun starts them, "
              "or give --nodes 1; with --trainer.transport=tcp they need no MPI");
    LVN_CHECK(is_time(text_flag(script, LVN_FLAG_launch_time)), ARG, "--time must be HH:MM:SS or D-HH:MM:SS, not '%s'",
              text_flag(script, LVN_FLAG_launch_time));
    const char *signal = text_flag(script, LVN_FLAG_launch_signal), *at = strchr(signal, '@');
    LVN_CHECK(
        !strncmp(signal, "USR1@", 5) && at[1] && at[1 + strspn(at + 1, "0123456789")] == '\0', ARG,
        "--signal must be USR1@SECONDS before the time limit, not '%s'; on USR1 levin saves, and the job is requeued",
        signal);
    long ranks = script->tasks ? script->tasks : script->nodes * script->per_node;
    LVN_CHECK(!script->min || script->restarts, ARG, "--min-ranks requires restarts: give --max-restarts, too");
    LVN_CHECK(!ranks || script->min <= ranks, ARG,
              "--min-ranks %ld exceeds the %ld rank%s of this job; give at most %ld", script->min, ranks,
              ranks == 1 ? "" : "s", ranks);
    LVN_CHECK(!script->tasks || !script->nodes || !script->per_node ||
                  script->tasks == script->nodes * script->per_node,
              ARG, "%ld nodes with %ld ranks each are not %ld ranks; omit one of the three", script->nodes,
              script->per_node, script->tasks);
    return LVN_OK;
}

/* The run's name as the name of a job. sbatch interprets blanks, quotes and "%", so each such character becomes "_". */
static const char *job_name(struct lvn_arena *a, const char *name)
{
    char *job = lvn_arena_strdup(a, name);
    for (char *p = job; p && *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_-.,+:@", *p) && (unsigned char)*p < 0x80) *p = '_';
    return job;
}

/* The command to run, and, from its recipe, the job's name, run_dir and numbers of nodes and devices. */
static enum lvn_status read_command(struct script *script)
{
    struct lvn_cli *c = script->c, one = {.command = lvn_command_find("train")};
    char *found = lvn_process_find(script->arena, "levin"), self[PATH_MAX] = "", there[PATH_MAX] = "";
    if (!realpath("/proc/self/exe", self) || (found && !realpath(found, there))) there[0] = '\0';
    lvn_words_add(&script->train, "%s", *there && !strcmp(self, there) ? "levin" : self);
    if (c->n_rest) {
        LVN_CHECK(!c->n_operands && !c->n_keys, ARG, "the command after -- is complete; omit '%s'",
                  c->n_operands ? c->operand[0] : c->keys[0].key);
        LVN_CHECK(!strcmp(c->rest[0], "train"), ARG, "a batch script is for `train`, not for '%s'", c->rest[0]);
        for (int i = 0; i < c->n_rest; i++) lvn_words_add(&script->train, "%s", c->rest[i]);
    } else {
        LVN_CHECK(c->n_operands, ARG,
                  "the recipe is missing; for example: levin launch --slurm recipes/dawn.yaml --nodes 4");
        lvn_words_add(&script->train, "train");
        lvn_words_add(&script->train, "%s", c->operand[0]);
        for (int i = 0; i < c->n_keys; i++) lvn_words_add(&script->train, "--%s=%s", c->keys[i].key, c->keys[i].value);
    }
    LVN_TRY(lvn_words_status(&script->train));
    enum lvn_status status = lvn_cli_parse(&one, script->train.n - 2, script->train.word + 2);
    if (!status) status = lvn_cli_settings(&one, one.n_operands ? one.operand[0] : NULL, LVN_USES_ALL);
    if (!status) {
        const struct levin_settings *r = &one.settings;
        script->recipe = lvn_arena_strdup(script->arena, one.n_operands ? one.operand[0] : r->values.name);
        script->name = job_name(script->arena, r->values.name);
        script->run_dir = lvn_arena_strdup(script->arena, r->values.run_dir);
        if (!script->nodes && lvn_settings_given(r, LVN_OPT_trainer_num_nodes))
            script->nodes = (long)r->values.trainer.num_nodes;
        if (!script->per_node && !script->tasks && lvn_settings_given(r, LVN_OPT_trainer_devices))
            script->per_node = (long)lvn_devices_count(&r->values);
    }
    lvn_cli_release(&one);
    if (status) return status;
    if (*text_flag(script, LVN_FLAG_launch_job_name)) script->name = text_flag(script, LVN_FLAG_launch_job_name);
    return script->recipe && script->name && script->run_dir ? LVN_OK : LVN_MEMORY;
}

/* --- writing --- */

static void add_hint(struct script *script, const char *command, const char *name, const char *explanation)
{
    char text[300];
    char shown[300];
    snprintf(text, sizeof text, "%s%s", command, name);
    lvn_text_printf(&script->t, "#     %-30s %s\n", lvn_redacted(shown, sizeof shown, text), explanation);
}

static void add_head(struct script *script)
{
    const char *file =
        *script->out ? lvn_path_name(script->out) : lvn_arena_printf(script->arena, "%s.sbatch", script->name);
    const char *output = lvn_arena_printf(script->arena, "%s-*.out", script->name);
    const char *word = file ? lvn_word_quoted(script->arena, file) : NULL;
    char name[300], recipe[1000]; /* a newline would end the comment */
    if (!word || !output) return;
    lvn_text_printf(&script->t, "#!/bin/bash\n# %s - trains %s on a Slurm cluster.\n#\n",
                    lvn_redacted(name, sizeof name, file), lvn_redacted(recipe, sizeof recipe, script->recipe));
    add_hint(script, "sbatch ", word, "submits it and prints the job's number");
    add_hint(script, "squeue --me", "", "shows running (R) and waiting (PD, with the reason) jobs");
    add_hint(script, "tail -f ", output, "shows the output of the job");
    add_hint(script, "scancel JOB", "", "ends it; levin saves first if the site's KillWait allows it");
    add_hint(script, "", "", "(usually 30 s: scontrol show config | grep KillWait)");
    lvn_text_add(
        &script->t,
        "#\n"
        "# A batch script is a shell script. sbatch reads the lines that begin with #SBATCH as options, up to the\n"
        "# first command; then the script waits in the queue until the nodes are free, and runs on the first of them.\n"
        "\n");
    lvn_text_printf(&script->t, "#SBATCH --job-name=%s\n", script->name);
    const char *account = text_flag(script, LVN_FLAG_launch_account),
               *partition = text_flag(script, LVN_FLAG_launch_partition);
    if (*account) lvn_text_printf(&script->t, "# The account that is charged.\n#SBATCH --account=%s\n", account);
    if (*partition) {
        lvn_text_printf(&script->t, "# The site's queue: `sinfo` lists them.\n#SBATCH --partition=%s\n", partition);
    }
}

static void add_resources(struct script *script)
{
    struct lvn_text *t = &script->t;
    lvn_text_add(t, "\n# Resources. A node is a machine, a task is a rank: one process of levin.\n");
    if (script->nodes) lvn_text_printf(t, "#SBATCH --nodes=%ld\n", script->nodes);
    if (script->per_node) lvn_text_printf(t, "#SBATCH --ntasks-per-node=%ld\n", script->per_node);
    if (script->tasks && !(script->nodes && script->per_node))
        lvn_text_printf(t, "#SBATCH --ntasks=%ld\n", script->tasks);
    if (script->cpus)
        lvn_text_printf(t, "# CPUs of each task: levin runs that number of threads.\n#SBATCH --cpus-per-task=%ld\n",
                        script->cpus);
    const char *mem = text_flag(script, LVN_FLAG_launch_mem);
    if (*mem) lvn_text_printf(t, "# Memory of each node; 0 is all of it.\n#SBATCH --mem=%s\n", mem);
    if (script->array) {
        lvn_text_printf(
            t,
            "\n# An array job: the script runs once for each number, as a separate job (%%2 after the range: two at a\n"
            "# time). SLURM_ARRAY_TASK_ID contains the number.\n#SBATCH --array=%s\n",
            text_flag(script, LVN_FLAG_launch_array));
    }
}

static void add_limits(struct script *script)
{
    struct lvn_text *t = &script->t;
    bool requeue = lvn_cli_on(script->c, LVN_FLAG_launch_requeue);
    const char *signal = text_flag(script, LVN_FLAG_launch_signal);
    lvn_text_printf(t,
                    "\n# Time limit, HH:MM:SS or D-HH:MM:SS. A job with a shorter limit starts sooner.\n"
                    "#SBATCH --time=%s\n",
                    text_flag(script, LVN_FLAG_launch_time));
    lvn_text_printf(
        t,
        "# Before that Slurm sends USR1 (it may come up to a minute early): levin finishes its step, saves and\n"
        "# exits with 75.%s\n# B: the signal is sent to this script, which forwards it.\n#SBATCH --signal=B:%s\n",
        requeue ? " After that the job is requeued." : "", signal);
    lvn_text_printf(t, "%s\n",
                    requeue ? "# The job may be requeued: by levin, at the time limit or if a node is lost (another "
                              "one is requested\n# in its place), or by Slurm, if the first node is lost. levin reads "
                              "SLURM_RESTART_COUNT\n# then, and continues from the last checkpoint.\n#SBATCH --requeue"
                            : "#SBATCH --no-requeue");
    if (script->min) {
        lvn_text_add(
            t, "# If a node is lost, the job keeps the others, and levin continues with them.\n#SBATCH --no-kill\n");
    }
    lvn_text_printf(t,
                    "\n# The file of its output: %%x is the name, %s. A requeued job\n# must not overwrite its earlier "
                    "output.\n#SBATCH --output=%%x-%s.out\n#SBATCH --open-mode=append\n",
                    script->array ? "%A the array's number, %a the task's" : "%j the number",
                    script->array ? "%A_%a" : "%j");
}

/* The train command of the script; variables of the shell are not quoted. A task of an array has its own run_dir, and
 * its own seed unless the command sets trainer.seed. */
static void add_train_command(struct script *script)
{
    struct lvn_words line = {.arena = script->arena};
    bool seed = false;
    for (int i = 0; i < script->train.n; i++) {
        seed |= !strncmp(script->train.word[i], "--trainer.seed", 14);
        if (!script->array || strncmp(script->train.word[i], "--run_dir=", 10))
            lvn_words_add(&line, "%s", script->train.word[i]);
    }
    lvn_words_text(&line, &script->t);
    const char *run_dir = lvn_word_quoted(script->arena, script->run_dir);
    if (!run_dir) script->t.failed = true;
    if (script->array && run_dir) lvn_text_printf(&script->t, " --run_dir=%s-$SLURM_ARRAY_TASK_ID", run_dir);
    if (script->array && !seed) lvn_text_add(&script->t, " --trainer.seed=$SLURM_ARRAY_TASK_ID");
}

/* The line that starts levin launch, and the shell code that forwards signals to it. */
static void add_launch(struct script *script)
{
    struct lvn_text *t = &script->t;
    const char *launcher = text_flag(script, LVN_FLAG_launch_launcher);
    bool mpirun = strcmp(launcher, "auto") != 0 && strcmp(launcher, "srun") != 0;
    long tasks = script->tasks                       ? script->tasks
                 : script->nodes && script->per_node ? script->nodes * script->per_node
                                                     : 0;
    lvn_text_printf(t, "# levin launch runs %s, saves on signals, and writes the output\n# of each rank to RUN/logs.",
                    !mpirun                     ? "srun, as the site's MPI requires"
                    : strcmp(launcher, "levin") ? "the site's mpirun, which finds the job's nodes"
                                                : "levin ranks, which need no MPI");
    if (script->restarts) {
        lvn_text_printf(t,
                        " If a rank, a link or a node is lost, it continues from the last\n# checkpoint%s, at most %ld "
                        "time%s in a row without a later one.",
                        script->min ? ", with the remaining nodes" : "", script->restarts,
                        script->restarts == 1 ? "" : "s");
    }
    lvn_text_printf(
        t, "\n# It runs in the background, because a shell that waits for a foreground command handles no signals.\n");
    struct lvn_words line = {.arena = script->arena};
    const char *logs = text_flag(script, LVN_FLAG_launch_log_dir);
    lvn_words_add(&line, "%s", script->train.word[0]);
    lvn_words_add(&line, "launch");
    if (mpirun) lvn_words_add(&line, "--launcher=%s", launcher);
    if (mpirun && tasks) lvn_words_add(&line, "-n");
    if (mpirun && tasks) lvn_words_add(&line, "%ld", tasks);
    if (script->per_node) lvn_words_add(&line, "--nproc-per-node");
    if (script->per_node) lvn_words_add(&line, "%ld", script->per_node);
    if (script->restarts) lvn_words_add(&line, "--max-restarts=%ld", script->restarts);
    if (script->min) lvn_words_add(&line, "--min-ranks=%ld", script->min);
    if (*logs) lvn_words_add(&line, "--log-dir=%s", logs);
    if (!lvn_cli_on(script->c, LVN_FLAG_launch_bind)) lvn_words_add(&line, "--bind=false");
    if (!lvn_cli_on(script->c, LVN_FLAG_launch_prefix)) lvn_words_add(&line, "--prefix=false");
    lvn_words_text(&line, t);
    lvn_text_add(t, " -- ");
    script->train.word++; /* without the program */
    script->train.n--;
    add_train_command(script);
    lvn_text_add(t,
                 " &\nlaunch=$!\n"
                 "trap 'kill -USR1 $launch' USR1\n"
                 "trap 'kill -TERM $launch' TERM\n"
                 "# `wait` also returns when a signal arrives, so wait until the process is gone, then read its code.\n"
                 "while kill -0 $launch 2>/dev/null; do wait $launch || true; done\n"
                 "wait $launch\n");
}

static void add_body(struct script *script)
{
    struct lvn_text *t = &script->t;
    const char *modules = text_flag(script, LVN_FLAG_launch_module);
    lvn_text_add(t, "\n# Stop at the first command that fails; its code becomes that of the job.\nset -e\n\n");
    if (*modules) {
        lvn_text_printf(t, "# The site's MPI, which levin uses.\nmodule load %s\n\n", modules);
    } else {
        lvn_text_add(t,
                     "# The site's MPI, if it is a module: `module avail` shows the names.\n# module load openmpi\n\n");
    }
    if (script->cpus) lvn_text_add(t, "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\n\n");
    if (script->array) {
        lvn_text_add(
            t, "# Each task of the array trains with its own seed, in its own folder. Other keys can differ\n"
               "# in the same way: rates=(1e-3 6e-4 3e-4); ... --optimizer.lr=${rates[SLURM_ARRAY_TASK_ID - 1]}\n");
    }
    add_launch(script);
}

/* Write it to --out, or print it. */
static enum lvn_status write_script(struct script *script)
{
    const char *text = lvn_text_string(&script->t);
    if (!text) return LVN_MEMORY;
    lvn_cli_add(script->c, "script", lvn_json_text(text, INT64_MAX));
    if (!*script->out) {
        lvn_cli_print(script->c, "%s", text);
        return LVN_OK;
    }
    LVN_TRY(lvn_cli_check_output(script->c, script->out));
    LVN_TRY(lvn_target_write(script->out, text, (int64_t)strlen(text)));
    const char *word = lvn_word_quoted(script->arena, script->out);
    lvn_cli_print(script->c, "wrote %s; submit it with: sbatch %s\n", script->out, word ? word : script->out);
    return LVN_OK;
}

enum lvn_status lvn_launch_slurm(struct lvn_cli *c)
{
    struct script script = {.c = c, .arena = &c->settings.arena, .train = {.arena = &c->settings.arena}};
    script.out = c->flag[LVN_FLAG_launch_out].t;
    script.nodes = (long)c->flag[LVN_FLAG_launch_nodes].i;
    script.array = *c->flag[LVN_FLAG_launch_array].t;
    script.restarts = c->given[LVN_FLAG_launch_max_restarts] ? (long)c->flag[LVN_FLAG_launch_max_restarts].i : RESTARTS;
    script.min = (long)c->flag[LVN_FLAG_launch_min_ranks].i;
    LVN_TRY(read_count(&script, LVN_FLAG_launch_ntasks, LVN_FLAG_launch_n, &script.tasks));
    LVN_TRY(read_count(&script, LVN_FLAG_launch_ntasks_per_node, LVN_FLAG_launch_nproc_per_node, &script.per_node));
    LVN_TRY(read_count(&script, LVN_FLAG_launch_cpus_per_task, LVN_FLAG_launch_threads, &script.cpus));
    LVN_TRY(read_command(&script)); /* may set the number of nodes, and of ranks on each */
    LVN_TRY(check_flags(&script));
    add_head(&script);
    add_resources(&script);
    add_limits(&script);
    add_body(&script);
    enum lvn_status status = write_script(&script);
    lvn_text_release(&script.t);
    return status;
}
