/* trainer.c - the training loop: struct lvn_trainer of trainer_private.h from its first step to its end.
 *
 * lvn_train() and the C API call it. lvn_trainer_step() is one step and everything that is due after it; callbacks do
 * other work at events (callback.h). trainer_setup.c does everything before the first step. All ranks run the same code
 * and decide on values that they have exchanged in one small sum over ranks at the end of each step
 * (step_statistics.h). */
#include "train/trainer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/work.h"
#include "data/sources/shard_list.h"
#include "host/library.h"
#include "host/machine.h"
#include "train/trainer_private.h"

/* --- exchange between ranks --- */

/* This rank's requests, and control flags of its callbacks, as counts that add up over ranks. */
static void count_requests(const struct lvn_trainer *trainer, double *count)
{
    int stop = trainer->options->stop ? *trainer->options->stop : LVN_STOP_NONE;
    double limit = trainer->settings->values.trainer.max_time;
    count[LVN_STATISTIC_STOP] = stop != LVN_STOP_NONE;
    count[LVN_STATISTIC_REQUEUE] = stop == LVN_STOP_REQUEUE;
    count[LVN_STATISTIC_TIME_IS_UP] = limit > 0.0 && lvn_seconds() - trainer->context.start_time >= limit;
    for (int i = 0; i < 3; i++) count[LVN_STATISTIC_SHOULD_TRAINING_STOP + i] = (trainer->context.control >> i) & 1;
}

static void read_requests(struct lvn_trainer *trainer, const double *count)
{
    trainer->requested.stop |= count[LVN_STATISTIC_STOP] > 0;
    trainer->requested.requeue |= count[LVN_STATISTIC_REQUEUE] > 0;
    trainer->requested.time_is_up |= count[LVN_STATISTIC_TIME_IS_UP] > 0;
    for (int i = 0; i < 3; i++)
        trainer->requested.control |= (unsigned)(count[LVN_STATISTIC_SHOULD_TRAINING_STOP + i] > 0) << i;
    trainer->context.control = 0;
}

/* Exchange requests immediately, after rare events. */
static enum lvn_status agree_on_requests(struct lvn_trainer *trainer)
{
    double count[LVN_STATISTIC_COUNTS] = {0};
    count_requests(trainer, count);
    LVN_TRY(lvn_ranks_sum(trainer->ranks, count, LVN_STATISTIC_COUNTS));
    read_requests(trainer, count);
    return LVN_OK;
}

/* End a step on all ranks: exchange losses, requests, and the status and labels of loading the next batch.
 * `read_status` is the status of reading it: if that fails, this step still ends normally, and is saved. */
static enum lvn_status exchange(struct lvn_trainer *trainer, double seconds, enum lvn_status next_status,
                                enum lvn_status read_status, int64_t next_labels)
{
    struct lvn_step_statistics *statistics = &trainer->planned.statistics;
    const struct lvn_train_programs *programs = &trainer->planned.programs;
    int rank = trainer->ranks->rank;
    double now = lvn_seconds();
    if (now - trainer->running.memory_time > 0.5) {
        trainer->running.memory_time = now;
        trainer->running.memory_bytes = lvn_memory_resident();
        trainer->running.peak_bytes = lvn_memory_peak();
    }
    lvn_step_statistics_clear(statistics);
    memcpy(lvn_step_statistics_loss(statistics, programs->leaf[rank]), programs->step_session->micro_losses,
           sizeof(double) * (size_t)programs->accumulation);
    memcpy(lvn_step_statistics_sums(statistics), programs->step_session->counts,
           sizeof(double) * (size_t)statistics->n_sums);
    *lvn_step_statistics_of_rank(statistics, rank, LVN_STATISTIC_SECONDS) = seconds;
    *lvn_step_statistics_of_rank(statistics, rank, LVN_STATISTIC_MEMORY) = (double)trainer->running.memory_bytes;
    *lvn_step_statistics_of_rank(statistics, rank, LVN_STATISTIC_PEAK) = (double)trainer->running.peak_bytes;
    double *count = lvn_step_statistics_count(statistics, 0);
    count_requests(trainer, count);
    count[LVN_STATISTIC_WRITTEN] = lvn_saver_is_written(&trainer->running.saver);
    count[LVN_STATISTIC_FAILED] = next_status != LVN_OK && read_status == LVN_OK;
    count[LVN_STATISTIC_NOT_READ] = read_status != LVN_OK;
    count[LVN_STATISTIC_LABELS] = (double)next_labels;
    LVN_TRY(lvn_step_statistics_exchange(statistics));
    if (count[LVN_STATISTIC_FAILED] > 0) return lvn_ranks_agree(trainer->ranks, next_status);
    read_requests(trainer, count);
    trainer->running.labels = (int64_t)count[LVN_STATISTIC_LABELS];
    trainer->context.event.memory_bytes =
        (int64_t)(lvn_step_statistics_sum(statistics, LVN_STATISTIC_MEMORY) / trainer->ranks->size);
    trainer->context.event.peak_bytes =
        (int64_t)(lvn_step_statistics_sum(statistics, LVN_STATISTIC_PEAK) / trainer->ranks->size);
    return LVN_OK;
}

/* --- checkpoints: saver.h has the sequence --- */

/* Does the run have a folder? A run with trainer.fast_dev_run has none. */
static bool has_folder(const struct lvn_trainer *trainer)
{
    return !trainer->settings->values.trainer.fast_dev_run;
}

/* Copy the names of damaged shards; lines that do not fit are left out, with a warning. */
static void save_shards(const struct lvn_trainer *trainer, char to[LVN_SNAPSHOT_SKIPPED])
{
    LVN_LOCAL_TEXT(shards);
    int64_t tokens;
    (void)lvn_dataset_bad_shards(trainer->opened.setup.data, &tokens, &shards);
    const bool whole = lvn_text_status(&shards) == LVN_OK && shards.n < LVN_SNAPSHOT_SKIPPED;
    int64_t bytes = shards.p ? shards.n : 0;
    while (bytes >= LVN_SNAPSHOT_SKIPPED || (bytes && shards.p[bytes - 1] != '\n')) bytes--;
    if (bytes) memcpy(to, shards.p, (size_t)bytes);
    to[bytes] = 0;
    if (whole) return;
    lvn_error_clear();
    lvn_log_once(LVN_LOG_WARN,
                 "checkpoints contain only the first names of damaged shards, %lld bytes: a resumed run must find the "
                 "others again",
                 (long long)bytes);
}

/* Begin to save; training may continue meanwhile. */
static enum lvn_status save_checkpoint(struct lvn_trainer *trainer)
{
    if (!has_folder(trainer)) return LVN_OK;
    const struct lvn_train_programs *programs = &trainer->planned.programs;
    const struct lvn_event *e = &trainer->context.event;
    const bool validated = trainer->running.validated_step == trainer->running.step;
    struct lvn_snapshot snapshot = {.step = trainer->running.step,
                                    .val_loss = validated ? e->scalar[SCALAR_VAL_LOSS].value : NAN,
                                    .due = trainer->running.due & (LVN_DUE_VALIDATION | LVN_DUE_EPOCH_END),
                                    .best_val_loss = e->best_val_loss,
                                    .start_val_loss = e->start_val_loss,
                                    .score = trainer->context.score,
                                    .data = trainer->opened.fingerprint,
                                    .unlabeled = programs->unlabeled,
                                    .micro_batch = programs->micro_batch,
                                    .min_micro_batches = programs->min_micro_batches,
                                    .ranks = trainer->ranks->size};
    if (trainer->context.scored_step != trainer->running.step) snapshot.score.value = NAN;
    save_shards(trainer, snapshot.skipped);
    snapshot.choices = lvn_text_string(&trainer->planned.choices);
    snprintf(snapshot.device, sizeof snapshot.device, "%s", lvn_device_text(programs->model_state->device));
    if (trainer->running.loss_scale)
        LVN_TRY(lvn_ranks_agree(trainer->ranks, lvn_model_state_scaling(programs->model_state, &snapshot.scaling)));
    LVN_TRY(lvn_callbacks_save(&trainer->callbacks, &trainer->context, snapshot.callbacks));
    return lvn_saver_begin(&trainer->running.saver, &snapshot);
}

enum lvn_status lvn_trainer_save(struct lvn_trainer *trainer, bool *saved)
{
    LVN_TRY(save_checkpoint(trainer));
    LVN_TRY(lvn_saver_finish(&trainer->running.saver));
    *saved = trainer->running.saver.step == trainer->running.step || !has_folder(trainer);
    return LVN_OK;
}

/* Step trainer->running.step + 1 gave non-finite values and changed nothing: save the state before it and find their
 * origin. Always fails: NONFINITE, unless another error occurred first. */
static enum lvn_status explain_nonfinite(struct lvn_trainer *trainer, double loss)
{
    bool saved = false;
    char outcome[100] = "no step was made before it";
    int64_t labels;
    if (trainer->running.step) {
        LVN_TRY(lvn_trainer_save(trainer, &saved));
        snprintf(outcome, sizeof outcome, "the weights of step %lld %s", (long long)trainer->running.step,
                 !has_folder(trainer) ? "are not saved, because of trainer.fast_dev_run"
                 : saved              ? "are saved"
                                      : "could not be saved");
    }
    /* The inputs already contain the next batch, so load this one again. A program's data may be readable only once. */
    double missing = lvn_trainer_load_batch(trainer, trainer->running.step, &labels) != LVN_OK;
    lvn_error_clear();
    LVN_TRY(lvn_ranks_sum(trainer->ranks, &missing, 1));
    return lvn_train_programs_explain_nonfinite(&trainer->planned.programs, trainer->running.step, loss, missing == 0,
                                                outcome);
}

/* --- steps, validations, epochs --- */

static enum lvn_status announce_step(struct lvn_trainer *trainer, double loss, double seconds)
{
    const struct lvn_train_programs *programs = &trainer->planned.programs;
    const struct lvn_session *session = programs->step_session;
    struct lvn_event *e = &trainer->context.event;
    const int64_t step = trainer->running.step, per_epoch = trainer->opened.train_loader.steps_per_epoch;
    int64_t length = programs->block_size;
    if (programs->n_lengths) { /* the length of this step */
        length = lvn_task_length(trainer->opened.setup.task, session->options.fields);
        e->flops_per_token = lvn_program_flops(session->program, programs->accumulation) /
                             (double)(programs->micro_batch * programs->accumulation * length);
    }
    e->step = step;
    e->epoch = step / per_epoch;
    e->scalar[SCALAR_LOSS].value = loss;
    e->scalar[SCALAR_GRAD_NORM].value = trainer->context.labels ? session->result.grad_norm : (double)NAN;
    if (trainer->running.loss_scale) trainer->running.loss_scale->value = session->result.scaling.scale;
    e->scalar[SCALAR_LR].value = session->step_args.lr;
    const int64_t packed = lvn_loader_tokens(&trainer->opened.train_loader, step - 1);
    const int64_t units = packed ? packed : trainer->settings->values.trainer.batch_size * length;
    e->scalar[SCALAR_TOKENS_PER_S].value = (double)units / seconds;
    e->scalar[SCALAR_EPOCH].value = (double)step / (double)per_epoch;
    e->scalar[SCALAR_TIME].value = lvn_wall_seconds();
    e->scalar[SCALAR_MEMORY].value = (double)e->memory_bytes;
    /* Seconds of a step, including everything between steps. */
    double mean = (lvn_seconds() - trainer->context.start_time) / (double)(step - trainer->running.first_step);
    e->eta_s = trainer->opened.last_step == INT64_MAX ? NAN : (double)(trainer->opened.last_step - step) * mean;
    return lvn_callbacks_call(&trainer->callbacks, &trainer->context, LVN_EVENT_STEP, NULL);
}

/* On rank 0: does the run's folder still belong to this job? If not, its status.json belongs to the other job. */
static enum lvn_status check_owner(struct lvn_trainer *trainer)
{
    enum lvn_status status = lvn_run_dir_check(&trainer->opened.run_dir);
    if (status != LVN_OK) lvn_member_publish(trainer->ranks->member, "");
    return status;
}

/* The batch of the next step could not be read: save this one, and fail with the reader's saved error. */
static enum lvn_status end_unread(struct lvn_trainer *trainer)
{
    bool saved = false;
    const enum lvn_status read_status = trainer->running.read_status;
    LVN_TRY(lvn_trainer_save(trainer, &saved));
    if (read_status != LVN_OK) {
        lvn_error_restore();
        (void)lvn_while_at(read_status, "reading the batch of step %lld; step %lld %s",
                           (long long)trainer->running.step + 1, (long long)trainer->running.step,
                           saved && has_folder(trainer) ? "is saved" : "is not saved");
    }
    return lvn_ranks_agree(trainer->ranks, read_status);
}

void lvn_trainer_note_shards(struct lvn_trainer *trainer)
{
    struct lvn_bad_shard bad;
    char tokens[LVN_NUMBER_TEXT], name[LVN_RANK_TEXT];
    const struct lvn_ranks *r = trainer->ranks;
    while (lvn_dataset_bad_shard(trainer->opened.setup.data, trainer->running.bad_shards, &bad)) {
        snprintf(trainer->text, sizeof trainer->text,
                 "data.skip_bad_shards skips '%s' with its %s tokens, and reads the next good shard in its place: %s",
                 bad.path, lvn_count_text(bad.tokens, tokens), bad.reason);
        lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->text);
        if (r->rank && !r->local_rank) /* another host, which may have its own copy */
            lvn_log(LVN_LOG_WARN, "%s: %s", lvn_ranks_name(r, r->rank, name), trainer->text);
    }
}

/* The batch of this step has no label: it has no loss, and the optimizer has changed nothing. */
static void note_unlabeled(struct lvn_trainer *trainer)
{
    if (trainer->running.noted_unlabeled) return;
    trainer->running.noted_unlabeled = true;
    snprintf(trainer->text, sizeof trainer->text,
             "no label of step %lld counts, so it has no loss and changes nothing. The number of such steps is "
             "reported at the end of the run. Check the labels, or use a larger trainer.batch_size, or a larger "
             "task.mask_fraction if tokens are masked",
             (long long)trainer->running.step);
    lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->text);
}

static enum lvn_status one_step(struct lvn_trainer *trainer)
{
    struct lvn_train_programs *programs = &trainer->planned.programs;
    struct lvn_trainer_running *r = &trainer->running;
    double begin = lvn_seconds();
    lvn_train_programs_launch(programs, r->step, lvn_schedule_lr(&trainer->opened.schedule, r->step), r->labels);
    LVN_TRY(programs->step_session->status);

    /* Load the next batch while a device computes. The status is exchanged with the statistics. */
    double loading = lvn_seconds();
    const char *before = lvn_work_begin("reading data");
    enum lvn_status next_status = LVN_OK;
    int64_t next_labels = 0;
    if (r->step + 1 < trainer->opened.last_step)
        next_status = lvn_trainer_load_batch(trainer, r->step + 1, &next_labels);
    const enum lvn_status read_status = next_status;
    if (next_status == LVN_OK && trainer->opened.run_dir_open) next_status = check_owner(trainer);
    if (read_status != LVN_OK) lvn_error_save();
    lvn_work_end(before);
    loading = lvn_seconds() - loading;

    LVN_TRY(lvn_train_programs_finish(programs));
    double computed = lvn_seconds() - begin - loading - programs->collectives.waited;
    trainer->context.labels = r->labels;
    LVN_TRY(exchange(trainer, computed, next_status, read_status, next_labels));
    const bool labeled = trainer->context.labels > 0;
    trainer->context.loss_sum = labeled ? lvn_tree_sum(lvn_step_statistics_loss(&trainer->planned.statistics, 0),
                                                       programs->global_micro_batches)
                                        : 0.0;
    const struct lvn_result *result = &programs->step_session->result;
    const double loss =
        labeled ? trainer->context.loss_sum * programs->step_session->step_args.grad_scale : (double)NAN;
    const bool finite = !labeled || (isfinite(loss) && isfinite(result->grad_norm));
    /* In 16-mixed a gradient may overflow. Such a step changes only the loss scale, and is accepted while the scale is
     * at least LVN_SCALING_MIN. */
    const bool skipped = !finite && result->clip_scale == 0 && result->scaling.scale >= LVN_SCALING_MIN;
    if (!finite && !skipped) return explain_nonfinite(trainer, loss);
    r->step++;
    if (!labeled) note_unlabeled(trainer);
    lvn_trainer_note_shards(trainer);
    if (skipped) {
        snprintf(trainer->text, sizeof trainer->text,
                 "step %lld is skipped, because its gradient is not finite in fp16; loss scale reduced to %g",
                 (long long)r->step, result->scaling.scale);
        lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->text);
    }
    lvn_member_set_step(trainer->ranks->member, r->step,
                        (double)(programs->rows * programs->block_size) * programs->fill / (lvn_seconds() - begin),
                        computed);
    LVN_TRY(announce_step(trainer, loss, lvn_seconds() - begin));
    if (*lvn_step_statistics_count(&trainer->planned.statistics, LVN_STATISTIC_WRITTEN) == trainer->ranks->size)
        LVN_TRY(lvn_saver_finish(&r->saver));
    r->read_status = read_status;
    r->batch_missing = *lvn_step_statistics_count(&trainer->planned.statistics, LVN_STATISTIC_NOT_READ) > 0;
    return LVN_OK;
}

/* Duration and memory are means over ranks. */
static enum lvn_status end_epoch(struct lvn_trainer *trainer)
{
    double mean[2] = {lvn_seconds() - trainer->running.epoch_start_time, (double)lvn_memory_peak()};
    LVN_TRY(lvn_ranks_sum(trainer->ranks, mean, 2));
    trainer->context.event.epoch_s = mean[0] / trainer->ranks->size;
    trainer->context.event.peak_bytes = (int64_t)(mean[1] / trainer->ranks->size);
    trainer->running.due &= ~(unsigned)LVN_DUE_EPOCH_END;
    LVN_TRY(lvn_callbacks_call(&trainer->callbacks, &trainer->context, LVN_EVENT_EPOCH, NULL));
    trainer->running.epoch_start_time = lvn_seconds();
    return agree_on_requests(trainer);
}

/* If a stop is requested, the step is saved immediately. Several ranks agree about once a second, because agreeing
 * after each batch would slow down small models. They choose the same batch, because a sum of integers has no rounding
 * error. */
static enum lvn_status report_validating(void *context, int64_t done, int64_t all)
{
    struct lvn_trainer *trainer = context;
    struct lvn_event *e = &trainer->context.event;
    e->val_batch = done;
    e->val_batches = all;
    e->elapsed_s = lvn_seconds() - trainer->context.start_time;
    lvn_callback_notify(&trainer->context, LVN_EVENT_VALIDATING, NULL);
    if (trainer->requested.stop || done < trainer->running.agrees_at) return LVN_OK;
    LVN_TRY(agree_on_requests(trainer));
    double ms = floor(1e3 * (lvn_seconds() - trainer->running.validation_start));
    LVN_TRY(lvn_ranks_sum(trainer->ranks, &ms, 1));
    const double per_second = 1e3 * (double)done * trainer->ranks->size / (ms + 1);
    trainer->running.agrees_at = done + 1 + (trainer->ranks->size > 1 ? (int64_t)per_second : 0);
    bool saved;
    if (trainer->requested.stop && trainer->running.step && lvn_trainer_save(trainer, &saved) != LVN_OK)
        lvn_error_clear(); /* saved again after the validation */
    return LVN_OK;
}

enum lvn_status lvn_trainer_validate(struct lvn_trainer *trainer)
{
    struct lvn_event *e = &trainer->context.event;
    double *loss = &e->scalar[SCALAR_VAL_LOSS].value;
    trainer->opened.validation.progress = report_validating;
    trainer->opened.validation.context = trainer;
    trainer->running.validation_start = lvn_seconds();
    trainer->running.agrees_at = 1;
    LVN_TRY(lvn_validation_run(&trainer->opened.validation, &trainer->planned.programs, loss));
    for (int i = 0; i < trainer->planned.programs.eval_session->outputs.n_metrics; i++)
        e->scalar[SCALAR_METRIC + i].value = trainer->opened.validation.value[i];
    trainer->context.val_task = &trainer->planned.programs.eval_session->outputs;
    trainer->context.val_counts = trainer->opened.validation.counts;
    if (!trainer->opened.validation.labels && !trainer->running.noted_unlabeled_val) {
        trainer->running.noted_unlabeled_val = true;
        lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE,
                            "no label of the validation data counts, so validation has no loss, and no checkpoint is "
                            "the best one; use more or other validation data");
    }
    if (trainer->running.step == 0) e->start_val_loss = *loss;
    if (trainer->running.step > 0 && isfinite(*loss) && !(*loss >= e->best_val_loss)) e->best_val_loss = *loss;
    e->best = false;
    trainer->running.validated_step = trainer->running.step;
    trainer->running.due &= ~(unsigned)LVN_DUE_VALIDATION;
    LVN_TRY(lvn_callbacks_call(&trainer->callbacks, &trainer->context, LVN_EVENT_VALIDATION, NULL));
    return agree_on_requests(trainer);
}

/* Report what each source of data.mix supplied. */
static void report_mix(const struct lvn_trainer *trainer)
{
    LVN_LOCAL_TEXT(t);
    if (!trainer->opened.setup.data->mix || trainer->ranks->rank) return;
    lvn_text_add(&t, "data.mix supplied ");
    if (lvn_loader_describe_mix(&trainer->opened.train_loader, trainer->running.step, &t) == LVN_OK)
        lvn_log(LVN_LOG_INFO, "%s", t.p);
    else
        lvn_error_clear();
}

static void note_skipped(struct lvn_trainer *trainer)
{
    LVN_LOCAL_TEXT(t);
    char text[LVN_NUMBER_TEXT];
    int64_t tokens, n = lvn_dataset_bad_shards(trainer->opened.setup.data, &tokens, &t);
    if (!n) return;
    snprintf(trainer->text, sizeof trainer->text,
             "%lld damaged shard%s with %s tokens %s skipped (data.skip_bad_shards)", (long long)n, lvn_plural(n),
             lvn_count_text(tokens, text), n == 1 ? "was" : "were");
    lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->text);
}

enum lvn_status lvn_trainer_end(struct lvn_trainer *trainer, const char *reason)
{
    static const char finished[] =
        "training has finished, but its last checkpoint (step %lld) could not be saved; free "
        "some space and continue with --resume",
                      not_saved[] = "stopped on request after step %lld, which could not be saved",
                      is_saved[] = "stopped on request after step %lld, which is saved",
                      no_folder[] = "stopped on request after step %lld of a trainer.fast_dev_run, which saves nothing";
    const long long step = (long long)trainer->running.step;
    const bool stop = trainer->requested.stop;
    enum lvn_status status = LVN_OK;
    bool saved;
    LVN_TRY(lvn_trainer_save(trainer, &saved));
    if (trainer->planned.programs.unlabeled) {
        snprintf(trainer->text, sizeof trainer->text,
                 "%lld of %lld steps had no label that counts, and changed nothing",
                 (long long)trainer->planned.programs.unlabeled, step);
        lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->text);
    }
    note_skipped(trainer);
    report_mix(trainer);
    snprintf(trainer->running.end_reason, sizeof trainer->running.end_reason, "%s%s", reason,
             stop && !saved ? ", not saved" : "");
    LVN_TRY(lvn_callbacks_call(&trainer->callbacks, &trainer->context, LVN_EVENT_END, trainer->running.end_reason));
    if (!saved) status = lvn_fail(LVN_IO, stop ? not_saved : finished, step);
    if (saved && stop) status = lvn_fail(LVN_STOPPED, has_folder(trainer) ? is_saved : no_folder, step);
    return lvn_ranks_agree(trainer->ranks, status);
}

/* --- the loop --- */

const char *lvn_trainer_end_reason(const struct lvn_trainer *trainer)
{
    const char *requested =
        *trainer->context.stop_reason ? trainer->context.stop_reason : "a callback of another rank requested to stop";
    if (!trainer->running.step) return NULL;
    if (trainer->requested.stop) return "stopped on request";
    if (trainer->requested.control & LVN_CONTROL_SHOULD_TRAINING_STOP) return requested;
    if (trainer->running.step >= trainer->opened.last_step) return "all steps are done";
    return trainer->requested.time_is_up ? "trainer.max_time is reached" : NULL;
}

/* Add what callbacks of any rank have requested to what is due, and return what to do next. */
static enum lvn_due next_due(struct lvn_trainer *trainer, bool saved_first)
{
    struct lvn_trainer_running *r = &trainer->running;
    const unsigned control = trainer->requested.control;
    const bool may_validate = trainer->opened.validation.on && r->validated_step != r->step;
    if (control & LVN_CONTROL_SHOULD_EVALUATE && may_validate) r->due |= LVN_DUE_VALIDATION;
    if (control & LVN_CONTROL_SHOULD_SAVE) r->due |= LVN_DUE_SAVE;
    const struct lvn_due_state state = {.due = r->due,
                                        .interrupted = trainer->requested.stop || r->batch_missing,
                                        .saved_first = saved_first,
                                        .in_store = lvn_store_is_remote(trainer->settings->values.run_dir),
                                        .last = r->step == trainer->opened.last_step};
    return lvn_due_next(&state);
}

enum lvn_status lvn_trainer_do_due(struct lvn_trainer *trainer)
{
    enum lvn_due next;
    bool saved, saved_first = false;
    while ((next = next_due(trainer, saved_first)) != LVN_DUE_NOTHING) {
        if (next == LVN_DUE_VALIDATION) LVN_TRY(lvn_trainer_validate(trainer));
        if (next == LVN_DUE_EPOCH_END) LVN_TRY(end_epoch(trainer));
        if (next == LVN_DUE_SAVE_FIRST) LVN_TRY(lvn_trainer_save(trainer, &saved));
        if (next == LVN_DUE_SAVE) LVN_TRY(save_checkpoint(trainer));
        if (next == LVN_DUE_SAVE) trainer->requested.control &= ~(unsigned)LVN_CONTROL_SHOULD_SAVE;
        if (next == LVN_DUE_SAVE) trainer->running.due &= ~(unsigned)LVN_DUE_SAVE;
        saved_first |= next == LVN_DUE_SAVE_FIRST;
    }
    trainer->requested.control &= LVN_CONTROL_SHOULD_TRAINING_STOP;
    return LVN_OK;
}

enum lvn_status lvn_trainer_step(struct lvn_trainer *trainer)
{
    const struct lvn_due_intervals every = {.validation = trainer->opened.validation.every,
                                            .epoch = trainer->opened.train_loader.steps_per_epoch,
                                            .save = trainer->settings->values.checkpoint.every_n_steps,
                                            .last_step = trainer->opened.last_step,
                                            .validates = trainer->opened.validation.on};
    LVN_TRY(one_step(trainer));
    trainer->running.due = lvn_due_after(&every, trainer->running.step);
    LVN_TRY(lvn_trainer_do_due(trainer));
    return trainer->running.batch_missing ? end_unread(trainer) : LVN_OK;
}

/* Rank 0 logs the device that all ranks use; with trainer.accelerator auto, also each installed driver without a GPU.
 */
static void log_device(const struct lvn_trainer *trainer)
{
    const struct lvn_device *d = trainer->planned.programs.model_state->device;
    const struct lvn_backend *b;
    char why[400];
    if (trainer->ranks->rank) return;
    bool is_auto = !strcmp(trainer->settings->values.trainer.accelerator, "auto") && !d->backend->describe;
    for (int i = 0; is_auto && (b = lvn_backend_at(i)); i++) {
        if (!b->library || b->library->state != LVN_LIBRARY_LOADED) continue;
        lvn_backend_why_none(b, why, sizeof why);
        lvn_log(LVN_LOG_INFO, "computing on the CPU, because %s has no GPU: %s", b->name, why);
    }
    if (*d->note) lvn_log(LVN_LOG_INFO, "%s", d->note);
    const char *before = trainer->opened.snapshot.device;
    if (trainer->opened.resuming && *before && strcmp(before, lvn_device_text(d)) != 0)
        lvn_log(LVN_LOG_WARN,
                "until step %lld this run computed with '%s', and it continues with '%s': its bits are not those of a "
                "run that was never stopped",
                (long long)trainer->opened.snapshot.step, before, lvn_device_text(d));
    if (trainer->settings->values.trainer.float32_matmul_precision == LVN_TRAINER_FLOAT32_HIGH && !d->tf32)
        lvn_log(LVN_LOG_INFO,
                "trainer.float32_matmul_precision high has no effect here, because %s does not support TF32",
                d->backend->name);
}

/* From a run that is set up to its first step. */
static enum lvn_status start(struct lvn_trainer *trainer)
{
    const struct lvn_trainer_opened *o = &trainer->opened;
    struct lvn_event *e = &trainer->context.event;
    enum lvn_status status = LVN_OK;
    trainer->running.started = true;
    log_device(trainer);
    if (o->run_dir_open) { /* rank 0 */
        status = lvn_run_dir_begin(&trainer->opened.run_dir);
        if (status == LVN_OK) status = lvn_run_dir_write_settings(&o->run_dir, trainer->settings);
    }
    LVN_TRY(lvn_ranks_agree(trainer->ranks, status));
    snprintf(trainer->text, sizeof trainer->text, "%s/status.json",
             o->run_dir_open ? o->run_dir.path : trainer->settings->values.run_dir);
    if (has_folder(trainer)) lvn_member_publish(trainer->ranks->member, trainer->text);
    trainer->context.start_time = trainer->running.epoch_start_time = lvn_seconds();
    trainer->running.first_step = trainer->running.step;
    e->memory_bytes = lvn_memory_resident();
    e->peak_bytes = lvn_memory_peak();
    LVN_TRY(lvn_callbacks_call(&trainer->callbacks, &trainer->context, LVN_EVENT_START,
                               o->resuming ? o->checkpoint.path : NULL));
    const bool is_new = trainer->running.step == 0 && !o->resuming;
    const int64_t sanity = trainer->settings->values.trainer.num_sanity_val_steps;
    if (is_new && sanity && has_folder(trainer))
        LVN_TRY(lvn_validation_try(&trainer->opened.validation, &trainer->planned.programs, sanity));
    /* The loss of pretrained weights is the one that training must improve; initial weights need no such measurement.
     */
    if (is_new && o->validation.on && o->setup.has_pretrained) LVN_TRY(lvn_trainer_validate(trainer));
    /* Do what was still due when the checkpoint was saved; then save this step again, with its results. */
    if (!o->validation.on) trainer->running.due &= ~(unsigned)LVN_DUE_VALIDATION;
    if (trainer->running.due) {
        trainer->running.due |= LVN_DUE_SAVE;
        LVN_TRY(lvn_trainer_do_due(trainer));
    }
    if (trainer->options->looping) *trainer->options->looping = 1;
    return LVN_OK;
}

enum lvn_status lvn_trainer_open(struct lvn_trainer *trainer, struct levin_settings *s,
                                 const struct lvn_train_options *o)
{
    *trainer = (struct lvn_trainer){.settings = s, .options = o, .ranks = o->ranks, .running = {.validated_step = -1}};
    lvn_saver_init(&trainer->running.saver);
    LVN_TRY(lvn_trainer_set_up(trainer));
    const struct lvn_trainer_opened *opened = &trainer->opened;
    const bool owes = trainer->running.due & LVN_DUE_VALIDATION && opened->validation.on;
    const bool complete = trainer->running.step >= opened->last_step && !(owes && isnan(opened->snapshot.val_loss));
    trainer->running.done =
        opened->resuming && (complete || trainer->context.control & LVN_CONTROL_SHOULD_TRAINING_STOP);
    return trainer->running.done ? LVN_OK : start(trainer);
}

static void summarize(const struct lvn_trainer *trainer, struct lvn_train_result *r)
{
    const struct lvn_event *e = &trainer->context.event;
    *r = (struct lvn_train_result){.step = trainer->running.step,
                                   .unlabeled = trainer->planned.programs.unlabeled,
                                   .loss = lvn_event_value(e, "loss"),
                                   .val_loss = lvn_event_value(e, "val_loss"),
                                   .best_val_loss = e->best_val_loss,
                                   .start_val_loss = e->start_val_loss,
                                   .already_done = trainer->running.done,
                                   .finished = trainer->running.step >= trainer->opened.last_step,
                                   .by_callback = trainer->requested.control & LVN_CONTROL_SHOULD_TRAINING_STOP,
                                   .requeue = trainer->requested.requeue && has_folder(trainer)};
    if (has_folder(trainer)) snprintf(r->run_dir, sizeof r->run_dir, "%s", trainer->settings->values.run_dir);
    snprintf(r->end_reason, sizeof r->end_reason, "%s",
             trainer->running.done ? trainer->context.stop_reason : trainer->running.end_reason);
}

enum lvn_status lvn_trainer_close(struct lvn_trainer *trainer, enum lvn_status status, struct lvn_train_result *result)
{
    const char *state = status == LVN_OK ? "done" : status == LVN_STOPPED ? "stopped" : "failed";
    if (trainer->running.started) lvn_member_state(trainer->ranks->member, state);
    lvn_saver_release(&trainer->running.saver); /* waits; even after a failure rank 0 completes a save that has begun */
    if (result) summarize(trainer, result);
    lvn_callbacks_release(&trainer->callbacks);
    if (trainer->opened.run_dir_open && (status == LVN_OK || status == LVN_STOPPED)) {
        const char *before = lvn_work_begin("sending the run to its store");
        enum lvn_status sent = lvn_run_dir_end(&trainer->opened.run_dir);
        lvn_work_end(before);
        if (sent != LVN_OK) status = sent;
    }
    if (trainer->opened.checkpoint_open) lvn_checkpoint_close(&trainer->opened.checkpoint);
    if (trainer->opened.run_dir_open) lvn_run_dir_close(&trainer->opened.run_dir);
    lvn_train_programs_release(&trainer->planned.programs);
    lvn_trainer_release_rows(trainer);
    lvn_text_release(&trainer->planned.choices);
    lvn_model_setup_close(&trainer->opened.setup);
    lvn_carried_files_release(&trainer->opened.carried);
    return status;
}

enum lvn_status lvn_train(struct levin_settings *s, const struct lvn_train_options *o, struct lvn_train_result *result)
{
    struct lvn_trainer trainer;
    enum lvn_status status = lvn_trainer_open(&trainer, s, o);
    const bool done = trainer.running.done;
    while (status == LVN_OK && !done && !lvn_trainer_end_reason(&trainer)) status = lvn_trainer_step(&trainer);
    if (status == LVN_OK && !done) status = lvn_trainer_end(&trainer, lvn_trainer_end_reason(&trainer));
    return lvn_trainer_close(&trainer, status, result);
}
