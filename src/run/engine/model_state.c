/* model_state.c - see model_state.h. */
#include "engine/session.h"

#include "base/text.h"
#include "base/threads.h"
#include "engine/parameter_sums.h"
#include "engine/parameters.h"
#include "engine/ranks.h"
#include "graph/names.h"
#include "host/machine.h"
#include "models/keys.h"
#include "models/lora.h"
#include "optimizers/groups.h"
#include "passes/shard.h"

/* The type of the packed blocks in which the model's files have the parameter; F32: none. */
static enum lvn_dtype stored_type(const struct lvn_model_config *c, const char *name)
{
    for (int i = 0; i < c->n_stored; i++)
        if (strcmp(c->stored[i].name, name) == 0) return c->stored[i].dtype;
    return LVN_F32;
}

/* Store the frozen linear layers of the model's blocks in packed blocks: of this type, or (F32) those that are in
 * packed blocks in the files, as they are. Without adapters nothing is trained, and all layers are frozen. */
static enum lvn_status pack_weights(const struct lvn_model_state *n, enum lvn_dtype type)
{
    const struct lvn_model *m = n->config.model;
    const bool all = lvn_dtype_is_packed(type);
    int packed = 0;
    if (!all && !n->config.n_stored) return LVN_OK;
    LVN_CHECK(m->linear_layers, ARG, "model.quantize: a %s has no linear layers that can be quantized", m->name);
    for (int i = 0; i < n->params->n; i++) {
        struct lvn_param *q = n->params->list[i];
        const bool frozen = n->config.lora.rank <= 0 || !q->trainable;
        if (!frozen || q->adapter || !lvn_param_is_block_matrix(q) || !lvn_names_match(m->linear_layers, q->name))
            continue;
        const enum lvn_dtype own = all ? type : stored_type(&n->config, q->name);
        if (!lvn_dtype_is_packed(own)) continue;
        q->packed = own;
        q->trainable = false;
        packed++;
    }
    LVN_CHECK(packed || !all, ARG, "model.quantize: no linear layer of this %s (%s) can be quantized", m->name,
              m->linear_layers);
    return LVN_OK;
}

/* Build a graph to declare the parameters; its number of samples does not matter. */
static enum lvn_status declare_params(struct lvn_model_state *n, const struct lvn_model_state_options *o)
{
    struct levin_graph *g = lvn_graph_new(n->params, n->real);
    if (!g) return LVN_MEMORY;
    lvn_model_declare(g, &n->config);
    enum lvn_status status = lvn_graph_status(g);
    if (status == LVN_OK) status = lvn_lora_freeze(n->params, &n->config);
    if (status == LVN_OK && o->freeze && *o->freeze) status = lvn_params_freeze(n->params, "model.freeze", o->freeze);
    if (status == LVN_OK) status = pack_weights(n, o->quantize);
    if (status == LVN_OK && o->groups) status = lvn_optimizer_groups_apply(o->groups, o->optimizer, o->lr, n->params);
    if (status == LVN_OK) status = lvn_params_layout(n->params, o->decay);
    lvn_graph_free(g);
    return status;
}

enum lvn_status lvn_model_state_new(struct lvn_model_state **out, const struct lvn_model_config *c,
                                    const struct lvn_model_state_options *o)
{
    const struct lvn_backend *backend = o->backend ? o->backend : lvn_backend_at(0);
    *out = NULL;
    LVN_TRY(lvn_model_check(c, false));
    LVN_CHECK(backend->fp16 || o->precision != LVN_PRECISION_16_MIXED, ARG,
              "trainer.precision 16-mixed requires a GPU, and trainer.accelerator %s has no fp16 kernels; set "
              "trainer.precision to bf16-mixed, which needs the same memory and no loss scale, or to 32-true",
              backend->name);
    LVN_CHECK(backend->packed || !lvn_dtype_is_packed(o->quantize), ARG,
              "model.quantize requires trainer.accelerator cpu: %s has no kernels for weights in packed blocks; set "
              "trainer.accelerator to cpu, or leave model.quantize out",
              backend->name);
    struct lvn_model_state *n = lvn_calloc(1, sizeof *n);
    if (!n) return LVN_MEMORY;
    n->config = *c;
    n->real = o->real;
    n->precision = o->precision;
    n->weights = o->precision == LVN_PRECISION_BF16_TRUE ? LVN_BF16 : o->real;
    n->gradients = n->weights;
    n->state = o->real;
    n->threads = o->threads > 0 ? o->threads : lvn_threads_default();
    n->processes = o->processes > 1 ? o->processes : 1;
    n->machine_bytes = o->machine_bytes;
    struct lvn_device_options device = {
        .real = o->real, .threads = n->threads, .number = o->device, .tf32 = o->tf32, .tunes = o->tunes};
    enum lvn_status status = backend->open(&n->device, &device);
    n->exchange = lvn_calloc(1, sizeof *n->exchange);
    n->params = lvn_params_new();
    if (status == LVN_OK) status = n->params && n->exchange ? declare_params(n, o) : LVN_MEMORY;
    if (status != LVN_OK) {
        lvn_model_state_free(n);
        return status;
    }
    n->bytes[LVN_BUFFER_PARAM] = n->params->flat_count * lvn_dtype_bytes(n->weights);
    n->bytes[LVN_BUFFER_PACKED] = n->params->packed_bytes;
    *out = n;
    return LVN_OK;
}

void lvn_model_state_share(struct lvn_model_state *n, const struct lvn_sharding *s, struct lvn_ranks *ranks)
{
    int64_t count = n->params->flat_count;
    n->sharding = *s;
    n->ranks = ranks;
    if (lvn_parameters_sharded(n, LVN_PARAMETER_VALUES))
        count = lvn_shard_total(n->params, lvn_sharding_owners(s), lvn_sharding_owner(s, s->rank), false);
    if (!count) count = LVN_PARAM_ALIGN; /* a NULL buffer means that the parameters are not allocated yet */
    if (!n->memory[LVN_BUFFER_PARAM]) n->bytes[LVN_BUFFER_PARAM] = count * lvn_dtype_bytes(n->weights);
}

void lvn_model_state_drop_sessions(struct lvn_model_state *n)
{
    static const enum lvn_buffer theirs[] = {LVN_BUFFER_ARENA, LVN_BUFFER_GRAD};
    for (int i = 0; i < n->n_sessions; i++) lvn_session_free(n->sessions[i]);
    n->n_sessions = 0;
    lvn_parameter_sums_free(n->sums);
    n->sums = NULL;
    for (int i = 0; i < 2; i++) {
        lvn_memory_free(n->memory[theirs[i]]);
        n->memory[theirs[i]] = NULL;
        n->bytes[theirs[i]] = 0;
    }
    /* Keep optimizer state once it exists; until then the next plan may need another part of it. */
    for (int b = LVN_BUFFER_STATE0; b <= LVN_BUFFER_LINES; b++)
        if (!n->memory[b]) n->bytes[b] = 0;
}

void lvn_model_state_free(struct lvn_model_state *n)
{
    if (!n) return;
    lvn_model_state_drop_sessions(n);
    free(n->sessions);
    for (int b = 0; b < LVN_BUFFER_COUNT; b++) lvn_memory_free(n->memory[b]);
    if (n->device) n->device->backend->close(n->device);
    lvn_params_free(n->params);
    free(n->exchange);
    free(n);
}

static int64_t cache_bytes(const struct lvn_session *session)
{
    int64_t bytes = 0;
    if (session->options.caches) return 0;
    for (int k = 0; k < session->graph->n_caches; k++)
        bytes +=
            lvn_desc_count(&session->graph->caches[k].desc) * lvn_dtype_bytes(session->graph->caches[k].desc.dtype);
    return bytes;
}

/* Bytes of one micro-batch. */
static int64_t input_bytes(const struct levin_tensor *input)
{
    return lvn_desc_count(&input->desc) * lvn_dtype_bytes(input->desc.dtype);
}

static int64_t result_bytes(const struct lvn_session *session)
{
    return lvn_program_sums_at(session->program, session->options.n_micro_batches);
}

/* Bytes of all micro-batches; sessions for shorter samples use the inputs of the longest. */
static int64_t inputs_bytes(const struct lvn_session *session)
{
    int64_t bytes = 0;
    for (int k = 0; k < session->graph->n_inputs && !session->options.longer; k++)
        bytes += input_bytes(session->graph->inputs[k]);
    return bytes * session->options.n_micro_batches;
}

int64_t lvn_model_state_async_bytes(const struct lvn_model_state *n, const struct lvn_backend *on)
{
    int64_t bytes = 0;
    for (int i = 0; i < n->n_sessions && on->double_buffer; i++)
        if (n->sessions[i]->options.train) bytes += inputs_bytes(n->sessions[i]);
    return bytes;
}

static int64_t batch_bytes(const struct lvn_session *session)
{
    return inputs_bytes(session) + 2 * result_bytes(session); /* results are copied to staging buffers */
}

int64_t lvn_model_state_allocated_bytes(const struct lvn_model_state *n)
{
    int64_t bytes = 0;
    for (int b = 0; b < LVN_BUFFER_COUNT; b++) bytes += n->memory[b] ? n->bytes[b] : 0;
    return bytes;
}

int64_t lvn_model_state_bytes(const struct lvn_model_state *n)
{
    int64_t bytes = lvn_model_state_async_bytes(n, n->device->backend);
    for (int b = 0; b < LVN_BUFFER_COUNT; b++) bytes += n->bytes[b];
    for (int i = 0; i < n->n_sessions; i++) bytes += cache_bytes(n->sessions[i]) + batch_bytes(n->sessions[i]);
    return bytes;
}

struct lvn_session_bytes lvn_model_state_session_bytes(const struct lvn_model_state *n)
{
    struct lvn_session_bytes b = {.batches = lvn_model_state_async_bytes(n, n->device->backend)};
    for (int i = 0; i < n->n_sessions; i++) {
        b.batches += batch_bytes(n->sessions[i]);
        b.caches += cache_bytes(n->sessions[i]);
        b.programs += (int64_t)n->sessions[i]->graph->arena.used + lvn_program_bytes(n->sessions[i]->program);
    }
    if (n->sums) b.programs += lvn_parameter_sums_bytes(n->sums);
    return b;
}

static enum lvn_status allocate_session(struct lvn_session *session)
{
    struct lvn_model_state *n = session->model_state;
    for (int b = 0; b < LVN_BUFFER_COUNT; b++) session->binding.buffer[b] = n->memory[b];
    LVN_TRY(lvn_memory_new(&session->binding.buffer[LVN_BUFFER_RESULT], n->device, result_bytes(session)));
    session->micro_losses = lvn_calloc((size_t)session->options.n_micro_batches, sizeof *session->micro_losses);
    session->counts = lvn_calloc((size_t)lvn_task_counts(&session->outputs) + 1, sizeof *session->counts);
    session->staging[LVN_STAGING_RESULT] = lvn_calloc((size_t)result_bytes(session), 1);
    if (!session->micro_losses || !session->counts || !session->staging[LVN_STAGING_RESULT]) return LVN_MEMORY;
    if (session->options.longer) memcpy(session->inputs, session->options.longer->inputs, sizeof session->inputs);
    for (int k = 0; k < session->graph->n_inputs && !session->options.longer; k++) {
        LVN_TRY(lvn_memory_new(&session->inputs[k], n->device,
                               session->options.n_micro_batches * input_bytes(session->graph->inputs[k])));
        if (session->options.train) LVN_TRY(lvn_memory_double_buffer(session->inputs[k]));
    }
    session->caches = lvn_calloc((size_t)session->graph->n_caches + 1, sizeof *session->caches);
    if (!session->caches) return LVN_MEMORY;
    for (int k = 0; k < session->graph->n_caches && !session->options.caches; k++) {
        const struct lvn_desc *d = &session->graph->caches[k].desc;
        LVN_TRY(lvn_memory_new(&session->caches[k], n->device, lvn_desc_count(d) * lvn_dtype_bytes(d->dtype)));
    }
    session->binding.inputs = session->inputs;
    session->binding.caches = session->options.caches ? session->options.caches->caches : session->caches;
    session->binding.cache_batch = session->options.cache_batch;
    session->binding.step = &session->step_args;
    session->binding.micro_batch_rows = session->options.B;
    LVN_TRY(lvn_session_prepare_gathers(session));
    return n->device->backend->bind(&session->bound, session->program, &session->binding);
}

enum lvn_status lvn_model_state_rate(const struct lvn_model_state *n, double *flops_per_s)
{
    bool bf16 = n->precision != LVN_PRECISION_TRUE;
    return lvn_device_rate(n->device, bf16 ? LVN_RATE_PRODUCTS_BF16 : LVN_RATE_PRODUCTS, flops_per_s);
}

static int device_sharers(const struct lvn_model_state *n)
{
    return n->ranks && n->ranks->device_sharers > 1 ? n->ranks->device_sharers : 1;
}

int64_t lvn_model_state_available(const struct lvn_model_state *n)
{
    if (n->device->memory_bytes) return n->device->memory_bytes / device_sharers(n);
    if (n->machine_bytes) return n->machine_bytes / n->processes;
    const int64_t share = lvn_memory_available() / n->processes, most = lvn_memory_address_space();
    return share < most ? share : most;
}

bool lvn_model_state_fits(const struct lvn_model_state *n)
{
    int64_t have = lvn_model_state_available(n), needed = lvn_model_state_bytes(n);
    if (!n->device->memory_bytes) needed -= lvn_model_state_allocated_bytes(n); /* a device's was free when it opened */
    return have <= 0 || needed <= have;
}

enum lvn_status lvn_model_state_refuse(const struct lvn_model_state *n, const char *advice)
{
    const int64_t *b = n->bytes;
    char text[7][LVN_NUMBER_TEXT], limit[100] = "";
    struct lvn_machine m;
    lvn_machine_read(&m);
    if (m.memory_limit && !n->device->memory_bytes && !n->machine_bytes)
        snprintf(limit, sizeof limit, ", within the memory limit of this host, %s (%s)",
                 lvn_bytes_text(m.memory_limit, text[6]), m.memory_limit_from);
    LVN_FAIL(MEMORY,
             "this run needs %s (parameters %s, gradients %s, optimizer %s, activations %s), but %s are free%s%s; %s",
             lvn_bytes_text(lvn_model_state_bytes(n), text[0]),
             lvn_bytes_text(b[LVN_BUFFER_PARAM] + b[LVN_BUFFER_PACKED], text[1]),
             lvn_bytes_text(b[LVN_BUFFER_GRAD], text[2]),
             lvn_bytes_text(lvn_parameters_bytes(n, LVN_PARAMETER_MOMENTS), text[3]),
             lvn_bytes_text(b[LVN_BUFFER_ARENA], text[4]), lvn_bytes_text(lvn_model_state_available(n), text[5]),
             !n->device->memory_bytes ? n->processes > 1 ? " for each rank of this host" : ""
             : device_sharers(n) > 1  ? " on the device for each of its ranks"
                                      : " on the device",
             limit, advice);
}

enum lvn_status lvn_model_state_allocate(struct lvn_model_state *n)
{
    const struct lvn_backend *backend = n->device->backend;
    LVN_CHECK(backend->computes, UNSUPPORTED, "%s computes nothing (%s); set trainer.accelerator to cpu or auto to run",
              backend->name, backend->description);
    if (!lvn_model_state_fits(n))
        return lvn_model_state_refuse(n, "choose a smaller trainer.micro_batch_size, model.block_size or model");
    for (int b = 0; b < LVN_BUFFER_COUNT; b++) {
        if (n->bytes[b] <= 0 || n->memory[b]) continue;
        LVN_TRY(lvn_memory_new(&n->memory[b], n->device, n->bytes[b]));
        if (b == LVN_BUFFER_SCALE)
            LVN_TRY(lvn_model_state_set_scaling(n, &(struct lvn_scaling){.scale = LVN_SCALING_START}));
    }
    for (int i = 0; i < n->n_sessions; i++) LVN_TRY(allocate_session(n->sessions[i]));
    return n->sums ? lvn_parameter_sums_bind(n) : LVN_OK;
}

struct lvn_model_state lvn_model_state_of_snapshot(const struct lvn_model_state *n)
{
    struct lvn_model_state view = *n;
    view.of_snapshot = true;
    return view;
}

enum lvn_status lvn_model_state_scaling(const struct lvn_model_state *n, struct lvn_scaling *to)
{
    const struct lvn_memory *m = n->memory[LVN_BUFFER_SCALE];
    *to = (struct lvn_scaling){0};
    if (!m) return LVN_OK;
    return n->of_snapshot ? lvn_memory_read_snapshot(m, 0, to, sizeof *to) : lvn_memory_read(m, 0, to, sizeof *to);
}

enum lvn_status lvn_model_state_set_scaling(const struct lvn_model_state *n, const struct lvn_scaling *from)
{
    struct lvn_memory *m = n->memory[LVN_BUFFER_SCALE];
    return m && from->scale > 0 ? lvn_memory_write(m, 0, from, sizeof *from) : LVN_OK;
}
