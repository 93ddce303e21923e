/* encode_pieces.c - normalized text to ids: the pre-tokenizers cut it into pieces, the model makes tokens of each. */
#include <string.h>

#include "tokenizers/encoder.h"
#include "tokenizers/load.h"
#include "tokenizers/unicode/unicode.h"
#include "tokenizers/wordpiece.h"

enum { FEW_IDS = 8 };

/* --- one piece --- */

/* The tokens that merging begins with. */
struct symbols {
    int32_t *out;
    int64_t n;
    bool unknown; /* one waits: it is written before the next that is known */
};

static void known(const struct lvn_tokenizer *t, struct symbols *s, int32_t id)
{
    if (s->unknown) s->out[s->n++] = t->unknown;
    s->out[s->n++] = id;
    s->unknown = false;
}

/* What has no token: in bytes where the files say so and all of these have tokens, or as the unknown token; without
 * one it is dropped. As Hugging Face's tokenizers, which writes bytes before an unknown token that waits. */
static void unknown(const struct lvn_tokenizer *t, struct symbols *s, const uint8_t *p, int bytes)
{
    bool falls = t->byte_fallback;
    for (int k = 0; k < bytes && falls; k++) falls = t->fallback[p[k]] >= 0;
    if (falls) {
        for (int k = 0; k < bytes; k++) s->out[s->n++] = t->fallback[p[k]];
    } else if (t->unknown >= 0) {
        if (s->unknown && !t->fuse_unknown) s->out[s->n++] = t->unknown;
        s->unknown = true;
    }
}

static int64_t end(const struct lvn_tokenizer *t, struct symbols *s)
{
    if (s->unknown) s->out[s->n++] = t->unknown;
    return s->n;
}

static int64_t characters(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n, int32_t *out)
{
    struct symbols s = {.out = out};
    for (int64_t i = 0; i < n;) {
        int bytes;
        (void)lvn_utf8_decode(p + i, n - i, &bytes);
        int32_t id = lvn_token_index_find(t, p + i, bytes);
        if (id >= 0)
            known(t, &s, id);
        else
            unknown(t, &s, p + i, bytes);
        i += bytes;
    }
    return end(t, &s);
}

/* Bytes are letters of the alphabet where the vocabulary has them, and so is fallback made of the letter's bytes. */
static int64_t bytes_with_holes(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n, int32_t *out)
{
    struct symbols s = {.out = out};
    for (int64_t i = 0; i < n; i++) {
        char letter[4];
        if (t->bpe.byte_id[p[i]] >= 0)
            known(t, &s, t->bpe.byte_id[p[i]]);
        else
            unknown(t, &s, (const uint8_t *)letter, lvn_utf8_encode(lvn_alphabet_code(p[i]), letter));
    }
    return end(t, &s);
}

/* Of a piece of n bytes: the letter of a byte has up to two, each of which fallback may write. */
static inline int64_t max_ids(const struct lvn_tokenizer *t, int64_t n)
{
    return t->holes ? 2 * n : n;
}

/* The ids of a piece at ids->p + ids->n, where there is room for max_ids() of n bytes; *made: how many. */
static enum lvn_status model(struct lvn_encoder *e, const uint8_t *p, int64_t n, struct lvn_ids *ids, int64_t *made)
{
    const struct lvn_tokenizer *t = e->t;
    int32_t *out = ids->p + ids->n, id = t->whole_first ? lvn_token_index_find(t, p, n) : -1;
    *made = n;
    if (id >= 0) {
        out[0] = id;
        *made = 1;
        return LVN_OK;
    }
    switch (t->model) {
    case LVN_MODEL_WORDPIECE:
        *made = lvn_wordpiece_word(t, p, n, out);
        return LVN_OK;
    case LVN_MODEL_UNIGRAM:
        return lvn_unigram_piece(t, &e->ways, p, n, e->how == LVN_ENCODE_SPECIAL, out, made);
    case LVN_MODEL_CHARACTERS:
        *made = characters(t, p, n, out);
        break;
    case LVN_MODEL_BYTES:
        if (t->holes)
            *made = bytes_with_holes(t, p, n, out);
        else
            for (int64_t i = 0; i < n; i++) out[i] = t->bpe.byte_id[p[i]];
        break;
    }
    return lvn_bpe_merge(&t->bpe, &e->scratch, out, made);
}

static inline uint64_t load(const uint8_t *p, int64_t bytes)
{
    uint64_t x;
    memcpy(&x, p, 8);
    return bytes >= 8 ? x : bytes <= 0 ? 0 : x & (UINT64_MAX >> (64 - 8 * bytes));
}

/* A piece that may be remembered. `readable`: at least LVN_KEY_BYTES can be read at p. */
static inline enum lvn_status short_piece(struct lvn_encoder *e, const uint8_t *p, int64_t n, bool readable,
                                          struct lvn_ids *ids)
{
    uint8_t copy[LVN_KEY_BYTES] = {0};
    const uint8_t *from = p;
    if (!readable) from = memcpy(copy, p, (size_t)n);
    uint8_t tag = (uint8_t)((uint8_t)n | (e->how == LVN_ENCODE_SPECIAL ? 0x80 : 0));
    uint64_t key[3] = {load(from, n), 0, 0};
    if (n > 8) {
        key[1] = load(from + 8, n - 8);
        key[2] = load(from + 16, n - 16);
    }
    uint64_t hash = key[0] * 0x9e3779b97f4a7c15ULL ^ (key[1] + (uint64_t)n) * 0xc2b2ae3d27d4eb4fULL ^
                    key[2] * 0x165667b19e3779f9ULL;
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15ULL;
    struct lvn_piece_entry *entry = &e->entry[hash >> (64 - LVN_ENTRY_BITS)];
    if (entry->key[0] == key[0] && entry->key[1] == key[1] && entry->key[2] == key[2] && entry->bytes == tag) {
        memcpy(ids->p + ids->n, entry->id, FEW_IDS * sizeof *entry->id); /* a copy of fixed length is fastest */
        if (entry->n > FEW_IDS) memcpy(ids->p + ids->n, entry->id, entry->n * sizeof *entry->id);
        ids->n += entry->n;
        return LVN_OK;
    }
    int64_t made;
    LVN_TRY(model(e, p, n, ids, &made));
    if (made > LVN_KEY_BYTES) {
        ids->n += made;
        return LVN_OK;
    }
    memcpy(entry->key, key, sizeof key);
    memcpy(entry->id, ids->p + ids->n, (size_t)made * sizeof *entry->id);
    entry->bytes = tag;
    entry->n = (uint8_t)made;
    ids->n += made;
    return LVN_OK;
}

/* A piece; at least `behind` bytes can be read from p on. */
static inline enum lvn_status any_piece(struct lvn_encoder *e, const uint8_t *p, int64_t n, int64_t behind,
                                        struct lvn_ids *ids)
{
    int64_t made;
    int64_t max = max_ids(e->t, n) + FEW_IDS;
    if (ids->capacity - ids->n < max) LVN_TRY(lvn_ids_reserve(ids, max + behind / 3));
    if (n <= LVN_KEY_BYTES) return short_piece(e, p, n, behind >= LVN_KEY_BYTES, ids);
    LVN_TRY(model(e, p, n, ids, &made));
    ids->n += made;
    return LVN_OK;
}

/* --- pieces --- */

static enum lvn_status tiles(struct lvn_encoder *e, enum lvn_split_kind split, const uint8_t *p, int64_t n,
                             struct lvn_ids *ids)
{
    for (const uint8_t *end = p + n; p < end;) {
        int64_t piece = lvn_split_next(split, p, end - p);
        LVN_TRY(any_piece(e, p, piece, end - p, ids));
        p += piece;
    }
    return LVN_OK;
}

static enum lvn_status words(struct lvn_encoder *e, const uint8_t *p, int64_t n, struct lvn_ids *ids)
{
    int64_t bytes;
    for (const uint8_t *end = p + n; (p = lvn_pre_bert_word(p, end, &bytes)); p += bytes)
        LVN_TRY(any_piece(e, p, bytes, end - p, ids));
    return LVN_OK;
}

struct next {
    struct lvn_encoder *e;
    int step;
    struct lvn_ids *ids;
};

/* What one step cut off goes to the next; behind the last stands the model. */
static enum lvn_status go_on(void *context, const uint8_t *p, int64_t n, bool begins)
{
    const struct next *here = context;
    const struct lvn_pre_steps *pre = &here->e->t->pre;
    if (here->step == pre->n) return any_piece(here->e, p, n, n, here->ids);
    const struct lvn_pre_step *s = &pre->step[here->step];
    bool last = here->step + 1 == pre->n;
    if (last && s->kind == LVN_PRE_BERT) return words(here->e, p, n, here->ids);
    if (last && lvn_pre_is_plain(s)) return tiles(here->e, s->tiles, p, n, here->ids);
    struct next next = {.e = here->e, .step = here->step + 1, .ids = here->ids};
    return lvn_pre_run(s, &here->e->pre[here->step], p, n, begins, go_on, &next);
}

enum lvn_status lvn_encode_pieces(struct lvn_encoder *e, const uint8_t *p, int64_t n, bool begins, struct lvn_ids *ids)
{
    struct next first = {.e = e, .ids = ids};
    return n ? go_on(&first, p, n, begins) : LVN_OK;
}
