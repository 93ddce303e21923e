/* attention.h - what the plain and the fast attention kernels share: sizes, who sees whom, and how dropout counts.
 *
 * Every mask that attention knows (causal, lengths, cache) lets a query see a leading part of the keys; its length is
 * all that kernels ask for. */
#ifndef LVN_ATTENTION_H
#define LVN_ATTENTION_H

#include "base/random.h"
#include "graph/op.h"

struct attention_sizes {
    int64_t B, Tq, Tk, Hq, Hkv, D;
    int64_t group;             /* query heads that share one key head */
    const struct lvn_step *at; /* where queries stand among the keys of a cache; NULL without one */
    bool cached, causal;
    const int32_t *lengths; /* (B) or NULL */
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
    s.at = s.cached ? c->step : NULL;
    s.lengths = c->in[3].p;
    return s;
}

/* Keys before query 0 of sample b. */
static inline int64_t attention_ahead(const struct attention_sizes *s, int64_t b)
{
    return s->cached ? lvn_step_position(s->at, b) : s->Tk - s->Tq;
}

/* Query t of sample b sees keys 0 .. result-1. Without a cache the last query is level with the last key; in a cache
 * the queries stand at `position`, and what lies behind the last query has not been written yet. */
static inline int64_t attention_visible(const struct attention_sizes *s, int64_t b, int64_t t)
{
    int64_t n = s->Tk;
    const int64_t ahead = attention_ahead(s, b);
    if (s->cached && n > ahead + s->Tq) n = ahead + s->Tq;
    if (s->causal && n > t + ahead + 1) n = t + ahead + 1;
    if (s->lengths && n > s->lengths[b]) n = s->lengths[b];
    return n > 0 ? n : 0;
}

/* Dropout of probabilities: the row that counts for (sample, head, query); the column is the key. Strides are fixed, so
 * masks do not depend on shapes, padding or the split of a batch. */
enum { LVN_ATTENTION_QUERY_BITS = 20 };

struct attention_dropout {
    struct lvn_dropout_key key;
    uint32_t threshold; /* 0: off */
    double kept;        /* factor of what stays */
};

static inline struct attention_dropout attention_dropout(const struct lvn_call *c)
{
    struct attention_dropout d = {.kept = 1.0};
    double p = c->attr->attention.p;
    if (p <= 0.0 || !c->step || !c->step->training) return d;
    d.key.seed = c->step->seed;
    d.key.step = (uint64_t)c->step->step;
    d.key.op = c->op_hash;
    d.threshold = lvn_dropout_threshold(p);
    d.kept = 1.0 / (1.0 - d.threshold / 65536.0);
    return d;
}

static inline uint64_t attention_dropout_row(const struct attention_sizes *s, const struct lvn_step *step, int64_t b,
                                             int64_t h, int64_t t)
{
    int64_t first = step ? step->first_row : 0;
    return ((uint64_t)((first + b) * s->Hq + h) << LVN_ATTENTION_QUERY_BITS) +
           (uint64_t)(lvn_step_position(s->at, b) + t);
}

#endif
