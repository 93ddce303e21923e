/* confusion.c - the confusion matrix, from which accuracy, precision and recall are computed.
 *
 * prediction (...,K), labels (...) int32; out[0] (K,K) fp64: counts, [true class][argmax of the prediction, the first
 * of equal maxima]. Rows with a negative label are ignored. It has no gradient. It costs little compared with the
 * model, so CPUs have no fast kernel for it. */
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_reals(s, "prediction", 0, 1));
    LVN_TRY(lvn_shape_integers(s, "labels", 1, lvn_desc_rows(&s->in[0])));
    int64_t K = s->in[0].dim[s->in[0].rank - 1];
    s->out[0] = LVN_DESC(LVN_F64, K, K);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const real *prediction = call->in[0].p; /* (R,K) */
    const int32_t *labels = call->in[1].p;  /* (R) */
    double *count = call->out[0].p;         /* (K,K) */
    int64_t K = call->out[0].desc->dim[0], rows = lvn_desc_rows(call->in[0].desc);
    for (int64_t i = 0; i < K * K; i++) count[i] = 0;
    for (int64_t r = 0; r < rows; r++)
        if (labels[r] >= 0) count[labels[r] * K + lvn_largest(prediction + r * K, K)]++;
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_confusion(struct levin_graph *g, struct levin_tensor *prediction,
                                     struct levin_tensor *labels)
{
    return lvn_node_append(g, LVN_OP_confusion, &(union lvn_attr){0}, (struct levin_tensor *[]){prediction, labels}, 2);
}
#endif

LVN_OPERATION(confusion, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 2, .n_in_min = 2, .n_out = 1);
