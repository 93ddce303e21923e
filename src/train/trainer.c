/* trainer.c - the training loop.
 *
 * set_up() opens, plans and allocates; loop() is the run, on one screen; everything that happens in between steps
 * (validation, checkpoints, samples) is a function of its own below it. */
#include "train/trainer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "base/files.h"
#include "base/machine.h"
#include "data/loader.h"
#include "train/curve.h"
#include "train/measure.h"
#include "train/metrics.h"
#include "train/model_setup.h"
#include "train/schedule.h"
#include "train/snapshot.h"
#include "train/training.h"

struct trainer {
    struct lvn_settings *s;
    const struct lvn_train_options *o;
    struct lvn_model_setup setup; /* data, model sizes, where the weights come from */
    struct lvn_loader train, val;
    bool has_val;
    struct lvn_training training;
    struct lvn_run_dir dir;
    struct lvn_checkpoint from; /* path NULL: a fresh start */
    struct lvn_metrics metrics;
    bool dir_open, from_open, metrics_warned;
    int64_t val_every, val_batches; /* steps; batches, 0: all */
    int64_t step, last_step;        /* finished; where to end */
    int64_t first_step;             /* finished when this process began */
    int64_t saved_step, validated_step;
    uint64_t fingerprint;
    double started, epoch_started, memory_looked;
    double matmul_rate; /* FLOP/s that this machine reaches; 0: not measured */
    struct lvn_event e;
    char text[1200];
};

/* --- telling --- */

static void tell(struct trainer *t, enum lvn_event_kind kind, const char *text)
{
    double now = lvn_seconds();
    t->e.kind = kind;
    t->e.text = text;
    t->e.elapsed_s = now - t->started;
    if (kind != LVN_EVENT_STEP || now - t->memory_looked > 0.5) {
        t->memory_looked = now;
        t->e.memory_bytes = lvn_memory_resident();
        t->e.peak_bytes = lvn_memory_peak();
    }
    if (t->dir_open && t->metrics.jsonl >= 0) lvn_metrics_handle(&t->metrics, &t->e);
    lvn_event_send(t->o->listeners, t->o->n_listeners, &t->e);
    if (t->metrics.failed && !t->metrics_warned) {
        t->metrics_warned = true;
        tell(t, LVN_EVENT_NOTE,
             "metrics.jsonl or metrics.csv could not be written (is the disk full?); the run goes on");
    }
}

/* A failure that does not end the run. */
static void note_failure(struct trainer *t, const char *what)
{
    snprintf(t->text, sizeof t->text, "%s: %s; the run goes on", what, lvn_error_text());
    lvn_error_clear();
    tell(t, LVN_EVENT_NOTE, t->text);
}

/* --- setting up --- */

/* Steps between validations, and how many batches each takes. */
static void plan_validation(struct trainer *t)
{
    const struct lvn_settings *s = t->s;
    const struct lvn_amount *every = &s->trainer.val_check_interval, *limit = &s->trainer.limit_val_batches;
    t->val_every = every->count ? every->count : (int64_t)llround(every->fraction * (double)t->train.steps_per_epoch);
    if (!every->count && every->fraction > 0.0 && t->val_every < 1) t->val_every = 1;
    t->val_batches = limit->count;
    if (!limit->count && limit->fraction < 1.0)
        t->val_batches = (int64_t)ceil(limit->fraction * (double)lvn_loader_eval_batches(&t->val, 0));
    if (!limit->count && limit->fraction <= 0.0) t->has_val = false;
}

static enum lvn_status open_data(struct trainer *t)
{
    const struct lvn_settings *s = t->s;
    int64_t T = t->setup.block_size, B = s->trainer.batch_size;
    uint64_t seed = (uint64_t)s->trainer.seed;
    LVN_TRY(
        lvn_loader_init(&t->train, t->setup.data, LVN_SPLIT_TRAIN, (enum lvn_sampling)s->data.sampling, T, B, seed));
    t->has_val = lvn_dataset_has(t->setup.data, LVN_SPLIT_VAL);
    if (t->has_val)
        LVN_TRY(lvn_loader_init(&t->val, t->setup.data, LVN_SPLIT_VAL, LVN_SAMPLING_SEQUENTIAL, T, B, seed));
    t->fingerprint = lvn_dataset_fingerprint(t->setup.data);
    if (t->has_val) plan_validation(t);
    int64_t by_epochs = s->trainer.max_epochs * t->train.steps_per_epoch;
    t->last_step = s->trainer.max_steps ? s->trainer.max_steps : INT64_MAX;
    if (by_epochs && by_epochs < t->last_step) t->last_step = by_epochs;
    return LVN_OK;
}

/* Weights: of the checkpoint to continue from, of model.init, or fresh. */
static enum lvn_status load_weights(struct trainer *t)
{
    struct lvn_snapshot at = {.val_loss = NAN, .best_val_loss = NAN};
    if (!t->from.path) {
        if (t->setup.has_pretrained)
            return lvn_pretrained_load(&t->setup.pretrained, t->training.network->params,
                                       lvn_network_values(t->training.network));
        lvn_params_init_values(t->training.network->params, (uint64_t)t->s->trainer.seed,
                               lvn_network_values(t->training.network));
        return LVN_OK;
    }
    LVN_TRY(lvn_snapshot_load(&t->from, &at, t->training.network));
    LVN_CHECK(
        at.data == t->fingerprint, ARG,
        "'%s' was trained on other data than '%s' holds now: continuing would mix them; set data.path back, or start "
        "a new run",
        t->from.path, t->s->data.path);
    LVN_CHECK(
        !t->s->trainer.deterministic || at.micro_batch == t->training.micro, ARG,
        "trainer.micro_batch_size is %lld here and was %lld in '%s': with trainer.deterministic that would change "
        "the bits; set it back",
        (long long)t->training.micro, (long long)at.micro_batch, t->from.path);
    t->step = t->saved_step = at.step;
    t->e.best_val_loss = at.best_val_loss;
    if (!isnan(at.val_loss)) t->validated_step = at.step;
    return LVN_OK;
}

static enum lvn_status open_run(struct trainer *t)
{
    LVN_TRY(lvn_run_dir_open(&t->dir, t->s->run_dir, t->o->mode));
    t->dir_open = true;
    if (t->o->mode != LVN_RUN_RESUME) return LVN_OK;
    LVN_TRY(lvn_checkpoint_clean(t->dir.checkpoints));
    LVN_TRY(lvn_checkpoint_open_newest(&t->from, t->dir.checkpoints));
    t->from_open = true;
    for (int i = 0; i < t->from.n_skipped; i++) tell(t, LVN_EVENT_NOTE, t->from.skipped[i]);
    return t->from.path ? lvn_snapshot_check(&t->from, t->s) : LVN_OK;
}

static void describe_run(struct trainer *t)
{
    struct lvn_event *e = &t->e;
    e->name = t->s->name;
    e->run_dir = t->dir.path;
    e->parameters = lvn_params_total(t->training.network->params);
    e->max_steps = t->last_step == INT64_MAX ? 0 : t->last_step;
    e->batch_size = t->s->trainer.batch_size;
    e->micro_batch_size = t->training.micro;
    e->accumulation = t->training.accumulation;
    e->block_size = t->setup.block_size;
    e->steps_per_epoch = t->train.steps_per_epoch;
    e->train_tokens = t->setup.data->split[LVN_SPLIT_TRAIN].n_tokens;
    e->val_tokens = t->has_val ? t->setup.data->split[LVN_SPLIT_VAL].n_tokens : 0;
    e->flops_per_token =
        lvn_program_flops(t->training.step->program) / (double)(t->training.micro * t->setup.block_size);
    e->threads = t->training.network->threads;
    e->isa = lvn_isa_name(lvn_isa_best());
    e->step = t->step;
    e->epoch = t->step / t->train.steps_per_epoch;
}

/* A resumed run keeps its micro-batch, unless another one is asked for: how much memory is free today must not decide
 * on the bits. */
static enum lvn_status keep_micro_batch(struct trainer *t)
{
    struct lvn_snapshot at;
    if (!t->from.path || t->s->trainer.micro_batch_size) return LVN_OK;
    LVN_TRY(lvn_snapshot_read(&t->from, &at));
    if (t->s->trainer.batch_size % at.micro_batch == 0) t->s->trainer.micro_batch_size = at.micro_batch;
    return LVN_OK;
}

static enum lvn_status set_up(struct trainer *t)
{
    LVN_TRY(lvn_model_setup_open(&t->setup, t->s, t->o->model));
    LVN_TRY(open_data(t));
    LVN_TRY(open_run(t));
    LVN_TRY(keep_micro_batch(t));
    LVN_TRY(lvn_training_plan(&t->training, t->s, &t->setup.config, t->setup.block_size, t->has_val));
    LVN_TRY(lvn_network_allocate(t->training.network));
    LVN_TRY(load_weights(t));
    return LVN_OK;
}

/* --- between steps --- */

static enum lvn_status validate(struct trainer *t)
{
    struct lvn_task *eval = t->training.eval;
    int64_t n = lvn_loader_eval_batches(&t->val, t->val_batches), valid = 0;
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        int64_t B = t->s->trainer.batch_size, T = t->setup.block_size;
        LVN_TRY(lvn_loader_eval_batch(&t->val, t->val_batches, i, 0, B, eval->ids, eval->labels, NULL));
        eval->step = (struct lvn_step){.grad_scale = 1.0};
        sum += lvn_task_run(eval, t->training.accumulation);
        valid += lvn_labels_valid(eval->labels, B * T);
    }
    t->e.val_loss = sum / (double)valid;
    t->e.best = !(t->e.val_loss >= t->e.best_val_loss);
    if (t->e.best) t->e.best_val_loss = t->e.val_loss;
    t->validated_step = t->step;
    tell(t, LVN_EVENT_VALIDATION, NULL);
    return LVN_OK;
}

/* The picture of all rows so far. */
static void draw_curve(struct trainer *t)
{
    if (lvn_curve_write(t->dir.metrics_csv, t->dir.curve, t->s->name) != LVN_OK)
        note_failure(t, "the loss curve could not be drawn");
}

/* Save; a failure is told and the run goes on with its former checkpoints. */
static bool save(struct trainer *t)
{
    struct lvn_snapshot at = {.step = t->step,
                              .val_loss = t->validated_step == t->step ? t->e.val_loss : NAN,
                              .best_val_loss = t->e.best_val_loss,
                              .data = t->fingerprint,
                              .micro_batch = t->training.micro};
    if (t->saved_step == t->step) return true;
    if (lvn_snapshot_save(t->dir.checkpoints, &at, t->training.network, t->s, t->setup.data->vocabulary) != LVN_OK) {
        note_failure(t, "the checkpoint could not be saved");
        return false;
    }
    t->saved_step = t->step;
    if (lvn_checkpoint_prune(t->dir.checkpoints, t->s->checkpoint.top_k) != LVN_OK)
        note_failure(t, "old checkpoints could not be removed");
    snprintf(t->text, sizeof t->text, "%s/step-%lld", t->dir.checkpoints, (long long)t->step);
    tell(t, LVN_EVENT_CHECKPOINT, t->text);
    draw_curve(t);
    return true;
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
    struct lvn_text text = {0};
    enum lvn_status status = lvn_sampler_text(t->training.sampler, t->s, t->setup.data->vocabulary, t->step, &text);
    if (status == LVN_OK) {
        tell(t, LVN_EVENT_SAMPLE, text.p);
        status = keep_sample(t, text.p);
    }
    if (status != LVN_OK) note_failure(t, "no sample could be made or kept");
    lvn_text_release(&text);
}

static enum lvn_status explain_nonfinite(struct trainer *t, double loss)
{
    const char *first = lvn_task_find_nonfinite(t->training.step, t->training.accumulation);
    LVN_FAIL(
        NONFINITE,
        "step %lld: the loss is %g and the gradient's norm %g; the first number that is not finite lies in '%s'; the "
        "weights are those of step %lld; try a smaller optimizer.lr, a longer schedule.warmup_steps or clipping",
        (long long)t->step + 1, loss, t->training.step->step.grad_norm, first ? first : "the sum of the gradient",
        (long long)t->step);
}

/* Once, early in a run that is long enough: a quarter of a second that a first step need not wait for. */
static void measure_machine(struct trainer *t)
{
    enum { AT_STEP = 10, WORTH_STEPS = 100 };
    if (t->matmul_rate > 0.0 || t->step % AT_STEP || t->last_step - t->step < WORTH_STEPS) return;
    if (lvn_measure_matmul(t->training.network->threads, &t->matmul_rate) != LVN_OK)
        note_failure(t, "this machine's rate of matrix products could not be measured");
}

static enum lvn_status one_step(struct trainer *t)
{
    struct lvn_task *task = t->training.step;
    int64_t B = t->s->trainer.batch_size, tokens = B * t->setup.block_size;
    double begin = lvn_seconds();
    LVN_TRY(lvn_loader_batch(&t->train, t->step, 0, B, task->ids, task->labels));
    double loss = lvn_training_step(&t->training, t->step, lvn_schedule_lr(t->s, t->step, t->last_step));
    if (!isfinite(loss) || !isfinite(task->step.grad_norm)) return explain_nonfinite(t, loss);
    double seconds = lvn_seconds() - begin;
    t->step++;
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
    tell(t, LVN_EVENT_STEP, NULL);
    return LVN_OK;
}

/* --- the loop --- */

static bool every(int64_t step, int64_t n)
{
    return n > 0 && step % n == 0;
}

static enum lvn_status loop(struct trainer *t)
{
    const struct lvn_settings *s = t->s;
    const char *why = "all steps are done";
    t->started = t->epoch_started = lvn_seconds();
    t->first_step = t->step;
    tell(t, LVN_EVENT_START, t->from.path);
    while (t->step < t->last_step) {
        LVN_TRY(one_step(t));
        measure_machine(t);
        bool last = t->step == t->last_step;
        if (t->has_val && (every(t->step, t->val_every) || last)) LVN_TRY(validate(t));
        if (t->training.sampler && every(t->step, s->sample.every_n_steps)) sample(t);
        bool best = t->validated_step == t->step && t->e.best && s->checkpoint.top_k > 0;
        if (every(t->step, s->checkpoint.every_n_steps) || best) save(t);
        if (every(t->step, t->train.steps_per_epoch)) {
            t->e.epoch_s = lvn_seconds() - t->epoch_started;
            tell(t, LVN_EVENT_EPOCH, NULL);
            t->epoch_started = lvn_seconds();
        }
        if (t->o->stop && *t->o->stop) {
            bool saved = save(t);
            tell(t, LVN_EVENT_END, saved ? "stopped on request" : "stopped on request, not saved");
            LVN_CHECK(saved, IO, "stopped on request after step %lld, which could not be saved", (long long)t->step);
            LVN_FAIL(STOPPED, "stopped on request after step %lld, which is saved", (long long)t->step);
        }
        if (s->trainer.max_time > 0.0 && lvn_seconds() - t->started >= s->trainer.max_time && !last) {
            why = "trainer.max_time is over";
            break;
        }
    }
    bool saved = save(t);
    tell(t, LVN_EVENT_END, why);
    LVN_CHECK(saved, IO,
              "the run is over, but its last checkpoint (step %lld) could not be saved; make room and go on "
              "with --resume",
              (long long)t->step);
    return LVN_OK;
}

static enum lvn_status start(struct trainer *t)
{
    describe_run(t);
    LVN_TRY(lvn_run_dir_begin(&t->dir));
    LVN_TRY(lvn_settings_write(t->s, t->dir.settings));
    LVN_TRY(lvn_metrics_open(&t->metrics, &t->dir, t->from.path ? t->step : -1));
    return loop(t);
}

enum lvn_status lvn_train(struct lvn_settings *s, const struct lvn_train_options *o, struct lvn_train_result *result)
{
    struct trainer t = {.s = s, .o = o, .saved_step = -1, .validated_step = -1, .metrics = {.jsonl = -1, .csv = -1}};
    t.e = (struct lvn_event){.loss = NAN,
                             .grad_norm = NAN,
                             .lr = NAN,
                             .tokens_per_s = NAN,
                             .utilisation = NAN,
                             .eta_s = NAN,
                             .val_loss = NAN,
                             .best_val_loss = NAN,
                             .epoch_s = NAN};
    enum lvn_status status = set_up(&t);
    bool done = status == LVN_OK && t.from.path && t.step >= t.last_step;
    if (status == LVN_OK && !done) status = start(&t);
    if (result) {
        *result = (struct lvn_train_result){.step = t.step,
                                            .loss = t.e.loss,
                                            .val_loss = t.e.val_loss,
                                            .best_val_loss = t.e.best_val_loss,
                                            .already_done = done};
        snprintf(result->run_dir, sizeof result->run_dir, "%s", s->run_dir);
    }
    lvn_metrics_close(&t.metrics);
    if (t.from_open) lvn_checkpoint_release(&t.from);
    if (t.dir_open) lvn_run_dir_close(&t.dir);
    lvn_training_release(&t.training);
    lvn_model_setup_close(&t.setup);
    return status;
}
