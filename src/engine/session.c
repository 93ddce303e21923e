/* session.c - one run of a runner of model_state.h: what it is fed, and what it gave. */
#include <stdlib.h>
#include <string.h>

#include "engine/model_state.h"

double lvn_tree_sum(const double *x, int64_t n)
{
    if (n <= 1) return n == 1 ? x[0] : 0.0;
    int64_t half = 1;
    while (2 * half < n) half *= 2;
    return lvn_tree_sum(x, half) + lvn_tree_sum(x + half, n - half);
}

enum lvn_status lvn_session_feed(struct lvn_session *t, int64_t row, const struct lvn_samples *b)
{
    for (int k = 0; k < t->graph->n_inputs; k++) {
        int64_t bytes = lvn_field_bytes(&b->fields.field[t->field[k]]);
        LVN_TRY(lvn_memory_write(t->inputs[k], row * bytes, b->p[t->field[k]], b->rows * bytes));
    }
    return LVN_OK;
}

/* What the run gave back: read once. */
static enum lvn_status collect(struct lvn_session *t, int64_t n_micro)
{
    const struct lvn_memory *m = t->binding.buffer[LVN_BUFFER_RESULT];
    const int n_counts = lvn_task_counts(&t->outputs);
    const char *result = m->host ? m->host : t->capacity[LVN_CAPACITY_RESULT];
    if (!m->host)
        LVN_TRY(lvn_memory_read(m, 0, t->capacity[LVN_CAPACITY_RESULT], lvn_program_sums_at(t->program, n_micro)));
    t->result = *(const struct lvn_result *)result;
    memset(t->counts, 0, sizeof *t->counts * (size_t)n_counts);
    for (int64_t i = 0; t->options.task && i < n_micro; i++) {
        const double *sums = (const double *)(result + lvn_program_sums_at(t->program, i));
        t->micro_losses[i] = *sums++;
        for (int k = 0; k < n_counts; k++) t->counts[k] += sums[k];
    }
    return LVN_OK;
}

enum lvn_status lvn_session_run_as(struct lvn_session *t, const struct lvn_execution *how)
{
    const struct lvn_device *d = t->network->device;
    LVN_TRY(d->backend->run(t->bound, how));
    LVN_TRY(d->backend->wait(t->network->device));
    return collect(t, how->n_micro_batches);
}

void lvn_session_launch(struct lvn_session *t, int64_t n_micro)
{
    const struct lvn_execution how = {.n_micro_batches = n_micro,
                                      .collectives = t->options.collectives,
                                      .context = t->context,
                                      .before_update = t->before_update};
    t->status = t->network->device->backend->run(t->bound, &how);
}

double lvn_session_finish(struct lvn_session *t, int64_t n_micro)
{
    if (t->status == LVN_OK) t->status = t->network->device->backend->wait(t->network->device);
    if (t->status == LVN_OK) t->status = collect(t, n_micro);
    return t->options.task ? lvn_tree_sum(t->micro_losses, n_micro) : 0.0;
}

double lvn_session_run(struct lvn_session *t, int64_t n_micro)
{
    lvn_session_launch(t, n_micro);
    return lvn_session_finish(t, n_micro);
}

/* An output of the last run. */
static const void *output(struct lvn_session *t, const struct lvn_tensor *tensor, int capacity)
{
    struct lvn_operand o = lvn_program_output(t->program, tensor);
    if (o.value < 0) return NULL;
    const struct lvn_value *v = &t->program->values[o.value];
    const struct lvn_memory *m = t->binding.buffer[v->buffer];
    int64_t size = lvn_dtype_bytes(o.desc.dtype), bytes = lvn_desc_count(&o.desc) * size;
    if (!m->host && !t->capacity[capacity]) t->capacity[capacity] = lvn_malloc((size_t)bytes);
    if (!m->host && !t->capacity[capacity]) return NULL;
    return lvn_memory_view(m, v->offset + o.desc.offset * size, bytes, t->capacity[capacity]);
}

const float *lvn_session_prediction(struct lvn_session *t)
{
    return output(t, t->outputs.prediction, LVN_CAPACITY_PREDICTION);
}

const float *lvn_session_losses(struct lvn_session *t)
{
    return output(t, t->outputs.losses, LVN_CAPACITY_LOSSES);
}
