/* kv_cache.c - the key/value cache of a decoding graph: keys or values of all positions so far, which live between
 * runs.
 *
 * Input: x (B,T,H,D), the keys (or values) of T new tokens, strided. Output: the cache (B,length,H,D), to which they
 * are written, each row from its step->position on. In a graph without a cache the constructor returns x, so that
 * models are the same for training and decoding.
 *
 * attr.ring: position p is in row p % length, where it replaces position p - length. A layer with a window has such a
 * cache if it is the shorter one: its length is the window and the other new positions of a run, which the first of
 * them must not overwrite. Without a ring, positions beyond the cache are dropped: the caller starts again at position
 * 0 before that. It has no gradient. */

#include "base/list.h"
#include "ops/real.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    const struct lvn_desc *x = &s->in[0];
    const int64_t length = s->attr->kv_cache.length;
    char text[LVN_SHAPE_TEXT];
    LVN_CHECK(
        x->rank == 4 && (x->stride[3] == 1 || x->dim[3] == 1), SHAPE,
        "kv_cache: input has shape %s, expected (batch, time, heads, head size) with a head's channels contiguous",
        lvn_shape_text(x, text));
    LVN_CHECK(x->dtype == s->real, UNSUPPORTED, "kv_cache: input is %s, expected %s", lvn_dtype_name(x->dtype),
              lvn_dtype_name(s->real));
    LVN_CHECK(x->dim[1] <= length, SHAPE, "kv_cache: %lld new positions do not fit into a cache of %lld",
              (long long)x->dim[1], (long long)length);
    s->out[0] = LVN_DESC(s->real, x->dim[0], length, x->dim[2], x->dim[3]);
    return LVN_OK;
}

/* Row r of the new tokens in the cache; NULL: beyond it. */
static real *row_of(const struct lvn_call *c, int64_t r)
{
    const struct lvn_desc *out = c->out[0].desc;
    const int64_t T = c->in[0].desc->dim[1], b = r / T, position = lvn_step_position(c->step, b) + r % T;
    const int64_t at = c->attr->kv_cache.ring ? position % out->dim[1] : position;
    return at < out->dim[1] ? (real *)c->out[0].p + b * out->stride[0] + at * out->stride[1] : NULL;
}

static void forward(const struct lvn_call *c)
{
    enum { LINE = 64 / sizeof(real) };
    const struct lvn_desc *x = c->in[0].desc, *out = c->out[0].desc;
    const int64_t B = x->dim[0], T = x->dim[1], H = x->dim[2], D = x->dim[3];
    /* one token of each text: rows that are far from each other and in no cache of the processor */
    for (int64_t r = 0; T == 1 && r < B; r++) {
        const real *cache = row_of(c, r);
        for (int64_t i = 0; cache && i < H * D; i += LINE) __builtin_prefetch(cache + i, 1);
    }
    for (int64_t r = 0; r < B * T; r++) {
        const real *source = (const real *)c->in[0].p + r / T * x->stride[0] + r % T * x->stride[1];
        real *cache = row_of(c, r);
        if (!cache) continue;
        for (int64_t h = 0; h < H; h++)
            memcpy(cache + h * out->stride[2], source + h * x->stride[2], (size_t)D * sizeof(real));
    }
}

#ifndef LVN_REAL_DOUBLE
static int add_cache(struct levin_graph *g, const char *name, const struct lvn_desc *desc)
{
    if (!lvn_list_reserve(&g->caches, &g->caches_capacity, g->n_caches + 1, sizeof *g->caches)) return -1;
    char *copy = lvn_arena_printf(&g->arena, "%s%s%s", g->scope, *g->scope ? "." : "", name);
    if (!copy) return -1;
    g->caches[g->n_caches] = (struct lvn_cache){.name = copy, .desc = *desc};
    return g->n_caches++;
}

struct levin_tensor *levin_kv_cache(struct levin_graph *g, const char *name, struct levin_tensor *x, int64_t window)
{
    if (!name) return lvn_graph_fail(g, lvn_fail(LVN_ARG, "levin_kv_cache: the name is NULL: name each cache"));
    if (!x || g->cache_length == 0) return x;
    const int64_t tokens = g->cache_tokens ? g->cache_tokens : x->desc.dim[1], ring = window + tokens - 1;
    union lvn_attr attr = {.kv_cache = {.length = g->cache_length}};
    if (window > 0 && ring < g->cache_length) attr.kv_cache.length = ring, attr.kv_cache.ring = true;
    struct levin_tensor *cache = lvn_node_append(g, LVN_OP_kv_cache, &attr, &x, 1);
    if (!cache) return NULL;
    cache->node->cache = add_cache(g, name, &cache->desc);
    if (cache->node->cache >= 0) return cache;
    g->status = LVN_MEMORY;
    g->error = "not enough memory for the list of caches";
    return NULL;
}
#endif

LVN_OPERATION(kv_cache, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 1);
