/* memory.c - see memory.h. */
#include "engine/memory.h"

#include "data/prefetch.h"
#include "engine/parameters.h"
#include "engine/shard_files.h"
#include "models/lora.h"
#include "models/model.h"
#include "models/weight_files.h"
#include "options/values.h"

#define LVN_X(name, key, label) [LVN_MEMORY_##name] = (key),
const char *const lvn_memory_keys[] = {LVN_MEMORY_PARTS(LVN_X)};
#undef LVN_X
#define LVN_X(name, key, label) [LVN_MEMORY_##name] = (label),
const char *const lvn_memory_labels[] = {LVN_MEMORY_PARTS(LVN_X)};
#undef LVN_X

/* A rank's rows of a step: two batches for double-buffered reading, and one for validation. */
static int64_t sample_bytes(const struct lvn_train_programs *programs)
{
    return lvn_prefetch_bytes(&programs->fields, programs->rows) +
           (programs->eval_session ? programs->rows * lvn_fields_bytes(&programs->fields) : 0);
}

/* Bytes that lvn_adapters_make() copies; 0: n has no adapters. */
static int64_t adapter_copy_bytes(const struct lvn_model_state *n)
{
    int64_t count = 0;
    for (int i = 0; i < n->params->n && n->config.lora.rank; i++) {
        const struct lvn_param *p = n->params->list[i];
        if (p->adapter || lvn_lora_is_whole(&n->config, p)) count += p->count;
    }
    return 2 * count * lvn_dtype_bytes(n->weights);
}

/* Adapters are copied; with lora.merge_checkpoints each is merged into an fp32 copy of its weight and rounded. */
static int64_t adapter_bytes(const struct lvn_train_programs *programs)
{
    const struct lvn_model_state *n = programs->model_state;
    int64_t max = programs->values->lora.merge_checkpoints ? lvn_params_largest(n->params, false) : 0;
    if (n->config.lora.rank <= 0) return 0;
    return adapter_copy_bytes(n) + max * (2 * lvn_dtype_bytes(n->weights) + lvn_dtype_bytes(LVN_F32));
}

/* A parameter with another order in the files is copied to write it; if it is sharded, it is gathered first. Adapters
 * and merged weights are copied as well, which adapter_bytes() counts. */
static int64_t moved_bytes(const struct lvn_train_programs *programs)
{
    const struct lvn_model_state *n = programs->model_state;
    const bool adapts = n->config.lora.rank > 0, gathers = lvn_parameters_sharded(n, LVN_PARAMETER_VALUES);
    const int copies = !adapts + gathers;
    int64_t max = adapts ? lvn_params_largest(n->params, false) : 0;
    if (adapts && !programs->values->lora.merge_checkpoints) return 0;
    for (int i = 0; i < n->params->n; i++) {
        const struct lvn_param *p = n->params->list[i];
        struct lvn_layout l;
        if (p->count <= max || p->adapter) continue;
        if (lvn_file_layout(lvn_model_file_variant(n->config.model), &n->config, p, &l) != LVN_OK)
            lvn_error_clear(); /* saving reports it */
        else if (lvn_layout_moves(&l))
            max = p->count;
    }
    return copies * max * lvn_dtype_bytes(n->weights);
}

/* Memory that the host cannot access is copied, parameter by parameter, through the backend's staging buffer. */
static int64_t copied_bytes(const struct lvn_model_state *n)
{
    int64_t max = 0;
    if (!n->device->backend->snapshot) return 0;
    for (int i = 0; i < n->params->n; i++)
        if (n->params->list[i]->count > max) max = n->params->list[i]->count;
    return max * (lvn_dtype_bytes(n->weights) + lvn_dtype_bytes(n->state)) + n->device->backend->staging;
}

int64_t lvn_train_programs_memory(const struct lvn_train_programs *programs, int64_t part[LVN_MEMORY_PART_COUNT])
{
    const struct lvn_model_state *n = programs->model_state;
    const struct lvn_sharding *s = &programs->collectives.sharding;
    int64_t sum = 0;
    struct lvn_session_bytes session_bytes = lvn_model_state_session_bytes(n);
    part[LVN_MEMORY_PARAMETERS] = lvn_parameters_bytes(n, LVN_PARAMETER_VALUES);
    part[LVN_MEMORY_GRADIENTS] = lvn_parameters_bytes(n, LVN_PARAMETER_GRADIENTS);
    part[LVN_MEMORY_OPTIMIZER] = lvn_parameters_bytes(n, LVN_PARAMETER_MOMENTS);
    part[LVN_MEMORY_ARENA] = n->bytes[LVN_BUFFER_ARENA];
    part[LVN_MEMORY_BATCHES] = session_bytes.batches + sample_bytes(programs);
    part[LVN_MEMORY_CACHES] = session_bytes.caches;
    part[LVN_MEMORY_RANKS] = lvn_collective_runner_bytes(s, programs->step_session->program, programs->leaf);
    part[LVN_MEMORY_CHECKPOINTS] =
        moved_bytes(programs) + lvn_shard_files_bytes(n) + adapter_bytes(programs) + copied_bytes(n);
    part[LVN_MEMORY_PROGRAMS] = session_bytes.programs;
    for (int i = 0; i < LVN_MEMORY_PART_COUNT; i++) sum += part[i];
    return sum;
}
