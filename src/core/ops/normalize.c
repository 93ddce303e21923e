/* normalize.c - y = (x / 255 - mean) / std, where x are the bytes of images. x, y of any shape. */
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    char name[LVN_INPUT_TEXT];
    LVN_CHECK(s->in[0].dtype == LVN_U8, SHAPE, "normalize: %s has type %s; expected uint8",
              lvn_input_text(s, 0, "input", name), lvn_dtype_name(s->in[0].dtype));
    LVN_CHECK(lvn_desc_contiguous(&s->in[0]), SHAPE, "normalize: %s is a view with gaps; expected a contiguous tensor",
              lvn_input_text(s, 0, "input", name));
    LVN_CHECK(s->attr->normalize.std > 0, ARG, "normalize: the standard deviation is %g; it must be above 0",
              s->attr->normalize.std);
    s->out[0] = lvn_desc_make(s->real, s->in[0].rank, s->in[0].dim);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const uint8_t *x = call->in[0].p;
    real *y = call->out[0].p;
    double mean = call->attr->normalize.mean, std = call->attr->normalize.std;
    int64_t n = lvn_desc_count(call->out[0].desc);
    for (int64_t i = 0; i < n; i++) y[i] = (real)((x[i] / 255.0 - mean) / std);
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_normalize(struct levin_graph *g, struct levin_tensor *x, double mean, double std)
{
    return lvn_node_append(g, LVN_OP_normalize, &(union lvn_attr){.normalize = {.mean = mean, .std = std}},
                           (struct levin_tensor *[]){x}, 1);
}
#endif

LVN_OPERATION(normalize, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 1);
