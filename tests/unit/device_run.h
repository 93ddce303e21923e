/* device_run.h - one phase of an operation on a device: the operands of a run of ops_run.h are copied there and back.
 *
 * The program is one instruction, made by hand. All operands are in one arena, with the same gaps as in the run, so
 * that a kernel that writes beside them is detected. */
#ifndef LVN_DEVICE_RUN_H
#define LVN_DEVICE_RUN_H

#include "backend/backend.h"
#include "ops_run.h"

enum { DEVICE_VALUES = 2 * LVN_MAX_IN + 2 * LVN_MAX_OUT + 1 };

struct device_run {
    struct lvn_program program;
    struct lvn_value values[DEVICE_VALUES];
    struct buffer *buffer[DEVICE_VALUES];
    struct lvn_instr instr;
    int64_t arena;
};

static inline struct lvn_operand device_operand(struct device_run *d, struct buffer *b, bool present)
{
    if (!present || !b->p) return LVN_NO_OPERAND;
    int v = d->program.n_values++;
    d->values[v] = (struct lvn_value){.buffer = LVN_BUFFER_ARENA, .dtype = b->desc.dtype, .offset = d->arena};
    d->values[v].bytes = (int64_t)b->bytes;
    d->buffer[v] = b;
    if (dtype_is_half(b->desc.dtype)) d->instr.matmul_dtype = b->desc.dtype;
    d->arena += ((int64_t)b->bytes + 127) / 64 * 64;
    return (struct lvn_operand){.value = v, .desc = b->desc};
}

static inline void device_describe(struct device_run *d, struct run *r, enum lvn_phase phase, unsigned expected,
                                   unsigned add)
{
    const struct lvn_op *op = r->op;
    struct lvn_instr *i = &d->instr;
    uint32_t reads = phase == LVN_BACKWARD ? op->reads : phase == LVN_RESTORE ? op->restores : ~0u;
    *d = (struct device_run){.instr = {.phase = phase,
                                       .when = op_is_update(r->c->op) ? LVN_AFTER_BACKWARD : LVN_EVERY_MICRO_BATCH,
                                       .id = r->c->op,
                                       .op = op,
                                       .attr = r->c->attr,
                                       .name = op->name,
                                       .hash = 12345,
                                       /* of an update, which comes after the pass mixed_precision: in fp32 */
                                       .matmul_dtype = r->c->op == LVN_OP_orthogonalize ? LVN_F32 : r->half,
                                       .scratch = LVN_NO_OPERAND}};
    for (int k = 0; k < LVN_MAX_IN; k++) {
        i->in[k] = device_operand(d, &r->in[k], k < op->n_in && reads & LVN_READS_IN(k));
        i->din[k] = device_operand(d, &r->din[k], k < op->n_in && phase == LVN_BACKWARD && expected >> k & 1);
        i->add[k] = phase == LVN_BACKWARD && add >> k & 1;
    }
    for (int k = 0; k < LVN_MAX_OUT; k++) {
        bool written = phase == LVN_BACKWARD ? op->forward_in_backward : phase == LVN_FORWARD || k < op->n_out;
        i->out[k] = device_operand(d, &r->out[k], k < op->n_out + op->n_saved && (written || reads & LVN_READS_OUT(k)));
        i->dout[k] = device_operand(d, &r->dout[k], phase == LVN_BACKWARD);
    }
    d->program.values = d->values;
    d->program.instrs = &d->instr;
    d->program.n_instrs = 1;
    d->program.first_sum = d->program.first_update = op_is_update(r->c->op) ? 0 : 1;
}

/* Memory for the scratch of the instruction. */
static inline void device_scratch(struct device_run *d, int64_t bytes)
{
    if (bytes <= 0) return;
    int v = d->program.n_values++;
    d->values[v] = (struct lvn_value){.buffer = LVN_BUFFER_ARENA, .dtype = LVN_U8, .bytes = bytes, .offset = d->arena};
    d->instr.scratch = (struct lvn_operand){.value = v};
    d->arena += (bytes + 63) / 64 * 64;
}

static inline void device_must(enum lvn_status status)
{
    if (status != LVN_OK) fail_msg("%s\n%s", levin_error_text(), levin_error_trace());
}

/* Returns the status of choose(), such as UNSUPPORTED if the device has no kernel for it. A later failure fails the
 * test. */
static inline enum lvn_status device_phase(struct lvn_device *device, struct run *r, enum lvn_phase phase,
                                           unsigned expected, unsigned add)
{
    static struct device_run d;
    struct lvn_binding b = {.step = &r->step, .micro_batch_rows = 1};
    struct lvn_bound *bound;
    int64_t scratch = 0;
    device_describe(&d, r, phase, expected, add);
    d.program.device = device;
    LVN_TRY(device->backend->choose(device, &d.instr, &scratch));
    device_scratch(&d, scratch);
    char *arena = malloc((size_t)d.arena + 1);
    memset(arena, 0xff, (size_t)d.arena);
    for (int v = 0; v < DEVICE_VALUES; v++)
        if (d.buffer[v]) memcpy(arena + d.values[v].offset, d.buffer[v]->p, d.buffer[v]->bytes);
    struct lvn_memory **m = b.buffer;
    device_must(lvn_memory_new(&m[LVN_BUFFER_ARENA], device, d.arena));
    device_must(lvn_memory_new(&m[LVN_BUFFER_RESULT], device, sizeof r->result));
    /* bind() may overwrite the result: a backend that times kernel variants runs them */
    device_must(device->backend->bind(&bound, &d.program, &b));
    device_must(lvn_memory_write(m[LVN_BUFFER_ARENA], 0, arena, d.arena));
    device_must(lvn_memory_write(m[LVN_BUFFER_RESULT], 0, &r->result, sizeof r->result));
    device_must(device->backend->run(bound, &(struct lvn_execution){.n_micro_batches = 1}));
    device_must(lvn_device_wait(device));
    device_must(lvn_memory_read(m[LVN_BUFFER_ARENA], 0, arena, d.arena));
    device_must(lvn_memory_read(m[LVN_BUFFER_RESULT], 0, &r->result, sizeof r->result));
    for (int v = 0; v < DEVICE_VALUES; v++) {
        if (!d.buffer[v]) continue;
        const unsigned char *after = (unsigned char *)arena + d.values[v].offset + d.buffer[v]->bytes;
        for (int k = 0; k < 64; k++)
            if (after[k] != 0xff) fail_msg("%s, phase %d: wrote past an operand", case_text(r->c), (int)phase);
        memcpy(d.buffer[v]->p, arena + d.values[v].offset, d.buffer[v]->bytes);
    }
    device->backend->unbind(bound);
    for (int k = 0; k < LVN_BUFFER_COUNT; k++) lvn_memory_free(m[k]);
    free(arena);
    return LVN_OK;
}

#endif
