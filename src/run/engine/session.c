/* session.c - see session.h. */
#include "engine/session.h"

#include "base/text.h"
#include "engine/collective_runner.h"
#include "engine/parameters.h"
#include "graph/loss_chunk.h"
#include "passes/shard.h"
#include "passes/shard_checksums.h"

/* --- planning --- */

void lvn_session_free(struct lvn_session *session)
{
    if (!session) return;
    if (session->bound) session->model_state->device->backend->unbind(session->bound);
    for (int k = 0; session->caches && k < session->graph->n_caches; k++) lvn_memory_free(session->caches[k]);
    for (int k = 0; k < LVN_MAX_FIELDS && !session->options.longer; k++) lvn_memory_free(session->inputs[k]);
    lvn_memory_free(session->binding.buffer[LVN_BUFFER_RESULT]);
    if (session->gathers) lvn_collective_runner_release(session->gathers);
    free(session->gathers);
    for (int k = 0; k < LVN_STAGING_COUNT; k++) free(session->staging[k]);
    free(session->caches);
    free(session->micro_losses);
    free(session->counts);
    lvn_program_free(session->program);
    lvn_graph_free(session->graph);
    free(session);
}

static void raise_to(int64_t *bytes, int64_t min)
{
    if (*bytes < min) *bytes = min;
}

/* Bytes of one moment of the optimizer: the whole moment, or this rank's shard of it. */
static int64_t state_bytes(const struct lvn_session *session)
{
    const struct lvn_sharding *s = &session->model_state->sharding;
    const struct lvn_params *p = session->model_state->params;
    int64_t count = p->trainable_count;
    if (s->size > 1 && s->sharded & LVN_SHARDS_STATE)
        count = lvn_shard_total(p, lvn_sharding_owners(s), lvn_sharding_owner(s, s->rank), true);
    if (count == 0)
        count = LVN_PARAM_ALIGN; /* allocate even if empty: a NULL buffer means that the optimizer has no such moment */
    return count * lvn_dtype_bytes(session->model_state->state);
}

/* Number of partial sums of a gradient: one per micro-batch or, if these are long, one per chunk of rows that is
 * multiplied at a time. All ranks must get the same number, that of the largest part of the batch. With the tree, whose
 * bits do not depend on the number of ranks, it is that of the whole step. */
static int64_t partial_sums_of(const struct lvn_session *session, int64_t n_leaves)
{
    const struct lvn_session_options *o = &session->options;
    if (!o->train || !session->outputs.losses) return 1;
    int64_t labels = lvn_desc_count(&session->outputs.losses->desc);
    int64_t n = o->deterministic ? n_leaves : o->max_micro_batches ? o->max_micro_batches : o->n_micro_batches;
    if (o->max_B && !o->deterministic) labels = labels / o->B * o->max_B;
    return n * ((labels + LVN_LOSS_CHUNK - 1) / LVN_LOSS_CHUNK);
}

/* Does the session's program have collectives? */
static bool is_shared(const struct lvn_session *session)
{
    const struct lvn_model_state *n = session->model_state;
    return n->sharding.size > 1 && (session->options.train || lvn_parameters_sharded(n, LVN_PARAMETER_VALUES));
}

static enum lvn_status plan_session(struct lvn_session *session)
{
    struct lvn_model_state *n = session->model_state;
    const struct lvn_session_options *o = &session->options;
    session->graph = lvn_graph_new(n->params, n->real);
    if (!session->graph) return LVN_MEMORY;
    session->graph->cache_length = o->cache_length;
    session->graph->cache_tokens = o->cache_tokens;
    struct lvn_fields fields = *o->fields;
    for (int k = 0; k < fields.n && o->train; k++) fields.field[k].text = NULL; /* steps report no metric of text */
    LVN_TRY(lvn_task_build(&session->outputs, session->graph, &n->config, o->task, &fields, o->B));
    for (int k = 0; k < session->graph->n_inputs; k++)
        session->field[k] = lvn_fields_find(o->fields, session->graph->inputs[k]->name);
    struct levin_tensor *outputs[3 + LVN_TASK_COUNTS];
    int n_outputs = 0;
    if (o->task) outputs[n_outputs++] = session->outputs.loss;
    for (int k = 0; k < session->outputs.n_counts; k++) outputs[n_outputs++] = session->outputs.counts[k];
    int n_sums = n_outputs;
    if (o->task) outputs[n_outputs++] = session->outputs.losses;
    if (!o->task || o->prediction) outputs[n_outputs++] = session->outputs.prediction;
    struct lvn_tree_leaves tree = {o->first_leaf, o->n_micro_batches, o->n_leaves ? o->n_leaves : o->n_micro_batches};
    session->n_partial_sums = o->longer ? o->longer->n_partial_sums : partial_sums_of(session, tree.total);
    struct lvn_plan_options plan = {.n_sums = n_sums,
                                    .train = o->train,
                                    .fuse = true,
                                    .precision = n->precision,
                                    .recompute = o->recompute,
                                    .round_once = o->round_once,
                                    .tree = o->deterministic ? &tree : NULL,
                                    .n_partial_sums = session->n_partial_sums,
                                    .optimizer = o->optimizer,
                                    .sharding = is_shared(session) ? &n->sharding : NULL,
                                    .device = n->device};
    LVN_TRY(lvn_program_new(&session->program, session->graph, outputs, n_outputs, &plan));
    raise_to(&n->bytes[LVN_BUFFER_ARENA], session->program->arena_bytes);
    if (o->train) n->gradients = session->program->gradients;
    if (o->train)
        raise_to(&n->bytes[LVN_BUFFER_GRAD], session->program->grad_buffer_bytes * session->program->n_grad_buffers);
    if (o->optimizer && o->optimizer->bf16_state) n->state = LVN_BF16;
    int64_t state = state_bytes(session);
    if (!o->optimizer) return LVN_OK;
    if (n->precision == LVN_PRECISION_16_MIXED) n->bytes[LVN_BUFFER_SCALE] = sizeof(struct lvn_scaling);
    if (lvn_parameters_any_sharded(n))
        n->bytes[LVN_BUFFER_SUMS] = lvn_program_sums_count(session->program) * (int64_t)sizeof(int32_t);
    n->moments = lvn_optimizer_moments(o->optimizer);
    n->matrix_moments = lvn_optimizer_matrix_moments(o->optimizer);
    for (int k = 0; k < n->moments; k++) raise_to(&n->bytes[LVN_BUFFER_STATE0 + k], state);
    n->lines = o->optimizer->matrices.lines;
    if (n->lines) raise_to(&n->bytes[LVN_BUFFER_LINES], n->params->lines_count * lvn_dtype_bytes(n->real));
    return LVN_OK;
}

enum lvn_status lvn_session_new(struct lvn_session **out, struct lvn_model_state *n,
                                const struct lvn_session_options *o)
{
    *out = NULL;
    struct lvn_session **sessions = lvn_realloc(n->sessions, sizeof *sessions * (size_t)(n->n_sessions + 1));
    if (!sessions) return LVN_MEMORY;
    n->sessions = sessions;
    struct lvn_session *session = lvn_calloc(1, sizeof *session);
    if (!session) return LVN_MEMORY;
    session->model_state = n;
    session->options = *o;
    if (session->options.n_micro_batches < 1) session->options.n_micro_batches = 1;
    enum lvn_status status = plan_session(session);
    if (status != LVN_OK) {
        lvn_session_free(session);
        return status;
    }
    sessions[n->n_sessions++] = *out = session;
    return LVN_OK;
}

/* --- running --- */

enum lvn_status lvn_session_prepare_gathers(struct lvn_session *session)
{
    const struct lvn_model_state *n = session->model_state;
    if (session->options.train || !session->program->n_handles || !n->ranks) return LVN_OK;
    struct lvn_sharding sharding = n->sharding;
    sharding.tree = false; /* no sums */
    session->gathers = lvn_calloc(1, sizeof *session->gathers);
    if (!session->gathers) return LVN_MEMORY;
    lvn_collective_runner_init(session->gathers, n->ranks, &sharding);
    return lvn_collective_runner_prepare(session->gathers, session->program, NULL);
}

const struct lvn_collectives *lvn_session_collectives(const struct lvn_session *session)
{
    return session->gathers ? &session->gathers->calls : session->options.collectives;
}

double lvn_tree_sum(const double *x, int64_t n)
{
    if (n <= 1) return n == 1 ? x[0] : 0.0;
    int64_t half = 1;
    while (2 * half < n) half *= 2;
    return lvn_tree_sum(x, half) + lvn_tree_sum(x + half, n - half);
}

enum lvn_status lvn_session_feed(struct lvn_session *session, int64_t row, const struct lvn_samples *b)
{
    for (int k = 0; k < session->graph->n_inputs; k++) {
        int64_t bytes = lvn_field_bytes(&b->fields.field[session->field[k]]);
        LVN_TRY(lvn_memory_write(session->inputs[k], row * bytes, b->p[session->field[k]], b->rows * bytes));
    }
    return LVN_OK;
}

/* Copy the results of a run into the session. */
static enum lvn_status collect(struct lvn_session *session, int64_t n_micro_batches)
{
    const struct lvn_memory *m = session->binding.buffer[LVN_BUFFER_RESULT];
    const int n_counts = lvn_task_counts(&session->outputs);
    const char *result = m->host ? m->host : session->staging[LVN_STAGING_RESULT];
    if (!m->host)
        LVN_TRY(lvn_memory_read(m, 0, session->staging[LVN_STAGING_RESULT],
                                lvn_program_sums_at(session->program, n_micro_batches)));
    session->result = *(const struct lvn_result *)result;
    memset(session->counts, 0, sizeof *session->counts * (size_t)n_counts);
    for (int64_t i = 0; session->options.task && i < n_micro_batches; i++) {
        const double *sums = (const double *)(result + lvn_program_sums_at(session->program, i));
        session->micro_losses[i] = *sums++;
        for (int k = 0; k < n_counts; k++) session->counts[k] += sums[k];
    }
    return LVN_OK;
}

enum lvn_status lvn_session_run_as(struct lvn_session *session, const struct lvn_execution *execution)
{
    const struct lvn_device *d = session->model_state->device;
    LVN_TRY(d->backend->run(session->bound, execution));
    LVN_TRY(lvn_device_wait(session->model_state->device));
    return collect(session, execution->n_micro_batches);
}

void lvn_session_launch(struct lvn_session *session, int64_t n_micro_batches)
{
    const struct lvn_execution execution = {.n_micro_batches = n_micro_batches,
                                            .collectives = lvn_session_collectives(session),
                                            .context = session->context,
                                            .before_update = session->before_update};
    session->status = session->model_state->device->backend->run(session->bound, &execution);
}

double lvn_session_finish(struct lvn_session *session, int64_t n_micro_batches)
{
    if (session->status == LVN_OK) session->status = lvn_device_wait(session->model_state->device);
    if (session->status == LVN_OK) session->status = collect(session, n_micro_batches);
    return session->options.task ? lvn_tree_sum(session->micro_losses, n_micro_batches) : 0.0;
}

double lvn_session_run(struct lvn_session *session, int64_t n_micro_batches)
{
    lvn_session_launch(session, n_micro_batches);
    return lvn_session_finish(session, n_micro_batches);
}

/* An output of the last run. */
static const void *output(struct lvn_session *session, const struct levin_tensor *tensor, int staging)
{
    struct lvn_operand o = lvn_program_output(session->program, tensor);
    if (o.value < 0) return NULL;
    const struct lvn_value *v = &session->program->values[o.value];
    const struct lvn_memory *m = session->binding.buffer[v->buffer];
    int64_t size = lvn_dtype_bytes(o.desc.dtype), bytes = lvn_desc_count(&o.desc) * size;
    if (!m->host && !session->staging[staging]) session->staging[staging] = lvn_malloc((size_t)bytes);
    if (!m->host && !session->staging[staging]) return NULL;
    return lvn_memory_view(m, v->offset + o.desc.offset * size, bytes, session->staging[staging]);
}

const float *lvn_session_prediction(struct lvn_session *session)
{
    return output(session, session->outputs.prediction, LVN_STAGING_PREDICTION);
}

const float *lvn_session_losses(struct lvn_session *session)
{
    return output(session, session->outputs.losses, LVN_STAGING_LOSSES);
}

static const float *losses_of(void *session)
{
    return lvn_session_losses(session);
}

enum lvn_status lvn_session_text_sums(struct lvn_session *session, const struct lvn_samples *b,
                                      struct lvn_text_sums *out)
{
    return lvn_task_text(&session->outputs, b, session->micro_losses[0], losses_of, session, out);
}
