/* chain.c - several elementwise operations as one, which passes over memory once; made by the fuse_chains pass.
 *
 *     y = step(... step(step(x)))     graph/chain.h lists the steps
 *
 * All operands have one shape. silu(gate), then a product with up, is the gated MLP of Llama (Shazeer: "GLU variants
 * improve transformer", 2020). relu2 is the squared ReLU (So et al.: "Primer", 2021). Only inputs are kept for
 * backward, which computes the values between the steps again.
 *
 * Each operation with one input that is a step (silu, relu, ..., scale) is here too: a chain of this step. NaN stays
 * NaN in relu, and its gradient at 0 is 0. */
#include "graph/chain.h"
#include "ops/gelu.h"
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    const int64_t steps = s->attr->chain.steps;
    const int n_steps = lvn_chain_length(steps), n = 1 + lvn_chain_count(steps, LVN_CHAIN_MUL);
    char a[LVN_SHAPE_TEXT], b[LVN_SHAPE_TEXT];
    bool valid = n_steps > 0 && !(steps >> n_steps * LVN_CHAIN_BITS) && n <= LVN_MAX_IN;
    for (int k = 0; k < n_steps; k++) valid = valid && lvn_chain_step(steps, k) < LVN_CHAIN_STEP_COUNT;
    LVN_CHECK(valid, ARG, "chain: %#llx is not a list of steps", (unsigned long long)steps);
    for (int i = 0; i < n; i++) {
        LVN_TRY(lvn_shape_reals(s, "input", i, 1));
        LVN_CHECK(lvn_desc_same_shape(&s->in[0], &s->in[i]), SHAPE,
                  "chain: input %d has shape %s, and input 0 has %s; they must be the same", i,
                  lvn_shape_text(&s->in[i], b), lvn_shape_text(&s->in[0], a));
    }
    s->out[0] = lvn_desc_make(s->real, s->in[0].rank, s->in[0].dim);
    return LVN_OK;
}

static double value(enum lvn_chain_step step, double factor, double x)
{
    switch (step) {
    case LVN_CHAIN_SILU:
        return x / (1 + exp(-x));
    case LVN_CHAIN_RELU:
        return 0 > x ? 0 : x;
    case LVN_CHAIN_RELU2:
        return 0 > x ? 0 : x * x;
    case LVN_CHAIN_GELU:
    case LVN_CHAIN_GELU_TANH:
        return lvn_gelu_value(x, step == LVN_CHAIN_GELU_TANH);
    case LVN_CHAIN_TANH:
        return tanh(x);
    default:
        return x * (real)factor;
    }
}

static double slope(enum lvn_chain_step step, double factor, double x)
{
    const double s = 1 / (1 + exp(-x)), t = tanh(x);
    switch (step) {
    case LVN_CHAIN_SILU:
        return s * (1 + x * (1 - s));
    case LVN_CHAIN_RELU:
        return x > 0;
    case LVN_CHAIN_RELU2:
        return x > 0 ? 2 * x : 0;
    case LVN_CHAIN_GELU:
    case LVN_CHAIN_GELU_TANH:
        return lvn_gelu_slope(x, step == LVN_CHAIN_GELU_TANH);
    case LVN_CHAIN_TANH:
        return 1 - t * t;
    default:
        return (real)factor;
    }
}

/* v[k]: element i before step k. Returns the number of steps. */
static int values(const struct lvn_call *call, int64_t i, double v[LVN_CHAIN_STEPS + 1])
{
    int n = 0, in = 0;
    v[0] = ((const real *)call->in[0].p)[i];
    for (enum lvn_chain_step step; (step = lvn_chain_step(call->attr->chain.steps, n)); n++)
        v[n + 1] = step == LVN_CHAIN_MUL ? v[n] * ((const real *)call->in[++in].p)[i]
                                         : value(step, call->attr->chain.factor, v[n]);
    return n;
}

static void forward(const struct lvn_call *call)
{
    real *y = call->out[0].p;
    const int64_t n = lvn_desc_count(call->out[0].desc);
    double v[LVN_CHAIN_STEPS + 1];
    for (int64_t i = 0; i < n; i++) {
        const int last = values(call, i, v);
        y[i] = (real)v[last];
    }
}

static void backward(const struct lvn_call *call)
{
    const real *dy = call->dout[0].p;
    const int64_t n = lvn_desc_count(call->dout[0].desc), steps = call->attr->chain.steps;
    double v[LVN_CHAIN_STEPS + 1];
    for (int64_t i = 0; i < n; i++) {
        double d = dy[i]; /* a gradient may overwrite dy: read first */
        int in = lvn_chain_count(steps, LVN_CHAIN_MUL);
        for (int k = values(call, i, v) - 1; k >= 0; k--) {
            const enum lvn_chain_step step = lvn_chain_step(steps, k);
            if (step != LVN_CHAIN_MUL) {
                d *= slope(step, call->attr->chain.factor, v[k]);
                continue;
            }
            real *side = call->din[in].p;
            if (side) lvn_put(&side[i], call->add[in], d * v[k]);
            d *= ((const real *)call->in[in--].p)[i];
        }
        real *dx = call->din[0].p;
        if (dx) lvn_put(&dx[i], call->add[0], d);
    }
}

LVN_OPERATION(chain, shape, forward, backward, .n_in = LVN_MAX_IN, .n_in_min = 1, .n_out = 1, .reads = 0x3f,
              .restores = 0x3f, .low_precision_ok = 0x3f | LVN_READS_OUT(0), .in_place = 0x3f, .spec.restore = forward);

/* --- operations that are one step --- */

static void one_step(const struct lvn_call *call, enum lvn_chain_step step, lvn_plain_kernel *kernel)
{
    const double factor = step == LVN_CHAIN_SCALE ? call->attr->scale.factor : 0;
    const union lvn_attr attr = {.chain = {.steps = step, .factor = factor}};
    struct lvn_call chain = *call;
    chain.attr = &attr;
    kernel(&chain);
}

#define ONE_STEP(NAME, operation)                                                                                      \
    static void operation##_forward(const struct lvn_call *call)                                                       \
    {                                                                                                                  \
        one_step(call, LVN_CHAIN_##NAME, forward);                                                                     \
    }                                                                                                                  \
    static void operation##_backward(const struct lvn_call *call)                                                      \
    {                                                                                                                  \
        one_step(call, LVN_CHAIN_##NAME, backward);                                                                    \
    }                                                                                                                  \
    LVN_OPERATION(operation, lvn_shape_each, operation##_forward, operation##_backward, .n_in = 1, .n_in_min = 1,      \
                  .n_out = 1, .reads = LVN_READS_IN(0), .in_place = 1u << 0);
LVN_CHAIN_FUNCTIONS(ONE_STEP)
ONE_STEP(SCALE, scale)

#ifndef LVN_REAL_DOUBLE
#define CONSTRUCTOR(NAME, operation)                                                                                   \
    struct levin_tensor *levin_##operation(struct levin_graph *g, struct levin_tensor *x)                              \
    {                                                                                                                  \
        return lvn_node_append(g, LVN_OP_##operation, &(union lvn_attr){0}, (struct levin_tensor *[]){x}, 1);          \
    }
LVN_CHAIN_FUNCTIONS(CONSTRUCTOR)

struct levin_tensor *levin_scale(struct levin_graph *g, struct levin_tensor *x, double factor)
{
    return lvn_node_append(g, LVN_OP_scale, &(union lvn_attr){.scale = {.factor = factor}},
                           (struct levin_tensor *[]){x}, 1);
}
#endif
