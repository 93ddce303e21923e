/* conv2d_gpu.h - launches the kernels of conv2d.k, for conv2d and conv2d_relu on devices. */
#ifndef LVN_CONV2D_GPU_H
#define LVN_CONV2D_GPU_H

#include "backend/gpu/kernel_language.h"
#ifndef LVN_DEVICE

#include "ops/conv2d.h"

#define CONV2D_SIZES(c)                                                                                                \
    LVN_LONG((c).C), LVN_LONG((c).H), LVN_LONG((c).W), LVN_LONG((c).O), LVN_LONG((c).KH), LVN_LONG((c).KW),            \
        LVN_LONG((c).OH), LVN_LONG((c).OW)

static inline void conv2d_forward(struct lvn_gpu *g, bool relu)
{
    const struct lvn_conv2d c = lvn_conv2d_of(g->call);
    g->source = "conv2d";
    LVN_LAUNCH_EACH(g, "conv2d_forward", lvn_desc_count(g->call->out[0].desc), LVN_IN(0, x), LVN_IN(1, w), LVN_IN(2, b),
                    LVN_OUT(0, y), LVN_INT(relu), CONV2D_SIZES(c));
}

static inline void conv2d_backward(struct lvn_gpu *g, bool relu)
{
    const struct lvn_conv2d c = lvn_conv2d_of(g->call);
    const struct lvn_gpu_arg y = relu ? (struct lvn_gpu_arg)LVN_OUT(0, y) : (struct lvn_gpu_arg)LVN_ABSENT(y);
    const struct lvn_desc *dx = g->call->din[0].desc;
    g->source = "conv2d";
    if (dx)
        LVN_LAUNCH_EACH(g, "conv2d_dx", lvn_desc_count(dx), LVN_IN(1, w), y, LVN_DOUT(0, dy), LVN_DIN(0, dx),
                        LVN_ADDS(0), CONV2D_SIZES(c));
    if (g->call->din[1].desc || g->call->din[2].desc)
        LVN_LAUNCH(g, "conv2d_dw", c.C * c.KH * c.KW + 1, c.O, 1, LVN_IN(0, x), y, LVN_DOUT(0, dy), LVN_DIN(1, dw),
                   LVN_DIN(2, db), LVN_ADDS(1), LVN_ADDS(2), LVN_LONG(c.N), CONV2D_SIZES(c));
}

/* The launches of conv2d and, with `relu`, of conv2d_relu. */
#define CONV2D_GPU_OPERATION(id, relu)                                                                                 \
    static void forward(struct lvn_gpu *g)                                                                             \
    {                                                                                                                  \
        conv2d_forward(g, relu);                                                                                       \
    }                                                                                                                  \
    static void backward(struct lvn_gpu *g)                                                                            \
    {                                                                                                                  \
        conv2d_backward(g, relu);                                                                                      \
    }                                                                                                                  \
    LVN_GPU_OPERATION(id, .forward = forward, .backward = backward)

#endif
#endif
