/* session.c - see session.h. */
#include "engine/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/parameters.h"
#include "engine/reduction.h"
#include "graph/loss_chunk.h"
#include "passes/shard.h"
#include "passes/shard_sums.h"

/* --- planning --- */

void lvn_session_free(struct lvn_session *t)
{
    if (!t) return;
    if (t->bound) t->model_state->device->backend->unbind(t->bound);
    for (int k = 0; t->caches && k < t->graph->n_caches; k++) lvn_memory_free(t->caches[k]);
    for (int k = 0; k < LVN_MAX_FIELDS && !t->options.longer; k++) lvn_memory_free(t->inputs[k]);
    lvn_memory_free(t->binding.buffer[LVN_BUFFER_RESULT]);
    if (t->gathers) lvn_reduction_release(t->gathers);
    free(t->gathers);
    for (int k = 0; k < LVN_STAGING_COUNT; k++) free(t->staging[k]);
    free(t->caches);
    free(t->micro_losses);
    free(t->counts);
    lvn_program_free(t->program);
    lvn_graph_free(t->graph);
    free(t);
}

static void raise_to(int64_t *bytes, int64_t min)
{
    if (*bytes < min) *bytes = min;
}

/* Bytes of one moment: the whole, or this rank's shard. */
static int64_t state_bytes(const struct lvn_session *t)
{
    const struct lvn_sharding *s = &t->model_state->sharding;
    const struct lvn_params *p = t->model_state->params;
    int64_t count = p->trainable_count;
    if (s->size > 1 && s->sharded & LVN_SHARDS_STATE)
        count = lvn_shard_total(p, lvn_sharding_owners(s), lvn_sharding_owner(s, s->rank), true);
    if (count == 0)
        count = LVN_PARAM_ALIGN; /* allocate even if empty: a NULL buffer means that the optimizer has no such moment */
    return count * lvn_dtype_bytes(t->model_state->state);
}

/* Number of partial sums of a gradient: one per micro-batch or, if these are long, one per chunk of rows that is
 * multiplied at a time. All ranks must get the same number, that of the largest part of the batch. With the tree, whose
 * bits do not depend on the number of ranks, it is that of the whole step. */
static int64_t partial_sums_of(const struct lvn_session *t, int64_t n_leaves)
{
    const struct lvn_session_options *o = &t->options;
    if (!o->train || !t->outputs.losses) return 1;
    int64_t labels = lvn_desc_count(&t->outputs.losses->desc);
    int64_t n = o->deterministic ? n_leaves : o->max_micro ? o->max_micro : o->n_micro;
    if (o->max_B && !o->deterministic) labels = labels / o->B * o->max_B;
    return n * ((labels + LVN_LOSS_CHUNK - 1) / LVN_LOSS_CHUNK);
}

/* Does its program have collectives? */
static bool is_shared(const struct lvn_session *t)
{
    const struct lvn_model_state *n = t->model_state;
    return n->sharding.size > 1 && (t->options.train || lvn_parameters_sharded(n, LVN_PARAMETER_VALUES));
}

static enum lvn_status plan_session(struct lvn_session *t)
{
    struct lvn_model_state *n = t->model_state;
    const struct lvn_session_options *o = &t->options;
    t->graph = lvn_graph_new(n->params, n->real);
    if (!t->graph) return LVN_MEMORY;
    t->graph->cache_length = o->cache_length;
    t->graph->cache_tokens = o->cache_tokens;
    LVN_TRY(lvn_task_build(&t->outputs, t->graph, &n->config, o->task, o->fields, o->B));
    for (int k = 0; k < t->graph->n_inputs; k++) t->field[k] = lvn_fields_find(o->fields, t->graph->inputs[k]->name);
    struct levin_tensor *outputs[3 + LVN_TASK_COUNTS];
    int n_outputs = 0;
    if (o->task) outputs[n_outputs++] = t->outputs.loss;
    for (int k = 0; k < t->outputs.n_counts; k++) outputs[n_outputs++] = t->outputs.counts[k];
    int n_sums = n_outputs;
    if (o->task) outputs[n_outputs++] = t->outputs.losses;
    if (!o->task || o->prediction) outputs[n_outputs++] = t->outputs.prediction;
    struct lvn_tree_leaves tree = {o->first_leaf, o->n_micro, o->n_leaves ? o->n_leaves : o->n_micro};
    t->n_partial_sums = o->longer ? o->longer->n_partial_sums : partial_sums_of(t, tree.total);
    struct lvn_plan_options plan = {.n_sums = n_sums,
                                    .train = o->train,
                                    .fuse = true,
                                    .precision = n->precision,
                                    .recompute = o->recompute,
                                    .tree = o->deterministic ? &tree : NULL,
                                    .n_partial_sums = t->n_partial_sums,
                                    .optimizer = o->optimizer,
                                    .sharding = is_shared(t) ? &n->sharding : NULL,
                                    .device = n->device};
    LVN_TRY(lvn_program_new(&t->program, t->graph, outputs, n_outputs, &plan));
    raise_to(&n->bytes[LVN_BUFFER_ARENA], t->program->arena_bytes);
    if (o->train) n->gradients = t->program->gradients;
    if (o->train) raise_to(&n->bytes[LVN_BUFFER_GRAD], t->program->grad_buffer_bytes * t->program->n_grad_buffers);
    if (o->optimizer && o->optimizer->bf16_state) n->state = LVN_BF16;
    int64_t state = state_bytes(t);
    if (!o->optimizer) return LVN_OK;
    if (n->precision == LVN_PRECISION_16_MIXED) n->bytes[LVN_BUFFER_SCALE] = sizeof(struct lvn_scaling);
    if (lvn_parameters_any_sharded(n))
        n->bytes[LVN_BUFFER_SUMS] = lvn_program_sums_count(t->program) * (int64_t)sizeof(int32_t);
    n->moments = lvn_optimizer_moments(o->optimizer);
    n->matrix_moments = lvn_optimizer_matrix_moments(o->optimizer);
    for (int k = 0; k < n->moments; k++) raise_to(&n->bytes[LVN_BUFFER_STATE0 + k], state);
    return LVN_OK;
}

enum lvn_status lvn_session_new(struct lvn_session **out, struct lvn_model_state *n,
                                const struct lvn_session_options *o)
{
    *out = NULL;
    struct lvn_session **sessions = lvn_realloc(n->sessions, sizeof *sessions * (size_t)(n->n_sessions + 1));
    if (!sessions) return LVN_MEMORY;
    n->sessions = sessions;
    struct lvn_session *t = lvn_calloc(1, sizeof *t);
    if (!t) return LVN_MEMORY;
    t->model_state = n;
    t->options = *o;
    if (t->options.n_micro < 1) t->options.n_micro = 1;
    enum lvn_status status = plan_session(t);
    if (status != LVN_OK) {
        lvn_session_free(t);
        return status;
    }
    sessions[n->n_sessions++] = *out = t;
    return LVN_OK;
}

/* --- running --- */

enum lvn_status lvn_session_prepare_gathers(struct lvn_session *t)
{
    const struct lvn_model_state *n = t->model_state;
    if (t->options.train || !t->program->n_handles || !n->ranks) return LVN_OK;
    struct lvn_sharding sharding = n->sharding;
    sharding.tree = false; /* no sums */
    t->gathers = lvn_calloc(1, sizeof *t->gathers);
    if (!t->gathers) return LVN_MEMORY;
    lvn_reduction_init(t->gathers, n->ranks, &sharding);
    return lvn_reduction_prepare(t->gathers, t->program, NULL);
}

const struct lvn_collectives *lvn_session_collectives(const struct lvn_session *t)
{
    return t->gathers ? &t->gathers->calls : t->options.collectives;
}

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

/* Copy the results of a run. */
static enum lvn_status collect(struct lvn_session *t, int64_t n_micro)
{
    const struct lvn_memory *m = t->binding.buffer[LVN_BUFFER_RESULT];
    const int n_counts = lvn_task_counts(&t->outputs);
    const char *result = m->host ? m->host : t->staging[LVN_STAGING_RESULT];
    if (!m->host)
        LVN_TRY(lvn_memory_read(m, 0, t->staging[LVN_STAGING_RESULT], lvn_program_sums_at(t->program, n_micro)));
    t->result = *(const struct lvn_result *)result;
    memset(t->counts, 0, sizeof *t->counts * (size_t)n_counts);
    for (int64_t i = 0; t->options.task && i < n_micro; i++) {
        const double *sums = (const double *)(result + lvn_program_sums_at(t->program, i));
        t->micro_losses[i] = *sums++;
        for (int k = 0; k < n_counts; k++) t->counts[k] += sums[k];
    }
    return LVN_OK;
}

enum lvn_status lvn_session_run_as(struct lvn_session *t, const struct lvn_execution *execution)
{
    const struct lvn_device *d = t->model_state->device;
    LVN_TRY(d->backend->run(t->bound, execution));
    LVN_TRY(d->backend->wait(t->model_state->device));
    return collect(t, execution->n_micro_batches);
}

void lvn_session_launch(struct lvn_session *t, int64_t n_micro)
{
    const struct lvn_execution execution = {.n_micro_batches = n_micro,
                                            .collectives = lvn_session_collectives(t),
                                            .context = t->context,
                                            .before_update = t->before_update};
    t->status = t->model_state->device->backend->run(t->bound, &execution);
}

double lvn_session_finish(struct lvn_session *t, int64_t n_micro)
{
    if (t->status == LVN_OK) t->status = t->model_state->device->backend->wait(t->model_state->device);
    if (t->status == LVN_OK) t->status = collect(t, n_micro);
    return t->options.task ? lvn_tree_sum(t->micro_losses, n_micro) : 0.0;
}

double lvn_session_run(struct lvn_session *t, int64_t n_micro)
{
    lvn_session_launch(t, n_micro);
    return lvn_session_finish(t, n_micro);
}

/* An output of the last run. */
static const void *output(struct lvn_session *t, const struct levin_tensor *tensor, int staging)
{
    struct lvn_operand o = lvn_program_output(t->program, tensor);
    if (o.value < 0) return NULL;
    const struct lvn_value *v = &t->program->values[o.value];
    const struct lvn_memory *m = t->binding.buffer[v->buffer];
    int64_t size = lvn_dtype_bytes(o.desc.dtype), bytes = lvn_desc_count(&o.desc) * size;
    if (!m->host && !t->staging[staging]) t->staging[staging] = lvn_malloc((size_t)bytes);
    if (!m->host && !t->staging[staging]) return NULL;
    return lvn_memory_view(m, v->offset + o.desc.offset * size, bytes, t->staging[staging]);
}

const float *lvn_session_prediction(struct lvn_session *t)
{
    return output(t, t->outputs.prediction, LVN_STAGING_PREDICTION);
}

const float *lvn_session_losses(struct lvn_session *t)
{
    return output(t, t->outputs.losses, LVN_STAGING_LOSSES);
}
