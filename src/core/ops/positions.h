/* positions.h - the position of a token in its document, for the kernels of operations that know positions. */
#ifndef LVN_POSITIONS_H
#define LVN_POSITIONS_H

#include "graph/step.h"

/* Token r of all rows of T tokens: counted from the key/value cache while decoding, and from the token's document if
 * there are segments (NULL: none). */
static inline int64_t lvn_token_position(const struct lvn_step *step, const int32_t *segments, int64_t r, int64_t T)
{
    return lvn_step_position(step, r / T) + r % T - (segments ? segments[r] : 0);
}

#endif
