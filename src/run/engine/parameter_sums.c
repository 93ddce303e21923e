/* parameter_sums.c - see parameter_sums.h. */
#include "engine/parameter_sums.h"

#include "engine/parameters.h"
#include "formats/checksum.h"
#include "passes/shard_checksums.h"

/* A program without inputs, and its sums in the arena. */
struct sums_program {
    struct lvn_program *program; /* NULL: there is none */
    struct lvn_operand sums;
    struct lvn_memory *result;
    struct lvn_step step;
    struct lvn_binding binding;
    struct lvn_bound *bound;
};

struct lvn_parameter_sums {
    struct levin_graph *graph;    /* without nodes; the programs read parameters as ranges */
    struct sums_program replicas; /* I32 (parameters, 4) */
    struct sums_program shards;   /* I32 (n_shards) */
    int n_shards;
};

/* --- both programs --- */

static void count_arena(struct lvn_model_state *n, const struct sums_program *s)
{
    if (n->bytes[LVN_BUFFER_ARENA] < s->program->arena_bytes) n->bytes[LVN_BUFFER_ARENA] = s->program->arena_bytes;
}

static void release(struct sums_program *s)
{
    if (s->bound) s->bound->device->backend->unbind(s->bound);
    lvn_memory_free(s->result);
    lvn_program_free(s->program);
}

static int64_t bytes_of(const struct sums_program *s)
{
    return s->program ? lvn_program_bytes(s->program) + lvn_program_sums_at(s->program, 1) : 0;
}

static enum lvn_status bind(const struct lvn_model_state *n, struct sums_program *s)
{
    if (!s->program) return LVN_OK;
    for (int b = 0; b < LVN_BUFFER_COUNT; b++) s->binding.buffer[b] = n->memory[b];
    LVN_TRY(lvn_memory_new(&s->result, n->device, lvn_program_sums_at(s->program, 1)));
    s->binding.buffer[LVN_BUFFER_RESULT] = s->result;
    s->binding.step = &s->step;
    s->binding.micro_batch_rows = 1;
    return n->device->backend->bind(&s->bound, s->program, &s->binding);
}

/* Run it and copy its sums. */
static enum lvn_status run(const struct lvn_model_state *n, const struct sums_program *s, void *sums, int64_t bytes)
{
    const struct lvn_execution once = {.n_micro_batches = 1};
    LVN_TRY(n->device->backend->run(s->bound, &once));
    return lvn_memory_read(n->memory[LVN_BUFFER_ARENA], s->program->values[s->sums.value].offset, sums, bytes);
}

enum lvn_status lvn_parameter_sums_new(struct lvn_model_state *n, const struct lvn_program *training, bool replicas)
{
    struct lvn_parameter_sums *s = n->sums = lvn_calloc(1, sizeof *s);
    if (!s) return LVN_MEMORY;
    s->graph = lvn_graph_new(n->params, n->real);
    if (!s->graph) return LVN_MEMORY;
    if (replicas) {
        const struct lvn_sharding *sharding = lvn_parameters_sharded(n, LVN_PARAMETER_VALUES) ? &n->sharding : NULL;
        LVN_TRY(lvn_program_new_checksums(&s->replicas.program, s->graph, n->weights, sharding, n->device,
                                          &s->replicas.sums));
        count_arena(n, &s->replicas);
    }
    if (lvn_parameters_any_sharded(n)) {
        s->n_shards = training->n_shard_checksums;
        LVN_TRY(lvn_program_new_shard_checksums(&s->shards.program, s->graph, training, &n->sharding, n->device,
                                                &s->shards.sums));
        count_arena(n, &s->shards);
    }
    return LVN_OK;
}

void lvn_parameter_sums_free(struct lvn_parameter_sums *s)
{
    if (!s) return;
    release(&s->replicas);
    release(&s->shards);
    lvn_graph_free(s->graph);
    free(s);
}

int64_t lvn_parameter_sums_bytes(const struct lvn_parameter_sums *s)
{
    return (int64_t)s->graph->arena.used + bytes_of(&s->replicas) + bytes_of(&s->shards);
}

enum lvn_status lvn_parameter_sums_bind(struct lvn_model_state *n)
{
    LVN_TRY(bind(n, &n->sums->replicas));
    return bind(n, &n->sums->shards);
}

/* --- replicas --- */

bool lvn_parameter_sums_of_replicas(const struct lvn_model_state *n)
{
    return n->sums && n->sums->replicas.program;
}

enum lvn_status lvn_parameter_sums_run(const struct lvn_model_state *n, uint64_t *sum)
{
    enum { EACH = 4 * sizeof(int32_t) };
    char *sums = lvn_malloc((size_t)n->params->n * EACH + 1);
    if (!sums) return LVN_MEMORY;
    enum lvn_status status = run(n, &n->sums->replicas, sums, (int64_t)n->params->n * EACH);
    for (int i = 0; status == LVN_OK && i < n->params->n; i++) {
        const bool here = lvn_parameters_at(n, LVN_PARAMETER_VALUES, n->params->list[i]).count > 0;
        sum[i] = here ? lvn_checksum(sums + (size_t)i * EACH, EACH) : 0;
    }
    free(sums);
    return status;
}

/* --- shards --- */

bool lvn_parameter_sums_of_shards(const struct lvn_model_state *n)
{
    return n->sums && n->sums->shards.program;
}

enum lvn_status lvn_parameter_sums_start(const struct lvn_model_state *n)
{
    if (!lvn_parameter_sums_of_shards(n)) return LVN_OK;
    const struct lvn_memory *m = n->memory[LVN_BUFFER_SUMS];
    int32_t *sums = lvn_calloc((size_t)m->bytes, 1); /* sums of gathered parameters start at 0 */
    if (!sums) return LVN_MEMORY;
    enum lvn_status status = run(n, &n->sums->shards, sums, n->sums->n_shards * (int64_t)sizeof *sums);
    if (status == LVN_OK) status = lvn_memory_write(n->memory[LVN_BUFFER_SUMS], 0, sums, m->bytes);
    free(sums);
    return status;
}

/* The first instruction of the program that adds to sum number `sum`. */
static const struct lvn_instr *instr_of(const struct sums_program *s, int sum)
{
    const struct lvn_instr *i = s->program->instrs;
    while (i->id != LVN_OP_bits_sum || i->out[0].desc.offset != sum) i++;
    return i;
}

enum lvn_status lvn_parameter_sums_compare(const struct lvn_model_state *n, const struct lvn_instr **changed,
                                           uint32_t *gathered)
{
    const struct lvn_parameter_sums *s = n->sums;
    const int64_t bytes = n->memory[LVN_BUFFER_SUMS]->bytes, count = s->n_shards;
    uint32_t *kept = lvn_malloc((size_t)bytes), *now = lvn_malloc((size_t)count * sizeof *now + 1);
    enum lvn_status status = kept && now ? lvn_memory_read(n->memory[LVN_BUFFER_SUMS], 0, kept, bytes) : LVN_MEMORY;
    if (status == LVN_OK) status = run(n, &s->shards, now, count * (int64_t)sizeof *now);
    *changed = NULL;
    for (int i = 0; status == LVN_OK && i < s->n_shards && !*changed; i++)
        if (now[i] != kept[i]) *changed = instr_of(&s->shards, i);
    if (status == LVN_OK) memcpy(gathered, kept + count, sizeof *gathered * 2 * (size_t)n->params->n_blocks);
    free(now);
    free(kept);
    return status;
}
