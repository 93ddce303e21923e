/* unigram.c - see unigram.h. */
#include "tokenizers/unigram.h"

#include <float.h>
#include <stdlib.h>

#include "base/text.h"

#define UNKNOWN_PENALTY 10.0 /* below the lowest score; SentencePiece's */

enum lvn_status lvn_unigram_new(struct lvn_tokenizer *t, double *score)
{
    struct lvn_unigram *u = lvn_arena_alloc(&t->arena, sizeof *u);
    int64_t bytes = t->start[t->n];
    int32_t n_nodes = 1;
    double min = DBL_MAX;
    if (!u) return LVN_MEMORY;
    *u = (struct lvn_unigram){.score = score,
                              .token = lvn_arena_alloc(&t->arena, sizeof *u->token * (size_t)(bytes + 1)),
                              .special = lvn_arena_alloc(&t->arena, sizeof *u->special * (size_t)t->n)};
    if (!u->token || !u->special) return LVN_MEMORY;
    t->model = LVN_MODEL_UNIGRAM;
    t->unigram = u;
    LVN_TRY(lvn_bpe_init(&u->next, bytes + 1));
    for (int64_t i = 0; i <= bytes; i++) u->token[i] = -1;
    for (int64_t id = 0; id < t->n; id++) {
        int32_t node = 0;
        if (t->start[id] == t->start[id + 1] || !t->own[id]) continue;
        for (uint32_t i = t->start[id]; i < t->start[id + 1]; i++) {
            const struct lvn_bpe_slot *s = lvn_bpe_find(&u->next, node, t->byte[i]);
            if (!s) lvn_bpe_add(&u->next, node, t->byte[i], n_nodes++);
            node = s ? s->id : n_nodes - 1;
        }
        u->token[node] = (int32_t)id;
        if (score[id] < min) min = score[id];
    }
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].special) u->special[t->added[i].id] = true;
    u->unknown = min - UNKNOWN_PENALTY;
    return LVN_OK;
}

/* The best way to a place: which token ends there, and where it begins. */
struct lvn_unigram_place {
    double score;
    int64_t from; /* -1: there is no way */
    int32_t id;
};

void lvn_unigram_scratch_release(struct lvn_unigram_scratch *s)
{
    free(s->place);
    *s = (struct lvn_unigram_scratch){0};
}

static void offer(struct lvn_unigram_place *place, double score, int64_t from, int32_t id)
{
    if (place->from < 0 || score > place->score)
        *place = (struct lvn_unigram_place){.score = score, .from = from, .id = id};
}

/* All tokens that begin at `at`. */
static void look(const struct lvn_tokenizer *t, struct lvn_unigram_place *place, const uint8_t *p, int64_t n,
                 int64_t at, bool specials, int *bytes)
{
    const struct lvn_unigram *u = t->unigram;
    double here = place[at].score;
    bool single = false;
    int32_t node = 0;
    (void)lvn_utf8_decode(p + at, n - at, bytes);
    for (int64_t i = at; i < n; i++) {
        const struct lvn_bpe_slot *s = lvn_bpe_find(&u->next, node, p[i]);
        if (!s) break;
        node = s->id;
        int32_t id = u->token[node];
        if (id < 0 || (u->special[id] && !specials)) continue;
        offer(&place[i + 1], here + u->score[id], at, id);
        single = single || i + 1 - at == *bytes;
    }
    if (!single) offer(&place[at + *bytes], here + u->unknown, at, -1);
}

/* What is unknown, in bytes where all of these have tokens; how many tokens. */
static int64_t unknown(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n, int32_t *out)
{
    bool all = t->byte_fallback;
    for (int64_t i = 0; i < n && all; i++) all = t->fallback[p[i]] >= 0;
    for (int64_t i = 0; i < n && all; i++) out[i] = t->fallback[p[i]];
    if (!all) out[0] = t->unknown;
    return all ? n : 1;
}

enum lvn_status lvn_unigram_piece(const struct lvn_tokenizer *t, struct lvn_unigram_scratch *s, const uint8_t *p,
                                  int64_t n, bool specials, int32_t *out, int64_t *made)
{
    if (n + 1 > s->capacity) {
        int64_t capacity = n + n / 2 + 1024;
        struct lvn_unigram_place *more = lvn_realloc(s->place, (size_t)capacity * sizeof *more);
        if (!more) return LVN_MEMORY;
        s->place = more;
        s->capacity = capacity;
    }
    struct lvn_unigram_place *place = s->place;
    for (int64_t i = 0; i <= n; i++) place[i].from = -1;
    place[0] = (struct lvn_unigram_place){.from = 0};
    int bytes = 1;
    for (int64_t at = 0; at < n; at += bytes) look(t, place, p, n, at, specials, &bytes);
    *made = 0;
    int64_t k = n;
    /* Tokens are written from the end of `out` to its beginning, as the way back has them, then moved down. */
    for (int64_t at = n; at > 0;) {
        int64_t from = place[at].from;
        if (place[at].id >= 0) {
            out[--k] = place[at].id;
            at = from;
            continue;
        }
        while (from > 0 && place[from].id < 0) from = place[from].from; /* one token for a run of what is unknown */
        int64_t many = unknown(t, p + from, at - from, out + k - (at - from));
        if (many == 1) out[k - 1] = out[k - (at - from)];
        k -= many;
        at = from;
    }
    for (int64_t i = k; i < n; i++) out[(*made)++] = out[i];
    return LVN_OK;
}
