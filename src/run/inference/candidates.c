/* candidates.c - see candidates.h. */
#include "inference/candidates.h"

#include "base/arena.h"
#include "base/vectors/four.h"

enum lvn_status lvn_candidates_init(struct lvn_candidates *c, int64_t vocab_size)
{
    *c = (struct lvn_candidates){.n = vocab_size};
    c->list = lvn_calloc((size_t)vocab_size, sizeof *c->list);
    c->penalized = lvn_malloc((size_t)vocab_size * sizeof *c->penalized);
    return c->list && c->penalized ? LVN_OK : LVN_MEMORY;
}

void lvn_candidates_release(struct lvn_candidates *c)
{
    free(c->list);
    free(c->penalized);
    *c = (struct lvn_candidates){0};
}

static bool before(const struct lvn_candidate *a, const struct lvn_candidate *b)
{
    return a->value != b->value ? a->value > b->value : a->id < b->id;
}

/* Restore the heap of n elements after heap[at] has changed. */
static void sink(struct lvn_candidate *heap, int64_t n, int64_t at)
{
    struct lvn_candidate x = heap[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(&heap[child + 1], &heap[child])) child++;
        if (!before(&heap[child], &x)) break;
        heap[at] = heap[child];
    }
    heap[at] = x;
}

static float weight(const struct lvn_candidates *c, float logit)
{
    return (float)exp(((double)logit - c->max_logit) / c->temperature);
}

/* A lower bound of the k likeliest logits: the minimum over k ranges of tokens of the range's maximum. */
static float lower_bound(const float *logits, int64_t n, int64_t k)
{
    float bound = INFINITY;
    for (int64_t range = 0; range < k; range++) {
        float max = -INFINITY;
        for (int64_t i = n * range / k; i < n * (range + 1) / k; i++) max = logits[i] > max ? logits[i] : max;
        bound = max < bound ? max : bound;
    }
    return bound;
}

/* The heap of all candidates that may be among the k likeliest. */
static void fill(struct lvn_candidates *c, const float *logits, int64_t k, double temperature)
{
    const float bound = k < c->n ? lower_bound(logits, c->n, k) : -INFINITY;
    c->n_listed = 0;
    for (int64_t i = 0; i < c->n; i++)
        if (logits[i] >= bound) c->list[c->n_listed++] = (struct lvn_candidate){logits[i], (int32_t)i};
    for (int64_t i = c->n_listed / 2; i-- > 0;) sink(c->list, c->n_listed, i);
    c->taken = 0;
    c->max_logit = c->list[0].value;
    c->temperature = temperature;
}

/* The i-th likeliest candidate, counted from 0; its value becomes its weight. */
static const struct lvn_candidate *ranked(struct lvn_candidates *c, int64_t i)
{
    while (c->taken <= i) {
        int64_t last = c->n_listed - 1 - c->taken++;
        struct lvn_candidate likeliest = c->list[0];
        c->list[0] = c->list[last];
        sink(c->list, last, 0);
        c->list[last] = (struct lvn_candidate){weight(c, likeliest.value), likeliest.id};
    }
    return &c->list[c->n_listed - 1 - i];
}

/* The sum of the weights of the k likeliest; no candidate may have been removed yet. */
static double sum_of(struct lvn_candidates *c, int64_t k)
{
    double sum = 0.0;
    for (int64_t i = 0; i < k; i++) sum += k < c->n ? ranked(c, i)->value : weight(c, c->list[i].value);
    return sum;
}

bool lvn_candidates_finite(const float *logits, int64_t n)
{
    const lvn_four_ints infinity = (lvn_four_ints){0} + 0x7f800000; /* the exponent that infinities and NaN have */
    lvn_four_ints any = {0};
    int64_t i = 0;
    for (; i + LVN_FOUR <= n; i += LVN_FOUR) any |= ((lvn_four_ints)lvn_four_load(logits + i) & infinity) == infinity;
    bool finite = !(any[0] | any[1] | any[2] | any[3]);
    for (; i < n; i++) finite &= isfinite(logits[i]);
    return finite;
}

/* The first of the largest logits: each lane keeps its first largest one. */
static int32_t likeliest(const float *logits, int64_t n)
{
    const lvn_four_ints step = (lvn_four_ints){0} + LVN_FOUR;
    lvn_four top = (lvn_four){0} - INFINITY;
    lvn_four_ints at = {0, 1, 2, 3}, best = {0};
    int64_t i = 0;
    for (; i + LVN_FOUR <= n; i += LVN_FOUR, at += step) {
        const lvn_four x = lvn_four_load(logits + i);
        const lvn_four_ints above = x > top;
        top = (lvn_four)(((lvn_four_ints)x & above) | ((lvn_four_ints)top & ~above));
        best = (at & above) | (best & ~above);
    }
    int32_t id = best[0];
    for (int lane = 1; lane < LVN_FOUR; lane++)
        if (logits[best[lane]] > logits[id] || (logits[best[lane]] == logits[id] && best[lane] < id)) id = best[lane];
    for (; i < n; i++)
        if (logits[i] > logits[id]) id = (int32_t)i;
    return id;
}

enum lvn_status lvn_choice_check(const struct lvn_choice *s)
{
    LVN_CHECK(s->temperature >= 0 && s->temperature <= 1e6, ARG, "temperature is %g; it must be from 0 (greedy) to 1e6",
              s->temperature);
    LVN_CHECK(s->top_k >= 0 && s->top_k <= 1 << 30, ARG, "top_k is %lld; it must be from 0 (off) to %d",
              (long long)s->top_k, 1 << 30);
    LVN_CHECK(s->top_p >= 0 && s->top_p <= 1, ARG, "top_p is %g; it must be from 0 to 1", s->top_p);
    /* A smaller one would turn logits, which it divides, into infinities. */
    LVN_CHECK(s->repetition_penalty == 0 || (s->repetition_penalty >= 1e-3 && s->repetition_penalty <= 1e6), ARG,
              "repetition_penalty is %g; it must be 0 (off, as 1) or from 0.001 to 1e6", s->repetition_penalty);
    return LVN_OK;
}

static void penalize(float *out, const float *logits, float penalty, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[ids[i]] = logits[ids[i]] > 0 ? logits[ids[i]] / penalty : logits[ids[i]] * penalty;
}

const float *lvn_candidates_penalize(struct lvn_candidates *c, const float *logits, double penalty, const int32_t *ids,
                                     int64_t n, const int32_t *more, int64_t n_more)
{
    memcpy(c->penalized, logits, (size_t)c->n * sizeof *logits);
    penalize(c->penalized, logits, (float)penalty, ids, n);
    penalize(c->penalized, logits, (float)penalty, more, n_more);
    return c->penalized;
}

int32_t lvn_candidates_choose(struct lvn_candidates *c, const float *logits, const struct lvn_choice *s, double u)
{
    if (s->temperature <= 0.0) return likeliest(logits, c->n);
    int64_t left = s->top_k > 0 && s->top_k < c->n ? s->top_k : c->n;
    fill(c, logits, left, s->temperature);
    double total = sum_of(c, left), sum = 0.0;
    if (s->top_p > 0.0 && s->top_p < 1.0) {
        double share = s->top_p * total;
        int64_t n_kept = 0;
        for (total = 0.0; n_kept < left && !(n_kept > 0 && total >= share);) total += ranked(c, n_kept++)->value;
        left = n_kept;
    }
    for (int64_t i = 0; i < left - 1; i++) {
        sum += ranked(c, i)->value;
        if (u * total < sum) return ranked(c, i)->id;
    }
    return ranked(c, left - 1)->id;
}
