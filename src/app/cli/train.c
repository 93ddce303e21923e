/* train.c - levin train: trains a recipe, or resumes a run. lvn_train() (src/run/train) does the training.
 *
 * The signals of stop.h and SIGUSR1 ask the training loop to finish its step, save and exit; a second SIGINT kills the
 * program. Before the first step there is nothing to save, and the main thread may wait for something that no flag ends
 * (a network, a FIFO): the handler itself ends the process. Slurm sends SIGUSR1 when the job's time runs out: after all
 * ranks have saved, rank 0 requeues the job (under levin launch, levin launch does), and a requeued job resumes without
 * --resume. */
#include <signal.h>
#include <unistd.h>

#include "base/getenv.h"
#include "base/text.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/cli_ranks.h"
#include "cli/humanize.h"
#include "cli/progress.h"
#include "cli/requeue.h"
#include "cli/stop.h"
#include "data/dataset.h"
#include "formats/json.h"
#include "setup/setup.h"
#include "tasks/task.h"
#include "train/limits.h"
#include "train/trainer.h"

static volatile sig_atomic_t stop;     /* LVN_STOP_...: for the training loop */
static volatile sig_atomic_t silent;   /* not rank 0: print nothing */
static volatile sig_atomic_t looping;  /* the training loop runs and checks `stop` */
static volatile sig_atomic_t launched; /* under levin launch, which turns all signals into SIGUSR1, and requeues */
static volatile sig_atomic_t as_json;
static char exit_line[16]; /* LVN_EXIT_MARK's line of a rank that exits from the handler */

/* Print from a signal handler. False: stderr cannot be written. */
static bool print_from_handler(const char *text)
{
    return silent || write(STDERR_FILENO, text, strlen(text)) >= 0;
}

static void exit_before_first_step(void)
{
#define SENTENCE "stopped on request before the first step; there was nothing to save"
    static const char object[] = "{\"error\":\"" SENTENCE "\",\"trace\":[]}\n";
    (void)print_from_handler(SENTENCE "\n");
    if (as_json && !silent && write(STDOUT_FILENO, object, sizeof object - 1) < 0) _exit(LVN_EXIT_FAILED);
    if (launched) (void)print_from_handler(exit_line);
#undef SENTENCE
    _exit(LVN_EXIT_STOPPED);
}

static void on_signal(int number)
{
    if (!looping && (number != SIGUSR1 || launched)) exit_before_first_step();
    bool immediate = number == SIGINT && stop;
    if (immediate) (void)print_from_handler("\nterminated immediately by SIGINT; earlier checkpoints are complete\n");
    if (number == SIGINT && !immediate) /* a closed terminal cannot interrupt again */
        immediate = !print_from_handler("\nstopping after this step; interrupt again to end immediately\n");
    if (immediate) _exit(128 + SIGINT);
    if (stop != LVN_STOP_REQUEUE) stop = number == SIGUSR1 ? LVN_STOP_REQUEUE : LVN_STOP_REQUESTED;
}

static void catch_signals(const struct lvn_cli *c)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    launched = getenv("LEVIN_LAUNCH") != NULL;
    as_json = c->json != NULL;
    snprintf(exit_line, sizeof exit_line, "%c%d %s\n", LVN_EXIT_MARK, LVN_EXIT_STOPPED, LVN_EXIT_EXPLAINED);
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    lvn_stop_catch_with(on_signal);
    signal(SIGPIPE, SIG_IGN); /* a closed terminal or pager does not end a run */
}

/* Facts for the summary that the result of lvn_train() lacks; collected from events. */
struct summary {
    double elapsed_s;
    int64_t first_step;     /* the step that the run begins or resumes at */
    double tokens_per_step; /* without padding */
    int64_t parameters;
    int64_t peak_bytes;
    bool started; /* there was a first event */
};

static void collect_summary(void *context, const struct lvn_event *e)
{
    struct summary *m = context;
    if (e->kind == LVN_EVENT_START) {
        *m = (struct summary){.first_step = e->step,
                              .tokens_per_step = (double)(e->batch_size * e->block_size) * e->fill,
                              .parameters = e->parameters,
                              .started = true};
    }
    m->elapsed_s = e->elapsed_s;
    m->peak_bytes = e->peak_bytes;
}

/* Did trainer.max_epochs end the run, and not trainer.max_steps? */
static bool by_epochs(const struct lvn_cli *c, const struct lvn_train_result *r)
{
    const int64_t max_steps = c->settings.values.trainer.max_steps;
    return c->settings.values.trainer.max_epochs > 0 && (max_steps <= 0 || r->step < max_steps);
}

/* The key of the limit that ended the run. */
static const char *limit_of(const struct lvn_cli *c, const struct lvn_train_result *r)
{
    return by_epochs(c, r) ? "trainer.max_epochs" : "trainer.max_steps";
}

/* Printed after `levin train DATA`, whose user may not know what to do with a run. */
static void print_next_commands(struct lvn_cli *c, const struct lvn_train_result *r, bool stopped)
{
    const struct lvn_dataset_kind *kind = lvn_dataset_kind_find(c->settings.values.data.kind);
    const char *name = c->settings.values.task.kind;
    const struct lvn_task *task = strcmp(name, "auto") ? lvn_task_find(name) : NULL; /* auto: does not mask */
    const char *command = kind && !(task && task->masks) ? kind->try_command : NULL,
               *flags = command ? kind->try_flags : NULL;
    lvn_cli_print(c, "next:\n");
    if (command) lvn_cli_print(c, "    levin %s %s%s\n", command, r->run_dir, flags ? flags : "");
    if (!flags) lvn_cli_print(c, "    levin evaluate %s\n", r->run_dir);
    lvn_cli_print(c, "    levin train %s --resume", r->run_dir);
    const struct lvn_values *v = &c->settings.values;
    if (!stopped && r->finished)
        lvn_cli_print(c, " --%s=%lld", limit_of(c, r),
                      2 * (long long)(by_epochs(c, r) ? v->trainer.max_epochs : r->step));
    else if (!stopped && r->by_callback && *v->early_stopping.monitor)
        lvn_cli_print(c, " --early_stopping.patience=%lld", 2 * (long long)v->early_stopping.patience);
    lvn_cli_print(c, "\n");
}

static void report(struct lvn_cli *c, const struct lvn_train_result *r, const struct summary *m, bool stopped)
{
    char text[LVN_NUMBER_TEXT];
    double tokens = (double)(r->step - m->first_step) * m->tokens_per_step;
    lvn_cli_add(c, "run_dir", *r->run_dir ? lvn_json_text(r->run_dir, INT64_MAX) : json_null());
    lvn_cli_add(c, "step", json_integer(r->step));
    lvn_cli_add(c, "steps_without_labels", json_integer(r->unlabeled));
    lvn_cli_add(c, "loss", lvn_json_number(r->loss));
    lvn_cli_add(c, "val_loss", lvn_json_number(r->val_loss));
    lvn_cli_add(c, "best_val_loss", lvn_json_number(r->best_val_loss));
    lvn_cli_add(c, "start_val_loss", lvn_json_number(r->start_val_loss));
    lvn_cli_add(c, "already_done", json_boolean(r->already_done));
    if (r->already_done && *r->end_reason) {
        lvn_cli_print(c, "%s ended at step %lld, %s: nothing to do\n", r->run_dir, (long long)r->step, r->end_reason);
        return;
    }
    if (r->already_done) {
        lvn_cli_print(c, "%s has finished all of its %lld steps: nothing to do (raise %s to continue)\n", r->run_dir,
                      (long long)r->step, limit_of(c, r));
        return;
    }
    if (m->started) {
        lvn_cli_add(c, "parameters", json_integer(m->parameters));
        lvn_cli_add(c, "seconds", json_real(m->elapsed_s));
        lvn_cli_add(c, "tokens_per_s", lvn_json_number(m->elapsed_s > 0 ? tokens / m->elapsed_s : 0));
        lvn_cli_add(c, "peak_bytes", json_integer(m->peak_bytes));
    }
    /* the line in one write: some MPIs turn buffering off, and launchers prefix each write */
    char validation[120] = "", start[40] = "", loss[40] = "-";
    if (!isnan(r->loss)) snprintf(loss, sizeof loss, "%.4f", r->loss);
    if (!isnan(r->start_val_loss)) snprintf(start, sizeof start, ", %.4f before the first step", r->start_val_loss);
    if (isnan(r->best_val_loss) && !isnan(r->start_val_loss))
        snprintf(validation, sizeof validation, ", validation %.4f before the first step", r->start_val_loss);
    else if (!isnan(r->best_val_loss) && !isnan(r->val_loss))
        snprintf(validation, sizeof validation, ", validation %.4f (best %.4f%s)", r->val_loss, r->best_val_loss,
                 start);
    lvn_cli_print(c, "%s: step %lld, loss %s%s, peak memory %s%s\n", *r->run_dir ? r->run_dir : "fast_dev_run",
                  (long long)r->step, loss, validation, lvn_bytes_text(m->peak_bytes, text),
                  c->ranks->size > 1 ? " a rank (mean)" : "");
    if (c->settings.values.logger.curve && *r->run_dir) lvn_cli_print(c, "loss curve: %s/loss.svg\n", r->run_dir);
    if (c->settings.values.logger.report && *r->run_dir) lvn_cli_print(c, "report: %s/report.html\n", r->run_dir);
    if (c->from_data && *r->run_dir) print_next_commands(c, r, stopped);
}

/* All ranks call it: a rank that exited first would make the launcher end the others. */
static enum lvn_status requeue(struct lvn_cli *c)
{
    if (getenv("LEVIN_LAUNCH") || !lvn_requeue_possible()) return LVN_OK;
    if (c->ranks->rank == 0) lvn_requeue(c, "");
    return lvn_ranks_agree(c->ranks, LVN_OK);
}

/* Log the data kind and model kind that were derived from the data. */
static void log_derived(const struct lvn_cli *c)
{
    const struct levin_settings *s = &c->settings;
    bool derived = s->origin[LVN_OPT_data_kind].source == LVN_SOURCE_DERIVED;
    const struct lvn_dataset_kind *kind = derived ? lvn_dataset_kind_find(s->values.data.kind) : NULL;
    if (!kind || (*s->values.model.init && kind->tokenized_kind)) return; /* setup.c reports which of its tokens */
    bool model = s->origin[LVN_OPT_model_kind].source <= LVN_SOURCE_DERIVED && !*s->values.model.init;
    lvn_log(LVN_LOG_INFO, "'%s' is read as data.kind=%s: %s%s%s",
            *s->values.data.mix ? "data.mix" : s->values.data.path, kind->name, kind->help,
            model ? "; for model.kind=" : "", model ? s->values.model.kind : "");
    const struct lvn_origin *steps = &s->origin[LVN_OPT_trainer_max_steps];
    if (steps->source != LVN_SOURCE_SUGGESTED || !strcmp(steps->where, "model.depth")) return;
    char rate[64] = "", given[160] = "";
    if (s->origin[LVN_OPT_schedule_kind].source == LVN_SOURCE_SUGGESTED)
        snprintf(rate, sizeof rate, ", a rate that falls to %g", s->values.schedule.min_lr);
    else
        snprintf(given, sizeof given,
                 "; schedule.kind is %s, because a key of optimizer or schedule is given: the other keys of both have "
                 "their defaults",
                 s->values.schedule.kind);
    lvn_log(LVN_LOG_INFO,
            "%lld steps%s and the sizes of the model follow from the size of the text, where they are not "
            "given%s; --show-settings lists them",
            (long long)s->values.trainer.max_steps, rate, given);
}

/* Log what follows from model.depth. */
static void log_depth(const struct levin_settings *s)
{
    LVN_LOCAL_TEXT(list);
    char value[LVN_VALUE_TEXT];
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        const struct lvn_origin *at = &s->origin[o->id];
        if (at->source != LVN_SOURCE_SUGGESTED || strcmp(at->where, "model.depth") != 0) continue;
        lvn_text_printf(&list, "%s%s=%s", list.n ? ", " : "", o->key, lvn_settings_value(s, o->id, value));
    }
    if (list.n && lvn_text_status(&list) == LVN_OK) lvn_log(LVN_LOG_INFO, "from model.depth: %s", list.p);
}

/* Warn of a key of `sample` that has no effect: no samples are made. It is not refused, because recipes from nanoGPT's
 * settings have such keys. */
static void warn_unused_sample(const struct levin_settings *s)
{
    const bool off = s->origin[LVN_OPT_sample_every_n_steps].source <= LVN_SOURCE_DERIVED;
    for (int i = 0; i < lvn_option_count() && off; i++) {
        const struct lvn_option *o = lvn_option_at(i);
        if (strcmp(o->part, "sample") != 0 || !lvn_settings_given(s, o->id) || !lvn_settings_differs(s, o->id))
            continue;
        lvn_log(LVN_LOG_WARN,
                "%s has no effect, because no samples are made while training: set sample.every_n_steps too, or leave "
                "it out",
                o->key);
        return;
    }
}

/* Does this attempt of a levin launch resume a run that an earlier attempt has begun? levin launch may not know it, if
 * a rank was killed before it could report; so one rank of each host checks, since hosts may share no folder. */
static enum lvn_status detect_begun(struct lvn_cli *c, const char *launch, bool *begun)
{
    struct lvn_ranks *r = c->ranks;
    bool here = false, checks = !r->local_rank && !c->settings.values.trainer.fast_dev_run;
    double hosts;
    *begun = false;
    if (!launch || !getenv("LEVIN_RESTART")) return LVN_OK;
    *begun = getenv("LEVIN_RUN_BEGUN") != NULL;
    if (*begun) return LVN_OK;
    LVN_TRY(
        lvn_ranks_agree(r, checks ? lvn_run_dir_begun(c->settings.values.run_dir, launch, !r->rank, &here) : LVN_OK));
    hosts = here;
    LVN_TRY(lvn_ranks_sum(r, &hosts, 1));
    *begun = hosts > 0;
    return LVN_OK;
}

/* Refuse `levin train` alone: neither operand nor key names data. */
static enum lvn_status check_has_data(const struct lvn_cli *c)
{
    const struct levin_settings *s = &c->settings;
    const bool data =
        *s->values.data.path || *s->values.data.mix || s->origin[LVN_OPT_data_kind].source > LVN_SOURCE_DERIVED;
    LVN_CHECK(c->n_operands || data || lvn_cli_on(c, LVN_FLAG_train_resume), ARG,
              "nothing to train: give a recipe (levin train recipes/demo.yaml), data (levin train "
              "my.txt, which is data.path) or a run to continue (levin train runs/mine --resume); `levin config` "
              "writes a recipe");
    return LVN_OK;
}

/* --- the first rows of the first batch from the loader, as in training, and which tokens have labels --- */

enum { ROWS = 4, VALUES = 8 };

struct shown {
    struct lvn_cli *c;
    const struct lvn_model_setup *m;
    struct lvn_codec codec;
    const struct lvn_samples *b;
    int ids, labels, segments, length; /* indices of these fields; -1: none */
    const char *dim, *plain;           /* what encloses tokens without a label */
    const char *dim_id, *plain_id;
};

static const int32_t *integers(const struct shown *s, int field, int64_t row)
{
    return field < 0 ? NULL : lvn_samples_at(s->b, field, row);
}

/* Tokens of a row without its padding, which has id 0 and no label. */
static int64_t tokens_of(const struct shown *s, int64_t row)
{
    const int32_t *ids = integers(s, s->ids, row), *labels = integers(s, s->labels, row);
    int64_t n = lvn_field_count(&s->b->fields.field[s->ids]);
    if (s->length >= 0) return *integers(s, s->length, row);
    while (labels && n > 1 && !ids[n - 1] && labels[n - 1] < 0 && labels[n - 2] < 0) n--;
    return n;
}

/* Is token t learned: as the label of the token before it, or, if tokens are hidden, as its own label? */
static bool is_learned(const struct shown *s, const int32_t *labels, int64_t t)
{
    if (!labels) return true; /* the label is not a token */
    if (s->m->task->masks) return labels[t] >= 0;
    return t > 0 && labels[t - 1] >= 0;
}

static void print_text(const struct shown *s, const int32_t *ids, const int32_t *labels, int64_t n)
{
    struct lvn_codec_stream stream = {.started = true};
    LVN_LOCAL_TEXT(text);
    bool learned = true;
    printf("  text: ");
    for (int64_t t = 0; t < n; t++) {
        const bool now = is_learned(s, labels, t);
        if (now != learned) fputs(now ? s->plain : s->dim, stdout);
        learned = now;
        lvn_text_clear(&text);
        lvn_codec_decode(&s->codec, &stream, ids[t], &text);
        for (const char *p = text.n ? text.p : "", *end; *p; p = end) { /* indents the lines of the text */
            char line[256];
            const size_t most = strcspn(p, "\n") < sizeof line - 1 ? strcspn(p, "\n") : sizeof line - 1;
            memcpy(line, p, most);
            line[most] = 0;
            lvn_cli_put(stdout, line);
            end = p + most;
            if (*end == '\n') fputs("\n        ", stdout);
            end += *end == '\n';
        }
    }
    fputs(learned ? "\n" : s->plain, stdout);
    if (!learned) fputs("\n", stdout);
}

static void print_ids(const struct shown *s, const int32_t *ids, const int32_t *labels, int64_t n)
{
    printf("  ids:");
    for (int64_t t = 0; t < n; t++) {
        const bool now = is_learned(s, labels, t);
        printf(" %s%" PRId32 "%s", now ? "" : s->dim_id, ids[t], now ? "" : s->plain_id);
    }
    printf("\n");
}

/* Value i of a field. An int32 is exact in a double. */
static double value_at(const struct lvn_field *f, const void *p, int64_t i)
{
    if (f->dtype == LVN_F32) return (double)((const float *)p)[i];
    return f->dtype == LVN_U8 ? ((const uint8_t *)p)[i] : ((const int32_t *)p)[i];
}

/* A field that is not text: its first values. */
static void print_field(const struct shown *s, const struct lvn_field *f, const void *p)
{
    const int64_t n = lvn_field_count(f);
    printf("  %s:", f->name);
    for (int64_t i = 0; i < n && i < VALUES; i++) printf(f->dtype == LVN_F32 ? " %g" : " %.0f", value_at(f, p, i));
    if (n > VALUES) printf(" ... (%" PRId64 " values)", n);
    const int64_t class = f->label == LVN_LABEL_CLASS ? *(const int32_t *)p : -1;
    const char *name = s->m->data->class_names ? s->m->data->class_names[class < 0 ? 0 : class] : NULL;
    if (class >= 0 && name) fputs(" (", stdout), lvn_cli_put(stdout, name), fputs(")", stdout);
    printf("\n");
}

static void print_row(const struct shown *s, int64_t row)
{
    const struct lvn_fields *f = &s->b->fields;
    const int32_t *ids = integers(s, s->ids, row), *labels = integers(s, s->labels, row),
                  *segments = integers(s, s->segments, row);
    printf("row %" PRId64 ":", row + 1);
    if (ids) {
        const int64_t n = tokens_of(s, row), all = lvn_field_count(&f->field[s->ids]);
        int64_t learned = 0;
        for (int64_t t = 0; labels && t < all; t++) learned += labels[t] >= 0;
        printf(" %" PRId64 " token%s", n, lvn_plural(n));
        if (labels) printf(", %" PRId64 " label%s", learned, lvn_plural(learned));
        if (n < all) printf(", %" PRId64 " token%s of padding", all - n, lvn_plural(all - n));
        printf("\n");
        if (segments) printf("  documents begin at 0");
        for (int64_t t = 1; segments && t < n; t++)
            if (segments[t] == t) printf(", %" PRId64, t);
        if (segments) printf("\n");
        if (lvn_codec_is_text(&s->codec)) print_text(s, ids, labels, n);
        print_ids(s, ids, labels, n);
    } else {
        printf("\n");
    }
    for (int k = 0; k < f->n; k++)
        if (k != s->ids && k != s->labels && k != s->segments)
            print_field(s, &f->field[k], lvn_samples_at(s->b, k, row));
}

static json_t *row_json(const struct shown *s, int64_t row)
{
    json_t *object = json_object();
    for (int k = 0; k < s->b->fields.n; k++) {
        const struct lvn_field *f = &s->b->fields.field[k];
        const void *p = lvn_samples_at(s->b, k, row);
        json_t *values = json_array();
        for (int64_t i = 0; i < lvn_field_count(f); i++)
            json_array_append_new(values, f->dtype == LVN_F32 ? json_real(value_at(f, p, i))
                                                              : json_integer((json_int_t)value_at(f, p, i)));
        json_object_set_new(object, f->name, values);
    }
    return object;
}

static void print_batch(struct shown *s, int64_t rows)
{
    const char *term = getenv("TERM");
    const bool color = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 && !getenv("NO_COLOR");
    s->dim = s->dim_id = color ? "\x1b[2m" : "[-";
    s->plain = s->plain_id = color ? "\x1b[0m" : "-]";
    if (!color) s->dim_id = "(", s->plain_id = ")";
    printf("the first %" PRId64 " of %" PRId64 " rows of the first batch%s\n", rows,
           s->c->settings.values.trainer.batch_size,
           s->labels < 0 ? ""
           : color       ? "; dimmed tokens have no label"
                         : "; [-text-] and (ids) have no label");
    for (int64_t i = 0; i < rows; i++) print_row(s, i);
}

static enum lvn_status show_rows(struct lvn_cli *c, const struct lvn_model_setup *m)
{
    struct lvn_loader loader;
    struct lvn_samples b;
    LVN_TRY(lvn_limits_loader(&loader, m->data, &c->settings));
    const int64_t rows = loader.batch_size < ROWS ? loader.batch_size : ROWS;
    enum lvn_status status = lvn_samples_init(&b, &m->fields, rows);
    if (status == LVN_OK) status = lvn_loader_batch(&loader, 0, 0, &b);
    const char *labels = m->task->label.label == LVN_LABEL_TOKEN ? m->task->label.name : "";
    struct shown s = {.c = c,
                      .m = m,
                      .codec = lvn_model_setup_codec(m),
                      .b = &b,
                      .ids = lvn_fields_find(&m->fields, "ids"),
                      .labels = lvn_fields_find(&m->fields, labels),
                      .segments = lvn_fields_find(&m->fields, LVN_SEGMENTS),
                      .length = lvn_fields_find(&m->fields, "length")};
    json_t *list = status == LVN_OK && c->json ? json_array() : NULL;
    for (int64_t i = 0; list && i < rows; i++) json_array_append_new(list, row_json(&s, i));
    if (list) lvn_cli_add(c, "rows", list);
    if (status == LVN_OK && !c->json) print_batch(&s, rows);
    lvn_samples_release(&b);
    return status;
}

/* Open data and model (of which only the sizes and the tokenizer are read), print, and close them. */
static enum lvn_status show_batch(struct lvn_cli *c)
{
    struct lvn_model_setup m;
    enum lvn_status status = lvn_model_setup_open(&m, &c->settings, NULL, NULL);
    if (status == LVN_OK) status = show_rows(c, &m);
    lvn_model_setup_close(&m);
    return status;
}

/* --- the command --- */

enum lvn_status lvn_command_train(struct lvn_cli *c)
{
    struct lvn_progress progress;
    struct summary summary = {0};
    struct lvn_train_result result = {0};
    bool resume = lvn_cli_on(c, LVN_FLAG_train_resume), overwrite = lvn_cli_on(c, LVN_FLAG_train_overwrite);
    const bool shows = lvn_cli_on(c, LVN_FLAG_train_show_batch);
    LVN_CHECK(!shows || (!resume && !overwrite), ARG,
              "--show-batch prints the first batch and trains nothing, so %s has no effect: leave one of them out",
              resume ? "--resume" : "--overwrite");
    LVN_CHECK(!resume || !overwrite, ARG, "--resume continues a run and --overwrite replaces it; give one of them");
    catch_signals(c); /* joining the other ranks takes time, too */
    LVN_TRY(lvn_cli_join(c, c->n_operands ? c->operand[0] : NULL, LVN_USES_ALL));
    if (lvn_cli_shows_settings(c)) return LVN_OK;
    LVN_TRY(check_has_data(c));
    catch_signals(c); /* again: an MPI may have installed its own handlers */
    silent = c->ranks->rank != 0;
    if (!silent) lvn_cli_warn_ignored_variables(c);
    if (!silent) log_derived(c);
    if (!silent) log_depth(&c->settings);
    if (!silent) warn_unused_sample(&c->settings);
    if (shows) return lvn_ranks_agree(c->ranks, silent ? LVN_OK : show_batch(c));
    LVN_TRY(lvn_member_watch_single_rank(c->ranks->member));
    const char *launch = getenv("LEVIN_LAUNCH") ? lvn_getenv("LEVIN_LAUNCH_ID") : NULL;
    bool begun;
    LVN_TRY(detect_begun(c, launch, &begun));
    if (lvn_requeue_count() && !silent && !resume && !begun) lvn_log(LVN_LOG_INFO, "this job was requeued: continuing");
    resume |= begun || lvn_requeue_count();
    lvn_progress_init(&progress, stderr, lvn_cli_on(c, LVN_FLAG_any_quiet),
                      c->settings.values.trainer.log_every_n_steps);
    struct lvn_listener listeners[] = {{collect_summary, &summary}, {lvn_progress_handle, &progress}};
    struct lvn_train_options options = {.ranks = c->ranks,
                                        .launch = launch,
                                        .mode = resume      ? LVN_RUN_RESUME
                                                : overwrite ? LVN_RUN_OVERWRITE
                                                            : LVN_RUN_NEW,
                                        .listeners = listeners,
                                        .n_listeners = 2,
                                        .stop = &stop,
                                        .looping = &looping};
    lvn_log_set(lvn_cli_log, &progress, lvn_cli_log_level(c));
    enum lvn_status status = lvn_train(&c->settings, &options, &result);
    lvn_progress_clear(&progress);
    lvn_log_set(lvn_cli_log, NULL, lvn_cli_log_level(c));
    if (status == LVN_OK || status == LVN_STOPPED) report(c, &result, &summary, status == LVN_STOPPED);
    if (status == LVN_STOPPED && result.requeue) LVN_TRY(requeue(c));
    return status;
}
