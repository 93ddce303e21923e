/* tree_reduce.c - the sum over ranks of gradients, in the order of the tree over all micro-batches
 * (passes/gradient_accumulation.c): the same bits for every number of ranks.
 *
 * in[0]: the gradient buffers, (buffers * n), whose contents program->pending describes; undefined afterwards.
 * out[0] (n): the sum, in the memory of the first buffer; with attr.scatter only this rank's shard of it. */
#include "ops/collective.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    int64_t elements = lvn_desc_count(&s->in[0]), n = lvn_desc_count(&s->out[0]);
    LVN_TRY(lvn_shape_reals(s, "gradients", 0, 1));
    LVN_CHECK(n > 0 && elements % n == 0, SHAPE, "tree_reduce: %lld elements are no whole number of gradients of %lld",
              (long long)elements, (long long)n);
    s->out[0] = LVN_DESC(s->real, n);
    s->out[1] = lvn_handle_desc();
    return LVN_OK;
}

LVN_COLLECTIVE(tree_reduce, shape, .n_in = 1, .n_in_min = 1, .n_out = 2,
               .low_precision_ok = LVN_READS_IN(0) | LVN_READS_OUT(0));
