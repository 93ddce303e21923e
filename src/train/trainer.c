/* trainer.c - the training loop.
 *
 * trainer_setup.c opens, plans and allocates; loop() is the run, on one screen; what happens in between steps
 * (validation, checkpoints, samples) is in trainer_between.c. All ranks walk through the same code and decide on what
 * they have exchanged: at the end of every step one small sum over ranks (tally.h). Rank 0 alone tells, and writes the
 * files of the run. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "train/alike.h"
#include "train/measure.h"
#include "train/samples.h"
#include "train/schedule.h"
#include "train/trainer_state.h"
#include "train/verdict.h"

/* --- telling --- */

void lvn_trainer_tell(struct trainer *t, enum lvn_event_kind kind, const char *text)
{
    if (t->ranks->rank) return;
    t->e.kind = kind;
    t->e.text = text;
    t->e.elapsed_s = lvn_seconds() - t->started;
    if (t->dir_open && t->metrics.jsonl >= 0) lvn_metrics_handle(&t->metrics, &t->e);
    lvn_event_send(t->o->listeners, t->o->n_listeners, &t->e);
    if (t->metrics.failed && !t->metrics_warned) {
        t->metrics_warned = true;
        lvn_trainer_tell(t, LVN_EVENT_NOTE,
                         "metrics.jsonl or metrics.csv could not be written (is the disk full?); the run goes on");
    }
}

void lvn_trainer_note_failure(struct trainer *t, const char *what)
{
    snprintf(t->text, sizeof t->text, "%s: %s; the run goes on", what, lvn_error_text());
    lvn_error_clear();
    lvn_trainer_tell(t, LVN_EVENT_NOTE, t->text);
}

/* --- what ranks exchange --- */

void lvn_trainer_count_flags(const struct trainer *t, double *count)
{
    int stop = t->o->stop ? *t->o->stop : LVN_STOP_NOT;
    count[LVN_TALLY_STOP] = stop != LVN_STOP_NOT;
    count[LVN_TALLY_AGAIN] = stop == LVN_STOP_AGAIN;
    double limit = t->s->trainer.max_time;
    count[LVN_TALLY_OVER] = limit > 0.0 && lvn_seconds() - t->started >= limit;
}

void lvn_trainer_read_flags(struct trainer *t, const double *count)
{
    t->stop |= count[LVN_TALLY_STOP] > 0;
    t->again |= count[LVN_TALLY_AGAIN] > 0;
    t->over |= count[LVN_TALLY_OVER] > 0;
}

/* The end of a step on all ranks: losses and flags, and the next batch. */
static enum lvn_status exchange(struct trainer *t, double seconds)
{
    struct lvn_tally *y = &t->tally;
    const struct lvn_training *n = &t->training;
    int64_t labels = 0;
    double now = lvn_seconds();
    lvn_tally_clear(y);
    memcpy(lvn_tally_loss(y, n->leaf[t->ranks->rank]), n->step->micro_losses, sizeof(double) * (size_t)n->accumulation);
    if (now - t->memory_looked > 0.5) {
        t->memory_looked = now;
        t->memory = lvn_memory_resident();
        t->peak = lvn_memory_peak();
    }
    *lvn_tally_own(y, t->ranks->rank, LVN_TALLY_SECONDS) = seconds;
    *lvn_tally_own(y, t->ranks->rank, LVN_TALLY_MEMORY) = (double)t->memory;
    *lvn_tally_own(y, t->ranks->rank, LVN_TALLY_PEAK) = (double)t->peak;
    enum lvn_status loaded = t->step + 1 < t->last_step ? lvn_trainer_load_batch(t, t->step + 1, &labels) : LVN_OK;
    double *count = lvn_tally_count(y, 0);
    lvn_trainer_count_flags(t, count);
    count[LVN_TALLY_FAILED] = loaded != LVN_OK;
    count[LVN_TALLY_LABELS] = (double)labels;
    LVN_TRY(lvn_tally_exchange(y));
    if (count[LVN_TALLY_FAILED] > 0) return lvn_ranks_agree(t->ranks, loaded);
    lvn_trainer_read_flags(t, count);
    t->labels = (int64_t)count[LVN_TALLY_LABELS];
    t->e.memory_bytes = (int64_t)lvn_tally_sum(y, LVN_TALLY_MEMORY);
    t->e.peak_bytes = (int64_t)(lvn_tally_sum(y, LVN_TALLY_PEAK) / t->ranks->size);
    return LVN_OK;
}

/* Once, early in a run that is long enough: a quarter of a second that a first step need not wait for. */
static enum lvn_status measure_machine(struct trainer *t)
{
    enum { AT_STEP = 10, WORTH_STEPS = 100 };
    if (t->matmul_rate > 0.0 || t->step % AT_STEP || t->last_step - t->step < WORTH_STEPS) return LVN_OK;
    const struct lvn_network *n = t->training.network;
    if (lvn_measure_matmul(n->threads, n->precision != LVN_PRECISION_TRUE, &t->matmul_rate) != LVN_OK)
        lvn_trainer_note_failure(t, "this machine's rate of matrix products could not be measured");
    return lvn_ranks_sum(t->ranks, &t->matmul_rate, 1);
}

static void tell_step(struct trainer *t, double loss, double seconds)
{
    const struct lvn_task *task = t->training.step;
    int64_t tokens = t->s->trainer.batch_size * t->setup.block_size;
    t->e.step = t->step;
    t->e.epoch = t->step / t->train.steps_per_epoch;
    t->e.loss = loss;
    t->e.grad_norm = task->step.grad_norm;
    t->e.lr = task->step.lr;
    t->e.tokens_per_s = (double)tokens / seconds;
    if (t->matmul_rate > 0.0) {
        double rate = t->e.tokens_per_s * t->e.flops_per_token;
        if (rate > t->matmul_rate) t->matmul_rate = rate; /* it was measured while neighbours were busy */
        t->e.utilisation = rate / t->matmul_rate;
    }
    double mean = (lvn_seconds() - t->started) / (double)(t->step - t->first_step); /* with all that lies between */
    t->e.eta_s = t->last_step == INT64_MAX ? NAN : (double)(t->last_step - t->step) * mean;
    lvn_trainer_tell(t, LVN_EVENT_STEP, NULL);
}

static enum lvn_status one_step(struct trainer *t)
{
    struct lvn_training *g = &t->training;
    char slow[400];
    double begin = lvn_seconds();
    LVN_TRY(lvn_training_step(g, t->step, lvn_schedule_lr(t->s, t->step, t->last_step), t->labels));
    double computed = lvn_seconds() - begin - g->reduction.waited;
    LVN_TRY(exchange(t, computed));
    double loss = lvn_tree_sum(lvn_tally_loss(&t->tally, 0), g->n_micro) * g->step->step.grad_scale;
    if (!isfinite(loss) || !isfinite(g->step->step.grad_norm)) return lvn_trainer_explain_nonfinite(t, loss);
    t->step++;
    if (t->step == 1) t->first_loss = loss;
    t->last_loss = isnan(t->last_loss) ? loss : t->last_loss + 0.1 * (loss - t->last_loss);
    lvn_stamp_step(t->ranks->heart, t->step, (double)(g->rows * g->block_size) / (lvn_seconds() - begin), computed);
    tell_step(t, loss, lvn_seconds() - begin);
    if (!t->ranks->rank && lvn_heartbeat_straggler(t->ranks->heart, slow)) lvn_trainer_tell(t, LVN_EVENT_NOTE, slow);
    return LVN_OK;
}

/* Time and memory as means over ranks. */
static enum lvn_status end_epoch(struct trainer *t)
{
    double mean[2] = {lvn_seconds() - t->epoch_started, (double)lvn_memory_peak()};
    LVN_TRY(lvn_ranks_sum(t->ranks, mean, 2));
    t->e.epoch_s = mean[0] / t->ranks->size;
    t->e.peak_bytes = (int64_t)(mean[1] / t->ranks->size);
    lvn_trainer_tell(t, LVN_EVENT_EPOCH, NULL);
    t->epoch_started = lvn_seconds();
    return LVN_OK;
}

/* --- the loop --- */

static bool every(int64_t step, int64_t n)
{
    return n > 0 && step % n == 0;
}

static enum lvn_status ended(const struct trainer *t, bool saved)
{
    LVN_CHECK(saved, IO,
              "the run is over, but its last checkpoint (step %lld) could not be saved; make room and go on "
              "with --resume",
              (long long)t->step);
    return LVN_OK;
}

static enum lvn_status stopped(const struct trainer *t, bool saved)
{
    LVN_CHECK(saved, IO, "stopped on request after step %lld, which could not be saved", (long long)t->step);
    LVN_FAIL(STOPPED, "stopped on request after step %lld, which is saved", (long long)t->step);
}

static enum lvn_status loop(struct trainer *t)
{
    const struct lvn_settings *s = t->s;
    const char *why = "all steps are done";
    bool saved;
    while (t->step < t->last_step) {
        LVN_TRY(one_step(t));
        lvn_trainer_look_after_saving(t, false);
        LVN_TRY(measure_machine(t));
        if (every(t->step, s->trainer.check_replicas_every_n_steps))
            LVN_TRY(lvn_alike_replicas(t->ranks, t->training.network, t->step));
        bool last = t->step == t->last_step;
        if (t->has_val && (every(t->step, t->val_every) || last)) LVN_TRY(lvn_trainer_validate(t));
        if (every(t->step, s->sample.every_n_steps)) lvn_trainer_sample(t);
        bool best = t->validated_step == t->step && t->e.best && s->checkpoint.top_k > 0;
        if (every(t->step, s->checkpoint.every_n_steps) || best) LVN_TRY(lvn_trainer_save(t));
        if (every(t->step, t->train.steps_per_epoch)) LVN_TRY(end_epoch(t));
        if (t->stop) {
            LVN_TRY(lvn_trainer_save_now(t, &saved));
            lvn_trainer_tell(t, LVN_EVENT_END, saved ? "stopped on request" : "stopped on request, not saved");
            return lvn_ranks_agree(t->ranks, stopped(t, saved));
        }
        if (t->over && !last) {
            why = "trainer.max_time is over";
            break;
        }
    }
    LVN_TRY(lvn_trainer_save_now(t, &saved));
    lvn_trainer_tell(t, LVN_EVENT_END, why);
    return lvn_ranks_agree(t->ranks, ended(t, saved));
}

/* Rank 0 makes the files of the run. */
static enum lvn_status begin_run(struct trainer *t)
{
    if (t->ranks->rank) return LVN_OK;
    LVN_TRY(lvn_run_dir_begin(&t->dir));
    LVN_TRY(lvn_settings_write(t->s, t->dir.settings));
    LVN_TRY(lvn_samples_cut(t->dir.samples, t->goes_on ? t->step : -1));
    return lvn_metrics_open(&t->metrics, &t->dir, t->goes_on ? t->step : -1);
}

static void wait_for_saver(void *saver)
{
    lvn_saver_wait_read(saver);
}

static enum lvn_status start(struct trainer *t)
{
    LVN_TRY_TOGETHER(t->ranks, begin_run(t));
    snprintf(t->text, sizeof t->text, "%s/status.json", t->dir_open ? t->dir.path : t->s->run_dir);
    lvn_heartbeat_publish(t->ranks->heart, t->text);
    t->started = t->epoch_started = lvn_seconds();
    t->first_step = t->step;
    t->e.memory_bytes = lvn_memory_resident();
    t->e.peak_bytes = lvn_memory_peak();
    lvn_trainer_tell(t, LVN_EVENT_START, t->goes_on ? t->from.path : NULL);
    t->training.step->before_update = wait_for_saver;
    t->training.step->context = &t->saver;
    /* Weights that were trained already: what the run must not make worse. Fresh ones need no such measure. */
    if (t->has_val && t->step == 0 && !t->goes_on && t->setup.has_pretrained) LVN_TRY(lvn_trainer_validate(t));
    return loop(t);
}

static void summarize(const struct trainer *t, bool done, struct lvn_train_result *r)
{
    *r = (struct lvn_train_result){.step = t->step,
                                   .loss = t->e.loss,
                                   .val_loss = t->e.val_loss,
                                   .best_val_loss = t->e.best_val_loss,
                                   .start_val_loss = t->e.start_val_loss,
                                   .already_done = done,
                                   .again = t->again};
    snprintf(r->run_dir, sizeof r->run_dir, "%s", t->s->run_dir);
    if (done || t->validated_step < 1) return;
    struct lvn_course course = {.start_val_loss = t->e.start_val_loss,
                                .val_loss = t->e.val_loss,
                                .best_val_loss = t->e.best_val_loss,
                                .first_loss = t->first_loss,
                                .last_loss = t->last_loss,
                                .lr = t->s->optimizer.lr,
                                .epochs = (double)t->step / (double)t->train.steps_per_epoch,
                                .loaded = t->setup.has_pretrained};
    lvn_verdict(&course, r->worse);
}

enum lvn_status lvn_train(struct lvn_settings *s, const struct lvn_train_options *o, struct lvn_train_result *result)
{
    struct trainer t = {.s = s,
                        .o = o,
                        .ranks = o->ranks,
                        .saved_step = -1,
                        .validated_step = -1,
                        .first_loss = NAN,
                        .last_loss = NAN,
                        .metrics = {.jsonl = -1, .csv = -1}};
    t.e = (struct lvn_event){.loss = NAN,
                             .grad_norm = NAN,
                             .lr = NAN,
                             .tokens_per_s = NAN,
                             .utilisation = NAN,
                             .eta_s = NAN,
                             .val_loss = NAN,
                             .best_val_loss = NAN,
                             .start_val_loss = NAN,
                             .epoch_s = NAN};
    lvn_saver_init(&t.saver);
    enum lvn_status status = lvn_trainer_set_up(&t);
    bool done = status == LVN_OK && t.goes_on && t.step >= t.last_step;
    if (status == LVN_OK && !done) {
        status = start(&t);
        const char *state = status == LVN_OK ? "done" : status == LVN_STOPPED ? "stopped" : "failed";
        lvn_heartbeat_state(o->ranks->heart, state);
    }
    lvn_saver_release(&t.saver); /* what a run that failed had begun to save is saved */
    if (result) summarize(&t, done, result);
    lvn_metrics_close(&t.metrics);
    if (t.dir_open && (status == LVN_OK || status == LVN_STOPPED)) {
        enum lvn_status sent = lvn_run_dir_end(&t.dir);
        if (sent != LVN_OK) status = sent;
    }
    if (t.from_open) lvn_checkpoint_release(&t.from);
    if (t.dir_open) lvn_run_dir_close(&t.dir);
    lvn_training_release(&t.training);
    lvn_tally_release(&t.tally);
    free(t.val_losses);
    lvn_model_setup_close(&t.setup);
    return status;
}
