/* bound_program.h - a planned program with its own memory, on any backend.
 *
 * The host's copies of parameters and inputs are written to the device before a run; parameters, gradients and results
 * are read from the device afterwards. So tests need not know which memory the host can access. */
#ifndef LVN_BOUND_PROGRAM_H
#define LVN_BOUND_PROGRAM_H

#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "host/isa.h"
#include "passes/shard_checksums.h"

struct bound_program {
    struct lvn_device *device;
    struct lvn_program *program;
    struct lvn_binding binding;
    struct lvn_bound *bound;
    struct lvn_memory *memory[3]; /* of the inputs */
    const void *input[3];         /* ids, labels; of packed rows set input[2], the segments, before a run */
    int64_t input_bytes, flat_bytes, result_bytes;
    void *params, *grads; /* flat; gradients of all slots */
    struct lvn_result *result;
};

/* On `cpu` with kernels of this instruction set. */
static inline struct lvn_device *open_device(const char *backend, enum lvn_dtype real, int threads, enum lvn_isa isa)
{
    struct lvn_device *d;
    lvn_isa_limit(isa);
    if (lvn_backend_find(backend)->open(&d, &(struct lvn_device_options){.real = real, .threads = threads}) != LVN_OK)
        fail_msg("%s", levin_error_text());
    lvn_isa_limit(LVN_ISA_COUNT - 1);
    return d;
}

static inline void must(enum lvn_status status)
{
    if (status != LVN_OK) fail_msg("%s\n%s", levin_error_text(), levin_error_trace());
}

/* For up to n micro-batches of `rows` samples; ids and labels belong to the caller, input_bytes each. */
static inline void bound_program_open(struct bound_program *b, struct lvn_device *d, struct lvn_program *p, int64_t n,
                                      int64_t rows, const void *ids, const void *labels, int64_t input_bytes,
                                      struct lvn_step *step)
{
    *b = (struct bound_program){.device = d, .program = p, .input = {ids, labels}, .input_bytes = input_bytes};
    int64_t element = lvn_dtype_bytes(p->weights), wide = element > 4 ? element : 4;
    b->flat_bytes = p->graph->params->flat_count * element;
    b->result_bytes = lvn_program_sums_at(p, n);
    const int64_t bytes[LVN_BUFFER_COUNT] = {[LVN_BUFFER_ARENA] = p->arena_bytes,
                                             [LVN_BUFFER_PARAM] = b->flat_bytes,
                                             [LVN_BUFFER_GRAD] = p->grad_buffer_bytes * p->n_grad_buffers,
                                             [LVN_BUFFER_STATE0] = p->graph->params->flat_count * wide,
                                             [LVN_BUFFER_STATE1] = p->graph->params->flat_count * wide,
                                             [LVN_BUFFER_SUMS] = lvn_program_sums_count(p) * 4,
                                             [LVN_BUFFER_RESULT] = b->result_bytes};
    for (int k = 0; k < LVN_BUFFER_COUNT; k++) must(lvn_memory_new(&b->binding.buffer[k], d, bytes[k]));
    for (int k = 0; k < p->graph->n_inputs; k++) must(lvn_memory_new(&b->memory[k], d, input_bytes));
    b->params = calloc(1, (size_t)b->flat_bytes);
    b->grads = calloc(1, (size_t)bytes[LVN_BUFFER_GRAD] + 1);
    b->result = calloc(1, (size_t)b->result_bytes);
    void *nan = malloc((size_t)p->arena_bytes); /* a read before the copy shows */
    memset(nan, 0xff, (size_t)p->arena_bytes);
    must(lvn_memory_write(b->binding.buffer[LVN_BUFFER_ARENA], 0, nan, p->arena_bytes));
    free(nan);
    b->binding.inputs = b->memory;
    b->binding.step = step;
    b->binding.micro_batch_rows = rows;
    must(d->backend->bind(&b->bound, p, &b->binding));
}

static inline void bound_program_close(struct bound_program *b)
{
    b->device->backend->unbind(b->bound);
    for (int k = 0; k < LVN_BUFFER_COUNT; k++) lvn_memory_free(b->binding.buffer[k]);
    for (int k = 0; k < b->program->graph->n_inputs; k++) lvn_memory_free(b->memory[k]);
    b->device->backend->close(b->device);
    free(b->params);
    free(b->grads);
    free(b->result);
}

/* Micro-batches from `from` bytes of the inputs on. */
static inline void bound_program_run(struct bound_program *b, int64_t n, int64_t from)
{
    const struct lvn_execution how = {.n_micro_batches = n};
    struct lvn_memory *const *m = b->binding.buffer;
    must(lvn_memory_write(m[LVN_BUFFER_PARAM], 0, b->params, b->flat_bytes));
    for (int k = 0; k < b->program->graph->n_inputs; k++)
        must(lvn_memory_write(b->memory[k], 0, (const char *)b->input[k] + from, b->input_bytes - from));
    must(b->device->backend->run(b->bound, &how));
    must(lvn_memory_read(m[LVN_BUFFER_PARAM], 0, b->params, b->flat_bytes));
    if (m[LVN_BUFFER_GRAD]) must(lvn_memory_read(m[LVN_BUFFER_GRAD], 0, b->grads, m[LVN_BUFFER_GRAD]->bytes));
    must(lvn_memory_read(m[LVN_BUFFER_RESULT], 0, b->result, b->result_bytes));
}

/* Output k of micro-batch m: a sum. */
static inline double bound_program_sum(const struct bound_program *b, int64_t m, int64_t k)
{
    return ((const double *)((const char *)b->result + lvn_program_sums_at(b->program, m)))[k];
}

/* An output of the last micro-batch; the caller frees it. */
static inline void *bound_program_output(const struct bound_program *b, const struct levin_tensor *t)
{
    struct lvn_operand o = lvn_program_output(b->program, t);
    int64_t size = lvn_dtype_bytes(o.desc.dtype), bytes = lvn_desc_count(&o.desc) * size;
    void *copy = malloc((size_t)bytes);
    must(lvn_memory_read(b->binding.buffer[b->program->values[o.value].buffer],
                         b->program->values[o.value].offset + o.desc.offset * size, copy, bytes));
    return copy;
}

#endif
