/* bpe_trainer.c - see bpe_trainer.h: tokens by text, the special tokens, the alphabet and the merges of a new
 * vocabulary. */
#include "tokenizers/training/bpe_trainer.h"

#include "base/list.h"
#include "base/work.h"
#include "tokenizers/bpe.h"
#include "tokenizers/load.h"

enum lvn_status lvn_vocabulary_open(struct lvn_vocabulary *v, const struct lvn_vocabulary_options *o)
{
    *v = (struct lvn_vocabulary){.o = *o};
    lvn_unicode_init();
    lvn_arena_init(&v->arena);
    v->words = lvn_calloc((size_t)o->threads, sizeof *v->words);
    if (!v->words) return LVN_MEMORY;
    v->rules.pre_tokenizer = o->wordpiece ? lvn_pre_tokenizer_bert() : lvn_pre_tokenizer_split(LVN_SPLIT_BYTE_LEVEL);
    v->rules.across_lines = o->wordpiece || o->pattern; /* words of BERT end at white space */
    if (o->pattern) LVN_TRY(lvn_pre_tokenizer_expression(&v->rules.pre_tokenizer, &v->arena, "--pattern", o->pattern));
    if (o->wordpiece)
        v->rules.normalizer =
            (struct lvn_normalizer){.step = {lvn_normalizer_bert(o->lowercase, o->lowercase, true)}, .n = 1};
    return LVN_OK;
}

void lvn_vocabulary_close(struct lvn_vocabulary *v)
{
    for (int t = 0; v->words && t < v->o.threads; t++) lvn_word_counts_release(&v->words[t]);
    free(v->words);
    free(v->token);
    free(v->merge);
    free(v->slot);
    lvn_arena_release(&v->arena);
    *v = (struct lvn_vocabulary){0};
}

enum lvn_status lvn_vocabulary_count(struct lvn_vocabulary *v, const char *text, int64_t bytes)
{
    return lvn_word_counts_count(&v->rules, text, bytes, v->o.threads, v->words);
}

/* --- tokens by their text --- */

static uint64_t hash_of(const char *text, int64_t bytes)
{
    uint64_t hash = (uint64_t)bytes;
    for (int64_t i = 0; i < bytes; i++) hash = lvn_bpe_hash(hash ^ (unsigned char)text[i]);
    return hash;
}

static int64_t slot_of(const struct lvn_vocabulary *v, const char *text, int64_t bytes)
{
    int64_t i = (int64_t)(hash_of(text, bytes) & (uint64_t)(v->n_slots - 1));
    for (; v->slot[i] >= 0; i = (i + 1) & (v->n_slots - 1)) {
        const struct lvn_vocabulary_token *t = &v->token[v->slot[i]];
        if (t->bytes == bytes && !memcmp(t->text, text, (size_t)bytes)) break;
    }
    return i;
}

int32_t lvn_vocabulary_find(const struct lvn_vocabulary *v, const char *text, int64_t bytes)
{
    return v->n_slots ? v->slot[slot_of(v, text, bytes)] : -1;
}

static enum lvn_status more_slots(struct lvn_vocabulary *v)
{
    int64_t n = v->n_slots ? 2 * v->n_slots : 4096;
    int32_t *slot = lvn_malloc((size_t)n * sizeof *slot);
    if (!slot) return LVN_MEMORY;
    free(v->slot);
    v->slot = slot;
    v->n_slots = n;
    for (int64_t i = 0; i < n; i++) slot[i] = -1;
    for (int64_t id = 0; id < v->n; id++) slot[slot_of(v, v->token[id].text, v->token[id].bytes)] = (int32_t)id;
    return LVN_OK;
}

/* Add a token unless it exists. */
static enum lvn_status add_token(struct lvn_vocabulary *v, const char *text, int64_t bytes, int32_t *id)
{
    if (2 * v->n >= v->n_slots) LVN_TRY(more_slots(v));
    int64_t at = slot_of(v, text, bytes);
    *id = v->slot[at];
    if (*id >= 0) return LVN_OK;
    if (!lvn_list_reserve(&v->token, &v->capacity, v->n + 1, sizeof *v->token)) return LVN_MEMORY;
    char *copy = lvn_arena_alloc(&v->arena, (size_t)bytes + 1);
    if (!copy) return LVN_MEMORY;
    memcpy(copy, text, (size_t)bytes);
    v->token[v->n] = (struct lvn_vocabulary_token){.text = copy, .bytes = bytes};
    *id = v->slot[at] = (int32_t)v->n++;
    return LVN_OK;
}

/* --- the alphabet --- */

/* Count each character; [1]: only within words, after their first character. */
static enum lvn_status count_characters(const struct lvn_word_counts *w, int64_t *count[2])
{
    for (int i = 0; i < 2; i++)
        if (!(count[i] = lvn_calloc(0x110000, sizeof **count))) return LVN_MEMORY;
    for (int64_t k = 0; k < w->capacity; k++) {
        const struct lvn_counted_word *s = &w->slot[k];
        int used;
        for (int64_t i = 0; s->text && i < s->bytes; i += used) {
            int32_t code = lvn_utf8_decode(s->text + i, s->bytes - i, &used);
            if (code < 0) continue;
            count[0][code] += s->count;
            if (i) count[1][code] += s->count;
        }
    }
    return LVN_OK;
}

static int by_count(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    if (x[1] != y[1]) return x[1] > y[1] ? -1 : 1;
    return (x[0] > y[0]) - (x[0] < y[0]);
}

/* Keep the `limit` most frequent characters. */
static enum lvn_status limit_characters(int64_t *count, int64_t limit)
{
    int64_t n = 0, (*pair)[2] = lvn_malloc(sizeof *pair * 0x110000);
    if (!pair) return LVN_MEMORY;
    for (int64_t c = 0; c < 0x110000; c++) {
        if (!count[c]) continue;
        pair[n][0] = c;
        pair[n++][1] = count[c];
    }
    qsort(pair, (size_t)n, sizeof *pair, by_count);
    for (int64_t i = limit; i < n; i++) count[pair[i][0]] = 0;
    free(pair);
    return LVN_OK;
}

static enum lvn_status add_characters(struct lvn_vocabulary *v, int64_t *count[2])
{
    char text[8];
    int32_t id;
    if (v->o.limit_alphabet) LVN_TRY(limit_characters(count[0], v->o.limit_alphabet));
    for (int inner = 0; inner < 2; inner++)
        for (int32_t c = 0; c < 0x110000; c++) {
            memcpy(text, "##", 2);
            if (!count[0][c] || !count[inner][c]) continue;
            int bytes = lvn_utf8_encode(c, text + 2);
            LVN_TRY(add_token(v, inner ? text : text + 2, bytes + (inner ? 2 : 0), &id));
        }
    return LVN_OK;
}

/* Add all bytes, in the order of their letters in the alphabet, or of their values. */
static enum lvn_status add_bytes(struct lvn_vocabulary *v)
{
    const bool by_value = v->o.n_special > 0;
    int32_t id;
    for (int i = 0; i < (by_value ? 256 : LVN_ALPHABET); i++) {
        int byte = by_value ? i : lvn_alphabet_byte(i);
        char text = (char)byte;
        if (byte >= 0) LVN_TRY(add_token(v, &text, 1, &id));
    }
    return LVN_OK;
}

/* Add the special tokens that options name, after all others. */
static enum lvn_status add_special(struct lvn_vocabulary *v)
{
    int32_t id;
    if (v->o.n_special) v->special = v->n;
    for (int i = 0; i < v->o.n_special; i++) {
        const char *name = v->o.special[i];
        const int64_t before = v->n;
        LVN_TRY(add_token(v, name, (int64_t)strlen(name), &id));
        LVN_CHECK(v->n > before, ARG, "the special token '%.60s' is %s: give it another name", name,
                  id < v->special ? "also a part of words in the text" : "named twice");
        v->n_special++;
    }
    return LVN_OK;
}

/* --- merges, the most frequent pair first ---
 *
 * A hash table has the count of every pair. A heap has pairs with the words in which to merge them; a stale count there
 * is corrected when its entry reaches the top. A merge adds entries for the new pairs that it makes. As in the
 * reference, a pair can have several entries, if an existing token results from another merge; each entry is merged in
 * its own words. */

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
    enum lvn_status status = add_token(v, text, a->bytes + b->bytes - skip, id);
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
        lvn_work_done(1);
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

/* Merge pairs until the vocabulary has the requested size. */
static enum lvn_status merge_pairs(struct lvn_vocabulary *v)
{
    struct merger m = {.v = v};
    enum lvn_status status = take_words(&m);
    if (status == LVN_OK) status = count_pairs(&m);
    if (status == LVN_OK) status = push_touched(&m);
    if (status == LVN_OK) status = merge_all(&m);
    release(&m);
    return status;
}

enum lvn_status lvn_vocabulary_make(struct lvn_vocabulary *v)
{
    static const char *const bert[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, *const gpt[] = {"<|endoftext|>"};
    int64_t *count[2] = {NULL, NULL};
    int32_t id;
    LVN_TRY(lvn_word_counts_join(v->words, v->o.threads));
    LVN_CHECK(v->words[0].n, FORMAT, "there are no words in the text to learn a vocabulary from");
    v->n_special = v->o.wordpiece ? 5 : v->o.n_special ? 0 : 1;
    for (int i = 0; i < v->n_special; i++) {
        const char *name = v->o.wordpiece ? bert[i] : gpt[i];
        LVN_TRY(add_token(v, name, (int64_t)strlen(name), &id));
    }
    enum lvn_status status = v->o.wordpiece ? count_characters(&v->words[0], count) : add_bytes(v);
    if (status == LVN_OK && v->o.wordpiece) status = add_characters(v, count);
    free(count[0]);
    free(count[1]);
    LVN_TRY(status);
    const int64_t fixed = v->n + v->o.n_special;
    LVN_CHECK(fixed <= v->o.size, ARG,
              "a vocabulary of %lld tokens has no room for the %d special ones and the text's alphabet, %lld together: "
              "give a larger --vocab-size%s",
              (long long)v->o.size, v->n_special + v->o.n_special, (long long)fixed,
              v->o.wordpiece ? ", or keep the most frequent characters alone with --limit-alphabet" : "");
    LVN_TRY(merge_pairs(v));
    return add_special(v);
}
