/* ops_run.h - one operation on generated values, without a graph; test_ops.c runs its cases with this.
 *
 * A case (ops_cases.h) names an operation, its attributes and its inputs. A run is that case in fp32 or fp64 with some
 * set of kernels. Every buffer has exactly its size, so that AddressSanitizer detects each access outside; outputs,
 * scratch and the gaps of views contain NaN before the kernel runs. Inputs are the same numbers in every run (floats,
 * which doubles represent too), functions of the case and the element alone. */
#ifndef LVN_OPS_RUN_H
#define LVN_OPS_RUN_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/bf16.h"
#include "base/random.h"
#include "base/threads.h"
#include "formats/safetensors.h"
#include "graph/op.h"

enum filling { ABSENT, REALS, INTEGERS, SMALL_INTEGERS, LABELS, SEGMENTS_OF };

struct op_input {
    enum filling filling;
    int rank;
    int64_t dim[LVN_MAX_RANK];
    double scale;         /* REALS: times this; 0 means 1 */
    double center;        /* REALS: plus this */
    int64_t below;        /* INTEGERS, SMALL_INTEGERS (bytes): in [0, below); LABELS: the same, and some -1;
                             SEGMENTS_OF: mean length of a document */
    bool constant;        /* REALS: has no gradient */
    int64_t row, channel; /* > 0: heads (B,T,H,D) that are a view from `channel` on of rows of so many channels */
};

struct op_case {
    enum lvn_op_id op;
    union lvn_attr attr;
    struct op_input in[LVN_MAX_IN];
    int64_t count;    /* update operations: elements of the flat range; 0: in[0] is a matrix */
    int64_t position; /* step->position */
    bool evaluation;  /* step->training = 0 */
    unsigned no_dout; /* bit k: nothing depends on output k */
    bool large;       /* too large, or too steep, for finite differences */
    bool for_cpu;     /* reaches a limit of processors' kernels only; on devices other cases have the same borders */
    double slack;     /* factor of the operation's tolerance, if the case itself costs digits; 0 means 1 */
};

struct buffer {
    struct lvn_desc desc;
    size_t bytes;
    char *p;
    struct lvn_arg arg;
};

struct run {
    const struct op_case *c;
    const struct lvn_op *op;
    struct lvn_cpu_op kernels;
    enum lvn_dtype real;
    struct buffer in[LVN_MAX_IN], out[LVN_MAX_OUT], dout[LVN_MAX_OUT], din[LVN_MAX_IN];
    struct lvn_step step;
    struct lvn_result result;
    enum lvn_dtype half; /* type to which products may round their operands: set by tests; F32: none */
    bool aliased;        /* set by tests that place one operand over another */
};

/* An update operation changes its outputs in place, and has no gradient. */
static inline bool op_is_update(enum lvn_op_id id)
{
    static const bool update[LVN_OP_COUNT] = {
#define LVN_OP(name, attr, args) false,
#define LVN_OP_FUSED(name, attr) false,
#define LVN_OP_UPDATE(name, attr) true,
#define LVN_OP_COLLECTIVE(name, attr) true,
#include "ops/ops.def"
    };
    return update[id];
}

/* Does the operation end in a loss, whose gradient is seeded by step->grad_scale? */
static inline bool op_is_loss(const struct lvn_op *op)
{
    return strstr(op->name, "cross_entropy") || strcmp(op->name, "squared_error") == 0;
}

/* --- buffers --- */

static inline void buffer_init(struct buffer *b, const struct lvn_desc *d)
{
    int64_t last = d->offset;
    for (int i = 0; i < d->rank; i++) last += (d->dim[i] - 1) * d->stride[i];
    b->desc = *d;
    b->bytes = (size_t)((last + 1) * lvn_dtype_bytes(d->dtype));
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, 64, b->bytes), 0);
    b->p = p;
    b->arg = (struct lvn_arg){.p = b->p + d->offset * lvn_dtype_bytes(d->dtype), .desc = &b->desc};
}

static inline void buffer_poison(struct buffer *b)
{
    if (b->p) memset(b->p, 0xff, b->bytes);
}

/* Element i in row-major order, for any strides. */
static inline void *buffer_at(const struct buffer *b, int64_t i)
{
    int64_t at = b->desc.offset;
    for (int k = b->desc.rank - 1; k >= 0; k--) {
        at += i % b->desc.dim[k] * b->desc.stride[k];
        i /= b->desc.dim[k];
    }
    return b->p + at * lvn_dtype_bytes(b->desc.dtype);
}

static inline bool dtype_is_half(enum lvn_dtype t)
{
    return t == LVN_BF16 || t == LVN_F16;
}

static inline double half_get(enum lvn_dtype type, const void *p)
{
    float x;
    lvn_tensor_to_f32(type, p, &x, 1);
    return x;
}

static inline double buffer_get(const struct buffer *b, int64_t i)
{
    const void *p = buffer_at(b, i);
    if (b->desc.dtype == LVN_I32) return *(const int32_t *)p;
    if (b->desc.dtype == LVN_U8) return *(const uint8_t *)p;
    if (dtype_is_half(b->desc.dtype)) return half_get(b->desc.dtype, p);
    return b->desc.dtype == LVN_F64 ? *(const double *)p : (double)*(const float *)p;
}

static inline void buffer_set(struct buffer *b, int64_t i, double x)
{
    void *p = buffer_at(b, i);
    if (b->desc.dtype == LVN_I32)
        *(int32_t *)p = (int32_t)x;
    else if (b->desc.dtype == LVN_U8)
        *(uint8_t *)p = (uint8_t)x;
    else if (b->desc.dtype == LVN_F64)
        *(double *)p = x;
    else if (dtype_is_half(b->desc.dtype))
        lvn_tensor_from_f32(b->desc.dtype, &(float){(float)x}, p, 1);
    else
        *(float *)p = (float)x;
}

/* A float, about normal, that depends on (stream, i) alone. */
static inline double made_up(uint64_t stream, int64_t i)
{
    struct lvn_philox r = lvn_philox(stream, (uint32_t)i, (uint32_t)(i >> 32), 0, LVN_STREAM_TEST);
    double x = 0;
    for (int k = 0; k < 4; k++) x += lvn_uniform(r.v[k]) - 0.5;
    return (double)(float)(x * 1.7);
}

static inline void buffer_fill(struct buffer *b, uint64_t stream, double center, double scale)
{
    int64_t n = lvn_desc_count(&b->desc);
    for (int64_t i = 0; i < n; i++) buffer_set(b, i, (double)(float)(center + scale * made_up(stream, i)));
}

static inline void fill_input(struct buffer *b, const struct op_input *in, uint64_t stream)
{
    int64_t n = lvn_desc_count(&b->desc);
    buffer_poison(b);
    if (in->filling == REALS) {
        buffer_fill(b, stream, in->center, in->scale != 0 ? in->scale : 1);
        return;
    }
    int64_t start = 0; /* of the document */
    for (int64_t i = 0; in->filling == SEGMENTS_OF && i < n; i++) {
        const int64_t t = i % in->dim[1];
        if (t == 0 || lvn_random_below(7, stream, (uint64_t)i, in->below) == 0) start = t;
        buffer_set(b, i, (double)start);
    }
    for (int64_t i = 0; in->filling != SEGMENTS_OF && i < n; i++) {
        int64_t x =
            lvn_random_below(7, stream, (uint64_t)i, in->below + (in->filling == LABELS ? 1 + in->below / 4 : 0));
        buffer_set(b, i, x < in->below ? (double)x : -1);
    }
}

/* --- runs --- */

static inline struct lvn_desc input_desc(const struct op_input *in, enum lvn_dtype real)
{
    enum lvn_dtype dtype = in->filling == SMALL_INTEGERS ? LVN_U8 : in->filling == REALS ? real : LVN_I32;
    struct lvn_desc d = lvn_desc_make(dtype, in->rank, in->dim);
    if (!in->row) return d;
    d.offset = in->channel;
    d.stride[1] = in->row;
    d.stride[0] = in->dim[1] * in->row;
    return d;
}

static inline void run_init(struct run *r, const struct op_case *c, enum lvn_dtype real,
                            const struct lvn_cpu_op *kernels)
{
    *r = (struct run){.c = c, .op = lvn_op(c->op, real), .kernels = *kernels, .real = real};
    r->step = (struct lvn_step){
        .seed = 42, .step = 3, .lr = 0.01, .grad_scale = 0.25, .first_row = 5, .training = !c->evaluation};
    for (int b = 0; b < LVN_DECODE_ROWS; b++) r->step.position[b] = (int32_t)(b % 2 ? c->position / 2 : c->position);
    r->result.clip_scale = 0.5;
    struct lvn_shapes s = {.op = r->op->name, .attr = &c->attr, .real = real};
    for (int i = 0; i < r->op->n_in; i++) {
        struct op_input in = c->in[i];
        if (c->count && i == 0) in = (struct op_input){.filling = REALS, .rank = 1, .dim = {c->count}};
        s.has[i] = in.filling != ABSENT;
        if (!s.has[i]) continue;
        s.in[i] = input_desc(&in, real);
        buffer_init(&r->in[i], &s.in[i]);
        fill_input(&r->in[i], &in, lvn_name_hash(r->op->name) + (uint64_t)i); /* independent of other operations */
        if (in.filling != REALS || in.constant) continue;
        buffer_init(&r->din[i], &s.in[i]);
        buffer_poison(&r->din[i]);
    }
    if (r->op->shape(&s) != LVN_OK) fail_msg("%s", levin_error_text());
    for (int k = 0; k < r->op->n_out + r->op->n_saved; k++) {
        buffer_init(&r->out[k], &s.out[k]);
        buffer_poison(&r->out[k]);
        if (op_is_update(c->op)) {
            buffer_fill(&r->out[k], 1000 + (uint64_t)k, 0, 1);
            for (int64_t i = 0; k == 2 && i < lvn_desc_count(&s.out[k]); i++)
                buffer_set(&r->out[k], i, fabs(buffer_get(&r->out[k], i)));
        } else if (k < r->op->n_out && !op_is_loss(r->op) && !(c->no_dout >> k & 1)) {
            buffer_init(&r->dout[k], &s.out[k]);
            buffer_poison(&r->dout[k]);
            buffer_fill(&r->dout[k], 2000 + (uint64_t)k, 0, 1);
        }
    }
}

static inline void buffer_round_to_16_bits(struct buffer *b, enum lvn_dtype half)
{
    struct buffer wide = *b;
    if (!wide.p || wide.desc.dtype != LVN_F32) return;
    wide.desc.dtype = half;
    buffer_init(b, &wide.desc);
    wide.desc.dtype = LVN_F32;
    buffer_poison(b);
    for (int64_t i = 0; i < lvn_desc_count(&b->desc); i++) buffer_set(b, i, buffer_get(&wide, i));
    free(wide.p);
}

/* From here on every operand that accepts 16 bits has this type, rounded: BF16 or F16. */
static inline void run_round_to_16_bits(struct run *r, enum lvn_dtype half)
{
    r->half = half;
    for (int i = 0; i < r->op->n_in; i++)
        if (r->op->low_precision_ok & LVN_READS_IN(i))
            buffer_round_to_16_bits(&r->in[i], half), buffer_round_to_16_bits(&r->din[i], half);
    for (int k = 0; k < r->op->n_out + r->op->n_saved; k++)
        if (r->op->low_precision_ok & LVN_READS_OUT(k))
            buffer_round_to_16_bits(&r->out[k], half), buffer_round_to_16_bits(&r->dout[k], half);
}

static inline void buffer_copy(struct buffer *to, const struct buffer *from)
{
    for (int64_t i = 0; to->p && i < lvn_desc_count(&to->desc); i++) buffer_set(to, i, buffer_get(from, i));
}

static inline void run_release(struct run *r)
{
    for (int i = 0; i < LVN_MAX_IN; i++) free(r->in[i].p), free(r->din[i].p);
    for (int k = 0; k < LVN_MAX_OUT; k++) free(r->out[k].p), free(r->dout[k].p);
}

struct team_task {
    const struct lvn_cpu_op *kernels;
    struct lvn_call call;
};

static inline void team_task(void *argument, int thread, int n_threads)
{
    const struct team_task *t = argument;
    lvn_cpu_call(t->kernels, &t->call, thread, n_threads);
}

/* Called as memory planning does: with descriptions, without pointers. */
static inline int64_t scratch_bytes(const struct run *r, const struct lvn_call *call, int n_threads)
{
    struct lvn_call plan = *call;
    plan.step = NULL;
    plan.result = NULL;
    for (int i = 0; i < LVN_MAX_IN; i++) plan.in[i].p = plan.din[i].p = NULL;
    for (int k = 0; k < LVN_MAX_OUT; k++) plan.out[k].p = plan.dout[k].p = NULL;
    return lvn_cpu_scratch(&r->kernels, &plan, n_threads);
}

/* Checksum of all buffers that a phase may only read; 0 if a test places operands over each other. */
static inline uint64_t checksum_of_read(const struct run *r, enum lvn_phase phase)
{
    uint64_t h = 1;
    const struct buffer *read[LVN_MAX_IN + 2 * LVN_MAX_OUT];
    int n = 0;
    for (int i = 0; i < LVN_MAX_IN; i++) read[n++] = &r->in[i];
    for (int k = 0; k < LVN_MAX_OUT; k++) read[n++] = &r->dout[k];
    for (int k = 0; k < LVN_MAX_OUT; k++)
        if (phase == LVN_BACKWARD && !r->op->forward_in_backward) read[n++] = &r->out[k];
    for (int b = 0; b < n; b++) {
        if (!read[b]->p) continue;
        for (size_t e = 0; e < read[b]->bytes; e++) h = (h ^ (uint8_t)read[b]->p[e]) * 0x100000001b3u;
    }
    return r->aliased ? 0 : h;
}

/* Call the kernel of this phase with the operands that a program would give it. */
static inline void run_phase(struct run *r, enum lvn_phase phase, unsigned expected, unsigned add, int n_threads)
{
    const struct lvn_op *op = r->op;
    struct team_task t = {
        .kernels = &r->kernels,
        .call = {.phase = phase, .attr = &r->c->attr, .step = &r->step, .result = &r->result, .op_hash = 12345}};
    struct lvn_call *call = &t.call;
    uint32_t reads = phase == LVN_BACKWARD ? op->reads : phase == LVN_RESTORE ? op->restores : ~0u;
    for (int i = 0; i < op->n_in; i++) {
        if (reads & LVN_READS_IN(i)) call->in[i] = r->in[i].arg;
        if (phase == LVN_BACKWARD && expected >> i & 1) call->din[i] = r->din[i].arg;
        call->add[i] = phase == LVN_BACKWARD && add >> i & 1;
    }
    for (int k = 0; k < op->n_out + op->n_saved; k++) {
        bool written = phase == LVN_BACKWARD ? op->forward_in_backward : phase == LVN_FORWARD || k < op->n_out;
        if (written || reads & LVN_READS_OUT(k)) call->out[k] = r->out[k].arg;
        if (phase == LVN_BACKWARD) call->dout[k] = r->dout[k].arg;
    }
    void *scratch = NULL;
    int64_t bytes = scratch_bytes(r, call, n_threads);
    if (bytes > 0) {
        assert_int_equal(posix_memalign(&scratch, 64, (size_t)bytes), 0);
        memset(scratch, 0xff, (size_t)bytes);
    }
    call->scratch = scratch;
    uint64_t before = checksum_of_read(r, phase);
    lvn_team_run(n_threads, team_task, &t);
    if (checksum_of_read(r, phase) != before) fail_msg("%s: phase %d wrote to what it reads", op->name, (int)phase);
    free(scratch);
}

static inline void run_forward(struct run *r, int n_threads)
{
    run_phase(r, LVN_FORWARD, 0, 0, n_threads);
}

/* Gradients of the inputs in `expected`; those in `add` are added to generated values. */
static inline void run_backward(struct run *r, unsigned expected, unsigned add, int n_threads)
{
    for (int i = 0; i < r->op->n_in; i++) {
        buffer_poison(&r->din[i]);
        if (r->din[i].p && add >> i & 1) buffer_fill(&r->din[i], 3000 + (uint64_t)i, 0, 1);
    }
    run_phase(r, LVN_BACKWARD, expected, add, n_threads);
}

/* The objective of finite differences: the sum of the outputs times generated cotangents, or the loss. */
static inline double run_objective(struct run *r)
{
    run_forward(r, 1);
    if (op_is_loss(r->op)) return buffer_get(&r->out[0], 0) * r->step.grad_scale;
    double sum = 0;
    for (int k = 0; k < r->op->n_out; k++)
        for (int64_t i = 0; r->dout[k].p && i < lvn_desc_count(&r->out[k].desc); i++)
            sum += buffer_get(&r->out[k], i) * buffer_get(&r->dout[k], i);
    return sum;
}

/* "linear (33, 17) (17, 65)" for messages. */
static inline const char *case_text(const struct op_case *c)
{
    static char text[512];
    int n = snprintf(text, sizeof text, "%s", lvn_op(c->op, LVN_F32)->name);
    if (c->count) snprintf(text + n, sizeof text - (size_t)n, " (%lld)", (long long)c->count);
    for (int i = 0; i < LVN_MAX_IN; i++) {
        char shape[LVN_SHAPE_TEXT];
        if (c->in[i].filling == ABSENT) continue;
        struct lvn_desc d = lvn_desc_make(LVN_F32, c->in[i].rank, c->in[i].dim);
        n += snprintf(text + n, sizeof text - (size_t)n, " %s", lvn_shape_text(&d, shape));
    }
    return text;
}

#endif
