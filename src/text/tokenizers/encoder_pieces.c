/* encoder_pieces.c - see encoder_private.h: normalized text to ids. The pre-tokenizers split it into pieces, the model
 * encodes each piece; ids of short pieces are cached. */

#include "tokenizers/encoder_private.h"
#include "tokenizers/load.h"
#include "tokenizers/unicode/unicode.h"
#include "tokenizers/wordpiece.h"

enum { FEW_IDS = 8 };

/* --- one piece --- */

/* The tokens from which merging starts. */
struct symbols {
    int32_t *out;
    int64_t n;
    bool unknown; /* an unknown token is pending, to be written before the next known one */
};

static void add_known(const struct lvn_tokenizer *t, struct symbols *s, int32_t id)
{
    if (s->unknown) s->out[s->n++] = t->unknown;
    s->out[s->n++] = id;
    s->unknown = false;
}

/* Add a character without a token: as byte tokens, if byte_fallback is set and all of its bytes have one; else as the
 * unknown token; if there is none, it is dropped. As in Hugging Face's tokenizers, byte tokens precede a pending
 * unknown token. */
static void add_unknown(const struct lvn_tokenizer *t, struct symbols *s, const uint8_t *p, int bytes)
{
    bool fallback = t->byte_fallback;
    for (int k = 0; k < bytes && fallback; k++) fallback = t->fallback[p[k]] >= 0;
    if (fallback) {
        for (int k = 0; k < bytes; k++) s->out[s->n++] = t->fallback[p[k]];
    } else if (t->unknown >= 0) {
        if (s->unknown && !t->fuse_unknown) s->out[s->n++] = t->unknown;
        s->unknown = true;
    }
}

static int64_t finish_symbols(const struct lvn_tokenizer *t, struct symbols *s)
{
    if (s->unknown) s->out[s->n++] = t->unknown;
    return s->n;
}

static int64_t character_symbols(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n, int32_t *out)
{
    struct symbols s = {.out = out};
    for (int64_t i = 0; i < n;) {
        int bytes;
        (void)lvn_utf8_decode(p + i, n - i, &bytes);
        int32_t id = lvn_token_index_find(t, p + i, bytes);
        if (id >= 0)
            add_known(t, &s, id);
        else
            add_unknown(t, &s, p + i, bytes);
        i += bytes;
    }
    return finish_symbols(t, &s);
}

/* Symbols of byte-level BPE if some bytes have no token. For such a byte, fallback uses the bytes of its letter in the
 * alphabet. */
static int64_t byte_symbols(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n, int32_t *out)
{
    struct symbols s = {.out = out};
    for (int64_t i = 0; i < n; i++) {
        char letter[4];
        if (t->bpe.byte_id[p[i]] >= 0)
            add_known(t, &s, t->bpe.byte_id[p[i]]);
        else
            add_unknown(t, &s, (const uint8_t *)letter, lvn_utf8_encode(lvn_alphabet_code(p[i]), letter));
    }
    return finish_symbols(t, &s);
}

/* Maximum number of ids of a piece of n bytes: fallback may write two byte tokens for a byte, those of its letter. */
static inline int64_t max_ids(const struct lvn_tokenizer *t, int64_t n)
{
    return t->missing_bytes ? 2 * n : n;
}

/* Write the ids of a piece at ids->p + ids->n, with a capacity of max_ids(n); *made: their number. */
static enum lvn_status run_model(struct lvn_encoder *e, const uint8_t *p, int64_t n, struct lvn_ids *ids, int64_t *made)
{
    const struct lvn_tokenizer *t = e->t;
    int32_t *out = ids->p + ids->n, id = t->ignore_merges ? lvn_token_index_find(t, p, n) : -1;
    *made = n;
    if (id >= 0) {
        out[0] = id;
        *made = 1;
        return LVN_OK;
    }
    switch (t->model) {
    case LVN_TOKENIZER_WORDPIECE:
        *made = lvn_wordpiece_word(t, p, n, out);
        return LVN_OK;
    case LVN_TOKENIZER_UNIGRAM:
        return lvn_unigram_piece(t, &e->unigram, p, n, e->mode == LVN_ENCODE_SPECIAL, out, made);
    case LVN_TOKENIZER_CHARACTERS:
        *made = character_symbols(t, p, n, out);
        break;
    case LVN_TOKENIZER_BYTES:
        if (t->missing_bytes)
            *made = byte_symbols(t, p, n, out);
        else
            for (int64_t i = 0; i < n; i++) out[i] = t->bpe.byte_id[p[i]];
        break;
    }
    return lvn_bpe_merge(&t->bpe, &e->bpe, out, made);
}

static inline uint64_t load(const uint8_t *p, int64_t bytes)
{
    uint64_t x;
    memcpy(&x, p, 8);
    return bytes >= 8 ? x : bytes <= 0 ? 0 : x & (UINT64_MAX >> (64 - 8 * bytes));
}

/* Encode a piece that fits into the cache. readable: at least LVN_CACHE_KEY_BYTES can be read at p. */
static inline enum lvn_status encode_short(struct lvn_encoder *e, const uint8_t *p, int64_t n, bool readable,
                                           struct lvn_ids *ids)
{
    uint8_t copy[LVN_CACHE_KEY_BYTES] = {0};
    const uint8_t *bytes_at = p;
    if (!readable) bytes_at = memcpy(copy, p, (size_t)n);
    uint8_t tag = (uint8_t)((uint8_t)n | (e->mode == LVN_ENCODE_SPECIAL ? 0x80 : 0));
    uint64_t key[3] = {load(bytes_at, n), 0, 0};
    if (n > 8) {
        key[1] = load(bytes_at + 8, n - 8);
        key[2] = load(bytes_at + 16, n - 16);
    }
    uint64_t hash = key[0] * 0x9e3779b97f4a7c15ULL ^ (key[1] + (uint64_t)n) * 0xc2b2ae3d27d4eb4fULL ^
                    key[2] * 0x165667b19e3779f9ULL;
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15ULL;
    struct lvn_cache_entry *entry = &e->cache[hash >> (64 - LVN_CACHE_BITS)];
    if (entry->key[0] == key[0] && entry->key[1] == key[1] && entry->key[2] == key[2] && entry->bytes == tag) {
        memcpy(ids->p + ids->n, entry->id, FEW_IDS * sizeof *entry->id); /* a copy of fixed length is fastest */
        if (entry->n > FEW_IDS) memcpy(ids->p + ids->n, entry->id, entry->n * sizeof *entry->id);
        ids->n += entry->n;
        return LVN_OK;
    }
    int64_t made;
    LVN_TRY(run_model(e, p, n, ids, &made));
    if (made > LVN_CACHE_KEY_BYTES) {
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

/* Encode a piece; at least readable_bytes bytes can be read at p. */
static inline enum lvn_status encode_piece(struct lvn_encoder *e, const uint8_t *p, int64_t n, int64_t readable_bytes,
                                           struct lvn_ids *ids)
{
    int64_t made;
    int64_t max = max_ids(e->t, n) + FEW_IDS;
    if (ids->capacity - ids->n < max) LVN_TRY(lvn_ids_reserve(ids, max + readable_bytes / 3));
    if (n <= LVN_CACHE_KEY_BYTES) return encode_short(e, p, n, readable_bytes >= LVN_CACHE_KEY_BYTES, ids);
    LVN_TRY(run_model(e, p, n, ids, &made));
    ids->n += made;
    return LVN_OK;
}

/* --- pieces --- */

static enum lvn_status encode_split(struct lvn_encoder *e, enum lvn_split_kind split, const uint8_t *p, int64_t n,
                                    struct lvn_ids *ids)
{
    for (const uint8_t *end = p + n; p < end;) {
        int64_t piece = lvn_split_next(split, p, end - p);
        LVN_TRY(encode_piece(e, p, piece, end - p, ids));
        p += piece;
    }
    return LVN_OK;
}

static enum lvn_status encode_words(struct lvn_encoder *e, const uint8_t *p, int64_t n, struct lvn_ids *ids)
{
    int64_t bytes;
    for (const uint8_t *end = p + n; (p = lvn_pre_tokenizer_bert_word(p, end, &bytes)); p += bytes)
        LVN_TRY(encode_piece(e, p, bytes, end - p, ids));
    return LVN_OK;
}

struct next {
    struct lvn_encoder *e;
    int step;
    struct lvn_ids *ids;
};

/* Pass a piece of one pre-tokenizer to the next one, or, after the last one, to the model. */
static enum lvn_status run_step(void *context, const uint8_t *p, int64_t n, bool begins)
{
    const struct next *current = context;
    const struct lvn_pre_tokenizer *pre = &current->e->t->pre_tokenizer;
    if (current->step == pre->n) return encode_piece(current->e, p, n, n, current->ids);
    const struct lvn_pre_tokenizer_step *s = &pre->step[current->step];
    bool last = current->step + 1 == pre->n;
    if (last && s->kind == LVN_PRE_BERT) return encode_words(current->e, p, n, current->ids);
    if (last && lvn_pre_tokenizer_only_splits(s)) return encode_split(current->e, s->split, p, n, current->ids);
    struct next next = {.e = current->e, .step = current->step + 1, .ids = current->ids};
    return lvn_pre_tokenizer_run(s, &current->e->pre_tokenizer[current->step], p, n, begins, run_step, &next);
}

enum lvn_status lvn_encode_pieces(struct lvn_encoder *e, const uint8_t *p, int64_t n, bool begins, struct lvn_ids *ids)
{
    struct next first = {.e = e, .ids = ids};
    return n ? run_step(&first, p, n, begins) : LVN_OK;
}
