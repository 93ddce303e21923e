/* conv2d.c - two-dimensional convolution; see conv2d.h. */
#include "ops/conv2d_plain.h"
#include "ops/shape.h"

LVN_CONV2D_KERNELS(false)

#ifndef LVN_REAL_DOUBLE
enum lvn_status lvn_conv2d_shape(struct lvn_shapes *s)
{
    char name[LVN_INPUT_TEXT], input[LVN_INPUT_TEXT], x_text[LVN_SHAPE_TEXT], w_text[LVN_SHAPE_TEXT];
    const struct lvn_desc *x = &s->in[0], *w = &s->in[1];
    LVN_TRY(lvn_shape_reals(s, "input", 0, 1));
    LVN_TRY(lvn_shape_reals(s, "weight", 1, 1));
    LVN_CHECK(x->rank == 4 && w->rank == 4 && x->dim[1] == w->dim[1], SHAPE,
              "%s: %s has shape %s and %s has %s; expected (N,C,H,W) and (O,C,KH,KW)", s->op,
              lvn_input_text(s, 0, "input", input), lvn_shape_text(x, x_text), lvn_input_text(s, 1, "weight", name),
              lvn_shape_text(w, w_text));
    LVN_CHECK(x->dim[2] >= w->dim[2] && x->dim[3] >= w->dim[3], SHAPE,
              "%s: %s of shape %s is smaller than the kernel of %s %s", s->op, lvn_input_text(s, 0, "input", input),
              lvn_shape_text(x, x_text), lvn_input_text(s, 1, "weight", name), lvn_shape_text(w, w_text));
    if (s->has[2]) LVN_TRY(lvn_shape_vector(s, "bias", 2, w->dim[0]));
    struct lvn_conv2d c = lvn_conv2d_make(x, w);
    s->out[0] = LVN_DESC(s->real, c.N, c.O, c.OH, c.OW);
    return LVN_OK;
}

struct levin_tensor *levin_conv2d(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *w,
                                  struct levin_tensor *b)
{
    return lvn_node_append(g, LVN_OP_conv2d, &(union lvn_attr){0}, (struct levin_tensor *[]){x, w, b}, 3);
}
#endif

LVN_OPERATION(conv2d, lvn_conv2d_shape, forward, backward, .n_in = 3, .n_in_min = 2, .n_out = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1), .flops = lvn_conv2d_flops);
