/* network.c - buffers and tasks behind network.h. */
#include "train/network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/machine.h"
#include "base/threads.h"
#include "formats/safetensors.h"
#include "graph/names.h"
#include "models/lora.h"

/* The first graph declares the parameters; its shapes do not matter. */
static enum lvn_status declare_params(struct lvn_network *n, const struct lvn_network_options *o)
{
    struct lvn_graph *g = lvn_graph_new(n->params, n->real);
    if (!g) return LVN_MEMORY;
    lvn_model_build(g, &n->config, 1, 1, true);
    enum lvn_status status = lvn_graph_status(g);
    if (status == LVN_OK) status = lvn_lora_freeze(n->params, &n->config.lora);
    if (status == LVN_OK && o->freeze && *o->freeze) status = lvn_params_freeze(n->params, "model.freeze", o->freeze);
    if (status == LVN_OK) status = lvn_params_layout(n->params, o->decay);
    lvn_graph_free(g);
    return status;
}

enum lvn_status lvn_network_new(struct lvn_network **out, const struct lvn_model_config *c,
                                const struct lvn_network_options *o)
{
    *out = NULL;
    LVN_TRY(lvn_model_check(c));
    struct lvn_network *n = lvn_calloc(1, sizeof *n);
    if (!n) return LVN_MEMORY;
    n->config = *c;
    n->real = o->real;
    n->precision = o->precision;
    n->weights = o->precision == LVN_PRECISION_BF16_TRUE ? LVN_BF16 : o->real;
    n->state = o->real;
    n->threads = o->threads > 0 ? o->threads : lvn_threads_default();
    n->processes = o->processes > 1 ? o->processes : 1;
    n->kernels = o->real == LVN_F32 ? lvn_cpu_kernels(lvn_isa_best()) : lvn_reference_kernels(o->real);
    n->params = lvn_params_new();
    enum lvn_status status = n->params ? declare_params(n, o) : LVN_MEMORY;
    if (status != LVN_OK) {
        lvn_network_free(n);
        return status;
    }
    n->bytes[LVN_BUFFER_PARAM] = n->params->flat_count * lvn_dtype_bytes(n->weights);
    *out = n;
    return LVN_OK;
}

static void task_free(struct lvn_task *t)
{
    if (!t) return;
    for (int k = 0; t->kept && k < t->graph->n_kept; k++) {
        const struct lvn_desc *d = &t->graph->kept[k].desc;
        lvn_pages_free(t->kept[k], lvn_desc_count(d) * lvn_dtype_bytes(d->dtype));
    }
    free(t->kept);
    free(t->ids);
    free(t->labels);
    free(t->micro_losses);
    lvn_program_free(t->program);
    lvn_graph_free(t->graph);
    free(t);
}

void lvn_network_free(struct lvn_network *n)
{
    if (!n) return;
    for (int i = 0; i < n->n_tasks; i++) task_free(n->tasks[i]);
    free(n->tasks);
    for (int b = 0; b < LVN_BUFFER_COUNT; b++) lvn_pages_free(n->buffer[b], n->bytes[b]);
    lvn_params_free(n->params);
    free(n);
}

static int64_t kept_bytes(const struct lvn_task *t)
{
    int64_t bytes = 0;
    for (int k = 0; k < t->graph->n_kept; k++)
        bytes += lvn_desc_count(&t->graph->kept[k].desc) * lvn_dtype_bytes(t->graph->kept[k].desc.dtype);
    return bytes;
}

static int64_t input_bytes(const struct lvn_task *t)
{
    const struct lvn_task_options *o = &t->options;
    return o->n_micro * (o->B * o->T * (int64_t)sizeof(int32_t) * (o->with_loss ? 2 : 1) + (int64_t)sizeof(double));
}

int64_t lvn_network_bytes(const struct lvn_network *n)
{
    int64_t bytes = 0;
    for (int b = 0; b < LVN_BUFFER_COUNT; b++) bytes += n->bytes[b];
    for (int i = 0; i < n->n_tasks; i++) bytes += kept_bytes(n->tasks[i]) + input_bytes(n->tasks[i]);
    return bytes;
}

static enum lvn_status allocate_task(struct lvn_task *t)
{
    const struct lvn_network *n = t->network;
    size_t tokens = (size_t)(t->options.n_micro * t->options.B * t->options.T);
    t->ids = lvn_calloc(tokens, sizeof *t->ids);
    t->micro_losses = lvn_calloc((size_t)t->options.n_micro, sizeof *t->micro_losses);
    if (t->options.with_loss) t->labels = lvn_calloc(tokens, sizeof *t->labels);
    if (!t->ids || !t->micro_losses || (t->options.with_loss && !t->labels)) return LVN_MEMORY;
    t->kept = lvn_calloc((size_t)t->graph->n_kept + 1, sizeof *t->kept);
    if (!t->kept) return LVN_MEMORY;
    for (int k = 0; k < t->graph->n_kept; k++) {
        const struct lvn_desc *d = &t->graph->kept[k].desc;
        t->kept[k] = lvn_pages_alloc(lvn_desc_count(d) * lvn_dtype_bytes(d->dtype));
        if (!t->kept[k]) return LVN_MEMORY;
    }
    t->inputs[0] = t->ids;
    t->inputs[1] = t->labels;
    memcpy(t->binding.buffer, n->buffer, sizeof t->binding.buffer);
    t->binding.inputs = t->inputs;
    t->binding.kept = t->kept;
    t->binding.step = &t->step;
    t->binding.micro_batch_rows = t->options.B;
    t->binding.collectives = t->options.collectives;
    t->binding.first_leaf = t->options.first_leaf;
    t->binding.n_leaves = t->options.n_leaves;
    return LVN_OK;
}

static enum lvn_status check_memory(const struct lvn_network *n)
{
    int64_t want = lvn_network_bytes(n), have = lvn_memory_available() / n->processes;
    const double mib = 1.0 / (1 << 20);
    LVN_CHECK(
        have <= 0 || want <= have, MEMORY,
        "this run needs %.0f MiB (parameters %.0f, gradients %.0f, optimizer %.0f, activations %.0f) and %.0f MiB "
        "are free%s: choose a smaller trainer.micro_batch_size, model.block_size or model",
        (double)want * mib, (double)n->bytes[LVN_BUFFER_PARAM] * mib, (double)n->bytes[LVN_BUFFER_GRAD] * mib,
        (double)(n->bytes[LVN_BUFFER_STATE0] + n->bytes[LVN_BUFFER_STATE1]) * mib,
        (double)n->bytes[LVN_BUFFER_ARENA] * mib, (double)have * mib,
        n->processes > 1 ? " for each rank of this host" : "");
    return LVN_OK;
}

enum lvn_status lvn_network_allocate(struct lvn_network *n)
{
    LVN_TRY(check_memory(n));
    for (int b = 0; b < LVN_BUFFER_COUNT; b++) {
        if (n->bytes[b] <= 0) continue;
        n->buffer[b] = lvn_pages_alloc(n->bytes[b]);
        if (!n->buffer[b]) return LVN_MEMORY;
    }
    for (int i = 0; i < n->n_tasks; i++) LVN_TRY(allocate_task(n->tasks[i]));
    return LVN_OK;
}

void *lvn_network_values(const struct lvn_network *n)
{
    return n->buffer[LVN_BUFFER_PARAM];
}

void *lvn_network_value(const struct lvn_network *n, const struct lvn_param *p)
{
    return (char *)n->buffer[LVN_BUFFER_PARAM] + p->offset * lvn_dtype_bytes(n->weights);
}

enum lvn_status lvn_network_init_values(const struct lvn_network *n, uint64_t seed, bool adapters_only)
{
    bool direct = n->weights == LVN_F32;
    int64_t most = 1;
    for (int i = 0; i < n->params->n && !direct; i++)
        if (n->params->list[i]->count > most) most = n->params->list[i]->count;
    float *room = lvn_malloc(sizeof *room * (size_t)most);
    if (!room) return LVN_MEMORY;
    if (!adapters_only) memset(lvn_network_values(n), 0, (size_t)n->bytes[LVN_BUFFER_PARAM]);
    for (int i = 0; i < n->params->n; i++) {
        const struct lvn_param *p = n->params->list[i];
        if (adapters_only && !p->adapter) continue;
        lvn_param_init(p, seed, direct ? lvn_network_value(n, p) : room);
        if (!direct) lvn_tensor_from_f32(n->weights, room, lvn_network_value(n, p), p->count);
    }
    free(room);
    return LVN_OK;
}

static void at_least(int64_t *bytes, int64_t want)
{
    if (*bytes < want) *bytes = want;
}

/* Of one moment: all of it, or this rank's shard. */
static int64_t state_bytes(const struct lvn_task *t)
{
    const struct lvn_sharding *s = t->options.sharding;
    const struct lvn_params *p = t->network->params;
    int64_t count = p->trainable_count;
    if (s && s->zero1) count = lvn_shard_first(p, s->size, s->rank + 1) - lvn_shard_first(p, s->size, s->rank);
    if (count == 0) count = LVN_PARAM_ALIGN; /* that there is a buffer says which moments the optimizer has */
    return count * lvn_dtype_bytes(t->network->state);
}

static enum lvn_status plan_task(struct lvn_task *t)
{
    struct lvn_network *n = t->network;
    const struct lvn_task_options *o = &t->options;
    t->graph = lvn_graph_new(n->params, n->real);
    if (!t->graph) return LVN_MEMORY;
    t->graph->cache_length = o->cache_length;
    t->model = lvn_model_build(t->graph, &n->config, o->B, o->T, o->with_loss);
    LVN_TRY(lvn_graph_status(t->graph));
    struct lvn_tensor *outputs[3];
    int n_outputs = 0;
    if (o->with_loss) outputs[n_outputs++] = t->model.loss;
    if (o->with_loss) outputs[n_outputs++] = t->model.losses;
    if (o->logits) outputs[n_outputs++] = t->model.logits;
    struct lvn_plan_options plan = {.train = o->train,
                                    .fuse = true,
                                    .precision = n->precision,
                                    .recompute = o->recompute,
                                    .optimizer = o->optimizer,
                                    .sharding = o->sharding,
                                    .kernels = n->kernels,
                                    .n_threads = n->threads};
    LVN_TRY(lvn_program_new(&t->program, t->graph, outputs, n_outputs, &plan));
    int64_t leaves = o->n_leaves ? o->n_leaves : o->n_micro;
    t->grad_slots = o->deterministic && o->train ? lvn_grad_slots(o->first_leaf, o->n_micro, leaves) : 1;
    t->slot_bytes = n->params->trainable_count * lvn_dtype_bytes(n->weights);
    at_least(&n->bytes[LVN_BUFFER_ARENA], t->program->arena_bytes);
    if (o->train) at_least(&n->bytes[LVN_BUFFER_GRAD], t->slot_bytes * t->grad_slots);
    if (o->optimizer && o->optimizer->half_state) n->state = LVN_BF16;
    int64_t state = state_bytes(t);
    if (!o->optimizer) return LVN_OK;
    n->moments = o->optimizer->kind == LVN_SGD ? 1 : 2;
    at_least(&n->bytes[LVN_BUFFER_STATE0], state);
    if (n->moments > 1) at_least(&n->bytes[LVN_BUFFER_STATE1], state);
    return LVN_OK;
}

enum lvn_status lvn_task_new(struct lvn_task **out, struct lvn_network *n, const struct lvn_task_options *o)
{
    *out = NULL;
    struct lvn_task **tasks = lvn_realloc(n->tasks, sizeof *tasks * (size_t)(n->n_tasks + 1));
    if (!tasks) return LVN_MEMORY;
    n->tasks = tasks;
    struct lvn_task *t = lvn_calloc(1, sizeof *t);
    if (!t) return LVN_MEMORY;
    t->network = n;
    t->options = *o;
    if (t->options.n_micro < 1) t->options.n_micro = 1;
    enum lvn_status status = plan_task(t);
    if (status != LVN_OK) {
        task_free(t);
        return status;
    }
    tasks[n->n_tasks++] = *out = t;
    return LVN_OK;
}

double lvn_tree_sum(const double *x, int64_t n)
{
    if (n <= 1) return n == 1 ? x[0] : 0.0;
    int64_t half = 1;
    while (2 * half < n) half *= 2;
    return lvn_tree_sum(x, half) + lvn_tree_sum(x + half, n - half);
}

static void collect_loss(void *argument, int64_t micro_batch)
{
    struct lvn_task *t = argument;
    if (t->options.with_loss)
        t->micro_losses[micro_batch] = *(const double *)lvn_program_output(t->program, &t->binding, t->model.loss);
    if (t->before_update && micro_batch + 1 == t->running) t->before_update(t->context);
}

double lvn_task_run(struct lvn_task *t, int64_t n_micro)
{
    struct lvn_run_hooks hooks = {.micro_batch_done = collect_loss, .argument = t};
    t->running = n_micro;
    t->failed = !lvn_program_run(t->program, &t->binding, n_micro, t->grad_slots, t->slot_bytes, &hooks);
    return t->options.with_loss ? lvn_tree_sum(t->micro_losses, n_micro) : 0.0;
}

const float *lvn_task_logits(const struct lvn_task *t)
{
    return lvn_program_output(t->program, &t->binding, t->model.logits);
}

const float *lvn_task_losses(const struct lvn_task *t)
{
    return lvn_program_output(t->program, &t->binding, t->model.losses);
}

/* --- looking for the first number that is not finite --- */

struct search {
    struct lvn_task *task;
    char found[192];
};

static bool finite_values(const struct lvn_task *t, const struct lvn_operand *o)
{
    const struct lvn_value *v = &t->program->values[o->value];
    const void *p = (const char *)t->binding.buffer[v->buffer] + v->offset;
    if (v->buffer >= LVN_BUFFER_INPUT) return true;
    for (int64_t i = 0; o->desc.dtype == LVN_F32 && i < v->bytes / 4; i++)
        if (!isfinite(((const float *)p)[i])) return false;
    const uint16_t exponent = 0x7f80; /* of bf16: all ones in infinity and what is not a number */
    for (int64_t i = 0; o->desc.dtype == LVN_BF16 && i < v->bytes / 2; i++)
        if ((((const uint16_t *)p)[i] & exponent) == exponent) return false;
    return true;
}

static void look(void *argument, const struct lvn_instr *i)
{
    struct search *s = argument;
    if (s->found[0]) return;
    const char *what = NULL;
    const struct lvn_program *p = s->task->program;
    for (int k = 0; k < LVN_MAX_IN && !what; k++) {
        int v = i->in[k].value;
        if (v >= 0 && p->values[v].buffer == LVN_BUFFER_PARAM && !finite_values(s->task, &i->in[k]))
            what = p->values[v].name;
    }
    for (int k = 0; k < LVN_MAX_OUT && !what; k++)
        if (i->out[k].value >= 0 && i->phase != LVN_BACKWARD && !finite_values(s->task, &i->out[k])) what = i->name;
    if (what) {
        snprintf(s->found, sizeof s->found, "%s", what);
        return;
    }
    for (int k = 0; k < LVN_MAX_IN; k++)
        if (i->din[k].value >= 0 && !finite_values(s->task, &i->din[k])) {
            snprintf(s->found, sizeof s->found, "%s", p->values[i->din[k].value].name);
            return;
        }
}

const char *lvn_task_find_nonfinite(struct lvn_task *t, int64_t n_micro)
{
    static _Thread_local struct search s;
    s = (struct search){.task = t};
    struct lvn_run_hooks hooks = {.instr_done = look, .argument = &s, .without_update = true};
    struct lvn_step before = t->step;
    struct lvn_binding alone = t->binding;
    alone.collectives = NULL;
    lvn_program_run(t->program, &alone, n_micro, t->grad_slots, t->slot_bytes, &hooks);
    t->step = before;
    return s.found[0] ? s.found : NULL;
}
