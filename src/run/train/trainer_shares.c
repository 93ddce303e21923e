/* trainer_shares.c - trainer.share: the shares with which a run begins, and how they change while it runs.
 *
 * The arithmetic is in engine/shares.h. All ranks decide on values that they have exchanged. New shares need new
 * sessions: the model state keeps parameters and optimizer state, and everything that depends on a rank's rows is
 * rebuilt, as in a resumed run. If the memory of some rank is too small for its new rows, the old shares are kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "train/trainer_private.h"

/* On each rank concurrently; long enough for a CPU limit to take effect. */
static const double MEASURED_SECONDS = 1;

static bool is_measured(const struct trainer *trainer)
{
    return trainer->settings->trainer.share == LVN_TRAINER_SHARE_MEASURED && trainer->ranks->size > 1;
}

/* Write the shares into the settings, for settings.yaml and checkpoints. */
static enum lvn_status store_shares(struct trainer *trainer)
{
    LVN_TRY(lvn_shares_write(trainer->ranks->size, trainer->planned.shares, trainer->opened.snapshot.shares));
    trainer->settings->trainer.shares = lvn_arena_strdup(&trainer->settings->arena, trainer->opened.snapshot.shares);
    trainer->settings->origin[LVN_OPT_trainer_shares] =
        (struct lvn_origin){.source = LVN_SOURCE_DERIVED, .where = "trainer.share"};
    return trainer->settings->trainer.shares ? LVN_OK : LVN_MEMORY;
}

static int count(const char *text)
{
    int n = 1;
    for (; *text; text++) n += *text == ',';
    return n;
}

/* The shares that are given, or those of the resumed run; "": measure them. If a run is resumed with another number of
 * ranks, its shares are dropped. */
static const char *known_shares(struct trainer *trainer)
{
    const char *given = trainer->settings->trainer.shares;
    bool requested = *given && trainer->settings->origin[LVN_OPT_trainer_shares].source >= LVN_SOURCE_ENVIRONMENT;
    if (trainer->options->mode != LVN_RUN_RESUME) return given;
    if (trainer->opened.resuming && !requested) given = trainer->opened.snapshot.shares;
    if (!*given || count(given) == trainer->ranks->size) return given;
    snprintf(trainer->text, sizeof trainer->text,
             "shares of %d ranks (%.60s) were given, but there are now %d; they are measured again", count(given),
             given, trainer->ranks->size);
    lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->text);
    return "";
}

enum lvn_status lvn_trainer_shares_init(struct trainer *trainer)
{
    const int size = trainer->ranks->size;
    const bool any = *trainer->settings->trainer.shares && trainer->options->mode != LVN_RUN_RESUME;
    if (!is_measured(trainer) && !(any && trainer->settings->trainer.share == LVN_TRAINER_SHARE_MEASURED))
        return LVN_OK;
    const char *text = known_shares(trainer);
    trainer->planned.shares = lvn_calloc((size_t)size, sizeof *trainer->planned.shares);
    trainer->planned.faster_shares = lvn_calloc((size_t)size, sizeof *trainer->planned.faster_shares);
    trainer->planned.rank_seconds = lvn_calloc((size_t)size, sizeof *trainer->planned.rank_seconds);
    if (!trainer->planned.shares || !trainer->planned.faster_shares || !trainer->planned.rank_seconds)
        return LVN_MEMORY;
    LVN_TRY(lvn_share_balance_init(&trainer->planned.share_balance, size));
    if (!*text) return LVN_OK;
    LVN_TRY(lvn_shares_read(text, lvn_shares_units(&trainer->settings->values), size, trainer->planned.shares));
    trainer->planned.weighted = true;
    return store_shares(trainer);
}

enum lvn_status lvn_trainer_shares_check_memory(const struct trainer *trainer)
{
    const struct lvn_train_programs *programs = &trainer->planned.programs;
    char needed[LVN_NUMBER_TEXT], available[LVN_NUMBER_TEXT];
    LVN_CHECK(!programs->exceeds_memory, ARG,
              "a share of %lld of the %lld %s of a step (trainer.shares %.60s) needs %s, but %s are free; make it "
              "smaller, or set trainer.share to equal",
              (long long)trainer->planned.shares[trainer->ranks->rank],
              (long long)lvn_shares_units(&trainer->settings->values), lvn_shares_unit(&trainer->settings->values),
              trainer->opened.snapshot.shares, lvn_bytes_text(programs->needed_bytes, needed),
              lvn_bytes_text(programs->free_bytes, available));
    return LVN_OK;
}

static enum lvn_status any_too_much(struct trainer *trainer, bool *too_much)
{
    double n = trainer->planned.programs.exceeds_memory;
    LVN_TRY(lvn_ranks_sum(trainer->ranks, &n, 1));
    *too_much = n > 0;
    return LVN_OK;
}

static const char *shares_text(struct trainer *trainer, const char *reason)
{
    const int64_t *share = trainer->planned.shares;
    char text[200] = "";
    for (int i = 0; i < trainer->ranks->size && strlen(text) < sizeof text - 40; i++)
        lvn_print_append(text, sizeof text, "%s%lld", i ? ", " : "", (long long)share[i]);
    if (strlen(text) >= sizeof text - 40) lvn_print_append(text, sizeof text, ", ...");
    snprintf(trainer->text, sizeof trainer->text, "%s: ranks compute %s of the %lld %s of a step", reason, text,
             (long long)lvn_shares_units(&trainer->settings->values), lvn_shares_unit(&trainer->settings->values));
    return trainer->text;
}

/* Plan with these shares (NULL: equal ones); *unchanged: memory is too small for them, so the old ones are kept. */
static enum lvn_status replan(struct trainer *trainer, const int64_t *shares, bool *unchanged)
{
    struct lvn_train_programs_options plan = trainer->planned.options;
    plan.shares = shares;
    plan.min_micro_batches = 0;
    LVN_TRY(lvn_train_programs_replan(&trainer->planned.programs, &plan));
    LVN_TRY(any_too_much(trainer, unchanged));
    return *unchanged ? lvn_train_programs_replan(&trainer->planned.programs, &trainer->planned.options) : LVN_OK;
}

/* Use faster_shares from the next step on. *unchanged: some rank's memory is too small for that. */
static enum lvn_status change(struct trainer *trainer, bool *unchanged)
{
    int64_t labels;
    LVN_TRY(lvn_saver_finish(&trainer->running.saver)); /* it reads memory that is about to be freed */
    lvn_trainer_release_rows(trainer);
    LVN_TRY(replan(trainer, trainer->planned.faster_shares, unchanged));
    if (!*unchanged) {
        memcpy(trainer->planned.shares, trainer->planned.faster_shares,
               sizeof *trainer->planned.shares * (size_t)trainer->ranks->size);
        trainer->planned.weighted = true;
        trainer->planned.options.shares = trainer->planned.shares;
        trainer->planned.options.min_micro_batches = 0;
        LVN_TRY(lvn_ranks_agree(trainer->ranks, store_shares(trainer)));
    }
    LVN_TRY(lvn_ranks_agree(trainer->ranks, lvn_trainer_allocate(trainer)));
    LVN_TRY(lvn_ranks_agree(trainer->ranks, lvn_trainer_load_batch(trainer, trainer->running.step, &labels)));
    if (*unchanged)
        lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE,
                            "some rank has too little memory for a share by its speed; the shares are unchanged");
    return LVN_OK;
}

/* *speed: units per second of this rank, measured with forward and backward of its first micro-batch, repeated for at
 * least a second. */
static enum lvn_status measure(struct trainer *trainer, double *speed)
{
    struct lvn_train_programs *programs = &trainer->planned.programs;
    const struct lvn_execution execution = {.n_micro_batches = 1, .without_update = true};
    double begin = 0, seconds = 0;
    lvn_train_programs_prepare(programs, trainer->running.step, 0.0, trainer->running.labels);
    for (int64_t n = 0; n < 3 || seconds < MEASURED_SECONDS; n++) { /* the first run is a warm-up */
        LVN_TRY(lvn_session_run_as(programs->step_session, &execution));
        if (n == 0) begin = lvn_seconds();
        seconds = lvn_seconds() - begin;
        if (seconds > 0) *speed = (double)n / seconds;
    }
    if (!trainer->settings->trainer.micro_batch_size) *speed *= (double)programs->micro_batch;
    return LVN_OK;
}

enum lvn_status lvn_trainer_shares_measure(struct trainer *trainer)
{
    const int size = trainer->ranks->size;
    bool unchanged;
    if (!is_measured(trainer) || trainer->planned.weighted || trainer->running.step >= trainer->opened.last_step)
        return LVN_OK;
    memset(trainer->planned.rank_seconds, 0, sizeof *trainer->planned.rank_seconds * (size_t)size);
    LVN_TRY(lvn_ranks_agree(trainer->ranks, measure(trainer, &trainer->planned.rank_seconds[trainer->ranks->rank])));
    LVN_TRY(lvn_ranks_sum(trainer->ranks, trainer->planned.rank_seconds, size));
    lvn_shares_divide(lvn_shares_units(&trainer->settings->values), size, trainer->planned.rank_seconds,
                      trainer->planned.faster_shares);
    LVN_TRY(change(trainer, &unchanged));
    if (!unchanged && !trainer->ranks->rank) lvn_log(LVN_LOG_INFO, "%s", shares_text(trainer, "measured shares"));
    return LVN_OK;
}

enum lvn_status lvn_trainer_shares_update(struct trainer *trainer)
{
    bool unchanged;
    if (!trainer->planned.weighted || !is_measured(trainer) || trainer->running.step >= trainer->opened.last_step)
        return LVN_OK;
    for (int i = 0; i < trainer->ranks->size; i++)
        trainer->planned.rank_seconds[i] =
            *lvn_step_statistics_of_rank(&trainer->planned.statistics, i, LVN_STATISTIC_SECONDS);
    if (!lvn_share_balance_step(&trainer->planned.share_balance, trainer->ranks->size, trainer->planned.rank_seconds,
                                trainer->planned.shares, trainer->planned.faster_shares))
        return LVN_OK;
    LVN_TRY(change(trainer, &unchanged));
    if (unchanged) return LVN_OK;
    lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, shares_text(trainer, "speeds have changed"));
    return lvn_ranks_agree(trainer->ranks, trainer->opened.run_dir_open
                                               ? lvn_run_dir_write_settings(&trainer->opened.run_dir, trainer->settings)
                                               : LVN_OK);
}

void lvn_trainer_shares_release(struct trainer *trainer)
{
    lvn_share_balance_release(&trainer->planned.share_balance);
    free(trainer->planned.shares);
    free(trainer->planned.faster_shares);
    free(trainer->planned.rank_seconds);
}
