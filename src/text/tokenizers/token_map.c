/* token_map.c - see token_map.h: hashes, tokens, merges. */
#include "tokenizers/token_map.h"

#include "base/list.h"
#include "tokenizers/load.h"

/* --- hashes: of a text, or of a text appended to one whose hash is known --- */

static inline uint64_t hash_on(uint64_t hash, const char *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) hash = (hash ^ (uint8_t)p[i]) * 0x100000001b3ULL; /* FNV-1a */
    return hash;
}

static inline uint64_t hash_of(const char *p, int64_t n)
{
    return hash_on(0xcbf29ce484222325ULL, p, n);
}

/* The slot at which a search begins, and the tag to compare there. */
static inline uint64_t slot_of(const struct lvn_token_map *m, uint64_t hash)
{
    return lvn_bpe_hash(hash) & m->mask;
}

static inline uint64_t tag_of(uint64_t hash)
{
    return hash & 0xffffffff00000000ULL;
}

/* --- tokens --- */

static bool is_text(const struct lvn_raw_token *w, const char *a, int64_t n_a, const char *b, int64_t n_b)
{
    return w->bytes == n_a + n_b && !memcmp(w->text, a, (size_t)n_a) &&
           (!n_b || !memcmp(w->text + n_a, b, (size_t)n_b));
}

/* The index of the token whose text is a and b concatenated; -1: none. */
static int64_t index_of(const struct lvn_token_map *m, uint64_t hash, const char *a, int64_t n_a, const char *b,
                        int64_t n_b)
{
    for (uint64_t i = slot_of(m, hash); m->slot[i]; i = (i + 1) & m->mask) {
        const struct lvn_raw_token *w = &m->token[(m->slot[i] & UINT32_MAX) - 1];
        if (tag_of(m->slot[i]) == tag_of(hash) && is_text(w, a, n_a, b, n_b)) return w - m->token;
    }
    return -1;
}

static int32_t find(const struct lvn_token_map *m, uint64_t hash, const char *a, int64_t n)
{
    int64_t index = index_of(m, hash, a, n, "", 0);
    return index < 0 ? -1 : m->token[index].id;
}

static enum lvn_status add(struct lvn_token_map *m, const char *text, int64_t bytes, int64_t id)
{
    LVN_CHECK(id >= 0 && id < LVN_TOKENS_MAX, FORMAT,
              "'%s': the id of the token '%.*s' must be a whole number from 0 to %d", m->name,
              (int)(bytes < 60 ? bytes : 60), text, LVN_TOKENS_MAX - 1);
    if (!lvn_list_reserve(&m->token, &m->capacity, m->n + 1, sizeof *m->token)) return LVN_MEMORY;
    if (id > m->max_id) m->max_id = id;
    m->token[m->n++] = (struct lvn_raw_token){.text = text, .bytes = bytes, .id = (int32_t)id};
    return LVN_OK;
}

static enum lvn_status make_index(struct lvn_token_map *m)
{
    uint64_t capacity = 1024;
    while (capacity < 2 * (uint64_t)m->n) capacity *= 2;
    m->slot = lvn_calloc(capacity, sizeof *m->slot);
    if (!m->slot) return LVN_MEMORY;
    m->mask = capacity - 1;
    for (int64_t k = 0; k < m->n; k++) {
        const struct lvn_raw_token *w = &m->token[k];
        uint64_t hash = hash_of(w->text, w->bytes), i = slot_of(m, hash);
        for (; m->slot[i]; i = (i + 1) & m->mask)
            LVN_CHECK(tag_of(m->slot[i]) != tag_of(hash) ||
                          !is_text(&m->token[(m->slot[i] & UINT32_MAX) - 1], w->text, w->bytes, "", 0),
                      FORMAT, "'%s': the token '%.*s' is in the vocabulary twice", m->name,
                      (int)(w->bytes < 60 ? w->bytes : 60), w->text);
        m->slot[i] = tag_of(hash) | (uint64_t)(k + 1);
    }
    return LVN_OK;
}

enum lvn_status lvn_token_map_read(struct lvn_token_map *m, struct lvn_json_scan *scan)
{
    const char *text;
    int64_t bytes, id;
    bool more;
    *m = (struct lvn_token_map){.name = scan->name, .max_id = -1};
    scan->arena = &m->arena;
    LVN_TRY(lvn_json_scan_enter(scan, '{'));
    for (int64_t i = 0;; i++) {
        LVN_TRY(lvn_json_scan_next(scan, '}', i, &more));
        if (!more) break;
        LVN_TRY(lvn_json_scan_key(scan, &text, &bytes));
        LVN_TRY(lvn_json_scan_index(scan, &id));
        LVN_TRY(add(m, text, bytes, id));
    }
    LVN_CHECK(m->n, FORMAT, "'%s' has no tokens", m->name);
    return make_index(m);
}

int32_t lvn_token_map_find_bytes(const struct lvn_token_map *m, const char *text, int64_t bytes)
{
    return find(m, hash_of(text, bytes), text, bytes);
}

int32_t lvn_token_map_find(const struct lvn_token_map *m, const char *text)
{
    return lvn_token_map_find_bytes(m, text, (int64_t)strlen(text));
}

void lvn_token_map_release(struct lvn_token_map *m)
{
    free(m->token);
    free(m->slot);
    lvn_arena_release(&m->arena);
    *m = (struct lvn_token_map){0};
}

/* --- merges --- */

static enum lvn_status lacks(const struct lvn_merge_reader *r, const struct lvn_merge_text *t, bool both)
{
    LVN_FAIL(
        FORMAT,
        "'%s', merge %lld: '%.*s' + '%.*s' %s a token that the vocabulary lacks: the files do not belong together, "
        "or one is damaged",
        r->name, (long long)t->line, (int)(t->n_left < 60 ? t->n_left : 60), t->left,
        (int)(t->n_right < 60 ? t->n_right : 60), t->right, both ? "make" : "name");
}

/* The first token that a search for this hash compares; NULL: none. */
static const struct lvn_raw_token *first_candidate(const struct lvn_token_map *m, uint64_t hash)
{
    uint64_t slot = m->slot[slot_of(m, hash)];
    return slot ? &m->token[(slot & UINT32_MAX) - 1] : NULL;
}

/* Prefetch the tokens that a group of searches will compare, so that their cache misses overlap. */
static void prefetch(const struct lvn_merge_reader *r)
{
    const struct lvn_raw_token *first[LVN_MERGES_AT_ONCE][3] = {{0}};
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < (r->merge[i].merged < 0 ? 3 : 2); k++) {
            first[i][k] = first_candidate(r->map, r->merge[i].hash[k]);
            if (first[i][k]) __builtin_prefetch(first[i][k]);
        }
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < 3; k++)
            if (first[i][k]) __builtin_prefetch(first[i][k]->text);
}

enum lvn_status lvn_merges_end(struct lvn_merge_reader *r)
{
    const struct lvn_token_map *m = r->map;
    int32_t id[LVN_MERGES_AT_ONCE][2];
    prefetch(r);
    for (int i = 0; i < r->n; i++) {
        struct lvn_merge_text *t = &r->merge[i];
        id[i][0] = find(m, t->hash[0], t->left, t->n_left);
        id[i][1] = find(m, t->hash[1], t->right, t->n_right);
        if (t->merged < 0) t->merged = r->last = index_of(m, t->hash[2], t->left, t->n_left, t->right, t->n_right);
        if (id[i][0] < 0 || id[i][1] < 0 || t->merged < 0) return lacks(r, t, id[i][0] >= 0 && id[i][1] >= 0);
        __builtin_prefetch(lvn_bpe_first_slot(r->bpe, id[i][0], id[i][1]));
    }
    for (int i = 0; i < r->n; i++) lvn_bpe_add(r->bpe, id[i][0], id[i][1], m->token[r->merge[i].merged].id);
    r->n = 0;
    return LVN_OK;
}

/* Most files have merges in the order of the merged tokens, often several for one token. Returns the index of the
 * merged token if it is that of the last merge, or the next one; else -1. */
static int64_t guess(const struct lvn_merge_reader *r, const struct lvn_merge_text *t)
{
    for (int64_t i = r->last; i < r->map->n && i < r->last + 2; i++)
        if (is_text(&r->map->token[i], t->left, t->n_left, t->right, t->n_right)) return i;
    return -1;
}

enum lvn_status lvn_merges_add(struct lvn_merge_reader *r, int64_t line, const char *left, int64_t n_left,
                               const char *right, int64_t n_right)
{
    LVN_CHECK(n_left && n_right, FORMAT, "'%s', merge %lld: expected two tokens, and one is empty", r->name,
              (long long)line);
    struct lvn_merge_text *t = &r->merge[r->n++];
    *t = (struct lvn_merge_text){
        .left = left, .right = right, .n_left = n_left, .n_right = n_right, .line = line, .merged = -1};
    t->hash[0] = hash_of(left, n_left);
    t->hash[1] = hash_of(right, n_right);
    t->merged = guess(r, t);
    if (t->merged >= 0)
        r->last = t->merged;
    else
        t->hash[2] = hash_on(t->hash[0], right, n_right);
    for (int k = 0; k < (t->merged < 0 ? 3 : 2); k++) __builtin_prefetch(&r->map->slot[slot_of(r->map, t->hash[k])]);
    return r->n < LVN_MERGES_AT_ONCE ? LVN_OK : lvn_merges_end(r);
}
