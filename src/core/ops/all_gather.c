/* all_gather.c - every rank receives the shards of all ranks.
 *
 * in[0]: this rank's shard, at its position in out[0]; absent: it has none. out[0] (n), any type: the trainable or,
 * with attr.frozen, the frozen parameters of attr.block, divided by lvn_shard_at(); with attr.ranges it is bytes, with
 * parameters at the offsets given by lvn_gathered_offset(). */
#include "ops/collective.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    int64_t all = lvn_desc_count(&s->out[0]), part = s->has[0] ? lvn_desc_count(&s->in[0]) : 0;
    LVN_CHECK(part <= all, SHAPE, "all_gather: a shard of %lld elements is larger than the result of %lld",
              (long long)part, (long long)all);
    s->out[1] = lvn_handle_desc();
    return LVN_OK;
}

LVN_COLLECTIVE(all_gather, shape, .n_in = 1, .n_out = 2, .low_precision_ok = LVN_READS_IN(0) | LVN_READS_OUT(0));
