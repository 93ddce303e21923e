/* trainer.c - the training loop: struct trainer of trainer_private.h from its first step to its end.
 *
 * lvn_train() and the C API call it. lvn_trainer_step() is one step and everything that is due after it; callbacks do
 * other work at events (callback.h). trainer_setup.c does everything before the first step. All ranks run the same code
 * and decide on values that they have exchanged in one small sum over ranks at the end of each step
 * (step_statistics.h). */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/work.h"
#include "host/library.h"
#include "host/machine.h"
#include "train/trainer_private.h"

/* --- trainer.share: the shares with which a run begins, and how they change while it runs ---
 *
 * The arithmetic is in engine/shares.h. All ranks decide on values that they have exchanged. New shares need new
 * sessions: the model state keeps parameters and optimizer state, and everything that depends on a rank's rows is
 * rebuilt, as in a resumed run. If the memory of some rank is too small for its new rows, the old shares are kept. */

/* On each rank concurrently; long enough for a CPU limit to take effect. */
static const double MEASURED_SECONDS = 1;

static bool is_measured(const struct trainer *t)
{
    return t->settings->trainer.share == LVN_TRAINER_SHARE_MEASURED && t->ranks->size > 1;
}

/* Write the shares into the settings, for settings.yaml and checkpoints. */
static enum lvn_status store_shares(struct trainer *t)
{
    LVN_TRY(lvn_shares_write(t->ranks->size, t->planned.shares, t->opened.snapshot.shares));
    t->settings->trainer.shares = lvn_arena_strdup(&t->settings->arena, t->opened.snapshot.shares);
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

/* The shares that are given, or those of the resumed run; "": measure them. If a run is resumed with another number of
 * ranks, its shares are dropped. */
static const char *known_shares(struct trainer *t)
{
    const char *given = t->settings->trainer.shares;
    bool requested = *given && t->settings->origin[LVN_OPT_trainer_shares].source >= LVN_SOURCE_ENVIRONMENT;
    if (t->options->mode != LVN_RUN_RESUME) return given;
    if (t->opened.resuming && !requested) given = t->opened.snapshot.shares;
    if (!*given || count(given) == t->ranks->size) return given;
    snprintf(t->text, sizeof t->text,
             "shares of %d ranks (%.60s) were given, but there are now %d; they are measured again", count(given),
             given, t->ranks->size);
    lvn_callback_notify(&t->context, LVN_EVENT_NOTE, t->text);
    return "";
}

enum lvn_status lvn_trainer_shares_init(struct trainer *t)
{
    const int size = t->ranks->size;
    const bool any = *t->settings->trainer.shares && t->options->mode != LVN_RUN_RESUME;
    if (!is_measured(t) && !(any && t->settings->trainer.share == LVN_TRAINER_SHARE_MEASURED)) return LVN_OK;
    const char *text = known_shares(t);
    t->planned.shares = lvn_calloc((size_t)size, sizeof *t->planned.shares);
    t->planned.faster_shares = lvn_calloc((size_t)size, sizeof *t->planned.faster_shares);
    t->planned.rank_seconds = lvn_calloc((size_t)size, sizeof *t->planned.rank_seconds);
    if (!t->planned.shares || !t->planned.faster_shares || !t->planned.rank_seconds) return LVN_MEMORY;
    LVN_TRY(lvn_share_balance_init(&t->planned.share_balance, size));
    if (!*text) return LVN_OK;
    LVN_TRY(lvn_shares_read(text, lvn_shares_units(t->settings), size, t->planned.shares));
    t->planned.weighted = true;
    return store_shares(t);
}

enum lvn_status lvn_trainer_shares_check_memory(const struct trainer *t)
{
    const struct lvn_train_programs *programs = &t->planned.programs;
    char needed[LVN_NUMBER_TEXT], available[LVN_NUMBER_TEXT];
    LVN_CHECK(!programs->exceeds_memory, ARG,
              "a share of %lld of the %lld %s of a step (trainer.shares %.60s) needs %s, but %s are free; make it "
              "smaller, or set trainer.share to equal",
              (long long)t->planned.shares[t->ranks->rank], (long long)lvn_shares_units(t->settings),
              lvn_shares_unit(t->settings), t->opened.snapshot.shares, lvn_bytes_text(programs->needed_bytes, needed),
              lvn_bytes_text(programs->free_bytes, available));
    return LVN_OK;
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
    const int64_t *share = t->planned.shares;
    char text[200] = "";
    for (int i = 0; i < t->ranks->size && strlen(text) < sizeof text - 40; i++)
        lvn_print_append(text, sizeof text, "%s%lld", i ? ", " : "", (long long)share[i]);
    if (strlen(text) >= sizeof text - 40) lvn_print_append(text, sizeof text, ", ...");
    snprintf(t->text, sizeof t->text, "%s: ranks compute %s of the %lld %s of a step", reason, text,
             (long long)lvn_shares_units(t->settings), lvn_shares_unit(t->settings));
    return t->text;
}

/* Plan with these shares (NULL: equal ones); *unchanged: memory is too small for them, so the old ones are kept. */
static enum lvn_status replan(struct trainer *t, const int64_t *shares, bool *unchanged)
{
    struct lvn_train_programs_options plan = t->planned.options;
    plan.shares = shares;
    plan.min_micro_batches = 0;
    LVN_TRY(lvn_train_programs_replan(&t->planned.programs, &plan));
    LVN_TRY(any_too_much(t, unchanged));
    return *unchanged ? lvn_train_programs_replan(&t->planned.programs, &t->planned.options) : LVN_OK;
}

/* Use faster_shares from the next step on. *unchanged: some rank's memory is too small for that. */
static enum lvn_status change(struct trainer *t, bool *unchanged)
{
    int64_t labels;
    LVN_TRY(lvn_saver_finish(&t->running.saver)); /* it reads memory that is about to be freed */
    lvn_trainer_release_rows(t);
    LVN_TRY(replan(t, t->planned.faster_shares, unchanged));
    if (!*unchanged) {
        memcpy(t->planned.shares, t->planned.faster_shares, sizeof *t->planned.shares * (size_t)t->ranks->size);
        t->planned.weighted = true;
        t->planned.options.shares = t->planned.shares;
        t->planned.options.min_micro_batches = 0;
        LVN_TRY(lvn_ranks_agree(t->ranks, store_shares(t)));
    }
    LVN_TRY(lvn_ranks_agree(t->ranks, lvn_trainer_allocate(t)));
    LVN_TRY(lvn_ranks_agree(t->ranks, lvn_trainer_load_batch(t, t->running.step, &labels)));
    if (*unchanged)
        lvn_callback_notify(&t->context, LVN_EVENT_NOTE,
                            "some rank has too little memory for a share by its speed; the shares are unchanged");
    return LVN_OK;
}

/* *speed: units per second of this rank, measured with forward and backward of its first micro-batch, repeated for at
 * least a second. */
static enum lvn_status measure(struct trainer *t, double *speed)
{
    struct lvn_train_programs *programs = &t->planned.programs;
    const struct lvn_execution execution = {.n_micro_batches = 1, .without_update = true};
    double begin = 0, seconds = 0;
    lvn_train_programs_prepare(programs, t->running.step, 0.0, t->running.labels);
    for (int64_t n = 0; n < 3 || seconds < MEASURED_SECONDS; n++) { /* the first run is a warm-up */
        LVN_TRY(lvn_session_run_as(programs->step_session, &execution));
        if (n == 0) begin = lvn_seconds();
        seconds = lvn_seconds() - begin;
        if (seconds > 0) *speed = (double)n / seconds;
    }
    if (!t->settings->trainer.micro_batch_size) *speed *= (double)programs->micro_batch;
    return LVN_OK;
}

enum lvn_status lvn_trainer_shares_measure(struct trainer *t)
{
    const int size = t->ranks->size;
    bool unchanged;
    if (!is_measured(t) || t->planned.weighted || t->running.step >= t->opened.last_step) return LVN_OK;
    memset(t->planned.rank_seconds, 0, sizeof *t->planned.rank_seconds * (size_t)size);
    LVN_TRY(lvn_ranks_agree(t->ranks, measure(t, &t->planned.rank_seconds[t->ranks->rank])));
    LVN_TRY(lvn_ranks_sum(t->ranks, t->planned.rank_seconds, size));
    lvn_shares_divide(lvn_shares_units(t->settings), size, t->planned.rank_seconds, t->planned.faster_shares);
    LVN_TRY(change(t, &unchanged));
    if (!unchanged && !t->ranks->rank) lvn_log(LVN_LOG_INFO, "%s", describe(t, "measured shares"));
    return LVN_OK;
}

/* After each step: plan with other shares if speeds have changed. */
static enum lvn_status update_shares(struct trainer *t)
{
    bool unchanged;
    if (!t->planned.weighted || !is_measured(t) || t->running.step >= t->opened.last_step) return LVN_OK;
    for (int i = 0; i < t->ranks->size; i++)
        t->planned.rank_seconds[i] = *lvn_step_statistics_of_rank(&t->planned.statistics, i, LVN_STATISTIC_SECONDS);
    if (!lvn_share_balance_step(&t->planned.share_balance, t->ranks->size, t->planned.rank_seconds, t->planned.shares,
                                t->planned.faster_shares))
        return LVN_OK;
    LVN_TRY(change(t, &unchanged));
    if (unchanged) return LVN_OK;
    lvn_callback_notify(&t->context, LVN_EVENT_NOTE, describe(t, "speeds have changed"));
    return lvn_ranks_agree(
        t->ranks, t->opened.run_dir_open ? lvn_run_dir_write_settings(&t->opened.run_dir, t->settings) : LVN_OK);
}

static void release_shares(struct trainer *t)
{
    lvn_share_balance_release(&t->planned.share_balance);
    free(t->planned.shares);
    free(t->planned.faster_shares);
    free(t->planned.rank_seconds);
}

/* --- exchange between ranks --- */

/* This rank's requests, and control flags of its callbacks, as counts that add up over ranks. */
static void count_requests(const struct trainer *t, double *count)
{
    int stop = t->options->stop ? *t->options->stop : LVN_STOP_NONE;
    double limit = t->settings->trainer.max_time;
    count[LVN_STATISTIC_STOP] = stop != LVN_STOP_NONE;
    count[LVN_STATISTIC_REQUEUE] = stop == LVN_STOP_REQUEUE;
    count[LVN_STATISTIC_TIME_IS_UP] = limit > 0.0 && lvn_seconds() - t->context.start_time >= limit;
    for (int i = 0; i < 3; i++) count[LVN_STATISTIC_SHOULD_TRAINING_STOP + i] = (t->context.control >> i) & 1;
}

static void read_requests(struct trainer *t, const double *count)
{
    t->requested.stop |= count[LVN_STATISTIC_STOP] > 0;
    t->requested.requeue |= count[LVN_STATISTIC_REQUEUE] > 0;
    t->requested.time_is_up |= count[LVN_STATISTIC_TIME_IS_UP] > 0;
    for (int i = 0; i < 3; i++)
        t->requested.control |= (unsigned)(count[LVN_STATISTIC_SHOULD_TRAINING_STOP + i] > 0) << i;
    t->context.control = 0;
}

/* Exchange requests immediately, after rare events. */
static enum lvn_status agree_on_requests(struct trainer *t)
{
    double count[LVN_STATISTIC_COUNTS] = {0};
    count_requests(t, count);
    LVN_TRY(lvn_ranks_sum(t->ranks, count, LVN_STATISTIC_COUNTS));
    read_requests(t, count);
    return LVN_OK;
}

/* End a step on all ranks: exchange losses, requests, and status and labels of loading the next batch (`read`: only the
 * status of reading it, whose failure lets the step end). */
static enum lvn_status exchange(struct trainer *t, double seconds, enum lvn_status next_status, enum lvn_status read,
                                int64_t next_labels)
{
    struct lvn_step_statistics *y = &t->planned.statistics;
    const struct lvn_train_programs *programs = &t->planned.programs;
    int rank = t->ranks->rank;
    double now = lvn_seconds();
    if (now - t->running.memory_time > 0.5) {
        t->running.memory_time = now;
        t->running.memory_bytes = lvn_memory_resident();
        t->running.peak_bytes = lvn_memory_peak();
    }
    lvn_step_statistics_clear(y);
    memcpy(lvn_step_statistics_loss(y, programs->leaf[rank]), programs->step_session->micro_losses,
           sizeof(double) * (size_t)programs->accumulation);
    memcpy(lvn_step_statistics_sums(y), programs->step_session->counts, sizeof(double) * (size_t)y->n_sums);
    *lvn_step_statistics_of_rank(y, rank, LVN_STATISTIC_SECONDS) = seconds;
    *lvn_step_statistics_of_rank(y, rank, LVN_STATISTIC_MEMORY) = (double)t->running.memory_bytes;
    *lvn_step_statistics_of_rank(y, rank, LVN_STATISTIC_PEAK) = (double)t->running.peak_bytes;
    double *count = lvn_step_statistics_count(y, 0);
    count_requests(t, count);
    count[LVN_STATISTIC_WRITTEN] = lvn_saver_is_written(&t->running.saver);
    count[LVN_STATISTIC_FAILED] = next_status != LVN_OK && read == LVN_OK;
    count[LVN_STATISTIC_NOT_READ] = read != LVN_OK;
    count[LVN_STATISTIC_LABELS] = (double)next_labels;
    LVN_TRY(lvn_step_statistics_exchange(y));
    if (count[LVN_STATISTIC_FAILED] > 0) return lvn_ranks_agree(t->ranks, next_status);
    read_requests(t, count);
    t->running.labels = (int64_t)count[LVN_STATISTIC_LABELS];
    t->context.event.memory_bytes = (int64_t)(lvn_step_statistics_sum(y, LVN_STATISTIC_MEMORY) / t->ranks->size);
    t->context.event.peak_bytes = (int64_t)(lvn_step_statistics_sum(y, LVN_STATISTIC_PEAK) / t->ranks->size);
    return LVN_OK;
}

/* --- checkpoints: saver.h has the sequence --- */

/* Does the run have a folder? A trainer.fast_dev_run does not. */
static bool has_folder(const struct trainer *t)
{
    return !t->settings->trainer.fast_dev_run;
}

/* Begin to save; training may continue meanwhile. */
static enum lvn_status save_checkpoint(struct trainer *t)
{
    if (!has_folder(t)) return LVN_OK;
    const struct lvn_train_programs *programs = &t->planned.programs;
    const struct lvn_event *e = &t->context.event;
    bool validated = t->running.validated_step == t->running.step;
    struct lvn_snapshot snapshot = {.step = t->running.step,
                                    .val_loss = validated ? e->scalar[SCALAR_VAL_LOSS].value : NAN,
                                    .best_val_loss = e->best_val_loss,
                                    .start_val_loss = e->start_val_loss,
                                    .score = t->context.score,
                                    .data = t->opened.fingerprint,
                                    .unlabeled = programs->unlabeled,
                                    .micro_batch = programs->micro_batch,
                                    .min_micro_batches = programs->min_micro_batches,
                                    .ranks = t->ranks->size};
    if (t->context.scored_step != t->running.step) snapshot.score.value = NAN;
    if (t->planned.weighted) memcpy(snapshot.shares, t->opened.snapshot.shares, sizeof snapshot.shares);
    if (t->running.loss_scale)
        LVN_TRY(lvn_ranks_agree(t->ranks, lvn_model_state_scaling(programs->model_state, &snapshot.scaling)));
    LVN_TRY(lvn_callbacks_save(&t->callbacks, &t->context, snapshot.callbacks));
    return lvn_saver_begin(&t->running.saver, &snapshot);
}

enum lvn_status lvn_trainer_save(struct trainer *t, bool *saved)
{
    LVN_TRY(save_checkpoint(t));
    LVN_TRY(lvn_saver_finish(&t->running.saver));
    *saved = t->running.saver.step == t->running.step || !has_folder(t);
    return LVN_OK;
}

/* Step t->running.step + 1 gave non-finite values and changed nothing: save the state before it and find their origin.
 * Always fails: NONFINITE, unless something worse happened. */
static enum lvn_status explain_nonfinite(struct trainer *t, double loss)
{
    bool saved = false;
    char outcome[100] = "no step was made before it";
    int64_t labels;
    if (t->running.step) {
        LVN_TRY(lvn_trainer_save(t, &saved));
        snprintf(outcome, sizeof outcome, "the weights of step %lld %s", (long long)t->running.step,
                 !has_folder(t) ? "are not saved, because of trainer.fast_dev_run"
                 : saved        ? "are saved"
                                : "could not be saved");
    }
    /* The inputs hold the next batch already. */
    LVN_TRY(lvn_ranks_agree(t->ranks, lvn_trainer_load_batch(t, t->running.step, &labels)));
    return lvn_train_programs_explain_nonfinite(&t->planned.programs, t->running.step, loss, outcome);
}

/* --- steps, validations, epochs --- */

static enum lvn_status announce_step(struct trainer *t, double loss, double seconds)
{
    const struct lvn_train_programs *programs = &t->planned.programs;
    const struct lvn_session *session = programs->step_session;
    struct lvn_event *e = &t->context.event;
    const int64_t step = t->running.step, per_epoch = t->opened.train_loader.steps_per_epoch;
    int64_t length = programs->block_size;
    if (programs->n_lengths) { /* the length of this step */
        length = lvn_task_length(t->opened.setup.task, session->options.fields);
        e->flops_per_token = lvn_program_flops(session->program) / (double)(programs->micro_batch * length);
    }
    e->step = step;
    e->epoch = step / per_epoch;
    e->scalar[SCALAR_LOSS].value = loss;
    e->scalar[SCALAR_GRAD_NORM].value = t->context.labels ? session->result.grad_norm : (double)NAN;
    if (t->running.loss_scale) t->running.loss_scale->value = session->result.scaling.scale;
    e->scalar[SCALAR_LR].value = session->step_args.lr;
    const int64_t packed = lvn_loader_tokens(&t->opened.train_loader, step - 1);
    const int64_t units = packed ? packed : t->settings->trainer.batch_size * length;
    e->scalar[SCALAR_TOKENS_PER_S].value = (double)units / seconds;
    e->scalar[SCALAR_EPOCH].value = (double)step / (double)per_epoch;
    e->scalar[SCALAR_TIME].value = lvn_wall_seconds();
    e->scalar[SCALAR_MEMORY].value = (double)e->memory_bytes;
    /* Seconds of a step, including everything between steps. */
    double mean = (lvn_seconds() - t->context.start_time) / (double)(step - t->running.first_step);
    e->eta_s = t->opened.last_step == INT64_MAX ? NAN : (double)(t->opened.last_step - step) * mean;
    return lvn_callbacks_call(&t->callbacks, &t->context, LVN_EVENT_STEP, NULL);
}

/* On rank 0: does the run's folder still belong to this job? If not, its status.json belongs to the other job. */
static enum lvn_status check_owner(struct trainer *t)
{
    enum lvn_status status = lvn_run_dir_check(&t->opened.run_dir);
    if (status != LVN_OK) lvn_member_publish(t->ranks->member, "");
    return status;
}

/* The batch of the next step could not be read: save this one, and fail with the reader's saved error. */
static enum lvn_status end_unread(struct trainer *t, enum lvn_status read)
{
    bool saved = false;
    LVN_TRY(lvn_trainer_save(t, &saved));
    if (read != LVN_OK) {
        lvn_error_restore();
        (void)lvn_while_at(read, "reading the batch of step %lld; step %lld %s", (long long)t->running.step + 1,
                           (long long)t->running.step, saved && has_folder(t) ? "is saved" : "is not saved");
    }
    return lvn_ranks_agree(t->ranks, read);
}

/* The batch of this step has no label: it has no loss, and the optimizer has changed nothing. */
static void note_unlabeled(struct trainer *t)
{
    if (t->running.noted_unlabeled) return;
    t->running.noted_unlabeled = true;
    snprintf(t->text, sizeof t->text,
             "no label of step %lld counts, so it has no loss and changes nothing. The number of such steps is "
             "reported at the end "
             "of the run. Check the labels, or use a larger trainer.batch_size, or a larger task.mask_fraction if "
             "tokens are masked",
             (long long)t->running.step);
    lvn_callback_notify(&t->context, LVN_EVENT_NOTE, t->text);
}

static enum lvn_status one_step(struct trainer *t)
{
    struct lvn_train_programs *programs = &t->planned.programs;
    struct trainer_running *r = &t->running;
    double begin = lvn_seconds();
    lvn_train_programs_launch(programs, r->step, lvn_schedule_lr(&t->opened.schedule, r->step), r->labels);
    LVN_TRY(programs->step_session->status);

    /* Load the next batch while a device computes. The status is exchanged with the statistics. */
    double loading = lvn_seconds();
    const char *before = lvn_work_begin("reading data");
    enum lvn_status next_status = LVN_OK;
    int64_t next_labels = 0;
    if (r->step + 1 < t->opened.last_step) next_status = lvn_trainer_load_batch(t, r->step + 1, &next_labels);
    const enum lvn_status read = next_status;
    if (next_status == LVN_OK && t->opened.run_dir_open) next_status = check_owner(t);
    if (read != LVN_OK) lvn_error_save();
    lvn_work_end(before);
    loading = lvn_seconds() - loading;

    LVN_TRY(lvn_train_programs_finish(programs));
    double computed = lvn_seconds() - begin - loading - programs->reduction.waited;
    t->context.labels = r->labels;
    LVN_TRY(exchange(t, computed, next_status, read, next_labels));
    const bool labeled = t->context.labels > 0;
    t->context.loss_sum =
        labeled ? lvn_tree_sum(lvn_step_statistics_loss(&t->planned.statistics, 0), programs->global_micro_batches)
                : 0.0;
    const struct lvn_result *result = &programs->step_session->result;
    const double loss = labeled ? t->context.loss_sum * programs->step_session->step_args.grad_scale : (double)NAN;
    const bool finite = !labeled || (isfinite(loss) && isfinite(result->grad_norm));
    /* In 16-mixed a gradient may overflow; the step then changed only the loss scale, as long as that helps. */
    const bool skipped = !finite && result->clip_scale == 0 && result->scaling.scale >= LVN_SCALING_MIN;
    if (!finite && !skipped) return explain_nonfinite(t, loss);
    r->step++;
    if (!labeled) note_unlabeled(t);
    if (skipped) {
        snprintf(t->text, sizeof t->text,
                 "step %lld is skipped, because its gradient is not finite in fp16; loss scale reduced to %g",
                 (long long)r->step, result->scaling.scale);
        lvn_callback_notify(&t->context, LVN_EVENT_NOTE, t->text);
    }
    lvn_member_set_step(t->ranks->member, r->step,
                        (double)(programs->rows * programs->block_size) * programs->fill / (lvn_seconds() - begin),
                        computed);
    LVN_TRY(announce_step(t, loss, lvn_seconds() - begin));
    if (*lvn_step_statistics_count(&t->planned.statistics, LVN_STATISTIC_WRITTEN) == t->ranks->size)
        LVN_TRY(lvn_saver_finish(&r->saver));
    if (*lvn_step_statistics_count(&t->planned.statistics, LVN_STATISTIC_NOT_READ) > 0) return end_unread(t, read);
    return LVN_OK;
}

/* Duration and memory are means over ranks. */
static enum lvn_status end_epoch(struct trainer *t)
{
    double mean[2] = {lvn_seconds() - t->running.epoch_start_time, (double)lvn_memory_peak()};
    LVN_TRY(lvn_ranks_sum(t->ranks, mean, 2));
    t->context.event.epoch_s = mean[0] / t->ranks->size;
    t->context.event.peak_bytes = (int64_t)(mean[1] / t->ranks->size);
    LVN_TRY(lvn_callbacks_call(&t->callbacks, &t->context, LVN_EVENT_EPOCH, NULL));
    t->running.epoch_start_time = lvn_seconds();
    return agree_on_requests(t);
}

static void report_validating(void *context, int64_t done, int64_t all)
{
    struct trainer *t = context;
    struct lvn_event *e = &t->context.event;
    e->val_batch = done;
    e->val_batches = all;
    e->elapsed_s = lvn_seconds() - t->context.start_time;
    lvn_callback_notify(&t->context, LVN_EVENT_VALIDATING, NULL);
}

enum lvn_status lvn_trainer_validate(struct trainer *t)
{
    struct lvn_event *e = &t->context.event;
    double *loss = &e->scalar[SCALAR_VAL_LOSS].value;
    t->opened.validation.progress = report_validating;
    t->opened.validation.context = t;
    LVN_TRY(lvn_validation_run(&t->opened.validation, &t->planned.programs, loss));
    for (int i = 0; i < t->planned.programs.eval_session->outputs.n_metrics; i++)
        e->scalar[SCALAR_METRIC + i].value = t->opened.validation.value[i];
    t->context.val_task = &t->planned.programs.eval_session->outputs;
    t->context.val_counts = t->opened.validation.counts;
    if (!t->opened.validation.labels && !t->running.noted_unlabeled_val) {
        t->running.noted_unlabeled_val = true;
        lvn_callback_notify(&t->context, LVN_EVENT_NOTE,
                            "no label of the validation data counts, so validation has no loss, and no checkpoint is "
                            "the best one; use more or other validation data");
    }
    if (t->running.step == 0) e->start_val_loss = *loss;
    if (t->running.step > 0 && isfinite(*loss) && !(*loss >= e->best_val_loss)) e->best_val_loss = *loss;
    e->best = false;
    t->running.validated_step = t->running.step;
    LVN_TRY(lvn_callbacks_call(&t->callbacks, &t->context, LVN_EVENT_VALIDATION, NULL));
    return agree_on_requests(t);
}

enum lvn_status lvn_trainer_end(struct trainer *t, const char *reason)
{
    static const char finished[] =
        "training has finished, but its last checkpoint (step %lld) could not be saved; free "
        "some space and continue with --resume",
                      not_saved[] = "stopped on request after step %lld, which could not be saved",
                      is_saved[] = "stopped on request after step %lld, which is saved",
                      no_folder[] = "stopped on request after step %lld of a trainer.fast_dev_run, which saves nothing";
    const long long step = (long long)t->running.step;
    const bool stop = t->requested.stop;
    enum lvn_status status = LVN_OK;
    bool saved;
    LVN_TRY(lvn_trainer_save(t, &saved));
    if (t->planned.programs.unlabeled) {
        snprintf(t->text, sizeof t->text, "%lld of %lld steps had no label that counts, and changed nothing",
                 (long long)t->planned.programs.unlabeled, step);
        lvn_callback_notify(&t->context, LVN_EVENT_NOTE, t->text);
    }
    snprintf(t->running.end_reason, sizeof t->running.end_reason, "%s%s", reason, stop && !saved ? ", not saved" : "");
    LVN_TRY(lvn_callbacks_call(&t->callbacks, &t->context, LVN_EVENT_END, t->running.end_reason));
    if (!saved) status = lvn_fail(LVN_IO, stop ? not_saved : finished, step);
    if (saved && stop) status = lvn_fail(LVN_STOPPED, has_folder(t) ? is_saved : no_folder, step);
    return lvn_ranks_agree(t->ranks, status);
}

/* --- the loop --- */

static bool every(int64_t step, int64_t n)
{
    return n > 0 && step % n == 0;
}

/* Why the run ends after this step; NULL: it continues. */
static const char *reason_to_end(const struct trainer *t)
{
    const char *requested =
        *t->context.stop_reason ? t->context.stop_reason : "a callback of another rank requested to stop";
    if (t->requested.stop) return "stopped on request";
    if (t->requested.control & LVN_CONTROL_SHOULD_TRAINING_STOP) return requested;
    if (t->running.step >= t->opened.last_step) return "all steps are done";
    return t->requested.time_is_up ? "trainer.max_time is reached" : NULL;
}

enum lvn_status lvn_trainer_step(struct trainer *t, const char **end_reason)
{
    LVN_TRY(one_step(t));
    const int64_t step = t->running.step;
    const struct lvn_validation *v = &t->opened.validation;
    bool last = step == t->opened.last_step;
    if (v->on && (every(step, v->every) || last || t->requested.control & LVN_CONTROL_SHOULD_EVALUATE))
        LVN_TRY(lvn_trainer_validate(t));
    if (every(step, t->opened.train_loader.steps_per_epoch)) LVN_TRY(end_epoch(t));
    if (every(step, t->settings->checkpoint.every_n_steps) || t->requested.control & LVN_CONTROL_SHOULD_SAVE)
        LVN_TRY(save_checkpoint(t));
    t->requested.control &= LVN_CONTROL_SHOULD_TRAINING_STOP;
    *end_reason = reason_to_end(t);
    return *end_reason ? LVN_OK : update_shares(t);
}

/* Rank 0 logs the device that all ranks use; with trainer.accelerator auto, also each installed driver without a GPU.
 */
static void log_device(const struct trainer *t)
{
    const struct lvn_device *d = t->planned.programs.model_state->device;
    const struct lvn_backend *b;
    char why[400];
    if (t->ranks->rank) return;
    bool is_auto = !strcmp(t->settings->trainer.accelerator, "auto") && !d->backend->describe;
    for (int i = 0; is_auto && (b = lvn_backend_at(i)); i++) {
        if (!b->library || b->library->state != LVN_LIBRARY_LOADED) continue;
        lvn_backend_why_none(b, why, sizeof why);
        lvn_log(LVN_LOG_INFO, "computing on the CPU, because %s has no GPU: %s", b->name, why);
    }
    if (*d->note) lvn_log(LVN_LOG_INFO, "%s", d->note);
    if (t->settings->trainer.float32_matmul_precision == LVN_TRAINER_FLOAT32_HIGH && !d->tf32)
        lvn_log(LVN_LOG_INFO,
                "trainer.float32_matmul_precision high has no effect here, because %s does not support TF32",
                d->backend->name);
}

/* From a run that is set up to its first step. */
static enum lvn_status start(struct trainer *t)
{
    const struct trainer_opened *o = &t->opened;
    struct lvn_event *e = &t->context.event;
    enum lvn_status status = LVN_OK;
    t->running.started = true;
    log_device(t);
    if (o->run_dir_open) { /* rank 0 */
        status = lvn_run_dir_begin(&t->opened.run_dir);
        if (status == LVN_OK) status = lvn_run_dir_write_settings(&o->run_dir, t->settings);
    }
    LVN_TRY(lvn_ranks_agree(t->ranks, status));
    snprintf(t->text, sizeof t->text, "%s/status.json", o->run_dir_open ? o->run_dir.path : t->settings->run_dir);
    if (has_folder(t)) lvn_member_publish(t->ranks->member, t->text);
    t->context.start_time = t->running.epoch_start_time = lvn_seconds();
    t->running.first_step = t->running.step;
    e->memory_bytes = lvn_memory_resident();
    e->peak_bytes = lvn_memory_peak();
    LVN_TRY(lvn_callbacks_call(&t->callbacks, &t->context, LVN_EVENT_START, o->resuming ? o->checkpoint.path : NULL));
    const bool is_new = t->running.step == 0 && !o->resuming;
    const int64_t sanity = t->settings->trainer.num_sanity_val_steps;
    if (is_new && sanity && has_folder(t))
        LVN_TRY(lvn_validation_try(&t->opened.validation, &t->planned.programs, sanity));
    /* The loss of pretrained weights is the one that training must improve; initial weights need no such measurement.
     */
    if (is_new && o->validation.on && o->setup.has_pretrained) LVN_TRY(lvn_trainer_validate(t));
    if (t->options->looping) *t->options->looping = 1;
    return LVN_OK;
}

enum lvn_status lvn_trainer_open(struct trainer *t, struct levin_settings *s, const struct lvn_train_options *o)
{
    *t = (struct trainer){.settings = s, .options = o, .ranks = o->ranks, .running = {.validated_step = -1}};
    lvn_saver_init(&t->running.saver);
    LVN_TRY(lvn_trainer_set_up(t));
    t->running.done = t->opened.resuming &&
                      (t->running.step >= t->opened.last_step || t->context.control & LVN_CONTROL_SHOULD_TRAINING_STOP);
    return t->running.done ? LVN_OK : start(t);
}

static void summarize(const struct trainer *t, struct lvn_train_result *r)
{
    const struct lvn_event *e = &t->context.event;
    *r = (struct lvn_train_result){.step = t->running.step,
                                   .unlabeled = t->planned.programs.unlabeled,
                                   .loss = lvn_event_value(e, "loss"),
                                   .val_loss = lvn_event_value(e, "val_loss"),
                                   .best_val_loss = e->best_val_loss,
                                   .start_val_loss = e->start_val_loss,
                                   .already_done = t->running.done,
                                   .requeue = t->requested.requeue && has_folder(t)};
    if (has_folder(t)) snprintf(r->run_dir, sizeof r->run_dir, "%s", t->settings->run_dir);
    snprintf(r->end_reason, sizeof r->end_reason, "%s",
             t->running.done ? t->context.stop_reason : t->running.end_reason);
}

enum lvn_status lvn_trainer_close(struct trainer *t, enum lvn_status status, struct lvn_train_result *result)
{
    const char *state = status == LVN_OK ? "done" : status == LVN_STOPPED ? "stopped" : "failed";
    if (t->running.started) lvn_member_state(t->ranks->member, state);
    lvn_saver_release(&t->running.saver); /* waits; even after a failure rank 0 completes a save that has begun */
    if (result) summarize(t, result);
    lvn_callbacks_release(&t->callbacks);
    if (t->opened.run_dir_open && (status == LVN_OK || status == LVN_STOPPED)) {
        const char *before = lvn_work_begin("sending the run to its store");
        enum lvn_status sent = lvn_run_dir_end(&t->opened.run_dir);
        lvn_work_end(before);
        if (sent != LVN_OK) status = sent;
    }
    if (t->opened.checkpoint_open) lvn_checkpoint_close(&t->opened.checkpoint);
    if (t->opened.run_dir_open) lvn_run_dir_close(&t->opened.run_dir);
    lvn_train_programs_release(&t->planned.programs);
    lvn_trainer_release_rows(t);
    release_shares(t);
    lvn_model_setup_close(&t->opened.setup);
    lvn_carried_files_release(&t->opened.carried);
    return status;
}

enum lvn_status lvn_train(struct levin_settings *s, const struct lvn_train_options *o, struct lvn_train_result *result)
{
    struct trainer t;
    const char *end_reason = NULL;
    enum lvn_status status = lvn_trainer_open(&t, s, o);
    while (status == LVN_OK && !t.running.done && !end_reason) status = lvn_trainer_step(&t, &end_reason);
    if (status == LVN_OK && !t.running.done) status = lvn_trainer_end(&t, end_reason);
    return lvn_trainer_close(&t, status, result);
}
