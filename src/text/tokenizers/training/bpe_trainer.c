/* bpe_trainer.c - see bpe_trainer.h: tokens by text, the special tokens and the alphabet of a new vocabulary. */
#include "tokenizers/training/bpe_trainer.h"

#include "base/list.h"
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

enum lvn_status lvn_vocabulary_add(struct lvn_vocabulary *v, const char *text, int64_t bytes, int32_t *id)
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
            LVN_TRY(lvn_vocabulary_add(v, inner ? text : text + 2, bytes + (inner ? 2 : 0), &id));
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
        if (byte >= 0) LVN_TRY(lvn_vocabulary_add(v, &text, 1, &id));
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
        LVN_TRY(lvn_vocabulary_add(v, name, (int64_t)strlen(name), &id));
        LVN_CHECK(v->n > before, ARG, "the special token '%.60s' is %s: give it another name", name,
                  id < v->special ? "also a part of words in the text" : "named twice");
        v->n_special++;
    }
    return LVN_OK;
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
        LVN_TRY(lvn_vocabulary_add(v, name, (int64_t)strlen(name), &id));
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
    LVN_TRY(lvn_vocabulary_merges(v));
    return add_special(v);
}
