/* previous.c - the row before each row: y[b][t] = x[b][t - 1], and zeros where a document begins.
 *
 * x (B,T,C), y (B,T,C). In a decoding graph the cache (B,length,1,C) holds the rows of earlier runs (kv_cache.c); its
 * row `length` is that of position p % length. segments (B,T): where each token's document begins, or absent. hidden,
 * or absent: the ranges of graph.h, before which the row before a continuation is; backward does not support it, nor do
 * GPUs. */
#include "ops/positions.h"
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    char text[LVN_SHAPE_TEXT];
    LVN_TRY(lvn_shape_reals(s, "input", 0, 3));
    const struct lvn_desc *x = &s->in[0], *cache = &s->in[1];
    LVN_CHECK(x->rank == 3, SHAPE, "previous: the input has shape %s; expected (samples, tokens, channels)",
              lvn_shape_text(x, text));
    if (s->has[1]) {
        LVN_TRY(lvn_shape_reals(s, "cache", 1, 4));
        LVN_CHECK(cache->dim[0] == x->dim[0] && cache->dim[1] >= x->dim[1] &&
                      cache->dim[2] * cache->dim[3] == x->dim[2],
                  SHAPE, "previous: the cache has shape %s; it must have at least the rows of the input",
                  lvn_shape_text(cache, text));
    }
    if (s->has[2]) LVN_TRY(lvn_shape_integers(s, "segments", 2, x->dim[0] * x->dim[1]));
    if (s->has[3]) LVN_TRY(lvn_shape_integers(s, "hidden", 3, 2 * LVN_HIDDEN_RANGES * x->dim[0] * x->dim[1]));
    s->out[0] = lvn_desc_make(s->real, 3, x->dim);
    return LVN_OK;
}

/* The number of hidden rows that are directly before row r of all rows. */
static int64_t hidden_before(const struct lvn_call *call, int64_t r, int64_t T)
{
    const int32_t *hidden = call->in[3].p;
    int64_t t = r % T;
    for (int i = LVN_HIDDEN_RANGES - 1; hidden && i >= 0; i--) {
        const int32_t *range = hidden + (r * LVN_HIDDEN_RANGES + i) * 2;
        if (range[1] == t) t -= range[1] - range[0];
    }
    return r % T - t;
}

/* The row before row r of all rows, or NULL. */
static const real *before(const struct lvn_call *call, const real *x, int64_t r, int64_t T, int64_t C)
{
    const int64_t position = lvn_token_position(call->step, call->in[2].p, r, T);
    if (position == 0) return NULL;
    if (r % T > 0) return x + (r - 1 - hidden_before(call, r, T)) * C;
    if (!call->in[1].p) return NULL;
    const int64_t length = call->in[1].desc->dim[1];
    return (const real *)call->in[1].p + (r / T * length + (position - 1) % length) * C;
}

static void forward(const struct lvn_call *call)
{
    const struct lvn_desc *d = call->in[0].desc;
    const int64_t T = d->dim[1], C = d->dim[2], R = d->dim[0] * T;
    real *y = call->out[0].p;
    for (int64_t r = 0; r < R; r++) {
        const real *x = before(call, call->in[0].p, r, T, C);
        for (int64_t c = 0; c < C; c++) y[r * C + c] = x ? x[c] : 0;
    }
}

static void backward(const struct lvn_call *call)
{
    const struct lvn_desc *d = call->dout[0].desc;
    const int64_t T = d->dim[1], C = d->dim[2], R = d->dim[0] * T;
    const real *dy = call->dout[0].p;
    real *dx = call->din[0].p;
    for (int64_t r = 0; dx && r < R; r++) {
        const bool read = r % T + 1 < T && lvn_token_position(call->step, call->in[2].p, r + 1, T) != 0;
        for (int64_t c = 0; c < C; c++) lvn_put(&dx[r * C + c], call->add[0], read ? dy[(r + 1) * C + c] : 0);
    }
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_previous(struct levin_graph *g, struct levin_tensor *x)
{
    struct levin_tensor *cache = NULL;
    if (x && g->cache_length > 0)
        cache = levin_kv_cache(g, "previous", levin_heads(g, x, 0, 1, x->desc.dim[x->desc.rank - 1]), 2);
    return lvn_node_append(g, LVN_OP_previous, &(union lvn_attr){0},
                           (struct levin_tensor *[]){x, cache, g->segments, g->hidden}, 4);
}
#endif

LVN_OPERATION(previous, shape, forward, backward, .n_in = 4, .n_in_min = 1, .n_out = 1, .reads = LVN_READS_IN(2));
