/* trainer.c - the training loop.
 *
 * trainer_setup.c opens, plans and allocates; lvn_trainer_step() is a step and what is due after it, and what goes
 * along with a run are callbacks (callback.h). All ranks walk through the same code and decide on what they
 * have exchanged: at the end of every step one small sum over ranks (step_statistics.h). */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/work.h"
#include "host/library.h"
#include "host/machine.h"
#include "train/schedule.h"
#include "train/trainer_state.h"

/* --- what ranks exchange --- */

/* What this rank is asked to do, or has callbacks that wish it, for ranks to add up; and what came of that. */
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

/* At once, after events that come seldom. */
static enum lvn_status agree_on_requests(struct trainer *t)
{
    double count[LVN_STATISTIC_COUNTS] = {0};
    count_requests(t, count);
    LVN_TRY(lvn_ranks_sum(t->ranks, count, LVN_STATISTIC_COUNTS));
    read_requests(t, count);
    return LVN_OK;
}

static void look_at_memory(struct trainer *t)
{
    double now = lvn_seconds();
    if (now - t->running.memory_time <= 0.5) return;
    t->running.memory_time = now;
    t->running.memory_bytes = lvn_memory_resident();
    t->running.peak_bytes = lvn_memory_peak();
}

/* The batch of the step after this one. */
struct next {
    enum lvn_status status;
    int64_t labels;
};

static struct next load_next(struct trainer *t)
{
    const char *before = lvn_work_begin("reading data");
    struct next next = {0};
    if (t->running.step + 1 < t->opened.last_step)
        next.status = lvn_trainer_load_batch(t, t->running.step + 1, &next.labels);
    lvn_work_end(before);
    return next;
}

/* The end of a step on all ranks: losses and wishes, and what came of the next batch. */
static enum lvn_status exchange(struct trainer *t, double seconds, const struct next *next)
{
    struct lvn_step_statistics *y = &t->planned.statistics;
    const struct lvn_train_programs *n = &t->planned.programs;
    int rank = t->ranks->rank;
    lvn_step_statistics_clear(y);
    memcpy(lvn_step_statistics_loss(y, n->leaf[rank]), n->step_session->micro_losses,
           sizeof(double) * (size_t)n->accumulation);
    memcpy(lvn_step_statistics_sums(y), n->step_session->counts, sizeof(double) * (size_t)y->n_sums);
    look_at_memory(t);
    *lvn_step_statistics_of_rank(y, rank, LVN_STATISTIC_SECONDS) = seconds;
    *lvn_step_statistics_of_rank(y, rank, LVN_STATISTIC_MEMORY) = (double)t->running.memory_bytes;
    *lvn_step_statistics_of_rank(y, rank, LVN_STATISTIC_PEAK) = (double)t->running.peak_bytes;
    double *count = lvn_step_statistics_count(y, 0);
    count_requests(t, count);
    count[LVN_STATISTIC_SAVED] = rank ? 0.0 : (double)lvn_saver_poll(&t->running.saver);
    count[LVN_STATISTIC_FAILED] = next->status != LVN_OK;
    count[LVN_STATISTIC_LABELS] = (double)next->labels;
    LVN_TRY(lvn_step_statistics_exchange(y));
    if (count[LVN_STATISTIC_FAILED] > 0) return lvn_ranks_agree(t->ranks, next->status);
    read_requests(t, count);
    t->running.labels = (int64_t)count[LVN_STATISTIC_LABELS];
    t->context.event.memory_bytes = (int64_t)(lvn_step_statistics_sum(y, LVN_STATISTIC_MEMORY) / t->ranks->size);
    t->context.event.peak_bytes = (int64_t)(lvn_step_statistics_sum(y, LVN_STATISTIC_PEAK) / t->ranks->size);
    return LVN_OK;
}

/* --- checkpoints --- */

/* Not so: trainer.fast_dev_run, which has nothing to lose. */
static bool keeps(const struct trainer *t)
{
    return !t->settings->trainer.fast_dev_run;
}

/* Begin to save; training may go on meanwhile. */
static enum lvn_status save(struct trainer *t)
{
    if (!keeps(t)) return LVN_OK;
    const struct lvn_train_programs *g = &t->planned.programs;
    const struct lvn_event *e = &t->context.event;
    struct lvn_snapshot at = {.step = t->running.step,
                              .val_loss =
                                  t->running.validated_step == t->running.step ? e->scalar[SCALAR_VAL_LOSS].value : NAN,
                              .best_val_loss = e->best_val_loss,
                              .start_val_loss = e->start_val_loss,
                              .score = t->context.score,
                              .data = t->opened.fingerprint,
                              .micro_batch = g->micro_batch,
                              .min_micro = g->min_micro,
                              .ranks = t->ranks->size};
    if (t->context.scored_step != t->running.step) at.score.value = NAN;
    if (t->planned.weighted) memcpy(at.load_weights, t->opened.snapshot.load_weights, sizeof at.load_weights);
    if (t->running.loss_scale) LVN_TRY(lvn_ranks_agree(t->ranks, lvn_model_state_scaling(g->model_state, &at.scaling)));
    LVN_TRY(lvn_callbacks_save(&t->callbacks, &t->context, at.callbacks));
    return lvn_saver_begin(&t->running.saver, &at);
}

enum lvn_status lvn_trainer_save(struct trainer *t, bool *saved)
{
    LVN_TRY(save(t));
    LVN_TRY(lvn_saver_finish(&t->running.saver));
    *saved = t->running.saver.step == t->running.step || !keeps(t);
    return LVN_OK;
}

/* Step t->running.step + 1 gave numbers that are not finite, and changed nothing: save what there is, and say where
 * they came from. Always fails: NONFINITE, unless something worse happened. */
static enum lvn_status explain_nonfinite(struct trainer *t, double loss)
{
    bool saved = false;
    char kept[100] = "no step was made before it";
    int64_t labels;
    if (t->running.step) {
        LVN_TRY(lvn_trainer_save(t, &saved));
        snprintf(kept, sizeof kept, "the weights of step %lld %s", (long long)t->running.step,
                 !keeps(t) ? "are not saved, because of trainer.fast_dev_run"
                 : saved   ? "are saved"
                           : "could not be saved");
    }
    LVN_TRY(
        lvn_ranks_agree(t->ranks, lvn_trainer_load_batch(t, t->running.step, &labels))); /* the next one lies there */
    return lvn_train_programs_explain_nonfinite(&t->planned.programs, t->running.step, loss, kept);
}

/* --- steps, validations, epochs --- */

/* Step t->running.step + 1 changed nothing but the scale of the loss, which is ordinary in 16-mixed, as long as it
 * helps. */
static bool skipped(const struct trainer *t)
{
    const struct lvn_result *r = &t->planned.programs.step_session->result;
    return r->clip_scale == 0 && r->scaling.scale >= LVN_SCALING_MIN;
}

static void tell_skipped(struct trainer *t)
{
    snprintf(
        t->text, sizeof t->text,
        "step %lld is skipped, because its gradient is not finite in fp16: the loss is multiplied by %g from now on",
        (long long)t->running.step, t->planned.programs.step_session->result.scaling.scale);
    lvn_callback_notify(&t->context, LVN_EVENT_NOTE, t->text);
}

static enum lvn_status tell_step(struct trainer *t, double loss, double seconds)
{
    const struct lvn_session *r = t->planned.programs.step_session;
    struct lvn_event *e = &t->context.event;
    e->step = t->running.step;
    e->epoch = t->running.step / t->opened.train_loader.steps_per_epoch;
    e->scalar[SCALAR_LOSS].value = loss;
    e->scalar[SCALAR_GRAD_NORM].value = r->result.grad_norm;
    if (t->running.loss_scale) t->running.loss_scale->value = r->result.scaling.scale;
    e->scalar[SCALAR_LR].value = r->step_args.lr;
    int64_t length = t->planned.programs.block_size;
    if (t->planned.programs.n_lengths) { /* of this step */
        length = lvn_task_length(t->opened.setup.task, r->options.fields);
        e->flops_per_token = lvn_program_flops(r->program) / (double)(t->planned.programs.micro_batch * length);
    }
    e->scalar[SCALAR_TOKENS_PER_S].value = (double)(t->settings->trainer.batch_size * length) / seconds;
    e->scalar[SCALAR_EPOCH].value = (double)t->running.step / (double)t->opened.train_loader.steps_per_epoch;
    e->scalar[SCALAR_TIME].value = lvn_wall_seconds();
    e->scalar[SCALAR_MEMORY].value = (double)e->memory_bytes;
    double mean = (lvn_seconds() - t->context.start_time) /
                  (double)(t->running.step - t->running.first_step); /* with all that lies between */
    e->eta_s = t->opened.last_step == INT64_MAX ? NAN : (double)(t->opened.last_step - t->running.step) * mean;
    return lvn_callbacks_call(&t->callbacks, &t->context, LVN_EVENT_STEP, NULL);
}

static enum lvn_status one_step(struct trainer *t)
{
    struct lvn_train_programs *g = &t->planned.programs;
    double begin = lvn_seconds();
    lvn_train_programs_launch(
        g, t->running.step, lvn_schedule_lr(t->settings, t->running.step, t->opened.schedule_steps), t->running.labels);
    LVN_TRY(g->step_session->status);
    double loading = lvn_seconds();
    const struct next next = load_next(t); /* a device works meanwhile */
    loading = lvn_seconds() - loading;
    LVN_TRY(lvn_train_programs_finish(g));
    double computed = lvn_seconds() - begin - loading - g->reduction.waited;
    t->context.labels = t->running.labels;
    LVN_TRY(exchange(t, computed, &next));
    t->context.loss_sum = lvn_tree_sum(lvn_step_statistics_loss(&t->planned.statistics, 0), g->n_micro);
    double loss = t->context.loss_sum * g->step_session->step_args.grad_scale;
    const bool finite = isfinite(loss) && isfinite(g->step_session->result.grad_norm), skips = !finite && skipped(t);
    if (!finite && !skips) return explain_nonfinite(t, loss);
    t->running.step++;
    if (skips) tell_skipped(t);
    lvn_member_set_step(t->ranks->member, t->running.step, (double)(g->rows * g->block_size) / (lvn_seconds() - begin),
                        computed);
    LVN_TRY(tell_step(t, loss, lvn_seconds() - begin));
    return lvn_saver_announce(
        &t->running.saver, (enum lvn_saved) * lvn_step_statistics_count(&t->planned.statistics, LVN_STATISTIC_SAVED));
}

/* Time and memory as means over ranks. */
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

enum lvn_status lvn_trainer_validate(struct trainer *t)
{
    struct lvn_event *e = &t->context.event;
    double *loss = &e->scalar[SCALAR_VAL_LOSS].value;
    LVN_TRY(lvn_validation_run(&t->opened.validation, &t->planned.programs, loss));
    for (int i = 0; i < t->planned.programs.eval_session->outputs.n_metrics; i++)
        e->scalar[SCALAR_METRIC + i].value = t->opened.validation.value[i];
    if (t->running.step == 0) e->start_val_loss = *loss;
    if (t->running.step > 0 && isfinite(*loss) && !(*loss >= e->best_val_loss)) e->best_val_loss = *loss;
    e->best = false;
    t->running.validated_step = t->running.step;
    LVN_TRY(lvn_callbacks_call(&t->callbacks, &t->context, LVN_EVENT_VALIDATION, NULL));
    return agree_on_requests(t);
}

enum lvn_status lvn_trainer_end(struct trainer *t, const char *why)
{
    static const char over[] = "training has finished, but its last checkpoint (step %lld) could not be saved; free "
                               "some space and continue with --resume",
                      lost[] = "stopped on request after step %lld, which could not be saved",
                      kept[] = "stopped on request after step %lld, which is saved",
                      gone[] = "stopped on request after step %lld of a trainer.fast_dev_run, which saves nothing";
    enum lvn_status status = LVN_OK;
    bool saved;
    LVN_TRY(lvn_trainer_save(t, &saved));
    snprintf(t->running.end_reason, sizeof t->running.end_reason, "%s%s", why,
             t->requested.stop && !saved ? ", not saved" : "");
    LVN_TRY(lvn_callbacks_call(&t->callbacks, &t->context, LVN_EVENT_END, t->running.end_reason));
    if (!saved) status = lvn_fail(LVN_IO, t->requested.stop ? lost : over, (long long)t->running.step);
    if (saved && t->requested.stop) status = lvn_fail(LVN_STOPPED, keeps(t) ? kept : gone, (long long)t->running.step);
    return lvn_ranks_agree(t->ranks, status);
}

/* --- the loop --- */

static bool every(int64_t step, int64_t n)
{
    return n > 0 && step % n == 0;
}

/* Why the run ends after this step; NULL: it goes on. */
static const char *reason_to_end(const struct trainer *t)
{
    if (t->requested.stop) return "stopped on request";
    if (t->requested.control & LVN_CONTROL_SHOULD_TRAINING_STOP)
        return *t->context.stop_reason ? t->context.stop_reason : "a callback of another rank asked to stop";
    if (t->running.step >= t->opened.last_step) return "all steps are done";
    return t->requested.time_is_up ? "trainer.max_time is over" : NULL;
}

enum lvn_status lvn_trainer_step(struct trainer *t, const char **why)
{
    LVN_TRY(one_step(t));
    bool last = t->running.step == t->opened.last_step;
    if (t->opened.validation.on && (every(t->running.step, t->opened.validation.every) || last ||
                                    t->requested.control & LVN_CONTROL_SHOULD_EVALUATE))
        LVN_TRY(lvn_trainer_validate(t));
    if (every(t->running.step, t->opened.train_loader.steps_per_epoch)) LVN_TRY(end_epoch(t));
    if (every(t->running.step, t->settings->checkpoint.every_n_steps) || t->requested.control & LVN_CONTROL_SHOULD_SAVE)
        LVN_TRY(save(t));
    t->requested.control &= LVN_CONTROL_SHOULD_TRAINING_STOP;
    *why = reason_to_end(t);
    return *why ? LVN_OK : lvn_trainer_load_weights_step(t);
}

/* Rank 0 makes the files of the run. */
static enum lvn_status begin_run(struct trainer *t)
{
    if (!t->opened.run_dir_open) return LVN_OK;
    LVN_TRY(lvn_run_dir_begin(&t->opened.run_dir));
    t->opened.run_dir.launch = t->options->launch;
    return lvn_run_dir_write_settings(&t->opened.run_dir, t->settings);
}

/* A driver that is here and has no device for trainer.accelerator auto. */
static void tell_passed_over(const struct lvn_backend *taken)
{
    const struct lvn_backend *b;
    char why[400];
    for (int i = 0; (b = lvn_backend_at(i)) && !taken->describe; i++) {
        if (!b->library || b->library->state != LVN_LIBRARY_LOADED) continue;
        lvn_backend_why_none(b, why, sizeof why);
        lvn_log(LVN_LOG_INFO, "computing on the CPU, because %s has no GPU: %s", b->name, why);
    }
}

/* Rank 0 says what all compute with. */
static void tell_device(const struct trainer *t)
{
    const struct lvn_device *d = t->planned.programs.model_state->device;
    const bool high = t->settings->trainer.float32_matmul_precision == LVN_TRAINER_FLOAT32_HIGH;
    if (t->ranks->rank) return;
    if (!strcmp(t->settings->trainer.accelerator, "auto")) tell_passed_over(d->backend);
    if (*d->note) lvn_log(LVN_LOG_INFO, "%s", d->note);
    if (high && !d->tf32)
        lvn_log(LVN_LOG_INFO, "trainer.float32_matmul_precision high changes nothing here: %s has no products in TF32",
                d->backend->name);
}

static enum lvn_status start(struct trainer *t)
{
    t->running.started = true;
    tell_device(t);
    LVN_TRY(lvn_ranks_agree(t->ranks, begin_run(t)));
    snprintf(t->text, sizeof t->text, "%s/status.json",
             t->opened.run_dir_open ? t->opened.run_dir.path : t->settings->run_dir);
    if (keeps(t)) lvn_member_publish(t->ranks->member, t->text);
    t->context.start_time = t->running.epoch_start_time = lvn_seconds();
    t->running.first_step = t->running.step;
    t->context.event.memory_bytes = lvn_memory_resident();
    t->context.event.peak_bytes = lvn_memory_peak();
    LVN_TRY(lvn_callbacks_call(&t->callbacks, &t->context, LVN_EVENT_START,
                               t->opened.resuming ? t->opened.checkpoint.path : NULL));
    if (t->running.step == 0 && !t->opened.resuming && t->settings->trainer.num_sanity_val_steps && keeps(t))
        LVN_TRY(
            lvn_validation_try(&t->opened.validation, &t->planned.programs, t->settings->trainer.num_sanity_val_steps));
    /* Weights that were trained already: what the run must not make worse. Fresh ones need no such measure. */
    if (t->opened.validation.on && t->running.step == 0 && !t->opened.resuming && t->opened.setup.has_pretrained)
        LVN_TRY(lvn_trainer_validate(t));
    if (t->options->looping) *t->options->looping = 1;
    return LVN_OK;
}

enum lvn_status lvn_trainer_open(struct trainer *t, struct lvn_settings *s, const struct lvn_train_options *o)
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
                                   .loss = lvn_event_value(e, "loss"),
                                   .val_loss = lvn_event_value(e, "val_loss"),
                                   .best_val_loss = e->best_val_loss,
                                   .start_val_loss = e->start_val_loss,
                                   .already_done = t->running.done,
                                   .requeue = t->requested.requeue && keeps(t)};
    if (keeps(t)) snprintf(r->run_dir, sizeof r->run_dir, "%s", t->settings->run_dir);
    snprintf(r->end_reason, sizeof r->end_reason, "%s",
             t->running.done ? t->context.stop_reason : t->running.end_reason);
}

enum lvn_status lvn_trainer_close(struct trainer *t, enum lvn_status status, struct lvn_train_result *result)
{
    const char *state = status == LVN_OK ? "done" : status == LVN_STOPPED ? "stopped" : "failed";
    if (t->running.started) lvn_member_state(t->ranks->member, state);
    lvn_saver_release(&t->running.saver); /* what a run that failed had begun to save is saved */
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
    lvn_trainer_load_weights_release(t);
    lvn_model_setup_close(&t->opened.setup);
    return status;
}

enum lvn_status lvn_train(struct lvn_settings *s, const struct lvn_train_options *o, struct lvn_train_result *result)
{
    struct trainer t;
    const char *why = NULL;
    enum lvn_status status = lvn_trainer_open(&t, s, o);
    while (status == LVN_OK && !t.running.done && !why) status = lvn_trainer_step(&t, &why);
    if (status == LVN_OK && !t.running.done) status = lvn_trainer_end(&t, why);
    return lvn_trainer_close(&t, status, result);
}
