/* rope.c - see rope.h. Values absent from config.json have the defaults of the library transformers. */
#include "models/rope.h"

const struct lvn_key_word lvn_rope_words[] = {
    {"default", LVN_ROTARY_PLAIN, "unscaled rotary positions"},
    {"dynamic", LVN_ROTARY_PLAIN, "unscaled rotary positions"}, /* scaled only beyond max_position_embeddings */
    {"linear", LVN_ROTARY_LINEAR, "linear scaling of rotary positions"},
    {"yarn", LVN_ROTARY_YARN, "yarn scaling of rotary positions"},
    {"llama3", LVN_ROTARY_LLAMA3, "llama3 scaling of rotary positions"},
    {NULL, 0, NULL},
};

enum lvn_status lvn_rope_check(const struct lvn_rope *r, int64_t dims)
{
    LVN_CHECK(dims > 0 && dims % 2 == 0, ARG,
              "rotary embeddings rotate %" PRId64
              " channels of each head in pairs; choose sizes for which this number is even and above 0",
              dims);
    LVN_CHECK(r->scaling == LVN_ROTARY_PLAIN || r->factor >= 1, ARG, "rope_scaling.factor is %g; it must be at least 1",
              r->factor);
    LVN_CHECK(
        r->scaling != LVN_ROTARY_LLAMA3 || (r->low > 0 && r->high > r->low), ARG,
        "rope_scaling: low_freq_factor %g and high_freq_factor %g; llama3 requires the second above the first, and "
        "both above 0",
        r->low, r->high);
    LVN_CHECK(r->scaling != LVN_ROTARY_YARN || r->theta > 1, ARG,
              "rope_theta is %g; yarn scaling requires a value above 1", r->theta);
    return LVN_OK;
}

void lvn_rope_keep_original(struct lvn_rope *r, int64_t positions)
{
    const bool uses = r->scaling == LVN_ROTARY_YARN || r->scaling == LVN_ROTARY_LLAMA3;
    if (uses && r->original <= 0) r->original = (double)positions;
}

static double yarn_magnitude(double factor, double mscale)
{
    return factor > 1 ? 0.1 * mscale * log(factor) + 1 : 1;
}

struct levin_tensor *lvn_rope_table(struct levin_graph *g, const struct lvn_rope *r, struct levin_tensor *ids,
                                    int64_t dims, int64_t positions)
{
    union lvn_attr a = {.rotary_table = {.dims = dims,
                                         .theta = r->theta,
                                         .scaling = r->scaling,
                                         .factor = r->factor,
                                         .magnitude = 1,
                                         .original = r->original > 0 ? r->original : (double)positions,
                                         .whole = r->truncate}};
    if (r->scaling == LVN_ROTARY_YARN) { /* low and high are beta_slow and beta_fast, `whole` is truncate */
        a.rotary_table.low = r->beta_slow > 0 ? r->beta_slow : 1;
        a.rotary_table.high = r->beta_fast > 0 ? r->beta_fast : 32;
        a.rotary_table.magnitude = r->attention > 0 ? r->attention
                                   : r->mscale > 0 && r->mscale_all > 0
                                       ? yarn_magnitude(r->factor, r->mscale) / yarn_magnitude(r->factor, r->mscale_all)
                                       : yarn_magnitude(r->factor, 1);
    } else {
        a.rotary_table.low = r->low;
        a.rotary_table.high = r->high;
    }
    return levin_rotary_table(g, ids, &a);
}
