/* encode.c - text to ids: added tokens are cut out, the rest is normalized, split into pieces, and each piece merged.
 *
 * Pieces of up to 24 bytes are remembered with their ids in a table; a new piece takes the place of an older one. An
 * entry is two cache lines, of which most pieces need the first alone. In running text more than 99 of 100 pieces are
 * found there. */
#include <stdlib.h>
#include <string.h>

#include "tokenizers/load.h"
#include "tokenizers/unicode.h"
#include "tokenizers/wordpiece.h"

enum { KEY_BYTES = 24, FEW_IDS = 8, ENTRY_BITS = 15 };

struct entry {
    uint64_t key[3];
    uint8_t bytes, n; /* bytes 0: free */
    int32_t id[KEY_BYTES];
} __attribute__((aligned(128)));

struct lvn_encoder {
    const struct lvn_tokenizer *t;
    struct entry *entry; /* [1 << ENTRY_BITS] */
    struct lvn_bpe_scratch scratch;
    struct lvn_text normal, spaced;
};

void lvn_ids_release(struct lvn_ids *ids)
{
    free(ids->p);
    *ids = (struct lvn_ids){0};
}

enum lvn_status lvn_ids_reserve(struct lvn_ids *ids, int64_t more)
{
    if (ids->room - ids->n >= more) return LVN_OK;
    int64_t room = ids->room * 2 > ids->n + more ? ids->room * 2 : ids->n + more + 1024;
    int32_t *p = lvn_realloc(ids->p, (size_t)room * sizeof *p);
    if (!p) return LVN_MEMORY;
    ids->p = p;
    ids->room = room;
    return LVN_OK;
}

struct lvn_encoder *lvn_encoder_new(const struct lvn_tokenizer *t)
{
    struct lvn_encoder *e = lvn_calloc(1, sizeof *e);
    if (!e) return NULL;
    e->t = t;
    size_t bytes = sizeof *e->entry << ENTRY_BITS;
    e->entry = aligned_alloc(sizeof *e->entry, bytes);
    if (!e->entry) {
        free(e);
        (void)lvn_fail_at(__FILE__, __LINE__, LVN_MEMORY, "not enough memory for an encoder");
        return NULL;
    }
    memset(e->entry, 0, bytes);
    return e;
}

void lvn_encoder_free(struct lvn_encoder *e)
{
    if (!e) return;
    lvn_bpe_scratch_release(&e->scratch);
    lvn_text_release(&e->normal);
    lvn_text_release(&e->spaced);
    free(e->entry);
    free(e);
}

/* --- one piece --- */

static int32_t find_whole(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n)
{
    uint64_t hash = (uint64_t)n;
    for (int64_t i = 0; i < n; i++) hash = lvn_bpe_hash(hash ^ p[i]);
    for (uint64_t i = hash & t->whole_mask; t->whole[i] >= 0; i = (i + 1) & t->whole_mask) {
        uint32_t at = t->start[t->whole[i]];
        if (t->start[t->whole[i] + 1] - at == n && !memcmp(t->byte + at, p, (size_t)n)) return t->whole[i];
    }
    return -1;
}

/* The ids of a piece at ids->p + ids->n, where there is room for n; *made: how many. */
static enum lvn_status merge(struct lvn_encoder *e, const uint8_t *p, int64_t n, struct lvn_ids *ids, int64_t *made)
{
    const struct lvn_tokenizer *t = e->t;
    int32_t *out = ids->p + ids->n, id = t->whole ? find_whole(t, p, n) : -1;
    *made = n;
    if (id >= 0) {
        out[0] = id;
        *made = 1;
        return LVN_OK;
    }
    for (int64_t i = 0; i < n; i++) out[i] = t->bpe.byte_id[p[i]];
    return lvn_bpe_merge(&t->bpe, &e->scratch, out, made);
}

static inline uint64_t load(const uint8_t *p, int64_t bytes)
{
    uint64_t x;
    memcpy(&x, p, 8);
    return bytes >= 8 ? x : bytes <= 0 ? 0 : x & (UINT64_MAX >> (64 - 8 * bytes));
}

/* A piece that may be remembered. `readable`: at least KEY_BYTES can be read at p. */
static inline enum lvn_status short_piece(struct lvn_encoder *e, const uint8_t *p, int64_t n, bool readable,
                                          struct lvn_ids *ids)
{
    uint8_t copy[KEY_BYTES] = {0};
    const uint8_t *from = p;
    if (!readable) from = memcpy(copy, p, (size_t)n);
    uint64_t key[3] = {load(from, n), 0, 0};
    if (n > 8) {
        key[1] = load(from + 8, n - 8);
        key[2] = load(from + 16, n - 16);
    }
    uint64_t hash = key[0] * 0x9e3779b97f4a7c15ULL ^ (key[1] + (uint64_t)n) * 0xc2b2ae3d27d4eb4fULL ^
                    key[2] * 0x165667b19e3779f9ULL;
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15ULL;
    struct entry *entry = &e->entry[hash >> (64 - ENTRY_BITS)];
    if (entry->key[0] == key[0] && entry->key[1] == key[1] && entry->key[2] == key[2] && entry->bytes == n) {
        memcpy(ids->p + ids->n, entry->id, FEW_IDS * sizeof *entry->id); /* a copy of fixed length is fastest */
        if (entry->n > FEW_IDS) memcpy(ids->p + ids->n, entry->id, entry->n * sizeof *entry->id);
        ids->n += entry->n;
        return LVN_OK;
    }
    int64_t made;
    LVN_TRY(merge(e, p, n, ids, &made));
    memcpy(entry->key, key, sizeof key);
    memcpy(entry->id, ids->p + ids->n, (size_t)made * sizeof *entry->id);
    entry->bytes = (uint8_t)n;
    entry->n = (uint8_t)made;
    ids->n += made;
    return LVN_OK;
}

static enum lvn_status pieces(struct lvn_encoder *e, const uint8_t *p, int64_t n, struct lvn_ids *ids)
{
    const uint8_t *end = p + n;
    enum lvn_split_kind split = e->t->split;
    while (p < end) {
        int64_t piece = lvn_split_next(split, p, end - p), made;
        if (ids->room - ids->n < piece + FEW_IDS) LVN_TRY(lvn_ids_reserve(ids, piece + FEW_IDS + (end - p) / 3));
        if (piece <= KEY_BYTES) {
            LVN_TRY(short_piece(e, p, piece, end - p >= KEY_BYTES, ids));
        } else {
            LVN_TRY(merge(e, p, piece, ids, &made));
            ids->n += made;
        }
        p += piece;
    }
    return LVN_OK;
}

/* Text between added tokens. */
static enum lvn_status stretch(struct lvn_encoder *e, const uint8_t *p, int64_t n, struct lvn_ids *ids)
{
    if (e->t->wordpiece) return lvn_wordpiece_encode(e->t, p, n, ids);
    if (!e->t->prefix_space || n == 0 || *p == ' ') return pieces(e, p, n, ids);
    lvn_text_clear(&e->spaced);
    lvn_text_add(&e->spaced, " ");
    lvn_text_add_bytes(&e->spaced, p, n);
    LVN_TRY(lvn_text_status(&e->spaced));
    return pieces(e, (const uint8_t *)e->spaced.p, e->spaced.n, ids);
}

/* --- added tokens --- */

static int by_first(const void *a, const void *b)
{
    const struct lvn_added_token *x = *(const struct lvn_added_token *const *)a,
                                 *y = *(const struct lvn_added_token *const *)b;
    if (x->text[0] != y->text[0]) return (uint8_t)x->text[0] < (uint8_t)y->text[0] ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void make_set(const struct lvn_tokenizer *t, struct lvn_added_set *s, bool normalized)
{
    s->n = 0;
    memset(s->pair, 0, sizeof s->pair);
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].normalized == normalized) s->list[s->n++] = &t->added[i];
    qsort(s->list, (size_t)s->n, sizeof *s->list, by_first);
    for (int c = 0, i = 0; c <= 256; c++) {
        while (i < s->n && (uint8_t)s->list[i]->text[0] < c) i++;
        s->first[c] = i;
    }
    for (int i = 0; i < s->n; i++) {
        uint32_t a = (uint8_t)s->list[i]->text[0], b = (uint8_t)s->list[i]->text[1];
        for (uint32_t c = 0; c < 256; c++)
            if (s->list[i]->bytes == 1 || c == b) s->pair[(a << 8 | c) >> 6] |= (uint64_t)1 << (c & 63);
    }
}

enum lvn_status lvn_added_sets(struct lvn_tokenizer *t)
{
    size_t bytes = sizeof *t->before.list * (size_t)(t->n_added + 1);
    t->before.list = lvn_arena_alloc(&t->arena, bytes);
    t->after.list = lvn_arena_alloc(&t->arena, bytes);
    if (!t->before.list || !t->after.list) return LVN_MEMORY;
    make_set(t, &t->before, false);
    make_set(t, &t->after, true);
    return LVN_OK;
}

/* The first added token at or after `at`, the longest of those that begin there. */
static const struct lvn_added_token *next_added(const struct lvn_added_set *s, const uint8_t *p, int64_t n, int64_t *at)
{
    for (int64_t i = *at; i < n; i++) {
        uint32_t a = p[i], b = i + 1 < n ? p[i + 1] : 0;
        bool last = i + 1 == n; /* no second byte: only a token of one byte fits */
        if (!last && !(s->pair[(a << 8 | b) >> 6] >> (b & 63) & 1)) continue;
        for (int k = s->first[a]; k < s->first[a + 1]; k++) {
            const struct lvn_added_token *token = s->list[k];
            if (token->bytes > n - i || memcmp(token->text, p + i, (size_t)token->bytes) != 0) continue;
            *at = i;
            return token;
        }
    }
    return NULL;
}

static bool is_word(const uint8_t *p, const uint8_t *end)
{
    int bytes;
    enum lvn_char_class class = lvn_char_class(p, end, &bytes);
    return *p == '_' || class == LVN_CHAR_LETTER || class == LVN_CHAR_NUMBER;
}

static int64_t before(const uint8_t *p, int64_t at)
{
    int64_t i = at - 1;
    while (i > 0 && at - i < 4 && (p[i] & 0xc0) == 0x80) i--;
    return i;
}

/* May the token stand at [*begin, *end)? Takes the white space in that it wants. */
static bool fits(const struct lvn_added_token *token, const uint8_t *p, int64_t n, int64_t floor, int64_t *begin,
                 int64_t *end)
{
    int bytes;
    if (token->single_word && *begin > 0 && is_word(p + before(p, *begin), p + *begin)) return false;
    if (token->single_word && *end < n && is_word(p + *end, p + n)) return false;
    while (token->lstrip && *begin > floor &&
           lvn_char_class(p + before(p, *begin), p + *begin, &bytes) == LVN_CHAR_SPACE)
        *begin = before(p, *begin);
    while (token->rstrip && *end < n && lvn_char_class(p + *end, p + n, &bytes) == LVN_CHAR_SPACE) *end += bytes;
    if (*begin < floor) *begin = floor;
    return true;
}

typedef enum lvn_status between(struct lvn_encoder *e, const uint8_t *p, int64_t n, enum lvn_encoding how,
                                struct lvn_ids *ids);

/* Cut the tokens of a set out; what lies between them goes on. */
static enum lvn_status cut(struct lvn_encoder *e, const struct lvn_added_set *s, const uint8_t *p, int64_t n,
                           enum lvn_encoding how, struct lvn_ids *ids, between *rest)
{
    int64_t done = 0;
    for (int64_t at = 0; s->n;) {
        const struct lvn_added_token *token = next_added(s, p, n, &at);
        if (!token) break;
        int64_t begin = at, end = at + token->bytes;
        at = end;
        if (begin < done || (token->special && how == LVN_ENCODE_ORDINARY)) continue;
        if (!fits(token, p, n, done, &begin, &end)) continue;
        if (begin > done) LVN_TRY(rest(e, p + done, begin - done, how, ids));
        LVN_TRY(lvn_ids_reserve(ids, 1));
        ids->p[ids->n++] = token->id;
        done = end;
    }
    return done < n ? rest(e, p + done, n - done, how, ids) : LVN_OK;
}

static enum lvn_status last(struct lvn_encoder *e, const uint8_t *p, int64_t n, enum lvn_encoding how,
                            struct lvn_ids *ids)
{
    (void)how;
    return stretch(e, p, n, ids);
}

static enum lvn_status normalize(struct lvn_encoder *e, const uint8_t *p, int64_t n, enum lvn_encoding how,
                                 struct lvn_ids *ids)
{
    if (e->t->nfc && !lvn_nfc_quick(p, n)) {
        lvn_text_clear(&e->normal);
        lvn_nfc(p, n, &e->normal);
        LVN_TRY(lvn_text_status(&e->normal));
        p = (const uint8_t *)e->normal.p;
        n = e->normal.n;
    }
    return cut(e, &e->t->after, p, n, how, ids, last);
}

enum lvn_status lvn_encode(struct lvn_encoder *e, const void *text, int64_t bytes, enum lvn_encoding how,
                           struct lvn_ids *ids)
{
    return cut(e, &e->t->before, text, bytes, how, ids, normalize);
}

bool lvn_tokenizer_cuts(const struct lvn_tokenizer *t)
{
    for (int i = 0; i < t->n_added; i++) {
        const struct lvn_added_token *a = &t->added[i];
        if (a->lstrip || a->rstrip || lvn_split_safe((const uint8_t *)a->text, a->bytes, 1) < a->bytes) return false;
        bool space = lvn_char_classes[(uint8_t)a->text[0]] == LVN_CHAR_SPACE;
        if (a->single_word && space) return false;
    }
    if (t->wordpiece) return true; /* words end at white space */
    return t->split != LVN_SPLIT_NONE && !t->prefix_space;
}

/* --- ids to text --- */

const void *lvn_token_bytes(const struct lvn_tokenizer *t, int64_t id, int64_t *bytes)
{
    if (id < 0 || id >= t->n || t->start[id] == t->start[id + 1]) return NULL;
    *bytes = t->start[id + 1] - t->start[id];
    return t->byte + t->start[id];
}

enum lvn_status lvn_decode(const struct lvn_tokenizer *t, const int32_t *ids, int64_t n, struct lvn_text *out)
{
    enum { STEP = 16 };
    for (int64_t i = 0; i < n; i++) {
        int64_t bytes;
        const void *p = lvn_token_bytes(t, ids[i], &bytes);
        LVN_CHECK(p, ARG, "%d is no token id of '%s': it has %lld", ids[i], t->path, (long long)t->n);
        if (t->wordpiece) {
            lvn_wordpiece_decode(t, ids[i], out);
            continue;
        }
        if (bytes <= STEP && out->room - out->n > STEP) { /* most tokens: a copy of fixed length */
            memcpy(out->p + out->n, p, STEP);
            out->n += bytes;
        } else {
            lvn_text_add_bytes(out, p, bytes);
        }
    }
    if (out->p) out->p[out->n] = '\0';
    return lvn_text_status(out);
}
