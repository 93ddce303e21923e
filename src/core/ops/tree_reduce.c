/* tree_reduce.c - the sum over ranks of gradients, in the order of the tree over all micro-batches
 * (passes/gradient_accumulation.c): the same bits for every number of ranks.
 *
 * in[0] (buffers, n): a range of the gradient buffers, whose contents are described by program->pending; undefined
 * afterwards. out[0] (n): the sum, in the memory of the first buffer; with attr.scatter, only this rank's shard of the
 * gradients of attr.block. */
#include "ops/collective.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    const struct lvn_desc *in = &s->in[0]; /* one row in each buffer */
    LVN_CHECK(s->has[0] && in->rank == 2 && in->stride[1] == 1 && in->dtype == s->real, SHAPE,
              "tree_reduce: expected a row of %s from each gradient buffer", lvn_dtype_name(s->real));
    s->out[0] = LVN_DESC(s->real, in->dim[1]);
    s->out[1] = lvn_handle_desc();
    return LVN_OK;
}

LVN_COLLECTIVE(tree_reduce, shape, .n_in = 1, .n_in_min = 1, .n_out = 2,
               .low_precision_ok = LVN_READS_IN(0) | LVN_READS_OUT(0));
