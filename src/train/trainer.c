/* trainer.c - the training loop.
 *
 * trainer_setup.c opens, plans and allocates; loop() is the run, on one screen; everything that happens in between
 * steps (validation, checkpoints, samples) is a function of its own above it. All ranks walk through the same code and
 * decide on what they have exchanged: at the end of every step one small sum over ranks (tally.h). Rank 0 alone tells,
 * and writes the files of the run. */
#include "train/trainer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/machine.h"
#include "train/alike.h"
#include "train/curve.h"
#include "train/measure.h"
#include "train/schedule.h"
#include "train/trainer_state.h"

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

/* A failure that does not end the run. */
static void note_failure(struct trainer *t, const char *what)
{
    snprintf(t->text, sizeof t->text, "%s: %s; the run goes on", what, lvn_error_text());
    lvn_error_clear();
    lvn_trainer_tell(t, LVN_EVENT_NOTE, t->text);
}

/* --- what ranks exchange --- */

static void count_flags(const struct trainer *t, double *count)
{
    int stop = t->o->stop ? *t->o->stop : LVN_STOP_NOT;
    count[LVN_TALLY_STOP] = stop != LVN_STOP_NOT;
    count[LVN_TALLY_AGAIN] = stop == LVN_STOP_AGAIN;
    double limit = t->s->trainer.max_time;
    count[LVN_TALLY_OVER] = limit > 0.0 && lvn_seconds() - t->started >= limit;
}

static void read_flags(struct trainer *t, const double *count)
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
    count_flags(t, count);
    count[LVN_TALLY_FAILED] = loaded != LVN_OK;
    count[LVN_TALLY_LABELS] = (double)labels;
    LVN_TRY(lvn_tally_exchange(y));
    if (count[LVN_TALLY_FAILED] > 0) return lvn_ranks_agree(t->ranks, loaded);
    read_flags(t, count);
    t->labels = (int64_t)count[LVN_TALLY_LABELS];
    t->e.memory_bytes = (int64_t)lvn_tally_sum(y, LVN_TALLY_MEMORY);
    t->e.peak_bytes = (int64_t)(lvn_tally_sum(y, LVN_TALLY_PEAK) / t->ranks->size);
    return LVN_OK;
}

/* --- between steps --- */

/* The losses of this rank's part of each validation batch, into their places. */
static enum lvn_status evaluate_part(struct trainer *t, int64_t n, double *labels)
{
    struct lvn_training *g = &t->training;
    struct lvn_task *eval = g->eval;
    for (int64_t i = 0; i < n; i++) {
        double *losses = t->val_losses + i * g->n_micro + g->leaf[t->ranks->rank];
        LVN_TRY(
            lvn_loader_eval_batch(&t->val, t->val_batches, i, g->first_row, g->rows, eval->ids, eval->labels, NULL));
        eval->step = (struct lvn_step){.grad_scale = 1.0, .first_row = g->first_row};
        lvn_task_run(eval, g->accumulation);
        memcpy(losses, eval->micro_losses, sizeof *losses * (size_t)g->accumulation);
        *labels += (double)lvn_labels_valid(eval->labels, g->rows * g->block_size);
    }
    return LVN_OK;
}

static enum lvn_status validate(struct trainer *t)
{
    int64_t n = lvn_loader_eval_batches(&t->val, t->val_batches), n_micro = t->training.n_micro;
    double *count = t->val_losses + n * n_micro, sum = 0.0;
    memset(t->val_losses, 0, sizeof *count * (size_t)(n * n_micro + LVN_TALLY_COUNTS));
    enum lvn_status status = evaluate_part(t, n, &count[LVN_TALLY_LABELS]);
    count_flags(t, count);
    count[LVN_TALLY_FAILED] = status != LVN_OK;
    LVN_TRY(lvn_ranks_sum(t->ranks, t->val_losses, n * n_micro + LVN_TALLY_COUNTS));
    if (count[LVN_TALLY_FAILED] > 0) return lvn_ranks_agree(t->ranks, status);
    read_flags(t, count);
    for (int64_t i = 0; i < n; i++) sum += lvn_tree_sum(t->val_losses + i * n_micro, n_micro);
    t->e.val_loss = sum / count[LVN_TALLY_LABELS];
    t->e.best = !(t->e.val_loss >= t->e.best_val_loss);
    if (t->e.best) t->e.best_val_loss = t->e.val_loss;
    t->validated_step = t->step;
    lvn_trainer_tell(t, LVN_EVENT_VALIDATION, NULL);
    return LVN_OK;
}

/* The picture of all rows so far. */
static void draw_curve(struct trainer *t)
{
    if (lvn_curve_write(t->dir.metrics_csv, t->dir.curve, t->s->name) != LVN_OK)
        note_failure(t, "the loss curve could not be drawn");
}

static void after_saving(struct trainer *t)
{
    if (t->ranks->rank) return;
    if (lvn_checkpoint_prune(t->dir.checkpoints, t->s->checkpoint.top_k) != LVN_OK)
        note_failure(t, "old checkpoints could not be removed");
    snprintf(t->text, sizeof t->text, "%s/step-%lld", t->dir.checkpoints, (long long)t->step);
    lvn_trainer_tell(t, LVN_EVENT_CHECKPOINT, t->text);
    draw_curve(t);
}

/* Save: rank 0 does, and all know whether it could. A failure is told and the run goes on with its former checkpoints.
 */
static enum lvn_status save(struct trainer *t, bool *saved)
{
    const struct lvn_training *g = &t->training;
    struct lvn_snapshot at = {.step = t->step,
                              .val_loss = t->validated_step == t->step ? t->e.val_loss : NAN,
                              .best_val_loss = t->e.best_val_loss,
                              .data = t->fingerprint,
                              .micro_batch = g->micro,
                              .pieces = g->pieces,
                              .ranks = t->ranks->size};
    *saved = true;
    if (t->saved_step == t->step) return LVN_OK;
    LVN_TRY(lvn_alike_replicas(t->ranks, g->network, t->step)); /* nothing doubtful is saved */
    struct lvn_codec codec = lvn_model_setup_codec(&t->setup);
    struct lvn_snapshot_place to = {t->dir.checkpoints, t->s, &codec};
    enum lvn_status status = lvn_snapshot_save(&to, &at, g->network, &g->reduction.sharding, t->ranks);
    *saved = status == LVN_OK;
    if (!*saved && t->ranks->rank == 0) note_failure(t, "the checkpoint could not be saved");
    LVN_TRY(lvn_ranks_broadcast(t->ranks, saved, (int64_t)sizeof *saved));
    if (!*saved) return LVN_OK;
    t->saved_step = t->step;
    after_saving(t);
    return LVN_OK;
}

static enum lvn_status keep_sample(const struct trainer *t, const char *text)
{
    FILE *f = fopen(t->dir.samples, "a");
    LVN_CHECK(f, IO, "cannot open '%s': %s", t->dir.samples, strerror(errno));
    fprintf(f, "--- step %lld ---\n%s\n", (long long)t->step, text);
    bool bad = ferror(f) != 0;
    LVN_CHECK(fclose(f) == 0 && !bad, IO, "cannot write '%s'", t->dir.samples);
    return LVN_OK;
}

static void sample(struct trainer *t)
{
    if (!t->training.sampler) return; /* rank 0's */
    struct lvn_text text = {0};
    struct lvn_codec codec = lvn_model_setup_codec(&t->setup);
    enum lvn_status status = lvn_sampler_text(t->training.sampler, t->s, &codec, t->step, &text);
    if (status == LVN_OK) {
        lvn_trainer_tell(t, LVN_EVENT_SAMPLE, text.p);
        status = keep_sample(t, text.p);
    }
    if (status != LVN_OK) note_failure(t, "no sample could be made or kept");
    lvn_text_release(&text);
}

/* The lowest rank that finds where it came from says so. */
static enum lvn_status explain_nonfinite(struct trainer *t, double loss)
{
    static const char format[] =
        "step %lld: the loss is %g and the gradient's norm %g; the first number that is not finite lies in '%s'; the "
        "weights are those of step %lld; try a smaller optimizer.lr, a longer schedule.warmup_steps or clipping";
    const char *first = NULL;
    int64_t labels;
    double norm = t->training.step->step.grad_norm;
    enum lvn_status found = lvn_trainer_load_batch(t, t->step, &labels); /* the next one lies there */
    if (found == LVN_OK) first = lvn_task_find_nonfinite(t->training.step, t->training.accumulation);
    if (first)
        found = lvn_fail_at(__FILE__, __LINE__, LVN_NONFINITE, format, (long long)t->step + 1, loss, norm, first,
                            (long long)t->step);
    LVN_TRY(lvn_ranks_agree(t->ranks, found));
    found = lvn_fail_at(__FILE__, __LINE__, LVN_NONFINITE, format, (long long)t->step + 1, loss, norm,
                        "the sum of the gradient", (long long)t->step);
    return lvn_ranks_agree(t->ranks, found);
}

/* Once, early in a run that is long enough: a quarter of a second that a first step need not wait for. */
static enum lvn_status measure_machine(struct trainer *t)
{
    enum { AT_STEP = 10, WORTH_STEPS = 100 };
    if (t->matmul_rate > 0.0 || t->step % AT_STEP || t->last_step - t->step < WORTH_STEPS) return LVN_OK;
    const struct lvn_network *n = t->training.network;
    if (lvn_measure_matmul(n->threads, n->precision == LVN_PRECISION_BF16_MIXED, &t->matmul_rate) != LVN_OK)
        note_failure(t, "this machine's rate of matrix products could not be measured");
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
    if (!isfinite(loss) || !isfinite(g->step->step.grad_norm)) return explain_nonfinite(t, loss);
    t->step++;
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
        LVN_TRY(measure_machine(t));
        if (every(t->step, s->trainer.check_replicas_every_n_steps))
            LVN_TRY(lvn_alike_replicas(t->ranks, t->training.network, t->step));
        bool last = t->step == t->last_step;
        if (t->has_val && (every(t->step, t->val_every) || last)) LVN_TRY(validate(t));
        if (every(t->step, s->sample.every_n_steps)) sample(t);
        bool best = t->validated_step == t->step && t->e.best && s->checkpoint.top_k > 0;
        if (every(t->step, s->checkpoint.every_n_steps) || best) LVN_TRY(save(t, &saved));
        if (every(t->step, t->train.steps_per_epoch)) LVN_TRY(end_epoch(t));
        if (t->stop) {
            LVN_TRY(save(t, &saved));
            lvn_trainer_tell(t, LVN_EVENT_END, saved ? "stopped on request" : "stopped on request, not saved");
            return lvn_ranks_agree(t->ranks, stopped(t, saved));
        }
        if (t->over && !last) {
            why = "trainer.max_time is over";
            break;
        }
    }
    LVN_TRY(save(t, &saved));
    lvn_trainer_tell(t, LVN_EVENT_END, why);
    return lvn_ranks_agree(t->ranks, ended(t, saved));
}

/* Rank 0 makes the files of the run. */
static enum lvn_status begin_run(struct trainer *t)
{
    if (t->ranks->rank) return LVN_OK;
    LVN_TRY(lvn_run_dir_begin(&t->dir));
    LVN_TRY(lvn_settings_write(t->s, t->dir.settings));
    return lvn_metrics_open(&t->metrics, &t->dir, t->goes_on ? t->step : -1);
}

static enum lvn_status start(struct trainer *t)
{
    LVN_TRY_TOGETHER(t->ranks, begin_run(t));
    snprintf(t->text, sizeof t->text, "%s/status.json", t->s->run_dir);
    lvn_heartbeat_publish(t->ranks->heart, t->text);
    t->started = t->epoch_started = lvn_seconds();
    t->first_step = t->step;
    t->e.memory_bytes = lvn_memory_resident();
    t->e.peak_bytes = lvn_memory_peak();
    lvn_trainer_tell(t, LVN_EVENT_START, t->goes_on ? t->from.path : NULL);
    return loop(t);
}

enum lvn_status lvn_train(struct lvn_settings *s, const struct lvn_train_options *o, struct lvn_train_result *result)
{
    struct trainer t = {
        .s = s, .o = o, .ranks = o->ranks, .saved_step = -1, .validated_step = -1, .metrics = {.jsonl = -1, .csv = -1}};
    t.e = (struct lvn_event){.loss = NAN,
                             .grad_norm = NAN,
                             .lr = NAN,
                             .tokens_per_s = NAN,
                             .utilisation = NAN,
                             .eta_s = NAN,
                             .val_loss = NAN,
                             .best_val_loss = NAN,
                             .epoch_s = NAN};
    enum lvn_status status = lvn_trainer_set_up(&t);
    bool done = status == LVN_OK && t.goes_on && t.step >= t.last_step;
    if (status == LVN_OK && !done) {
        status = start(&t);
        const char *state = status == LVN_OK ? "done" : status == LVN_STOPPED ? "stopped" : "failed";
        lvn_heartbeat_state(o->ranks->heart, state);
    }
    if (result) {
        *result = (struct lvn_train_result){.step = t.step,
                                            .loss = t.e.loss,
                                            .val_loss = t.e.val_loss,
                                            .best_val_loss = t.e.best_val_loss,
                                            .already_done = done,
                                            .again = t.again};
        snprintf(result->run_dir, sizeof result->run_dir, "%s", s->run_dir);
    }
    lvn_metrics_close(&t.metrics);
    if (t.from_open) lvn_checkpoint_release(&t.from);
    if (t.dir_open) lvn_run_dir_close(&t.dir);
    lvn_training_release(&t.training);
    lvn_tally_release(&t.tally);
    free(t.val_losses);
    lvn_model_setup_close(&t.setup);
    return status;
}
