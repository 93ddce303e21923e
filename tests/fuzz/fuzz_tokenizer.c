/* fuzz_tokenizer.c - files of tokenizers, and texts, with arbitrary contents.
 *
 * First byte: 0 a tokenizer.json, 1 merges.txt of a good vocabulary, 2 a vocab.json of good merges, 3 a vocab.txt, 255
 * a regular expression, up to the first NUL, and a text for it, others: a text for a good tokenizer, once whole and
 * once cut in two by a stream. A tokenizer that opens encodes the input itself; ids must be in the vocabulary and, if
 * nothing is normalized, decode to the same bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "tokenizers/decoder.h"
#include "tokenizers/encoder.h"
#include "tokenizers/encoders.h"
#include "tokenizers/load.h"
#include "tokenizers/unicode/unicode.h"
#include "tokenizers/unigram.h"
#include "tokenizers/wordpiece.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_GOOD = 7, KINDS = 4, EXPRESSION = 255 };
static struct lvn_tokenizer *good[N_GOOD];
static const char *vocab, *merges;
static int64_t n_vocab, n_merges;

static void use(const struct lvn_tokenizer *t, const uint8_t *text, int64_t n)
{
    struct lvn_encoder *e = lvn_encoder_new(t);
    struct lvn_ids ids = {0};
    struct lvn_text back = {0};
    if (!e) abort();
    if (lvn_encode(e, text, n, LVN_ENCODE_ORDINARY, &ids) != LVN_OK) { /* an expression that takes too long */
        for (int k = 0; k < N_GOOD; k++)
            if (t == good[k]) abort();
    }
    for (int64_t i = 0; i < ids.n; i++)
        if (ids.p[i] < 0 || ids.p[i] >= t->n) abort();
    if (lvn_decode(t, ids.p, ids.n, &back) != LVN_OK) abort();
    bool same = back.n == n && !(n && memcmp(back.p, text, (size_t)n));
    bool changes = t->normalizer.n || t->model != LVN_TOKENIZER_BYTES || t->n_added;
    for (int i = 0; i < t->pre_tokenizer.n; i++)
        changes = changes || t->pre_tokenizer.step[i].prepend != LVN_PREPEND_NEVER;
    for (int k = 0; k < N_GOOD; k++)
        if (t == good[k] && !changes && !same) abort();
    lvn_text_release(&back);
    lvn_ids_release(&ids);
    lvn_encoder_free(e);
}

/* The ids of a stream have the sum of those of the whole text. */
static void stream(const struct lvn_tokenizer *t, const uint8_t *text, int64_t n)
{
    struct lvn_encoders e;
    struct lvn_ids ids = {0};
    struct lvn_encoder *one = lvn_encoder_new(t);
    int64_t used, k = 0, half = n / 2;
    if (!one || lvn_encode(one, text, n, LVN_ENCODE_SPECIAL, &ids) != LVN_OK) abort();
    if (lvn_encoders_open(&e, t, 1) != LVN_OK) abort();
    for (int64_t from = 0; from < n; from += used) {
        int64_t take = from == 0 ? half : n - from;
        if (lvn_encoders_run(&e, text + from, take, from + take < n, LVN_ENCODE_SPECIAL, &used) != LVN_OK) abort();
        if (used == 0) { /* no position to cut at: take all */
            half = n;
            continue;
        }
        for (int64_t i = 0; i < e.n_slices; i++)
            for (int64_t m = 0; m < e.slice[i].n; m++)
                if (k >= ids.n || e.slice[i].p[m] != ids.p[k++]) abort();
    }
    if (k != ids.n) abort();
    lvn_encoders_close(&e);
    lvn_encoder_free(one);
    lvn_ids_release(&ids);
}

/* A match begins after the previous one, and is not empty where that one ended. */
static void match(const char *input, int64_t n)
{
    struct lvn_arena a;
    struct lvn_regex *e;
    struct lvn_regex_scratch s = {0};
    lvn_arena_init(&a);
    const char *text = n ? memchr(input, 0, (size_t)n) : NULL;
    bool found = text && lvn_regex_new(&e, &a, "the input", input) == LVN_OK;
    int64_t bytes = found ? input + n - text - 1 : 0, begin, end;
    for (int64_t at = -1; found; at = end) {
        if (lvn_regex_find(e, &s, (const uint8_t *)text + 1, bytes, at, &found, &begin, &end) != LVN_OK) break;
        if (found && (begin < at || end < begin || end > bytes || end == at)) abort();
    }
    lvn_regex_scratch_release(&s);
    lvn_arena_release(&a);
}

static void start(void)
{
    static const char *const paths[N_GOOD] = {
        "tests/golden/tokenizers/tiny-gpt2",   "tests/golden/tokenizers/tiny-neox",
        "tests/golden/tokenizers/tiny-llama3", "tests/golden/tokenizers/tiny-bert",
        "tests/golden/tokenizers/tiny-llama2", "tests/golden/tokenizers/tiny-unigram",
        "tests/golden/tokenizers/tiny-words"};
    for (int k = 0; k < N_GOOD; k++)
        if (lvn_tokenizer_open(&good[k], paths[k]) != LVN_OK) abort();
    vocab = good[0]->file[0].text;
    n_vocab = good[0]->file[0].bytes;
    merges = good[0]->file[1].text;
    n_merges = good[0]->file[1].bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lvn_tokenizer t = {.path = "the input"};
    if (!good[0]) start();
    if (!size) return 0;
    const char *text = (const char *)data + 1;
    int64_t n = (int64_t)size - 1;
    if (data[0] >= KINDS && data[0] < EXPRESSION) {
        use(good[data[0] % N_GOOD], data + 1, n);
        stream(good[data[0] % N_GOOD], data + 1, n);
        return 0;
    }
    if (data[0] == EXPRESSION) {
        match(text, n);
        return 0;
    }
    lvn_arena_init(&t.arena);
    enum lvn_status status = data[0] == 0   ? lvn_load_json(&t, "the input", text, n)
                             : data[0] == 1 ? lvn_load_merges(&t, "vocab", vocab, n_vocab, "the input", text, n)
                             : data[0] == 2 ? lvn_load_merges(&t, "the input", text, n, "merges", merges, n_merges)
                                            : lvn_load_wordpiece(&t, "the input", text, n, NULL, NULL, 0);
    if (status == LVN_OK) status = lvn_decoder_run(&t);
    if (status == LVN_OK) use(&t, data, (int64_t)size < 200 ? (int64_t)size : 200);
    lvn_bpe_release(&t.bpe);
    if (t.unigram) lvn_bpe_release(&t.unigram->trie);
    lvn_arena_release(&t.arena);
    return 0;
}
