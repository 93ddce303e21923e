/* validation.c - see validation.h. */
#include "train/validation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/work.h"
#include "engine/parameters.h"
#include "train/limits.h"

/* Set the steps between validations, and the batches of each. */
static void plan(struct lvn_validation *v, const struct levin_settings *s, int64_t steps_per_epoch)
{
    const struct lvn_amount *every = &s->trainer.val_check_interval, part = lvn_limits_validation(s), *limit = &part;
    v->every = every->count ? every->count : (int64_t)llround(every->fraction * (double)steps_per_epoch);
    if (!every->count && every->fraction > 0.0 && v->every < 1) v->every = 1;
    v->batches = limit->count;
    if (!limit->count && limit->fraction < 1.0)
        v->batches = (int64_t)ceil(limit->fraction * (double)lvn_loader_eval_batches(&v->loader, 0));
    if (!limit->count && limit->fraction <= 0.0) v->on = false;
}

enum lvn_status lvn_validation_open(struct lvn_validation *v, const struct levin_settings *s,
                                    const struct lvn_loader *train, const struct lvn_dataset *data)
{
    *v = (struct lvn_validation){.on = lvn_dataset_has(data, LVN_SPLIT_VAL)};
    if (!v->on) return LVN_OK;
    LVN_TRY(lvn_loader_init(&v->loader, data, LVN_SPLIT_VAL, LVN_SAMPLING_SEQUENTIAL, train->batch_size, train->seed));
    plan(v, s, train->steps_per_epoch);
    return LVN_OK;
}

enum lvn_status lvn_validation_open_part(struct lvn_validation *v, const struct lvn_loader *train,
                                         const struct lvn_dataset *data, enum lvn_split_id part)
{
    *v = (struct lvn_validation){.on = lvn_dataset_has(data, part)};
    LVN_CHECK(v->on, ARG, "the data has no split '%s'", lvn_split_names[part]);
    return lvn_loader_init(&v->loader, data, part, LVN_SAMPLING_SEQUENTIAL, train->batch_size, train->seed);
}

enum { LABELS, FAILED, COUNTS }; /* labels that count; ranks that failed; then counts of metrics */

static int64_t batches_of(const struct lvn_validation *v)
{
    return lvn_loader_eval_batches(&v->loader, v->batches);
}

enum lvn_status lvn_validation_allocate(struct lvn_validation *v, const struct lvn_train_programs *programs)
{
    if (!v->on) return LVN_OK;
    v->n_sums =
        batches_of(v) * programs->global_micro_batches + COUNTS + lvn_task_counts(&programs->eval_session->outputs);
    v->sums = lvn_calloc((size_t)v->n_sums, sizeof *v->sums);
    return v->sums ? lvn_samples_init(&v->samples, &programs->fields, programs->rows) : LVN_MEMORY;
}

void lvn_validation_release(struct lvn_validation *v)
{
    lvn_samples_release(&v->samples);
    free(v->sums);
    v->sums = NULL;
    v->counts = NULL;
}

/* Compute this rank's rows of each batch; add losses and counts to the sums. If ranks gather parameters collectively, a
 * rank that fails continues without results, because the others would wait for it. */
static enum lvn_status compute(struct lvn_validation *v, struct lvn_train_programs *programs, double *count)
{
    int64_t n = batches_of(v), n_counts = lvn_task_counts(&programs->eval_session->outputs), number;
    const bool collective = lvn_parameters_sharded(programs->model_state, LVN_PARAMETER_VALUES);
    enum lvn_status status = LVN_OK;
    for (int64_t i = 0; i < n; i++) {
        double *losses = v->sums + i * programs->global_micro_batches + programs->leaf[programs->ranks->rank];
        struct lvn_session *eval = programs->eval_session;
        if (status == LVN_OK) status = lvn_interrupt_check();
        if (status == LVN_OK)
            status = lvn_loader_eval_batch(&v->loader, v->batches, i, programs->first_row, &v->samples, &number);
        if (status == LVN_OK) eval = lvn_train_programs_session(programs, programs->eval_sessions, &v->samples);
        if (status == LVN_OK) status = lvn_session_feed(eval, 0, &v->samples);
        if (status != LVN_OK && !collective) return status;
        eval->step_args = (struct lvn_step){
            .grad_scale = 1.0, .first_row = programs->first_row, .end_row = programs->first_row + v->samples.n_valid};
        lvn_session_run(eval, programs->accumulation);
        LVN_TRY(eval->status);
        if (status != LVN_OK) continue;
        memcpy(losses, eval->micro_losses, sizeof *losses * (size_t)programs->accumulation);
        count[LABELS] += (double)lvn_task_count(&eval->outputs, &v->samples);
        for (int64_t k = 0; k < n_counts; k++) count[COUNTS + k] += eval->counts[k];
        lvn_work_set_parts(i + 1, n);
        if (v->progress) v->progress(v->context, i + 1, n);
    }
    return status;
}

enum lvn_status lvn_validation_run(struct lvn_validation *v, struct lvn_train_programs *programs, double *loss)
{
    const struct lvn_task_graph *task = &programs->eval_session->outputs;
    int64_t n = batches_of(v);
    double *count = v->sums + n * programs->global_micro_batches, sum = 0.0;
    const char *before = lvn_work_begin("a validation");
    memset(v->sums, 0, sizeof *v->sums * (size_t)v->n_sums);
    enum lvn_status status = compute(v, programs, count);
    count[FAILED] = status != LVN_OK;
    LVN_TRY(lvn_ranks_sum(programs->ranks, v->sums, v->n_sums));
    lvn_work_end(before);
    if (count[FAILED] > 0) return lvn_ranks_agree(programs->ranks, status);
    for (int64_t i = 0; i < n; i++)
        sum += lvn_tree_sum(v->sums + i * programs->global_micro_batches, programs->global_micro_batches);
    v->labels = (int64_t)count[LABELS];
    *loss = v->labels ? sum / count[LABELS] : (double)NAN;
    v->counts = count + COUNTS;
    for (int i = 0; i < task->n_metrics; i++)
        v->value[i] = v->labels ? lvn_task_metric(task, i, sum, v->labels, count + COUNTS) : (double)NAN;
    return LVN_OK;
}

enum lvn_status lvn_validation_try(struct lvn_validation *v, struct lvn_train_programs *programs, int64_t batches)
{
    int64_t all = v->batches, max = batches_of(v);
    double loss;
    v->batches = batches < 0 || batches > max ? max : batches;
    enum lvn_status status = lvn_validation_run(v, programs, &loss);
    v->batches = all;
    return status;
}
