/* parameter_sums.c - see parameter_sums.h. */
#include "engine/parameter_sums.h"

#include <stdlib.h>

#include "engine/parameters.h"
#include "formats/checksum.h"

struct lvn_parameter_sums {
    struct lvn_graph *graph; /* empty: the program reads the parameters as ranges */
    struct lvn_program *program;
    struct lvn_operand sums; /* I32 (n, 4) in the arena */
    struct lvn_memory *result;
    struct lvn_step step;
    struct lvn_binding binding;
    struct lvn_bound *bound;
};

enum lvn_status lvn_parameter_sums_new(struct lvn_model_state *n)
{
    struct lvn_parameter_sums *s = n->sums = lvn_calloc(1, sizeof *s);
    if (!s) return LVN_MEMORY;
    s->graph = lvn_graph_new(n->params, n->real);
    if (!s->graph) return LVN_MEMORY;
    const struct lvn_sharding *sharding = lvn_parameters_sharded(n, LVN_PARAMETER_VALUES) ? &n->sharding : NULL;
    LVN_TRY(lvn_program_new_checksums(&s->program, s->graph, n->weights, sharding, n->device, &s->sums));
    if (n->bytes[LVN_BUFFER_ARENA] < s->program->arena_bytes) n->bytes[LVN_BUFFER_ARENA] = s->program->arena_bytes;
    return LVN_OK;
}

void lvn_parameter_sums_free(struct lvn_parameter_sums *s)
{
    if (!s) return;
    if (s->bound) s->bound->device->backend->unbind(s->bound);
    lvn_memory_free(s->result);
    lvn_program_free(s->program);
    lvn_graph_free(s->graph);
    free(s);
}

int64_t lvn_parameter_sums_bytes(const struct lvn_parameter_sums *s)
{
    return (int64_t)s->graph->arena.used + lvn_program_bytes(s->program) + lvn_program_sums_at(s->program, 1);
}

enum lvn_status lvn_parameter_sums_bind(struct lvn_model_state *n)
{
    struct lvn_parameter_sums *s = n->sums;
    for (int b = 0; b < LVN_BUFFER_COUNT; b++) s->binding.buffer[b] = n->memory[b];
    LVN_TRY(lvn_memory_new(&s->result, n->device, lvn_program_sums_at(s->program, 1)));
    s->binding.buffer[LVN_BUFFER_RESULT] = s->result;
    s->binding.step = &s->step;
    s->binding.micro_batch_rows = 1;
    return n->device->backend->bind(&s->bound, s->program, &s->binding);
}

enum lvn_status lvn_parameter_sums_run(const struct lvn_model_state *n, uint64_t *sum)
{
    enum { EACH = 4 * sizeof(int32_t) };
    const struct lvn_parameter_sums *s = n->sums;
    const struct lvn_execution once = {.n_micro_batches = 1};
    char *sums = lvn_malloc((size_t)n->params->n * EACH + 1);
    if (!sums) return LVN_MEMORY;
    enum lvn_status status = n->device->backend->run(s->bound, &once);
    if (status == LVN_OK)
        status = lvn_memory_read(n->memory[LVN_BUFFER_ARENA], s->program->values[s->sums.value].offset, sums,
                                 (int64_t)n->params->n * EACH);
    for (int i = 0; status == LVN_OK && i < n->params->n; i++) {
        const bool here = lvn_parameters_at(n, LVN_PARAMETER_VALUES, n->params->list[i]).count > 0;
        sum[i] = here ? lvn_checksum(sums + (size_t)i * EACH, EACH) : 0;
    }
    free(sums);
    return status;
}
