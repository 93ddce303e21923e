/* encoder.c - see encoder.h: text to ids. Added tokens are extracted, the rest is normalized and encoded. */
#include "tokenizers/encoder.h"

#include "base/list.h"
#include "base/log.h"
#include "base/work.h"
#include "tokenizers/encoder_private.h"
#include "tokenizers/load.h"
#include "tokenizers/unicode/unicode.h"
#include "tokenizers/wordpiece.h"

void lvn_ids_release(struct lvn_ids *ids)
{
    free(ids->p);
    *ids = (struct lvn_ids){0};
}

enum lvn_status lvn_ids_reserve(struct lvn_ids *ids, int64_t more)
{
    return lvn_list_reserve(&ids->p, &ids->capacity, ids->n + more, sizeof *ids->p) ? LVN_OK : LVN_MEMORY;
}

struct lvn_encoder *lvn_encoder_new(const struct lvn_tokenizer *t)
{
    struct lvn_encoder *e = lvn_calloc(1, sizeof *e);
    if (!e) return NULL;
    e->t = t;
    size_t bytes = sizeof *e->cache << LVN_CACHE_BITS;
    e->cache = aligned_alloc(sizeof *e->cache, bytes);
    if (!e->cache) {
        free(e);
        (void)lvn_fail(LVN_MEMORY, "not enough memory for an encoder");
        return NULL;
    }
    memset(e->cache, 0, bytes);
    return e;
}

void lvn_encoder_free(struct lvn_encoder *e)
{
    if (!e) return;
    lvn_bpe_scratch_release(&e->bpe);
    lvn_unigram_scratch_release(&e->unigram);
    lvn_normalizer_scratch_release(&e->normalizer);
    free(e->written);
    for (int i = 0; i < LVN_PRE_TOKENIZER_MAX; i++) lvn_pre_tokenizer_scratch_release(&e->pre_tokenizer[i]);
    free(e->cache);
    free(e);
}

struct lvn_encoder_notes lvn_encoder_take_notes(struct lvn_encoder *e)
{
    struct lvn_encoder_notes taken = e->notes;
    e->notes = (struct lvn_encoder_notes){0};
    return taken;
}

void lvn_encoder_notes_add(struct lvn_encoder_notes *sum, struct lvn_encoder_notes more)
{
    if (!sum->special) sum->special_id = more.special_id;
    sum->special += more.special;
    sum->ids += more.ids;
    sum->unknown += more.unknown;
}

void lvn_encoder_notes_report(const struct lvn_tokenizer *t, const char *name, int64_t unknown, int64_t ids, bool few)
{
    enum { MANY_PERCENT = 5 };
    char a[LVN_NUMBER_TEXT], b[LVN_NUMBER_TEXT];
    if (!unknown) return;
    const uint32_t *at = t->start + t->unknown;
    const int bytes = (int)(at[1] - at[0]);
    const char *text = (const char *)t->byte + at[0],
               *advice = "choose a model or a tokenizer made for such texts, or, if their characters are decomposed "
                         "(Unicode NFD, as macOS writes it), convert them to NFC";
    if (100 * unknown < MANY_PERCENT * ids && !few)
        lvn_log(LVN_LOG_INFO, "%s: %s of %s tokens %s %.*s, which stands for unknown text", name,
                lvn_count_text(unknown, a), lvn_count_text(ids, b), unknown == 1 ? "is" : "are", bytes, text);
    else if (!few)
        lvn_log(LVN_LOG_WARN,
                "%s: %s of %s tokens (%.0f %%) are %.*s, because the tokenizer does not know the text: %s", name,
                lvn_count_text(unknown, a), lvn_count_text(ids, b), 100.0 * (double)unknown / (double)ids, bytes, text,
                advice);
    else if (100 * unknown >= MANY_PERCENT * ids)
        lvn_log_once(LVN_LOG_WARN,
                     "%s: %d %% of the tokens or more are %.*s, because the tokenizer does not know the text: %s", name,
                     MANY_PERCENT, bytes, text, advice);
}

static void count_ids(struct lvn_encoder *e, const struct lvn_ids *ids, int64_t first)
{
    e->notes.ids += ids->n - first;
    for (int64_t i = first; i < ids->n && e->t->unknown >= 0; i++) e->notes.unknown += ids->p[i] == e->t->unknown;
}

/* --- added tokens --- */

static int by_first(const void *a, const void *b)
{
    const struct lvn_added_token *x = *(const struct lvn_added_token *const *)a,
                                 *y = *(const struct lvn_added_token *const *)b;
    if (x->pattern[0] != y->pattern[0]) return (uint8_t)x->pattern[0] < (uint8_t)y->pattern[0] ? -1 : 1;
    if (x->n_pattern != y->n_pattern) return x->n_pattern > y->n_pattern ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void make_set(const struct lvn_tokenizer *t, struct lvn_added_set *s, bool normalized)
{
    s->n = 0;
    memset(s->pair, 0, sizeof s->pair);
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].normalized == normalized && t->added[i].n_pattern) s->list[s->n++] = &t->added[i];
    qsort(s->list, (size_t)s->n, sizeof *s->list, by_first);
    for (int c = 0, i = 0; c <= 256; c++) {
        while (i < s->n && (uint8_t)s->list[i]->pattern[0] < c) i++;
        s->first[c] = i;
    }
    s->only = s->n && s->list[0]->pattern[0] == s->list[s->n - 1]->pattern[0] ? (uint8_t)s->list[0]->pattern[0] : -1;
    if (s->only >= 0 && lvn_char((uint32_t)s->only)->char_class == LVN_CHAR_SPACE) s->only = -1;
    for (int i = 0; i < s->n; i++) {
        uint32_t a = (uint8_t)s->list[i]->pattern[0], b = (uint8_t)s->list[i]->pattern[1];
        for (uint32_t c = 0; c < 256; c++)
            if (s->list[i]->n_pattern == 1 || c == b) s->pair[(a << 8 | c) >> 6] |= (uint64_t)1 << (c & 63);
    }
}

/* Set the pattern of an added token: its text, normalized if it is searched in normalized text. */
static enum lvn_status set_pattern(struct lvn_tokenizer *t, struct lvn_added_token *a)
{
    struct lvn_normalizer_scratch s = {0};
    const uint8_t *p = (const uint8_t *)a->text;
    bool begins = true;
    a->n_pattern = a->bytes;
    enum lvn_status status =
        a->normalized ? lvn_normalizer_run(&t->normalizer, &s, &p, &a->n_pattern, &begins) : LVN_OK;
    char *copy = status == LVN_OK ? lvn_arena_alloc(&t->arena, (size_t)a->n_pattern + 2) : NULL;
    if (copy && a->n_pattern) memcpy(copy, p, (size_t)a->n_pattern);
    a->pattern = copy;
    lvn_normalizer_scratch_release(&s);
    return status == LVN_OK && !copy ? LVN_MEMORY : status;
}

enum lvn_status lvn_added_sets(struct lvn_tokenizer *t)
{
    for (int i = 0; i < t->n_added; i++) {
        const struct lvn_added_token *a = &t->added[i];
        LVN_TRY(set_pattern(t, &t->added[i]));
        if (t->unigram && t->in_model[a->id]) t->unigram->special[a->id] = a->special;
    }
    size_t bytes = sizeof *t->added_raw.list * (size_t)(t->n_added + 1);
    t->added_raw.list = lvn_arena_alloc(&t->arena, bytes);
    t->added_normalized.list = lvn_arena_alloc(&t->arena, bytes);
    if (!t->added_raw.list || !t->added_normalized.list) return LVN_MEMORY;
    make_set(t, &t->added_raw, false);
    make_set(t, &t->added_normalized, true);
    return LVN_OK;
}

/* Find the first added token at or after *at, the longest of those that begin there. */
static const struct lvn_added_token *next_added(const struct lvn_added_set *s, const uint8_t *p, int64_t n, int64_t *at)
{
    for (int64_t i = *at; i < n; i++) {
        if (s->only >= 0) {
            const uint8_t *first = memchr(p + i, s->only, (size_t)(n - i));
            if (!first) return NULL;
            i = first - p;
        }
        uint32_t a = p[i], b = i + 1 < n ? p[i + 1] : 0;
        bool last = i + 1 == n; /* no second byte: only a token of one byte can match */
        if (!last && !(s->pair[(a << 8 | b) >> 6] >> (b & 63) & 1)) continue;
        for (int k = s->first[a]; k < s->first[a + 1]; k++) {
            const struct lvn_added_token *token = s->list[k];
            if (token->n_pattern > n - i || memcmp(token->pattern, p + i, (size_t)token->n_pattern) != 0) continue;
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
    return code >= 0 && lvn_char((uint32_t)code)->is_word_char;
}

static int64_t previous_character(const uint8_t *p, int64_t at)
{
    int64_t i = at - 1;
    while (i > 0 && at - i < 4 && (p[i] & 0xc0) == 0x80) i--;
    return i;
}

/* Is the token recognized at [*begin, *end)? Extends the range by white space, for lstrip and rstrip. */
static bool matches(const struct lvn_added_token *token, const uint8_t *p, int64_t n, int64_t min, int64_t *begin,
                    int64_t *end)
{
    int bytes;
    if (token->single_word && *begin > 0 && is_word(p + previous_character(p, *begin), p + *begin)) return false;
    if (token->single_word && *end < n && is_word(p + *end, p + n)) return false;
    while (token->lstrip && *begin > min &&
           lvn_char_class(p + previous_character(p, *begin), p + *begin, &bytes) == LVN_CHAR_SPACE)
        *begin = previous_character(p, *begin);
    while (token->rstrip && *end < n && lvn_char_class(p + *end, p + n, &bytes) == LVN_CHAR_SPACE) *end += bytes;
    if (token->lstrip && *begin < min) *begin = min;
    return *begin < *end;
}

/* --- marked text --- */

static bool has_content(const uint8_t *marks, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (marks[i] & 1) return true;
    return false;
}

/* Set e->written: for each special token that is searched after normalization, in the order of the text, whether it
 * has no content. */
static enum lvn_status find_written(struct lvn_encoder *e, const uint8_t *p, int64_t n)
{
    const struct lvn_added_set *s = &e->t->added_normalized;
    const uint8_t *marks = e->marks + (p - e->marked);
    e->n_written = e->n_seen = 0;
    for (int64_t i = 0; i < n && s->n; i++) {
        const struct lvn_added_token *found = NULL;
        for (int k = 0; k < s->n; k++) {
            const struct lvn_added_token *token = s->list[k];
            if (token->special && token->bytes <= n - i && (!found || token->bytes > found->bytes) &&
                memcmp(token->text, p + i, (size_t)token->bytes) == 0)
                found = token;
        }
        if (!found) continue;
        if (!lvn_list_reserve(&e->written, &e->written_capacity, e->n_written + 1, sizeof *e->written))
            return LVN_MEMORY;
        e->written[e->n_written++] = !has_content(marks + i, found->bytes);
        i += found->bytes - 1;
    }
    return LVN_OK;
}

/* Is this special token content? p: the text in which it was found, which is normalized or that of the marks. */
static enum lvn_status is_content(struct lvn_encoder *e, bool normalized, const uint8_t *p, int64_t n, bool *is)
{
    *is = false;
    if (!e->marks) return LVN_OK;
    if (!normalized) {
        *is = has_content(e->marks + (p - e->marked), n);
        return LVN_OK;
    }
    LVN_CHECK(e->n_seen < e->n_written, UNSUPPORTED,
              "the tokenizer's normalizer makes the special token '%.*s' out of other text", (int)n, p);
    *is = !e->written[e->n_seen++];
    return LVN_OK;
}

typedef enum lvn_status encode_function(struct lvn_encoder *e, const uint8_t *p, int64_t n, bool begins,
                                        struct lvn_ids *ids);

/* Extract the added tokens of a set; encode_rest() encodes the text between them. As in the reference, a token within
 * the white space that the previous token's rstrip took is recognized too, unless it has lstrip, and the text continues
 * after it. */
static enum lvn_status split_added(struct lvn_encoder *e, const struct lvn_added_set *s, const uint8_t *p, int64_t n,
                                   bool begins, struct lvn_ids *ids, encode_function *encode_rest)
{
    int64_t done = 0;
    bool raw = s == &e->t->added_raw, content = false;
    for (int64_t at = 0; s->n;) {
        const struct lvn_added_token *token = next_added(s, p, n, &at);
        if (!token) break;
        int64_t begin = at, end = at + token->n_pattern;
        at = end;
        if (token->special) LVN_TRY(is_content(e, !raw, p + begin, end - begin, &content));
        if (token->special && content) {
            at = begin + 1; /* a token that the template wrote may begin within it */
            continue;
        }
        if (token->special && e->mode == LVN_ENCODE_ORDINARY && !e->marks) {
            lvn_encoder_notes_add(&e->notes, (struct lvn_encoder_notes){.special = 1, .special_id = token->id});
            continue;
        }
        if (!matches(token, p, n, done, &begin, &end)) continue;
        if (begin > done) LVN_TRY(encode_rest(e, p + done, begin - done, begins && !done, ids));
        LVN_TRY(lvn_ids_reserve(ids, 1));
        e->n_special += token->special;
        ids->p[ids->n++] = token->id;
        done = end;
    }
    return done < n ? encode_rest(e, p + done, n - done, begins && !done, ids) : LVN_OK;
}

/* --- normalized text to ids: pre-tokenizers split it into pieces, which the model or the cache encodes --- */

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

/* Append the ids of normalized text without added tokens. begins: it is the beginning of the whole
 * text. */
static enum lvn_status encode_pieces(struct lvn_encoder *e, const uint8_t *p, int64_t n, bool begins,
                                     struct lvn_ids *ids)
{
    struct next first = {.e = e, .ids = ids};
    return n ? run_step(&first, p, n, begins) : LVN_OK;
}

static enum lvn_status normalize(struct lvn_encoder *e, const uint8_t *p, int64_t n, bool begins, struct lvn_ids *ids)
{
    lvn_work_done(n);
    if (e->marks) LVN_TRY(find_written(e, p, n));
    LVN_TRY(lvn_normalizer_run(&e->t->normalizer, &e->normalizer, &p, &n, &begins));
    return split_added(e, &e->t->added_normalized, p, n, begins, ids, encode_pieces);
}

enum lvn_status lvn_encode(struct lvn_encoder *e, const void *text, int64_t bytes, enum lvn_encoding mode,
                           struct lvn_ids *ids)
{
    const int64_t first = ids->n;
    e->mode = mode;
    e->marks = NULL;
    LVN_TRY(split_added(e, &e->t->added_raw, text, bytes, true, ids, normalize));
    count_ids(e, ids, first);
    return LVN_OK;
}

enum lvn_status lvn_encode_marked(struct lvn_encoder *e, const void *text, int64_t bytes, const uint8_t *marks,
                                  struct lvn_ids *ids, int64_t *n_special)
{
    e->mode = LVN_ENCODE_ORDINARY; /* the model makes no special tokens out of pieces */
    e->marks = marks;
    e->marked = text;
    e->n_special = 0;
    LVN_TRY(split_added(e, &e->t->added_raw, text, bytes, true, ids, normalize));
    *n_special = e->n_special;
    return LVN_OK;
}

/* Do the pre-tokenizers split before white space that follows a word, regardless of the context? */
static bool splits_at_space(const struct lvn_pre_tokenizer *pre)
{
    for (int i = 0; i < pre->n; i++) {
        const struct lvn_pre_tokenizer_step *s = &pre->step[i];
        bool isolates = s->kind == LVN_PRE_DIGIT ||
                        s->kind == LVN_PRE_PUNCTUATION; /* splits these off; the next step sees the rest */
        if (s->prepend != LVN_PREPEND_NEVER || s->replace_spaces) return false;
        if (!isolates || (s->behavior != LVN_SPLIT_ISOLATED && s->behavior != LVN_SPLIT_CONTIGUOUS))
            return s->kind == LVN_PRE_BERT || s->kind == LVN_PRE_SPACE || s->kind == LVN_PRE_WORDS ||
                   (s->kind == LVN_PRE_SPLIT && s->split != LVN_SPLIT_NONE && s->split != LVN_SPLIT_METASPACE);
    }
    return false;
}

bool lvn_tokenizer_can_cut(const struct lvn_tokenizer *t)
{
    for (int i = 0; i < t->n_added; i++) {
        const struct lvn_added_token *a = &t->added[i];
        if (a->lstrip || a->rstrip || lvn_split_safe((const uint8_t *)a->text, a->bytes, 1) < a->bytes) return false;
        bool space = lvn_char((uint8_t)a->text[0])->char_class == LVN_CHAR_SPACE;
        if (a->single_word && space) return false;
    }
    return lvn_normalizer_is_local(&t->normalizer) && splits_at_space(&t->pre_tokenizer);
}
