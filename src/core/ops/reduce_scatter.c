/* reduce_scatter.c - the sum over ranks, of which each rank receives its shard.
 *
 * in[0] (n), real or bf16: elements attr.first to attr.first + n - 1 of the flat gradients, all in attr.block, which is
 * divided by lvn_shard_at(). out[0]: the same memory, of which only this rank's shard is defined afterwards. */
#include "ops/collective.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_reals(s, "summand", 0, 1));
    s->out[0] = s->in[0];
    s->out[1] = lvn_handle_desc();
    return LVN_OK;
}

LVN_COLLECTIVE(reduce_scatter, shape, .n_in = 1, .n_in_min = 1, .n_out = 2,
               .low_precision_ok = LVN_READS_IN(0) | LVN_READS_OUT(0));
