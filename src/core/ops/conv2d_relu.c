/* conv2d_relu.c - max(conv2d, 0), created by the fuse pass: it saves a pass over memory, forward and backward; see
 * conv2d.h. */
#include "ops/conv2d_plain.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    return lvn_conv2d_shape(s, s->attr->conv2d_relu.stride, s->attr->conv2d_relu.padding);
}

static struct lvn_conv2d make(const struct lvn_call *call)
{
    return lvn_conv2d_make(call->in[0].desc, call->in[1].desc, call->attr->conv2d_relu.stride,
                           call->attr->conv2d_relu.padding);
}

static void forward(const struct lvn_call *call)
{
    struct lvn_conv2d c = make(call);
    lvn_conv2d_forward(&c, call, true);
}

static void backward(const struct lvn_call *call)
{
    struct lvn_conv2d c = make(call);
    lvn_conv2d_backward(&c, call, true);
}

static double flops(const struct lvn_call *call)
{
    struct lvn_conv2d c = make(call);
    return lvn_conv2d_flops(call, &c);
}

LVN_OPERATION(conv2d_relu, shape, forward, backward, .n_in = 3, .n_in_min = 2, .n_out = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_OUT(0), .flops = flops);
