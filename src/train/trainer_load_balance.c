/* trainer_load_balance.c - trainer.share: the load weights with which a run begins, and how they change while it runs.
 *
 * trainer_setup.c and the loop call it; the arithmetic is engine/load_balance.h's. All ranks decide on numbers that
 * they have exchanged. New load weights mean new sessions: the model state keeps parameters and optimizer state, and
 * all that depends on a rank's rows is made again, as in a resumed run. If the memory of some rank is too small for its
 * new rows, the old load weights stay. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "train/trainer_private.h"

/* Of each rank, all at the same time: long enough for a limit on its CPUs to take effect. */
static const double MEASURED_SECONDS = 1;

static bool is_measured(const struct trainer *t)
{
    return t->settings->trainer.share == LVN_TRAINER_SHARE_MEASURED && t->ranks->size > 1;
}

/* Write the load weights into the settings, for settings.yaml and checkpoints. */
static enum lvn_status store_weights(struct trainer *t)
{
    LVN_TRY(lvn_load_weights_write(t->ranks->size, t->planned.load_weights, t->opened.snapshot.load_weights));
    t->settings->trainer.shares = lvn_arena_strdup(&t->settings->arena, t->opened.snapshot.load_weights);
    t->settings->origin[LVN_OPT_trainer_shares] =
        (struct lvn_origin){.source = LVN_SOURCE_DERIVED, .where = "trainer.share"};
    return t->settings->trainer.shares ? LVN_OK : LVN_MEMORY;
}

static int count(const char *text)
{
    int n = 1;
    for (; *text; text++) n += *text == ',';
    return n;
}

/* The load weights that are given, or those of the run that is resumed; "": to be measured. A run may be resumed with
 * fewer ranks: then weights for the former number are dropped. */
static const char *known_weights(struct trainer *t)
{
    const char *given = t->settings->trainer.shares;
    bool requested = *given && t->settings->origin[LVN_OPT_trainer_shares].source >= LVN_SOURCE_ENVIRONMENT;
    if (t->options->mode != LVN_RUN_RESUME) return given;
    if (t->opened.resuming && !requested) given = t->opened.snapshot.load_weights;
    if (!*given || count(given) == t->ranks->size) return given;
    snprintf(t->text, sizeof t->text,
             "shares of %d ranks (%.60s) were given, and there are now %d: they are measured again", count(given),
             given, t->ranks->size);
    lvn_callback_notify(&t->context, LVN_EVENT_NOTE, t->text);
    return "";
}

enum lvn_status lvn_trainer_load_weights_init(struct trainer *t)
{
    const int size = t->ranks->size;
    const bool any = *t->settings->trainer.shares && t->options->mode != LVN_RUN_RESUME;
    if (!is_measured(t) && !(any && t->settings->trainer.share == LVN_TRAINER_SHARE_MEASURED)) return LVN_OK;
    const char *text = known_weights(t);
    t->planned.load_weights = lvn_calloc((size_t)size, sizeof *t->planned.load_weights);
    t->planned.faster_weights = lvn_calloc((size_t)size, sizeof *t->planned.faster_weights);
    t->planned.rank_seconds = lvn_calloc((size_t)size, sizeof *t->planned.rank_seconds);
    if (!t->planned.load_weights || !t->planned.faster_weights || !t->planned.rank_seconds) return LVN_MEMORY;
    LVN_TRY(lvn_load_balance_init(&t->planned.load_balance, size));
    if (!*text) return LVN_OK;
    LVN_TRY(lvn_load_weights_read(text, lvn_load_weights_units(t->settings), size, t->planned.load_weights));
    t->planned.weighted = true;
    return store_weights(t);
}

/* Refuse load weights that were given or stored, if this rank's memory is too small for its rows. */
static enum lvn_status check_memory(const struct trainer *t)
{
    const struct lvn_train_programs *g = &t->planned.programs;
    char wanted[LVN_NUMBER_TEXT], capacity[LVN_NUMBER_TEXT];
    LVN_CHECK(!g->exceeds_memory, ARG,
              "a share of %lld of the %lld %s of a step (trainer.shares %.60s) needs %s and %s are free: make it "
              "smaller, or set trainer.share to equal",
              (long long)t->planned.load_weights[t->ranks->rank], (long long)lvn_load_weights_units(t->settings),
              lvn_load_weights_unit(t->settings), t->opened.snapshot.load_weights,
              lvn_bytes_text(g->needed_bytes, wanted), lvn_bytes_text(g->free_bytes, capacity));
    return LVN_OK;
}

enum lvn_status lvn_trainer_plan(struct trainer *t)
{
    /* The bits of a resumed run must not depend on how much memory is free today. */
    bool same_ranks = t->opened.resuming && t->opened.snapshot.ranks == t->ranks->size;
    t->planned.options =
        (struct lvn_train_programs_options){.ranks = t->ranks,
                                            .fields = &t->opened.setup.fields,
                                            .task = t->opened.setup.task,
                                            .validate = t->opened.validation.on,
                                            .min_micro = same_ranks ? t->opened.snapshot.min_micro : 0,
                                            .planner = lvn_callbacks_planner(&t->callbacks),
                                            .load_weights = t->planned.weighted ? t->planned.load_weights : NULL};
    LVN_TRY(lvn_train_programs_plan(&t->planned.programs, t->settings, &t->opened.setup.config, &t->planned.options));
    return t->planned.weighted ? lvn_ranks_agree(t->ranks, check_memory(t)) : LVN_OK;
}

static enum lvn_status any_too_much(struct trainer *t, bool *too_much)
{
    double n = t->planned.programs.exceeds_memory;
    LVN_TRY(lvn_ranks_sum(t->ranks, &n, 1));
    *too_much = n > 0;
    return LVN_OK;
}

static const char *describe(struct trainer *t, const char *reason)
{
    const int64_t *share = t->planned.load_weights;
    char text[200] = "";
    for (int i = 0; i < t->ranks->size && strlen(text) < sizeof text - 40; i++)
        lvn_print_append(text, sizeof text, "%s%lld", i ? ", " : "", (long long)share[i]);
    if (strlen(text) >= sizeof text - 40) lvn_print_append(text, sizeof text, ", ...");
    snprintf(t->text, sizeof t->text, "%s: ranks compute %s of the %lld %s of a step", reason, text,
             (long long)lvn_load_weights_units(t->settings), lvn_load_weights_unit(t->settings));
    return t->text;
}

/* Plan with these load weights (NULL: equal ones); *unchanged: memory is too small for them, so as before. */
static enum lvn_status replan(struct trainer *t, const int64_t *load_weights, bool *unchanged)
{
    struct lvn_train_programs_options plan = t->planned.options;
    plan.load_weights = load_weights;
    plan.min_micro = 0;
    LVN_TRY(lvn_train_programs_replan(&t->planned.programs, &plan));
    LVN_TRY(any_too_much(t, unchanged));
    return *unchanged ? lvn_train_programs_replan(&t->planned.programs, &t->planned.options) : LVN_OK;
}

/* From the next step on ranks compute faster_weights. *unchanged: some rank's memory is too small for that. */
static enum lvn_status change(struct trainer *t, bool *unchanged)
{
    int64_t labels;
    LVN_TRY(lvn_saver_finish(&t->running.saver)); /* it reads memory that is about to be freed */
    lvn_trainer_release_rows(t);
    LVN_TRY(replan(t, t->planned.faster_weights, unchanged));
    if (!*unchanged) {
        memcpy(t->planned.load_weights, t->planned.faster_weights,
               sizeof *t->planned.load_weights * (size_t)t->ranks->size);
        t->planned.weighted = true;
        t->planned.options.load_weights = t->planned.load_weights;
        t->planned.options.min_micro = 0;
        LVN_TRY(lvn_ranks_agree(t->ranks, store_weights(t)));
    }
    LVN_TRY(lvn_ranks_agree(t->ranks, lvn_trainer_allocate(t)));
    LVN_TRY(lvn_ranks_agree(t->ranks, lvn_trainer_load_batch(t, t->running.step, &labels)));
    if (*unchanged)
        lvn_callback_notify(&t->context, LVN_EVENT_NOTE,
                            "some rank has too little memory for a share by its speed: the shares stay unchanged");
    return LVN_OK;
}

/* *speed: units that this rank computes in a second, by forward and backward of its first micro-batch, repeated for a
 * second at least. */
static enum lvn_status measure(struct trainer *t, double *speed)
{
    struct lvn_train_programs *g = &t->planned.programs;
    const struct lvn_execution execution = {.n_micro_batches = 1, .without_update = true};
    double begin = 0, seconds = 0;
    lvn_train_programs_prepare(g, t->running.step, 0.0, t->running.labels);
    for (int64_t n = 0; n < 3 || seconds < MEASURED_SECONDS; n++) { /* the first run only touches the memory */
        LVN_TRY(lvn_session_run_as(g->step_session, &execution));
        if (n == 0) begin = lvn_seconds();
        seconds = lvn_seconds() - begin;
        if (seconds > 0) *speed = (double)n / seconds;
    }
    if (!t->settings->trainer.micro_batch_size) *speed *= (double)g->micro_batch;
    return LVN_OK;
}

enum lvn_status lvn_trainer_load_weights_measure(struct trainer *t)
{
    const int size = t->ranks->size;
    bool unchanged;
    if (!is_measured(t) || t->planned.weighted || t->running.step >= t->opened.last_step) return LVN_OK;
    memset(t->planned.rank_seconds, 0, sizeof *t->planned.rank_seconds * (size_t)size);
    LVN_TRY(lvn_ranks_agree(t->ranks, measure(t, &t->planned.rank_seconds[t->ranks->rank])));
    LVN_TRY(lvn_ranks_sum(t->ranks, t->planned.rank_seconds, size));
    lvn_load_weights_divide(lvn_load_weights_units(t->settings), size, t->planned.rank_seconds,
                            t->planned.faster_weights);
    LVN_TRY(change(t, &unchanged));
    if (!unchanged && !t->ranks->rank) lvn_log(LVN_LOG_INFO, "%s", describe(t, "shares as measured"));
    return LVN_OK;
}

enum lvn_status lvn_trainer_load_weights_step(struct trainer *t)
{
    bool unchanged;
    if (!t->planned.weighted || !is_measured(t) || t->running.step >= t->opened.last_step) return LVN_OK;
    for (int i = 0; i < t->ranks->size; i++)
        t->planned.rank_seconds[i] = *lvn_step_statistics_of_rank(&t->planned.statistics, i, LVN_STATISTIC_SECONDS);
    if (!lvn_load_balance_step(&t->planned.load_balance, t->ranks->size, t->planned.rank_seconds,
                               t->planned.load_weights, t->planned.faster_weights))
        return LVN_OK;
    LVN_TRY(change(t, &unchanged));
    if (unchanged) return LVN_OK;
    lvn_callback_notify(&t->context, LVN_EVENT_NOTE, describe(t, "speeds have changed"));
    return lvn_ranks_agree(
        t->ranks, t->opened.run_dir_open ? lvn_run_dir_write_settings(&t->opened.run_dir, t->settings) : LVN_OK);
}

void lvn_trainer_load_weights_release(struct trainer *t)
{
    lvn_load_balance_release(&t->planned.load_balance);
    free(t->planned.load_weights);
    free(t->planned.faster_weights);
    free(t->planned.rank_seconds);
}
