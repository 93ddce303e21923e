/* cross_entropy.c - cross entropy of softmax(logits) and each row's label.
 *
 * logits (...,V), labels (...) int32. out[0]: the sum over all rows, fp64 (1); saved: out[1] the loss of each row
 * (rows), out[2] the logsumexp of each row (rows). Loss and gradient are zero for rows whose label is negative or
 * attr.ignore. Gradients are scaled by step->grad_scale, 1 / number of valid labels of the global batch, so they are
 * those of the mean. Labels must be below V, which the caller that binds the input checks. */
#include "ops/cross_entropy.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_reals(s, "logits", 0, 1));
    int64_t rows = lvn_desc_rows(&s->in[0]);
    LVN_TRY(lvn_shape_integers(s, "labels", 1, rows));
    s->out[0] = LVN_DESC(LVN_F64, 1);
    s->out[1] = s->out[2] = LVN_DESC(s->real, rows);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const real *logits = call->in[0].p;    /* (R,V) */
    const int32_t *labels = call->in[1].p; /* (R) */
    double *total = call->out[0].p;
    real *loss = call->out[1].p, *logsumexp = call->out[2].p; /* (R) */
    const struct lvn_desc *d = call->in[0].desc;
    int64_t V = d->dim[d->rank - 1], rows = lvn_desc_rows(d);
    *total = 0;
    for (int64_t r = 0; r < rows; r++) {
        const real *z = logits + r * V;
        double l = lvn_logsumexp(z, V);
        logsumexp[r] = (real)l;
        loss[r] = lvn_label_ignored(labels[r], call->attr->cross_entropy.ignore) ? 0 : (real)(l - z[labels[r]]);
        *total += loss[r];
    }
}

static void backward(const struct lvn_call *call)
{
    if (!call->din[0].p) return;
    const real *logits = call->in[0].p, *logsumexp = call->out[2].p; /* (R,V), (R) */
    const int32_t *labels = call->in[1].p;                           /* (R) */
    real *dlogits = call->din[0].p;                                  /* (R,V) */
    const struct lvn_desc *d = call->in[0].desc;
    int64_t V = d->dim[d->rank - 1], rows = lvn_desc_rows(d);
    for (int64_t r = 0; r < rows; r++) {
        bool ignored = lvn_label_ignored(labels[r], call->attr->cross_entropy.ignore);
        const real *z = logits + r * V;
        for (int64_t v = 0; v < V; v++) {
            double gradient =
                ignored ? 0 : lvn_cross_entropy_gradient(z, logsumexp[r], labels[r], v, call->step->grad_scale);
            lvn_put(&dlogits[r * V + v], call->add[0], gradient);
        }
    }
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_cross_entropy(struct levin_graph *g, struct levin_tensor *logits,
                                         struct levin_tensor *labels)
{
    return lvn_node_append(g, LVN_OP_cross_entropy, &(union lvn_attr){.cross_entropy = {.ignore = -1}},
                           (struct levin_tensor *[]){logits, labels}, 2);
}
#endif

LVN_OPERATION(cross_entropy, shape, forward, backward, .n_in = 2, .n_in_min = 2, .n_out = 1, .n_saved = 2,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_OUT(2));
