/* answers.c - how many samples have all their labels right.
 *
 * prediction (B,...,V), labels (B,...) int32; negative labels are left out. out[0] (2) fp64: the number of samples of
 * which every label is the argmax of its row (the first of equal maxima), and the number of samples with any label. It
 * has no gradient. It is for evaluation with small vocabularies, so CPUs have no fast kernel for it. */
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_reals(s, "prediction", 0, 2));
    LVN_TRY(lvn_shape_integers(s, "labels", 1, lvn_desc_rows(&s->in[0])));
    s->out[0] = LVN_DESC(LVN_F64, 2);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const struct lvn_desc *d = call->in[0].desc;
    const real *prediction = call->in[0].p; /* (B,T,V) */
    const int32_t *labels = call->in[1].p;  /* (B,T) */
    double *count = call->out[0].p;
    int64_t B = d->dim[0], V = d->dim[d->rank - 1], T = lvn_desc_rows(d) / B;
    count[0] = count[1] = 0;
    for (int64_t b = 0; b < B; b++) {
        bool right = true, any = false;
        for (int64_t r = b * T; r < (b + 1) * T; r++) {
            if (labels[r] < 0) continue;
            any = true;
            right = right && lvn_largest(prediction + r * V, V) == labels[r];
        }
        count[0] += any && right;
        count[1] += any;
    }
}

#ifndef LVN_REAL_DOUBLE
struct lvn_tensor *lvn_answers(struct lvn_graph *g, struct lvn_tensor *prediction, struct lvn_tensor *labels)
{
    return lvn_node_append(g, LVN_OP_answers, &(union lvn_attr){0}, (struct lvn_tensor *[]){prediction, labels}, 2);
}
#endif

LVN_OPERATION(answers, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 2, .n_in_min = 2, .n_out = 1);
