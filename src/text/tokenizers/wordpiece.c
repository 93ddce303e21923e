/* wordpiece.c - see wordpiece.h. One pass over the rest of a word computes the hashes of all its prefixes; the longest
 * prefix that is a token is used. */
#include "tokenizers/wordpiece.h"

enum { WORD_BYTES = 1024 }; /* longer prefixes are rare, and searched by a slower loop */

static uint64_t step(uint64_t hash, uint8_t byte)
{
    return (hash ^ byte) * 0x100000001b3ULL; /* FNV-1a */
}

static uint64_t first_step(bool continues)
{
    return continues ? 0xcbf29ce484222325ULL : 0x84222325cbf29ce4ULL;
}

/* The token of these bytes: at the beginning of a word, or continuing one; -1: none. */
static int32_t find(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n, bool continues, uint64_t hash)
{
    const struct lvn_wordpiece *w = t->wordpiece;
    for (uint64_t i = lvn_bpe_hash(hash) & w->index.mask; w->index.slot[i] >= 0; i = (i + 1) & w->index.mask) {
        int32_t id = w->index.slot[i];
        const uint8_t *token = t->byte + t->start[id];
        int64_t bytes = t->start[id + 1] - t->start[id], skip = continues ? w->n_prefix : 0;
        if (bytes == n + skip && (!continues || !memcmp(token, w->prefix, (size_t)skip)) &&
            !memcmp(token + skip, p, (size_t)n))
            return id;
    }
    return -1;
}

/* Add a token to the index: as one that begins a word, or, without its prefix, as one that continues a word. */
static void add(const struct lvn_tokenizer *t, int32_t id, bool continues)
{
    const struct lvn_wordpiece *w = t->wordpiece;
    const uint8_t *p = t->byte + t->start[id];
    int64_t n = t->start[id + 1] - t->start[id], skip = continues ? w->n_prefix : 0;
    if (!t->in_model[id] || n <= skip || (continues && memcmp(p, w->prefix, (size_t)skip) != 0)) return;
    uint64_t hash = first_step(continues);
    for (int64_t i = skip; i < n; i++) hash = step(hash, p[i]);
    uint64_t at = lvn_bpe_hash(hash) & w->index.mask;
    while (w->index.slot[at] >= 0) at = (at + 1) & w->index.mask;
    w->index.slot[at] = id;
}

enum lvn_status lvn_wordpiece_new(struct lvn_tokenizer *t, const char *name, const char *continues,
                                  int64_t longest_token, const char *unknown)
{
    struct lvn_wordpiece *w = lvn_arena_alloc(&t->arena, sizeof *w);
    uint64_t capacity = 1024;
    while (capacity < 4 * (uint64_t)t->n) capacity *= 2;
    if (!w) return LVN_MEMORY;
    *w = (struct lvn_wordpiece){.prefix = lvn_arena_strdup(&t->arena, continues),
                                .n_prefix = (int64_t)strlen(continues),
                                .max_word = longest_token,
                                .index = {.mask = capacity - 1}};
    w->index.slot = lvn_arena_alloc(&t->arena, sizeof *w->index.slot * capacity);
    if (!w->prefix || !w->index.slot) return LVN_MEMORY;
    for (uint64_t i = 0; i < capacity; i++) w->index.slot[i] = -1;
    t->wordpiece = w;
    t->model = LVN_TOKENIZER_WORDPIECE;
    for (int64_t id = 0; id < t->n; id++) {
        int64_t bytes = t->start[id + 1] - t->start[id];
        if (bytes > w->max_token) w->max_token = bytes;
        add(t, (int32_t)id, false);
        if (w->n_prefix) add(t, (int32_t)id, true);
    }
    t->unknown = lvn_tokenizer_find(t, unknown, (int64_t)strlen(unknown));
    LVN_CHECK(t->unknown >= 0, FORMAT,
              "'%s' has no token %s: it is not a vocabulary of WordPiece (as BERT's is), or it is cut", name, unknown);
    return LVN_OK;
}

/* The longest token at p[0, n) of more than WORD_BYTES bytes; returns its length, 0: none. hash: of the first
 * WORD_BYTES. */
static int64_t longest_beyond(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n, bool continues, uint64_t hash,
                              int32_t *id)
{
    int64_t found = 0, max = n < t->wordpiece->max_token ? n : t->wordpiece->max_token;
    for (int64_t i = WORD_BYTES; i < max;) {
        hash = step(hash, p[i++]);
        if (i < n && (p[i] & 0xc0) == 0x80) continue;
        int32_t token = find(t, p, i, continues, hash);
        if (token < 0) continue;
        found = i;
        *id = token;
    }
    return found;
}

/* The longest token at p[0, n); returns its length, 0: none. */
static int64_t longest_token(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n, bool continues, int32_t *id)
{
    uint64_t hash[WORD_BYTES + 1];
    int64_t near = n < WORD_BYTES ? n : WORD_BYTES;
    continues = continues && t->wordpiece->n_prefix;
    hash[0] = first_step(continues);
    for (int64_t i = 0; i < near; i++) hash[i + 1] = step(hash[i], p[i]);
    int64_t far = n > near ? longest_beyond(t, p, n, continues, hash[near], id) : 0;
    if (far) return far;
    for (int64_t end = near; end > 0; end--) {
        if (end < n && (p[end] & 0xc0) == 0x80) continue;
        *id = find(t, p, end, continues, hash[end]);
        if (*id >= 0) return end;
    }
    return 0;
}

int64_t lvn_wordpiece_word(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n, int32_t *out)
{
    int64_t letters = 0, made = 0, used = 1;
    for (int64_t i = 0; i < n; i++) letters += (p[i] & 0xc0) != 0x80;
    if (letters > t->wordpiece->max_word) used = 0;
    for (int64_t at = 0; used && at < n; at += used) {
        int32_t id;
        used = longest_token(t, p + at, n - at, at > 0, &id);
        if (used) out[made++] = id;
    }
    if (!used) out[made = 0] = t->unknown;
    return used ? made : 1;
}
