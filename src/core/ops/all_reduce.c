/* all_reduce.c - the sum over ranks of each element. in[0] (n): real, bf16 or fp64; out[0]: the sum, in the memory of
 * in[0], with the same bits on every rank; out[1]: the handle (collective.h). */
#include "ops/collective.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    if (s->in[0].dtype != LVN_F64) LVN_TRY(lvn_shape_reals(s, "summand", 0, 1));
    s->out[0] = s->in[0];
    s->out[1] = lvn_handle_desc();
    return LVN_OK;
}

LVN_COLLECTIVE(all_reduce, shape, .n_in = 1, .n_in_min = 1, .n_out = 2,
               .low_precision_ok = LVN_READS_IN(0) | LVN_READS_OUT(0));
