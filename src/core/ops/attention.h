/* attention.h - sizes, masks and dropout of attention, for all of its kernels.
 *
 * A query sees the keys [attention_first_key(), attention_end_key()), with every mask that attention supports (causal,
 * lengths, cache position, window, segments), without those that are hidden from it (attention_hides()). Neither bound
 * decreases from one query to the next, except that the first key may if the call hides keys and has a window. So the
 * keys of a block of queries are a range, too, and kernels skip all other keys. */
#ifndef LVN_ATTENTION_H
#define LVN_ATTENTION_H

#include "base/random.h"
#include "graph/op.h"

struct attention_sizes {
    int64_t B;                   /* samples */
    int64_t Tq;                  /* queries of a sample */
    int64_t Tk;                  /* keys of a sample, or length of the cache */
    int64_t Hq;                  /* query heads */
    int64_t Hkv;                 /* key and value heads */
    int64_t D;                   /* channels of a head */
    int64_t group;               /* query heads that share one key head */
    const struct lvn_step *step; /* positions of the queries in the cache; NULL without a cache */
    bool cached;
    bool causal;
    bool ring;               /* the cache has key j in row j % Tk */
    int64_t window;          /* a query sees the last `window` keys; 0: all */
    const int32_t *lengths;  /* (B) valid keys of each sample; NULL: all */
    const int32_t *segments; /* (B,Tq) position at which the document of each token starts; NULL: one document */
    const int32_t *hidden;   /* (B,Tq,2 LVN_HIDDEN_RANGES), see graph.h; NULL: no keys are hidden */
};

static inline struct attention_sizes attention_sizes(const struct lvn_call *c)
{
    const struct lvn_desc *q = c->in[0].desc, *k = c->in[1].desc;
    struct attention_sizes s = {.B = q->dim[0], .Tq = q->dim[1], .Hq = q->dim[2], .D = q->dim[3]};
    s.Tk = k->dim[1];
    s.Hkv = k->dim[2];
    s.group = s.Hq / s.Hkv;
    s.cached = c->attr->attention.cached;
    s.causal = c->attr->attention.causal;
    s.step = s.cached ? c->step : NULL;
    s.ring = c->attr->attention.ring;
    s.window = c->attr->attention.window;
    s.lengths = c->in[3].p;
    s.segments = c->in[4].p;
    s.hidden = c->in[5].p;
    return s;
}

/* The ranges [begin, end) of keys that are hidden from query t of sample b. */
static inline const int32_t *attention_hidden(const struct attention_sizes *s, int64_t b, int64_t t)
{
    return s->hidden + (b * s->Tq + t) * 2 * LVN_HIDDEN_RANGES;
}

/* Is key j hidden from query t of sample b? */
static inline bool attention_hides(const struct attention_sizes *s, int64_t b, int64_t t, int64_t j)
{
    bool hides = false;
    for (int i = 0; s->hidden && i < LVN_HIDDEN_RANGES; i++) {
        const int32_t *range = attention_hidden(s, b, t) + 2 * i;
        hides |= j >= range[0] && j < range[1];
    }
    return hides;
}

/* Number of keys before query 0 of sample b. */
static inline int64_t attention_first_query(const struct attention_sizes *s, int64_t b)
{
    return s->cached ? lvn_step_position(s->step, b) : s->Tk - s->Tq;
}

/* Query t of sample b sees no key from the result on. Without a cache the last query is at the position of the last
 * key; with a cache the first query is at step->position, and keys after the last query have not been written yet. */
static inline int64_t attention_end_key(const struct attention_sizes *s, int64_t b, int64_t t)
{
    int64_t n = s->Tk;
    const int64_t first = attention_first_query(s, b);
    if (s->cached && (s->ring || n > first + s->Tq)) n = first + s->Tq;
    if (s->causal && n > t + first + 1) n = t + first + 1;
    if (s->lengths && n > s->lengths[b]) n = s->lengths[b];
    return n > 0 ? n : 0;
}

/* Query t of sample b sees no key before the result, which may be after its last key. Hidden keys do not count: neither
 * in a window, nor in the positions of which `segments` is the start. */
static inline int64_t attention_first_key(const struct attention_sizes *s, int64_t b, int64_t t)
{
    int64_t first = s->window ? t + attention_first_query(s, b) + 1 - s->window : 0;
    int64_t start = s->segments ? s->segments[b * s->Tq + t] : 0;
    for (int i = LVN_HIDDEN_RANGES - 1; s->hidden && i >= 0; i--) {
        const int32_t *range = attention_hidden(s, b, t) + 2 * i;
        if (first < range[1]) first -= range[1] - range[0];
        start -= range[1] - range[0];
    }
    if (start > first) first = start;
    return first > 0 ? first : 0;
}

/* The row of key j. */
static inline int64_t attention_row(const struct attention_sizes *s, int64_t j)
{
    return s->ring ? j % s->Tk : j;
}

/* A score with the soft cap, whose derivative is 1 - (result / cap)^2. */
static inline double attention_capped(double score, double cap)
{
    return cap > 0 ? cap * tanh(score / cap) : score;
}

/* Dropout of probabilities. The row of the mask is a function of (sample, head, query), with fixed strides; the column
 * is the key. So masks do not depend on shapes, padding or the split of a batch. */
enum { LVN_ATTENTION_QUERY_BITS = 20 };

struct attention_dropout {
    struct lvn_dropout_key key;
    uint32_t threshold; /* 0: off */
    double scale;       /* factor of probabilities that are not dropped */
};

static inline struct attention_dropout attention_dropout(const struct lvn_call *c)
{
    struct attention_dropout d = {.scale = 1.0};
    double p = c->attr->attention.p;
    if (p <= 0.0 || !c->step || !c->step->training) return d;
    d.key.seed = c->step->seed;
    d.key.step = (uint64_t)c->step->step;
    d.key.op = c->op_hash;
    d.threshold = lvn_dropout_threshold(p);
    d.scale = 1.0 / (1.0 - d.threshold / 65536.0);
    return d;
}

static inline uint64_t attention_dropout_row(const struct attention_sizes *s, const struct lvn_step *step, int64_t b,
                                             int64_t h, int64_t t)
{
    int64_t first = step ? step->first_row : 0;
    return ((uint64_t)((first + b) * s->Hq + h) << LVN_ATTENTION_QUERY_BITS) +
           (uint64_t)(lvn_step_position(s->step, b) + t);
}

#endif
