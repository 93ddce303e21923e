/* bpe_trainer_merge.c - see bpe_trainer.h: merges, the most frequent pair first.
 *
 * A hash table has the count of every pair. A heap has pairs with the words in which to merge them; a stale count there
 * is corrected when its entry reaches the top. A merge adds entries for the new pairs that it makes. As in the
 * reference, a pair can have several entries, if an existing token results from another merge; each entry is merged in
 * its own words. */

#include "base/list.h"
#include "tokenizers/bpe.h"
#include "tokenizers/training/bpe_trainer.h"

struct pair {
    uint64_t key; /* left << 32 | right; LVN_BPE_EMPTY: free */
    int64_t count;
    int32_t *word; /* words in which it occurs since the last merge */
    int32_t n;     /* words */
    int32_t capacity;
};

struct entry {
    uint64_t key;
    int64_t count;
    int32_t *word;
    int32_t n;
};

struct merger {
    struct lvn_vocabulary *v;
    int32_t *symbol; /* of all words, concatenated */
    int64_t *start;  /* [n_words] */
    int32_t *length; /* [n_words] */
    int64_t *count;  /* [n_words] */
    int64_t n_words;
    struct pair *pair; /* open addressing */
    int64_t n_pairs;
    int64_t pair_capacity;
    uint64_t *touched; /* keys of pairs that got words since the last merge */
    int64_t n_touched;
    int64_t touched_capacity;
    struct entry *heap;
    int64_t n_heap;
    int64_t heap_capacity;
};

static void release(struct merger *m)
{
    for (int64_t i = 0; i < m->pair_capacity; i++) free(m->pair[i].word);
    for (int64_t i = 0; i < m->n_heap; i++) free(m->heap[i].word);
    free(m->symbol);
    free(m->start);
    free(m->length);
    free(m->count);
    free(m->pair);
    free(m->touched);
    free(m->heap);
}

/* --- words --- */

/* Write the symbols of a word: bytes, or characters of the alphabet; other characters are dropped. */
static int32_t symbols(const struct lvn_vocabulary *v, const struct lvn_counted_word *w, int32_t *out)
{
    char text[8] = "##";
    int32_t n = 0;
    int used = 1;
    for (int64_t i = 0; i < w->bytes; i += used) {
        int32_t id;
        if (v->o.wordpiece) {
            (void)lvn_utf8_decode(w->text + i, w->bytes - i, &used);
            memcpy(text + 2, w->text + i, (size_t)used);
            id = lvn_vocabulary_find(v, w->text + i, used);
            if (id >= 0 && i) id = lvn_vocabulary_find(v, text, used + 2);
        } else {
            id = lvn_vocabulary_find(v, w->text + i, 1);
        }
        if (id >= 0) out[n++] = id;
    }
    return n;
}

static int by_text(const void *a, const void *b)
{
    const struct lvn_counted_word *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->bytes < y->bytes ? x->bytes : y->bytes);
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Take the words, sorted by text, so that the result does not depend on the number of threads. */
static enum lvn_status take_words(struct merger *m)
{
    struct lvn_word_counts *w = &m->v->words[0];
    int64_t n = 0, bytes = 0;
    LVN_CHECK(w->n < INT32_MAX, FORMAT, "the text has more than %d different words", INT32_MAX);
    for (int64_t i = 0; i < w->capacity; i++)
        if (w->slot[i].text) {
            w->slot[n] = w->slot[i];
            bytes += w->slot[n++].bytes;
        }
    w->capacity = 0; /* no longer a hash table */
    qsort(w->slot, (size_t)n, sizeof *w->slot, by_text);
    m->symbol = lvn_malloc((size_t)(bytes + 1) * sizeof *m->symbol);
    m->start = lvn_malloc((size_t)n * sizeof *m->start);
    m->length = lvn_malloc((size_t)n * sizeof *m->length);
    m->count = lvn_malloc((size_t)n * sizeof *m->count);
    enum lvn_status status = m->symbol && m->start && m->length && m->count ? LVN_OK : LVN_MEMORY;
    for (int64_t i = 0, at = 0; i < n && status == LVN_OK; at += m->length[i++]) {
        m->start[i] = at;
        m->length[i] = symbols(m->v, &w->slot[i], m->symbol + at);
        m->count[i] = w->slot[i].count;
    }
    m->n_words = n;
    lvn_arena_release(&w->arena);
    lvn_word_counts_release(w);
    return status;
}

/* --- pairs --- */

static enum lvn_status more_pairs(struct merger *m)
{
    int64_t capacity = m->pair_capacity ? 2 * m->pair_capacity : 1 << 14;
    struct pair *delta = lvn_malloc((size_t)capacity * sizeof *delta);
    if (!delta) return LVN_MEMORY;
    for (int64_t i = 0; i < capacity; i++) delta[i] = (struct pair){.key = LVN_BPE_EMPTY};
    for (int64_t i = 0; i < m->pair_capacity; i++) {
        if (m->pair[i].key == LVN_BPE_EMPTY) continue;
        int64_t at = (int64_t)(lvn_bpe_hash(m->pair[i].key) & (uint64_t)(capacity - 1));
        while (delta[at].key != LVN_BPE_EMPTY) at = (at + 1) & (capacity - 1);
        delta[at] = m->pair[i];
    }
    free(m->pair);
    m->pair = delta;
    m->pair_capacity = capacity;
    return LVN_OK;
}

static struct pair *find_pair(const struct merger *m, uint64_t key)
{
    int64_t i = (int64_t)(lvn_bpe_hash(key) & (uint64_t)(m->pair_capacity - 1));
    while (m->pair[i].key != key && m->pair[i].key != LVN_BPE_EMPTY) i = (i + 1) & (m->pair_capacity - 1);
    return &m->pair[i];
}

static enum lvn_status add_word(struct merger *m, struct pair *p, int32_t word)
{
    if (p->n && p->word[p->n - 1] == word) return LVN_OK;
    if (!p->n) {
        if (!lvn_list_reserve(&m->touched, &m->touched_capacity, m->n_touched + 1, sizeof *m->touched))
            return LVN_MEMORY;
        m->touched[m->n_touched++] = p->key;
    }
    if (p->n == p->capacity) {
        int32_t capacity = p->capacity ? 2 * p->capacity : 2,
                *delta = lvn_realloc(p->word, (size_t)capacity * sizeof *delta);
        if (!delta) return LVN_MEMORY;
        p->word = delta;
        p->capacity = capacity;
    }
    p->word[p->n++] = word;
    return LVN_OK;
}

/* Add to the count of a pair for a word. */
static enum lvn_status change(struct merger *m, int32_t left, int32_t right, int64_t delta, int32_t word)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    if (2 * m->n_pairs >= m->pair_capacity) LVN_TRY(more_pairs(m));
    struct pair *p = find_pair(m, key);
    m->n_pairs += p->key != key;
    p->key = key;
    p->count += delta;
    return delta > 0 ? add_word(m, p, word) : LVN_OK;
}

static enum lvn_status count_pairs(struct merger *m)
{
    for (int64_t w = 0; w < m->n_words; w++) {
        const int32_t *s = m->symbol + m->start[w];
        for (int32_t i = 0; i + 1 < m->length[w]; i++) LVN_TRY(change(m, s[i], s[i + 1], m->count[w], (int32_t)w));
    }
    return LVN_OK;
}

/* --- the heap --- */

static bool precedes(const struct entry *a, const struct entry *b)
{
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static void sift_down(struct merger *m, int64_t at)
{
    struct entry x = m->heap[at];
    for (int64_t child; (child = 2 * at + 1) < m->n_heap; at = child) {
        if (child + 1 < m->n_heap && precedes(&m->heap[child + 1], &m->heap[child])) child++;
        if (!precedes(&m->heap[child], &x)) break;
        m->heap[at] = m->heap[child];
    }
    m->heap[at] = x;
}

static enum lvn_status push(struct merger *m, struct entry x)
{
    if (!lvn_list_reserve(&m->heap, &m->heap_capacity, m->n_heap + 1, sizeof *m->heap)) return LVN_MEMORY;
    int64_t at = m->n_heap++;
    for (; at && precedes(&x, &m->heap[(at - 1) / 2]); at = (at - 1) / 2) m->heap[at] = m->heap[(at - 1) / 2];
    m->heap[at] = x;
    return LVN_OK;
}

/* Add entries for the pairs that got words. */
static enum lvn_status push_touched(struct merger *m)
{
    for (int64_t i = 0; i < m->n_touched; i++) {
        struct pair *p = find_pair(m, m->touched[i]);
        if (p->count > 0)
            LVN_TRY(push(m, (struct entry){.key = p->key, .count = p->count, .word = p->word, .n = p->n}));
        else
            free(p->word);
        p->word = NULL;
        p->n = p->capacity = 0;
    }
    m->n_touched = 0;
    return LVN_OK;
}

/* --- merging --- */

static enum lvn_status merge_word(struct merger *m, int32_t word, int32_t left, int32_t right, int32_t merged)
{
    int32_t *s = m->symbol + m->start[word], n = m->length[word], out = 0;
    int64_t count = m->count[word];
    for (int32_t i = 0; i < n; i++) {
        if (s[i] != left || i + 1 == n || s[i + 1] != right) {
            s[out++] = s[i];
            continue;
        }
        if (out) {
            LVN_TRY(change(m, s[out - 1], left, -count, word));
            LVN_TRY(change(m, s[out - 1], merged, count, word));
        }
        i++;
        if (i + 1 < n) {
            LVN_TRY(change(m, right, s[i + 1], -count, word));
            LVN_TRY(change(m, merged, s[i + 1], count, word));
        }
        s[out++] = merged;
    }
    m->length[word] = out;
    return LVN_OK;
}

/* Add the token that a pair becomes, unless it exists, and the merge. */
static enum lvn_status new_token(struct lvn_vocabulary *v, int32_t left, int32_t right, int32_t *id)
{
    const struct lvn_vocabulary_token *a = &v->token[left], *b = &v->token[right];
    int64_t skip = v->o.wordpiece && b->bytes >= 2 && !memcmp(b->text, "##", 2) ? 2 : 0;
    char *text = lvn_malloc((size_t)(a->bytes + b->bytes));
    if (!text) return LVN_MEMORY;
    memcpy(text, a->text, (size_t)a->bytes);
    memcpy(text + a->bytes, b->text + skip, (size_t)(b->bytes - skip));
    enum lvn_status status = lvn_vocabulary_add(v, text, a->bytes + b->bytes - skip, id);
    free(text);
    LVN_TRY(status);
    if (!lvn_list_reserve(&v->merge, &v->merge_capacity, v->n_merges + 1, sizeof *v->merge)) return LVN_MEMORY;
    v->merge[v->n_merges++] = (struct lvn_vocabulary_merge){.left = left, .right = right};
    return LVN_OK;
}

static enum lvn_status merge_all(struct merger *m)
{
    struct lvn_vocabulary *v = m->v;
    while (v->n < v->o.size - v->o.n_special && m->n_heap) {
        struct entry top = m->heap[0];
        int64_t count = find_pair(m, top.key)->count;
        if (top.count != count) {
            m->heap[0].count = count;
            sift_down(m, 0);
            continue;
        }
        if (count < 1 || count < v->o.min_frequency) break;
        m->heap[0] = m->heap[--m->n_heap];
        if (m->n_heap) sift_down(m, 0);
        int32_t left = (int32_t)(top.key >> 32), right = (int32_t)(top.key & UINT32_MAX), merged = 0;
        enum lvn_status status = new_token(v, left, right, &merged);
        for (int32_t i = 0; i < top.n && status == LVN_OK; i++)
            status = merge_word(m, top.word[i], left, right, merged);
        free(top.word);
        LVN_TRY(status);
        LVN_TRY(push_touched(m));
    }
    return LVN_OK;
}

enum lvn_status lvn_vocabulary_merges(struct lvn_vocabulary *v)
{
    struct merger m = {.v = v};
    enum lvn_status status = take_words(&m);
    if (status == LVN_OK) status = count_pairs(&m);
    if (status == LVN_OK) status = push_touched(&m);
    if (status == LVN_OK) status = merge_all(&m);
    release(&m);
    return status;
}
