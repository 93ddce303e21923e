/* encode.c - text to ids: added tokens are cut out, the rest is normalized and goes on to encode_pieces.c. */
#include <stdlib.h>
#include <string.h>

#include "tokenizers/encoder.h"
#include "tokenizers/load.h"
#include "tokenizers/unicode/unicode.h"

void lvn_ids_release(struct lvn_ids *ids)
{
    free(ids->p);
    *ids = (struct lvn_ids){0};
}

enum lvn_status lvn_ids_reserve(struct lvn_ids *ids, int64_t more)
{
    if (ids->capacity - ids->n >= more) return LVN_OK;
    int64_t capacity = ids->capacity * 2 > ids->n + more ? ids->capacity * 2 : ids->n + more + 1024;
    int32_t *p = lvn_realloc(ids->p, (size_t)capacity * sizeof *p);
    if (!p) return LVN_MEMORY;
    ids->p = p;
    ids->capacity = capacity;
    return LVN_OK;
}

struct lvn_encoder *lvn_encoder_new(const struct lvn_tokenizer *t)
{
    struct lvn_encoder *e = lvn_calloc(1, sizeof *e);
    if (!e) return NULL;
    e->t = t;
    size_t bytes = sizeof *e->entry << LVN_ENTRY_BITS;
    e->entry = aligned_alloc(sizeof *e->entry, bytes);
    if (!e->entry) {
        free(e);
        (void)lvn_fail(LVN_MEMORY, "not enough memory for an encoder");
        return NULL;
    }
    memset(e->entry, 0, bytes);
    return e;
}

void lvn_encoder_free(struct lvn_encoder *e)
{
    if (!e) return;
    lvn_bpe_scratch_release(&e->scratch);
    lvn_unigram_scratch_release(&e->ways);
    lvn_normal_scratch_release(&e->normal);
    for (int i = 0; i < LVN_PRE_MAX; i++) lvn_pre_scratch_release(&e->pre[i]);
    free(e->entry);
    free(e);
}

/* --- added tokens --- */

static int by_first(const void *a, const void *b)
{
    const struct lvn_added_token *x = *(const struct lvn_added_token *const *)a,
                                 *y = *(const struct lvn_added_token *const *)b;
    if (x->sought[0] != y->sought[0]) return (uint8_t)x->sought[0] < (uint8_t)y->sought[0] ? -1 : 1;
    if (x->n_sought != y->n_sought) return x->n_sought > y->n_sought ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void make_set(const struct lvn_tokenizer *t, struct lvn_added_set *s, bool normalized)
{
    s->n = 0;
    memset(s->pair, 0, sizeof s->pair);
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].normalized == normalized && t->added[i].n_sought) s->list[s->n++] = &t->added[i];
    qsort(s->list, (size_t)s->n, sizeof *s->list, by_first);
    for (int c = 0, i = 0; c <= 256; c++) {
        while (i < s->n && (uint8_t)s->list[i]->sought[0] < c) i++;
        s->first[c] = i;
    }
    for (int i = 0; i < s->n; i++) {
        uint32_t a = (uint8_t)s->list[i]->sought[0], b = (uint8_t)s->list[i]->sought[1];
        for (uint32_t c = 0; c < 256; c++)
            if (s->list[i]->n_sought == 1 || c == b) s->pair[(a << 8 | c) >> 6] |= (uint64_t)1 << (c & 63);
    }
}

/* What a token is looked for as: its text, or its text normalized. */
static enum lvn_status sought(struct lvn_tokenizer *t, struct lvn_added_token *a)
{
    struct lvn_normal_scratch s = {0};
    const uint8_t *p = (const uint8_t *)a->text;
    bool begins = true;
    a->n_sought = a->bytes;
    enum lvn_status status = a->normalized ? lvn_normal_text(&t->normal, &s, &p, &a->n_sought, &begins) : LVN_OK;
    char *copy = status == LVN_OK ? lvn_arena_alloc(&t->arena, (size_t)a->n_sought + 2) : NULL;
    if (copy && a->n_sought) memcpy(copy, p, (size_t)a->n_sought);
    a->sought = copy;
    lvn_normal_scratch_release(&s);
    return status == LVN_OK && !copy ? LVN_MEMORY : status;
}

enum lvn_status lvn_added_sets(struct lvn_tokenizer *t)
{
    for (int i = 0; i < t->n_added; i++) LVN_TRY(sought(t, &t->added[i]));
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
            if (token->n_sought > n - i || memcmp(token->sought, p + i, (size_t)token->n_sought) != 0) continue;
            *at = i;
            return token;
        }
    }
    return NULL;
}

static bool is_word(const uint8_t *p, const uint8_t *end)
{
    int bytes;
    int32_t code = lvn_utf8_decode(p, end - p, &bytes);
    return code >= 0 && lvn_is_wordly((uint32_t)code);
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
    if (token->lstrip && *begin < floor) *begin = floor;
    return *begin < *end;
}

typedef enum lvn_status between(struct lvn_encoder *e, const uint8_t *p, int64_t n, bool begins, struct lvn_ids *ids);

/* Cut the tokens of a set out; what lies between them goes on. A token within the white space that the one before took
 * in counts as well, unless it takes white space in on its left, and text goes on behind it: the reference's way. */
static enum lvn_status cut(struct lvn_encoder *e, const struct lvn_added_set *s, const uint8_t *p, int64_t n,
                           bool begins, struct lvn_ids *ids, between *rest)
{
    int64_t done = 0;
    for (int64_t at = 0; s->n;) {
        const struct lvn_added_token *token = next_added(s, p, n, &at);
        if (!token) break;
        int64_t begin = at, end = at + token->n_sought;
        at = end;
        if (token->special && e->how == LVN_ENCODE_ORDINARY) continue;
        if (!fits(token, p, n, done, &begin, &end)) continue;
        if (begin > done) LVN_TRY(rest(e, p + done, begin - done, begins && !done, ids));
        LVN_TRY(lvn_ids_reserve(ids, 1));
        ids->p[ids->n++] = token->id;
        done = end;
    }
    return done < n ? rest(e, p + done, n - done, begins && !done, ids) : LVN_OK;
}

static enum lvn_status normalize(struct lvn_encoder *e, const uint8_t *p, int64_t n, bool begins, struct lvn_ids *ids)
{
    LVN_TRY(lvn_normal_text(&e->t->normal, &e->normal, &p, &n, &begins));
    return cut(e, &e->t->after, p, n, begins, ids, lvn_encode_pieces);
}

enum lvn_status lvn_encode(struct lvn_encoder *e, const void *text, int64_t bytes, enum lvn_encoding how,
                           struct lvn_ids *ids)
{
    e->how = how;
    return cut(e, &e->t->before, text, bytes, true, ids, normalize);
}

/* Do the pre-tokenizers cut at white space behind a word, whatever stands around it? */
static bool pieces_end_at_space(const struct lvn_pre_steps *pre)
{
    for (int i = 0; i < pre->n; i++) {
        const struct lvn_pre_step *s = &pre->step[i];
        bool alone = s->kind == LVN_PRE_DIGIT || s->kind == LVN_PRE_PUNCTUATION; /* cuts these off, and goes on */
        if (s->front != LVN_FRONT_NEVER || s->spaces) return false;
        if (!alone || (s->way != LVN_PRE_ISOLATED && s->way != LVN_PRE_CONTIGUOUS))
            return s->kind == LVN_PRE_BERT || s->kind == LVN_PRE_SPACE || s->kind == LVN_PRE_WORDS ||
                   (s->kind == LVN_PRE_TILES && s->tiles != LVN_SPLIT_NONE && s->tiles != LVN_SPLIT_MARKED);
    }
    return false;
}

bool lvn_tokenizer_cuts(const struct lvn_tokenizer *t)
{
    for (int i = 0; i < t->n_added; i++) {
        const struct lvn_added_token *a = &t->added[i];
        if (a->lstrip || a->rstrip || lvn_split_safe((const uint8_t *)a->text, a->bytes, 1) < a->bytes) return false;
        bool space = lvn_char_classes[(uint8_t)a->text[0]] == LVN_CHAR_SPACE;
        if (a->single_word && space) return false;
    }
    return lvn_normal_is_local(&t->normal) && pieces_end_at_space(&t->pre);
}
