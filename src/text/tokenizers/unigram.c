/* unigram.c - see unigram.h: the trie of tokens, then the Viterbi algorithm. */
#include "tokenizers/unigram.h"

#include <float.h>

#include "base/list.h"
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
    t->model = LVN_TOKENIZER_UNIGRAM;
    t->unigram = u;
    LVN_TRY(lvn_bpe_init(&u->trie, bytes + 1));
    for (int64_t i = 0; i <= bytes; i++) u->token[i] = -1;
    for (int64_t id = 0; id < t->n; id++) {
        int32_t node = 0;
        if (t->start[id] == t->start[id + 1] || !t->in_model[id]) continue;
        for (uint32_t i = t->start[id]; i < t->start[id + 1]; i++) {
            const struct lvn_bpe_slot *s = lvn_bpe_find(&u->trie, node, t->byte[i]);
            if (!s) lvn_bpe_add(&u->trie, node, t->byte[i], n_nodes++);
            node = s ? s->id : n_nodes - 1;
        }
        u->token[node] = (int32_t)id;
        if (score[id] < min) min = score[id];
    }
    u->unknown = min - UNKNOWN_PENALTY;
    return LVN_OK;
}

/* Node of the lattice: the best path to a position of the piece, by its last token. */
struct lvn_unigram_node {
    double score;
    int64_t start; /* position where the token begins; -1: no path */
    int32_t id;    /* of the token; -1: an unknown character */
};

void lvn_unigram_scratch_release(struct lvn_unigram_scratch *s)
{
    free(s->node);
    *s = (struct lvn_unigram_scratch){0};
}

static void relax(struct lvn_unigram_node *node, double score, int64_t start, int32_t id)
{
    if (node->start < 0 || score > node->score)
        *node = (struct lvn_unigram_node){.score = score, .start = start, .id = id};
}

/* Relax the ends of all tokens that begin at `at`. *bytes: length of the character there. */
static void extend(const struct lvn_tokenizer *t, struct lvn_unigram_node *lattice, const uint8_t *p, int64_t n,
                   int64_t at, bool specials, int *bytes)
{
    const struct lvn_unigram *u = t->unigram;
    double score = lattice[at].score;
    bool single = false;
    int32_t node = 0;
    (void)lvn_utf8_decode(p + at, n - at, bytes);
    for (int64_t i = at; i < n; i++) {
        const struct lvn_bpe_slot *s = lvn_bpe_find(&u->trie, node, p[i]);
        if (!s) break;
        node = s->id;
        int32_t id = u->token[node];
        if (id < 0 || (u->special[id] && !specials)) continue;
        relax(&lattice[i + 1], score + u->score[id], at, id);
        single = single || i + 1 - at == *bytes;
    }
    if (!single) relax(&lattice[at + *bytes], score + u->unknown, at, -1);
}

/* Write unknown characters as byte tokens, if all of their bytes have one, else as one unknown token. Returns the
 * number of tokens. */
static int64_t write_unknown(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n, int32_t *out)
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
    if (!lvn_list_reserve(&s->node, &s->capacity, n + 1, sizeof *s->node)) return LVN_MEMORY;
    struct lvn_unigram_node *lattice = s->node;
    for (int64_t i = 0; i <= n; i++) lattice[i].start = -1;
    lattice[0] = (struct lvn_unigram_node){.start = 0};
    int bytes = 1;
    for (int64_t at = 0; at < n; at += bytes) extend(t, lattice, p, n, at, specials, &bytes);
    *made = 0;
    int64_t k = n;
    /* The path is followed backwards: tokens are written from the end of `out`, then moved to its beginning. */
    for (int64_t at = n; at > 0;) {
        int64_t start = lattice[at].start;
        if (lattice[at].id >= 0) {
            out[--k] = lattice[at].id;
            at = start;
            continue;
        }
        while (start > 0 && lattice[start].id < 0)
            start = lattice[start].start; /* one token for a run of unknown characters */
        int64_t written = write_unknown(t, p + start, at - start, out + k - (at - start));
        if (written == 1) out[k - 1] = out[k - (at - start)];
        k -= written;
        at = start;
    }
    for (int64_t i = k; i < n; i++) out[(*made)++] = out[i];
    return LVN_OK;
}
