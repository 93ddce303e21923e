/* wait.c - waits for a collective. in[0]: out[1] of the collective. out[0]: out[0] of the collective, any type. */
#include "ops/collective.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    return lvn_shape_integers(s, "token", 0, 1);
}

LVN_COLLECTIVE(wait, shape, .n_in = 1, .n_in_min = 1, .n_out = 1, .low_precision_ok = LVN_READS_OUT(0));
