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
    int stop = t->o->stop ? *t->o->stop : LVN_STOP_NOT;
    double limit = t->s->trainer.max_time;
    count[LVN_STATISTIC_STOP] = stop != LVN_STOP_NOT;
    count[LVN_STATISTIC_AGAIN] = stop == LVN_STOP_AGAIN;
    count[LVN_STATISTIC_OVER] = limit > 0.0 && lvn_seconds() - t->m.started >= limit;
    for (int i = 0; i < 3; i++) count[LVN_STATISTIC_CONTROL_STOP + i] = (t->m.requests >> i) & 1;
}

static void read_requests(struct trainer *t, const double *count)
{
    t->stop |= count[LVN_STATISTIC_STOP] > 0;
    t->again |= count[LVN_STATISTIC_AGAIN] > 0;
    t->over |= count[LVN_STATISTIC_OVER] > 0;
    for (int i = 0; i < 3; i++) t->orders |= (unsigned)(count[LVN_STATISTIC_CONTROL_STOP + i] > 0) << i;
    t->m.requests = 0;
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
    if (now - t->memory_looked <= 0.5) return;
    t->memory_looked = now;
    t->memory = lvn_memory_resident();
    t->peak = lvn_memory_peak();
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
    if (t->step + 1 < t->last_step) next.status = lvn_trainer_load_batch(t, t->step + 1, &next.labels);
    lvn_work_end(before);
    return next;
}

/* The end of a step on all ranks: losses and wishes, and what came of the next batch. */
static enum lvn_status exchange(struct trainer *t, double seconds, const struct next *next)
{
    struct lvn_step_statistics *y = &t->tally;
    const struct lvn_train_programs *n = &t->training;
    int rank = t->ranks->rank;
    lvn_step_statistics_clear(y);
    memcpy(lvn_step_statistics_loss(y, n->leaf[rank]), n->step->micro_losses, sizeof(double) * (size_t)n->accumulation);
    memcpy(lvn_step_statistics_sums(y), n->step->counts, sizeof(double) * (size_t)y->n_sums);
    look_at_memory(t);
    *lvn_step_statistics_of_rank(y, rank, LVN_STATISTIC_SECONDS) = seconds;
    *lvn_step_statistics_of_rank(y, rank, LVN_STATISTIC_MEMORY) = (double)t->memory;
    *lvn_step_statistics_of_rank(y, rank, LVN_STATISTIC_PEAK) = (double)t->peak;
    double *count = lvn_step_statistics_count(y, 0);
    count_requests(t, count);
    count[LVN_STATISTIC_SAVED] = rank ? 0.0 : (double)lvn_saver_look(&t->saver);
    count[LVN_STATISTIC_FAILED] = next->status != LVN_OK;
    count[LVN_STATISTIC_LABELS] = (double)next->labels;
    LVN_TRY(lvn_step_statistics_exchange(y));
    if (count[LVN_STATISTIC_FAILED] > 0) return lvn_ranks_agree(t->ranks, next->status);
    read_requests(t, count);
    t->labels = (int64_t)count[LVN_STATISTIC_LABELS];
    t->m.event.memory_bytes = (int64_t)(lvn_step_statistics_sum(y, LVN_STATISTIC_MEMORY) / t->ranks->size);
    t->m.event.peak_bytes = (int64_t)(lvn_step_statistics_sum(y, LVN_STATISTIC_PEAK) / t->ranks->size);
    return LVN_OK;
}

/* --- checkpoints --- */

/* Not so: trainer.fast_dev_run, which has nothing to lose. */
static bool keeps(const struct trainer *t)
{
    return !t->s->trainer.fast_dev_run;
}

/* Begin to save; training may go on meanwhile. */
static enum lvn_status save(struct trainer *t)
{
    if (!keeps(t)) return LVN_OK;
    const struct lvn_train_programs *g = &t->training;
    const struct lvn_event *e = &t->m.event;
    struct lvn_snapshot at = {.step = t->step,
                              .val_loss = t->validated_step == t->step ? e->scalar[SCALAR_VAL_LOSS].value : NAN,
                              .best_val_loss = e->best_val_loss,
                              .start_val_loss = e->start_val_loss,
                              .score = t->m.score,
                              .data = t->fingerprint,
                              .micro_batch = g->micro,
                              .pieces = g->pieces,
                              .ranks = t->ranks->size};
    if (t->m.scored_at != t->step) at.score.value = NAN;
    if (t->shared) memcpy(at.shares, t->at.shares, sizeof at.shares);
    if (t->scaling) LVN_TRY(lvn_ranks_agree(t->ranks, lvn_model_state_scaling(g->network, &at.scaling)));
    LVN_TRY(lvn_callbacks_save(&t->callbacks, &t->m, at.callbacks));
    return lvn_saver_begin(&t->saver, &at);
}

enum lvn_status lvn_trainer_save(struct trainer *t, bool *saved)
{
    LVN_TRY(save(t));
    LVN_TRY(lvn_saver_finish(&t->saver));
    *saved = t->saver.step == t->step || !keeps(t);
    return LVN_OK;
}

/* Step t->step + 1 gave numbers that are not finite, and changed nothing: save what there is, and say where they came
 * from. Always fails: NONFINITE, unless something worse happened. */
static enum lvn_status explain_nonfinite(struct trainer *t, double loss)
{
    bool saved = false;
    char kept[100] = "no step was made before it";
    int64_t labels;
    if (t->step) {
        LVN_TRY(lvn_trainer_save(t, &saved));
        snprintf(kept, sizeof kept, "the weights of step %lld %s", (long long)t->step,
                 !keeps(t) ? "are not saved, because of trainer.fast_dev_run"
                 : saved   ? "are saved"
                           : "could not be saved");
    }
    LVN_TRY(lvn_ranks_agree(t->ranks, lvn_trainer_load_batch(t, t->step, &labels))); /* the next one lies there */
    return lvn_train_programs_explain_nonfinite(&t->training, t->step, loss, kept);
}

/* --- steps, validations, epochs --- */

/* Step t->step + 1 changed nothing but the scale of the loss, which is ordinary in 16-mixed, as long as it helps. */
static bool skipped(const struct trainer *t)
{
    const struct lvn_result *r = &t->training.step->result;
    return r->clip_scale == 0 && r->scaling.scale >= LVN_SCALING_MIN;
}

static void tell_skipped(struct trainer *t)
{
    snprintf(
        t->text, sizeof t->text,
        "step %lld is skipped, because its gradient is not finite in fp16: the loss is multiplied by %g from now on",
        (long long)t->step, t->training.step->result.scaling.scale);
    lvn_callback_notify(&t->m, LVN_EVENT_NOTE, t->text);
}

static enum lvn_status tell_step(struct trainer *t, double loss, double seconds)
{
    const struct lvn_session *r = t->training.step;
    struct lvn_event *e = &t->m.event;
    e->step = t->step;
    e->epoch = t->step / t->train.steps_per_epoch;
    e->scalar[SCALAR_LOSS].value = loss;
    e->scalar[SCALAR_GRAD_NORM].value = r->result.grad_norm;
    if (t->scaling) t->scaling->value = r->result.scaling.scale;
    e->scalar[SCALAR_LR].value = r->step.lr;
    int64_t length = t->training.block_size;
    if (t->training.n_lengths) { /* of this step */
        length = lvn_task_length(t->setup.task, r->options.fields);
        e->flops_per_token = lvn_program_flops(r->program) / (double)(t->training.micro * length);
    }
    e->scalar[SCALAR_TOKENS_PER_S].value = (double)(t->s->trainer.batch_size * length) / seconds;
    e->scalar[SCALAR_EPOCH].value = (double)t->step / (double)t->train.steps_per_epoch;
    e->scalar[SCALAR_TIME].value = lvn_wall_seconds();
    e->scalar[SCALAR_MEMORY].value = (double)e->memory_bytes;
    double mean = (lvn_seconds() - t->m.started) / (double)(t->step - t->first_step); /* with all that lies between */
    e->eta_s = t->last_step == INT64_MAX ? NAN : (double)(t->last_step - t->step) * mean;
    return lvn_callbacks_call(&t->callbacks, &t->m, LVN_EVENT_STEP, NULL);
}

static enum lvn_status one_step(struct trainer *t)
{
    struct lvn_train_programs *g = &t->training;
    double begin = lvn_seconds();
    lvn_train_programs_launch(g, t->step, lvn_schedule_lr(t->s, t->step, t->schedule_steps), t->labels);
    LVN_TRY(g->step->status);
    double loading = lvn_seconds();
    const struct next next = load_next(t); /* a device works meanwhile */
    loading = lvn_seconds() - loading;
    LVN_TRY(lvn_train_programs_finish(g));
    double computed = lvn_seconds() - begin - loading - g->reduction.waited;
    t->m.labels = t->labels;
    LVN_TRY(exchange(t, computed, &next));
    t->m.loss_sum = lvn_tree_sum(lvn_step_statistics_loss(&t->tally, 0), g->n_micro);
    double loss = t->m.loss_sum * g->step->step.grad_scale;
    const bool finite = isfinite(loss) && isfinite(g->step->result.grad_norm), skips = !finite && skipped(t);
    if (!finite && !skips) return explain_nonfinite(t, loss);
    t->step++;
    if (skips) tell_skipped(t);
    lvn_member_set_step(t->ranks->heart, t->step, (double)(g->rows * g->block_size) / (lvn_seconds() - begin),
                        computed);
    LVN_TRY(tell_step(t, loss, lvn_seconds() - begin));
    return lvn_saver_announce(&t->saver, (enum lvn_saved) * lvn_step_statistics_count(&t->tally, LVN_STATISTIC_SAVED));
}

/* Time and memory as means over ranks. */
static enum lvn_status end_epoch(struct trainer *t)
{
    double mean[2] = {lvn_seconds() - t->epoch_started, (double)lvn_memory_peak()};
    LVN_TRY(lvn_ranks_sum(t->ranks, mean, 2));
    t->m.event.epoch_s = mean[0] / t->ranks->size;
    t->m.event.peak_bytes = (int64_t)(mean[1] / t->ranks->size);
    LVN_TRY(lvn_callbacks_call(&t->callbacks, &t->m, LVN_EVENT_EPOCH, NULL));
    t->epoch_started = lvn_seconds();
    return agree_on_requests(t);
}

enum lvn_status lvn_trainer_validate(struct trainer *t)
{
    struct lvn_event *e = &t->m.event;
    double *loss = &e->scalar[SCALAR_VAL_LOSS].value;
    LVN_TRY(lvn_validation_run(&t->validation, &t->training, loss));
    for (int i = 0; i < t->training.eval->outputs.n_metrics; i++)
        e->scalar[SCALAR_METRIC + i].value = t->validation.value[i];
    if (t->step == 0) e->start_val_loss = *loss;
    if (t->step > 0 && isfinite(*loss) && !(*loss >= e->best_val_loss)) e->best_val_loss = *loss;
    e->best = false;
    t->validated_step = t->step;
    LVN_TRY(lvn_callbacks_call(&t->callbacks, &t->m, LVN_EVENT_VALIDATION, NULL));
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
    snprintf(t->why, sizeof t->why, "%s%s", why, t->stop && !saved ? ", not saved" : "");
    LVN_TRY(lvn_callbacks_call(&t->callbacks, &t->m, LVN_EVENT_END, t->why));
    if (!saved) status = lvn_fail(LVN_IO, t->stop ? lost : over, (long long)t->step);
    if (saved && t->stop) status = lvn_fail(LVN_STOPPED, keeps(t) ? kept : gone, (long long)t->step);
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
    if (t->stop) return "stopped on request";
    if (t->orders & LVN_CONTROL_STOP) return *t->m.why ? t->m.why : "a callback of another rank asked to stop";
    if (t->step >= t->last_step) return "all steps are done";
    return t->over ? "trainer.max_time is over" : NULL;
}

enum lvn_status lvn_trainer_step(struct trainer *t, const char **why)
{
    LVN_TRY(one_step(t));
    bool last = t->step == t->last_step;
    if (t->validation.on && (every(t->step, t->validation.every) || last || t->orders & LVN_CONTROL_VALIDATE))
        LVN_TRY(lvn_trainer_validate(t));
    if (every(t->step, t->train.steps_per_epoch)) LVN_TRY(end_epoch(t));
    if (every(t->step, t->s->checkpoint.every_n_steps) || t->orders & LVN_CONTROL_SAVE) LVN_TRY(save(t));
    t->orders &= LVN_CONTROL_STOP;
    *why = reason_to_end(t);
    return *why ? LVN_OK : lvn_trainer_shares_step(t);
}

/* Rank 0 makes the files of the run. */
static enum lvn_status begin_run(struct trainer *t)
{
    if (!t->dir_open) return LVN_OK;
    LVN_TRY(lvn_run_dir_begin(&t->dir));
    t->dir.launch = t->o->launch;
    return lvn_run_dir_write_settings(&t->dir, t->s);
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
    const struct lvn_device *d = t->training.network->device;
    const bool high = t->s->trainer.float32_matmul_precision == LVN_TRAINER_FLOAT32_HIGH;
    if (t->ranks->rank) return;
    if (!strcmp(t->s->trainer.accelerator, "auto")) tell_passed_over(d->backend);
    if (*d->note) lvn_log(LVN_LOG_INFO, "%s", d->note);
    if (high && !d->tf32)
        lvn_log(LVN_LOG_INFO, "trainer.float32_matmul_precision high changes nothing here: %s has no products in TF32",
                d->backend->name);
}

static enum lvn_status start(struct trainer *t)
{
    t->started = true;
    tell_device(t);
    LVN_TRY(lvn_ranks_agree(t->ranks, begin_run(t)));
    snprintf(t->text, sizeof t->text, "%s/status.json", t->dir_open ? t->dir.path : t->s->run_dir);
    if (keeps(t)) lvn_member_publish(t->ranks->heart, t->text);
    t->m.started = t->epoch_started = lvn_seconds();
    t->first_step = t->step;
    t->m.event.memory_bytes = lvn_memory_resident();
    t->m.event.peak_bytes = lvn_memory_peak();
    LVN_TRY(lvn_callbacks_call(&t->callbacks, &t->m, LVN_EVENT_START, t->goes_on ? t->from.path : NULL));
    if (t->step == 0 && !t->goes_on && t->s->trainer.num_sanity_val_steps && keeps(t))
        LVN_TRY(lvn_validation_try(&t->validation, &t->training, t->s->trainer.num_sanity_val_steps));
    /* Weights that were trained already: what the run must not make worse. Fresh ones need no such measure. */
    if (t->validation.on && t->step == 0 && !t->goes_on && t->setup.has_pretrained) LVN_TRY(lvn_trainer_validate(t));
    if (t->o->looping) *t->o->looping = 1;
    return LVN_OK;
}

enum lvn_status lvn_trainer_open(struct trainer *t, struct lvn_settings *s, const struct lvn_train_options *o)
{
    *t = (struct trainer){.s = s, .o = o, .ranks = o->ranks, .validated_step = -1};
    lvn_saver_init(&t->saver);
    LVN_TRY(lvn_trainer_set_up(t));
    t->done = t->goes_on && (t->step >= t->last_step || t->m.requests & LVN_CONTROL_STOP);
    return t->done ? LVN_OK : start(t);
}

static void summarize(const struct trainer *t, struct lvn_train_result *r)
{
    const struct lvn_event *e = &t->m.event;
    *r = (struct lvn_train_result){.step = t->step,
                                   .loss = lvn_event_value(e, "loss"),
                                   .val_loss = lvn_event_value(e, "val_loss"),
                                   .best_val_loss = e->best_val_loss,
                                   .start_val_loss = e->start_val_loss,
                                   .already_done = t->done,
                                   .again = t->again && keeps(t)};
    if (keeps(t)) snprintf(r->run_dir, sizeof r->run_dir, "%s", t->s->run_dir);
    snprintf(r->why, sizeof r->why, "%s", t->done ? t->m.why : t->why);
}

enum lvn_status lvn_trainer_close(struct trainer *t, enum lvn_status status, struct lvn_train_result *result)
{
    const char *state = status == LVN_OK ? "done" : status == LVN_STOPPED ? "stopped" : "failed";
    if (t->started) lvn_member_state(t->ranks->heart, state);
    lvn_saver_release(&t->saver); /* what a run that failed had begun to save is saved */
    if (result) summarize(t, result);
    lvn_callbacks_release(&t->callbacks);
    if (t->dir_open && (status == LVN_OK || status == LVN_STOPPED)) {
        const char *before = lvn_work_begin("sending the run to its store");
        enum lvn_status sent = lvn_run_dir_end(&t->dir);
        lvn_work_end(before);
        if (sent != LVN_OK) status = sent;
    }
    if (t->from_open) lvn_checkpoint_close(&t->from);
    if (t->dir_open) lvn_run_dir_close(&t->dir);
    lvn_train_programs_release(&t->training);
    lvn_trainer_release_rows(t);
    lvn_trainer_shares_release(t);
    lvn_model_setup_close(&t->setup);
    return status;
}

enum lvn_status lvn_train(struct lvn_settings *s, const struct lvn_train_options *o, struct lvn_train_result *result)
{
    struct trainer t;
    const char *why = NULL;
    enum lvn_status status = lvn_trainer_open(&t, s, o);
    while (status == LVN_OK && !t.done && !why) status = lvn_trainer_step(&t, &why);
    if (status == LVN_OK && !t.done) status = lvn_trainer_end(&t, why);
    return lvn_trainer_close(&t, status, result);
}
