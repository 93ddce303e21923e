/* word_count.c - see word_count.h: a hash table of words, then counting by threads. */
#include "tokenizers/training/word_count.h"

#include "base/threads.h"
#include "base/work.h"
#include "tokenizers/bpe.h"

enum { BLOCK_BYTES = 1 << 20, FIRST_CAPACITY = 1 << 12, SLICE_BYTES = 1 << 18, ERROR_TEXT = 512 };

void lvn_word_counts_release(struct lvn_word_counts *w)
{
    if (w->capacity) lvn_arena_release(&w->arena);
    free(w->slot);
    *w = (struct lvn_word_counts){0};
}

static uint32_t hash_of(const char *text, int64_t bytes)
{
    uint64_t hash = (uint64_t)bytes * 0x9e3779b97f4a7c15ULL;
    for (; bytes >= 8; text += 8, bytes -= 8) {
        uint64_t part;
        memcpy(&part, text, 8);
        hash = lvn_bpe_hash(hash ^ part);
    }
    uint64_t part = 0;
    memcpy(&part, text, (size_t)bytes);
    hash = lvn_bpe_hash(hash ^ part);
    return (uint32_t)(hash ^ hash >> 32);
}

static enum lvn_status grow(struct lvn_word_counts *w)
{
    int64_t capacity = w->capacity ? 2 * w->capacity : FIRST_CAPACITY;
    struct lvn_counted_word *slot = lvn_calloc((size_t)capacity, sizeof *slot);
    if (!slot) return LVN_MEMORY;
    if (!w->capacity) lvn_arena_init(&w->arena);
    for (int64_t i = 0; i < w->capacity; i++) {
        if (!w->slot[i].text) continue;
        int64_t at = w->slot[i].hash & (uint64_t)(capacity - 1);
        while (slot[at].text) at = (at + 1) & (capacity - 1);
        slot[at] = w->slot[i];
    }
    free(w->slot);
    w->slot = slot;
    w->capacity = capacity;
    return LVN_OK;
}

static const char *copy_text(struct lvn_word_counts *w, const char *text, int64_t bytes)
{
    if (bytes > w->left) {
        int64_t capacity = bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES;
        w->block = lvn_arena_alloc(&w->arena, (size_t)capacity);
        if (!w->block) return NULL;
        w->left = capacity;
    }
    char *copy = memcpy(w->block, text, (size_t)bytes);
    w->block += bytes;
    w->left -= bytes;
    return copy;
}

/* Add to a word's count. */
static enum lvn_status add(struct lvn_word_counts *w, const char *text, int64_t bytes, int64_t count)
{
    if (2 * w->n >= w->capacity) LVN_TRY(grow(w));
    LVN_CHECK(bytes <= UINT32_MAX, FORMAT, "a word of %lld bytes is too long to learn from", (long long)bytes);
    uint32_t hash = hash_of(text, bytes);
    for (int64_t i = hash & (uint64_t)(w->capacity - 1);; i = (i + 1) & (w->capacity - 1)) {
        struct lvn_counted_word *s = &w->slot[i];
        if (s->text && (s->hash != hash || s->bytes != bytes || memcmp(s->text, text, (size_t)bytes) != 0)) continue;
        if (!s->text) {
            const char *copy = copy_text(w, text, bytes);
            if (!copy) return LVN_MEMORY;
            *s = (struct lvn_counted_word){.text = copy, .bytes = (uint32_t)bytes, .hash = hash};
            w->n++;
        }
        s->count += count;
        return LVN_OK;
    }
}

enum lvn_status lvn_word_counts_join(struct lvn_word_counts *words, int n_threads)
{
    for (int t = 1; t < n_threads; t++) {
        for (int64_t i = 0; i < words[t].capacity; i++) {
            const struct lvn_counted_word *s = &words[t].slot[i];
            if (s->text) LVN_TRY(add(&words[0], s->text, s->bytes, s->count));
        }
        lvn_word_counts_release(&words[t]);
    }
    return LVN_OK;
}

/* --- threads --- */

struct job {
    const struct lvn_word_rules *rules;
    const char *text;
    int64_t bytes;
    struct lvn_word_counts *words;
    enum lvn_status *status; /* [n_threads] */
    char (*error)[ERROR_TEXT];
};

static enum lvn_status add_piece(void *context, const uint8_t *p, int64_t n, bool begins)
{
    (void)begins;
    return add(context, (const char *)p, n, 1);
}

/* Count the words of a text: line by line, or all at once. */
static enum lvn_status count_lines(const struct lvn_word_rules *rules, struct lvn_normalizer_scratch *normal,
                                   struct lvn_pre_tokenizer_scratch *pre, const char *text, const char *end,
                                   struct lvn_word_counts *words)
{
    for (const char *next; text < end; text = next) {
        const char *stop = rules->across_lines ? NULL : memchr(text, '\n', (size_t)(end - text));
        next = stop ? stop + 1 : end;
        const uint8_t *p = (const uint8_t *)text;
        int64_t n = next - text;
        bool begins = true;
        LVN_TRY(lvn_normalizer_run(&rules->normalizer, normal, &p, &n, &begins));
        LVN_TRY(lvn_pre_tokenizer_run(&rules->pre_tokenizer, pre, p, n, true, add_piece, words));
    }
    return LVN_OK;
}

/* Count the words of all texts between `text` and `end`. */
static enum lvn_status count_texts(const struct lvn_word_rules *rules, struct lvn_normalizer_scratch *normal,
                                   struct lvn_pre_tokenizer_scratch *pre, const char *text, const char *end,
                                   struct lvn_word_counts *words)
{
    for (const char *next; text < end; text = next) {
        const char *stop = memchr(text, LVN_WORDS_END, (size_t)(end - text));
        next = stop ? stop + 1 : end;
        lvn_work_done(next - text);
        LVN_TRY(count_lines(rules, normal, pre, text, stop ? stop : end, words));
    }
    return LVN_OK;
}

/* Where the slice at `at` begins: at the first line at or after it; if words may continue on the next line, at the
 * first text. A text that is longer than a slice is then cut where white space follows a letter or digit. */
static const char *slice_begin(const struct job *j, int64_t at)
{
    if (at <= 0) return j->text;
    if (at >= j->bytes) return j->text + j->bytes;
    const bool texts = j->rules->across_lines && j->rules->pre_tokenizer.kind != LVN_PRE_BERT;
    const char *from = j->text + at - 1;
    int64_t left = j->bytes - at + 1, near = texts && left > SLICE_BYTES ? SLICE_BYTES : left;
    const char *stop = memchr(from, texts ? LVN_WORDS_END : '\n', (size_t)near);
    if (!stop && near < left) {
        left = lvn_split_safe((const uint8_t *)from, left, 1);
        stop = memchr(from, LVN_WORDS_END, (size_t)left);
    }
    return stop ? stop + 1 : from + left;
}

static void work(void *argument, int thread, int n_threads)
{
    struct job *j = argument;
    struct lvn_normalizer_scratch normal = {0};
    struct lvn_pre_tokenizer_scratch pre = {0};
    int64_t slices = (j->bytes + SLICE_BYTES - 1) / SLICE_BYTES;
    for (int64_t i = thread; i < slices && j->status[thread] == LVN_OK; i += n_threads)
        j->status[thread] = count_texts(j->rules, &normal, &pre, slice_begin(j, i * SLICE_BYTES),
                                        slice_begin(j, (i + 1) * SLICE_BYTES), &j->words[thread]);
    if (j->status[thread] != LVN_OK) snprintf(j->error[thread], ERROR_TEXT, "%s", levin_error_text());
    lvn_normalizer_scratch_release(&normal);
    lvn_pre_tokenizer_scratch_release(&pre);
}

enum lvn_status lvn_word_counts_count(const struct lvn_word_rules *rules, const char *text, int64_t bytes,
                                      int n_threads, struct lvn_word_counts *words)
{
    struct job j = {.rules = rules, .text = text, .bytes = bytes, .words = words};
    j.status = lvn_calloc((size_t)n_threads, sizeof *j.status);
    j.error = lvn_calloc((size_t)n_threads, sizeof *j.error);
    enum lvn_status status = j.status && j.error ? LVN_OK : LVN_MEMORY;
    if (status == LVN_OK) lvn_team_run(n_threads, work, &j);
    for (int t = 0; t < n_threads && status == LVN_OK; t++)
        if (j.status[t] != LVN_OK) status = lvn_fail(j.status[t], "%s", j.error[t]);
    free(j.status);
    free(j.error);
    return status;
}
