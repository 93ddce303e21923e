/* validation.c - see validation.h. */
#include "train/validation.h"

#include "base/arena.h"
#include "base/work.h"
#include "engine/parameters.h"
#include "train/limits.h"

/* Set the steps between validations, and the batches of each. */
static void plan(struct lvn_validation *v, const struct levin_settings *s, int64_t steps_per_epoch)
{
    const struct lvn_amount *every = &s->values.trainer.val_check_interval, part = lvn_limits_validation(s),
                            *limit = &part;
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

/* Labels that count; bytes of those that are text; ranks that failed; then counts of metrics. */
enum { LABELS, TEXT_BYTES, FAILED, COUNTS };

static int64_t batches_of(const struct lvn_validation *v)
{
    return lvn_loader_eval_batches(&v->loader, v->batches);
}

static int64_t losses_of(const struct lvn_validation *v, const struct lvn_train_programs *programs)
{
    return batches_of(v) * programs->global_micro_batches;
}

enum lvn_status lvn_validation_allocate(struct lvn_validation *v, const struct lvn_train_programs *programs)
{
    if (!v->on) return LVN_OK;
    const struct lvn_task_graph *task = &programs->eval_session->outputs;
    v->n_sums = losses_of(v, programs) * (task->text ? 2 : 1) + COUNTS + lvn_task_counts(task);
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

/* Rows [first, first + rows) of a batch. */
static struct lvn_samples rows_of(const struct lvn_samples *b, int64_t first, int64_t rows)
{
    const int64_t valid = b->n_valid - first;
    struct lvn_samples part = {.fields = b->fields,
                               .rows = rows,
                               .n_valid = valid < 0      ? 0
                                          : valid > rows ? rows
                                                         : valid};
    for (int k = 0; k < b->fields.n; k++) part.p[k] = lvn_samples_at(b, k, first);
    return part;
}

/* Run n micro-batches, from micro-batch m of the rank's rows on. `losses` and, after all losses, those of text get the
 * sums of each. */
static enum lvn_status run_micro_batches(const struct lvn_validation *v, struct lvn_train_programs *programs,
                                         struct lvn_session *eval, int64_t m, int64_t n, double *losses, double *count)
{
    const int64_t B = programs->micro_batch;
    const struct lvn_samples part = rows_of(&v->samples, m * B, n * B);
    struct lvn_text_sums text;
    LVN_TRY(lvn_session_feed(eval, 0, &part));
    eval->step_args = (struct lvn_step){.grad_scale = 1.0,
                                        .first_row = programs->first_row + m * B,
                                        .end_row = programs->first_row + v->samples.n_valid};
    lvn_session_run(eval, n);
    LVN_TRY(eval->status);
    memcpy(losses + m, eval->micro_losses, sizeof *losses * (size_t)n);
    count[LABELS] += (double)lvn_task_count(&eval->outputs, &part);
    for (int64_t k = 0; k < lvn_task_counts(&eval->outputs); k++) count[COUNTS + k] += eval->counts[k];
    if (!eval->outputs.text) return LVN_OK;
    LVN_TRY(lvn_session_text_sums(eval, &part, &text));
    losses[losses_of(v, programs) + m] = text.loss;
    count[TEXT_BYTES] += (double)text.bytes;
    return LVN_OK;
}

/* Compute this rank's rows of each batch; add losses and counts to the sums. Losses of labels can be read only after
 * their micro-batch, so metrics of text make each micro-batch a run. A rank that fails continues without results,
 * because the others would wait for it: in progress(), and in each micro-batch if ranks gather parameters collectively.
 * All have the same number of batches. */
static enum lvn_status compute(struct lvn_validation *v, struct lvn_train_programs *programs, double *count)
{
    const int64_t n = batches_of(v), all = programs->accumulation;
    const int64_t together = programs->eval_session->outputs.text ? 1 : all;
    const bool collective = lvn_parameters_sharded(programs->model_state, LVN_PARAMETER_VALUES);
    enum lvn_status status = LVN_OK;
    int64_t number;
    for (int64_t i = 0; i < n; i++) {
        double *losses = v->sums + i * programs->global_micro_batches + programs->leaf[programs->ranks->rank];
        struct lvn_session *eval = programs->eval_session;
        if (status == LVN_OK) status = lvn_interrupt_check();
        if (status == LVN_OK)
            status = lvn_loader_eval_batch(&v->loader, v->batches, i, programs->first_row, &v->samples, &number);
        if (status == LVN_OK) eval = lvn_train_programs_session(programs, programs->eval_sessions, &v->samples);
        for (int64_t m = 0; m < all; m += together) {
            if (status == LVN_OK) {
                status = run_micro_batches(v, programs, eval, m, together, losses, count);
                if (collective) LVN_TRY(eval->status);
            } else if (collective) {
                lvn_session_run(eval, together);
                LVN_TRY(eval->status);
            }
        }
        if (status != LVN_OK && programs->ranks->size == 1) return status;
        lvn_work_set_parts(i + 1, n);
        if (v->progress) LVN_TRY(v->progress(v->context, i + 1, n));
    }
    return status;
}

/* The sum of the losses of all batches, in an order that depends only on their micro-batches. */
static double sum_losses(const struct lvn_validation *v, const struct lvn_train_programs *programs,
                         const double *losses)
{
    double sum = 0.0;
    for (int64_t i = 0; i < batches_of(v); i++)
        sum += lvn_tree_sum(losses + i * programs->global_micro_batches, programs->global_micro_batches);
    return sum;
}

enum lvn_status lvn_validation_run(struct lvn_validation *v, struct lvn_train_programs *programs, double *loss)
{
    const struct lvn_task_graph *task = &programs->eval_session->outputs;
    const int64_t n_losses = losses_of(v, programs);
    double *count = v->sums + n_losses * (task->text ? 2 : 1);
    const char *before = lvn_work_begin("a validation");
    memset(v->sums, 0, sizeof *v->sums * (size_t)v->n_sums);
    enum lvn_status status = compute(v, programs, count);
    count[FAILED] = status != LVN_OK;
    const enum lvn_status summed = lvn_ranks_sum(programs->ranks, v->sums, v->n_sums);
    lvn_work_end(before);
    LVN_TRY(summed);
    if (count[FAILED] > 0) return lvn_ranks_agree(programs->ranks, status);
    struct lvn_metric_sums sums = {.loss = sum_losses(v, programs, v->sums), .labels = (int64_t)count[LABELS]};
    if (task->text)
        sums.text = (struct lvn_text_sums){.loss = sum_losses(v, programs, v->sums + n_losses),
                                           .bytes = (int64_t)count[TEXT_BYTES]};
    v->labels = sums.labels;
    *loss = v->labels ? sums.loss / count[LABELS] : (double)NAN;
    v->counts = count + COUNTS;
    for (int i = 0; i < task->n_metrics; i++)
        v->value[i] = v->labels ? lvn_task_metric(task, i, sums, count + COUNTS) : (double)NAN;
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
