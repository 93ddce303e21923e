/* fuzz_corpus.c - archives and lines of JSON with arbitrary contents.
 *
 * First byte below 100: the rest is the content of a file: text, JSON lines or separated documents (byte modulo 3).
 * Otherwise the rest is an archive, usually an invalid one. Bad lines are refused if the size is divisible by 7. Checks
 * that each document has a beginning, an end and all of its ids. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/texts/corpus.h"
#include "tokenizers/encoder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct lvn_tokenizer *tokenizer;
static struct lvn_encoder *encoder;

static void check(const struct lvn_batch *b)
{
    int64_t ids = 0;
    bool open = false;
    for (int64_t i = 0; i < b->n_documents; i++) {
        if (b->document[i].first == open) abort();
        open = !b->document[i].last;
        ids += b->document[i].n_ids;
    }
    if (b->status == LVN_OK && (open || ids != b->ids.n)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!tokenizer && lvn_tokenizer_open(&tokenizer, "tests/golden/tokenizers/tiny-gpt2") != LVN_OK) abort();
    if (!encoder) encoder = lvn_encoder_new(tokenizer);
    if (!encoder || !size) return 0;
    struct lvn_corpus_options o = {
        .tokenizer = tokenizer, .field = "text", .separator = "<end>", .refuse_bad = size % 7 == 0};
    struct lvn_batch *b = lvn_batch_new(0);
    if (!b) return 0;
    lvn_text_add_bytes(&b->text, data + 1, (int64_t)size - 1);
    struct lvn_chunk chunk = {.name = "input",
                              .kind = (enum lvn_chunk_kind)(data[0] % 3),
                              .bytes = (int64_t)size - 1,
                              .line = 1,
                              .first = true,
                              .last = true};
    if (data[0] < 100) {
        if (!(b->chunk = malloc(sizeof chunk))) abort();
        *b->chunk = chunk;
        b->n_chunks = 1;
    } else {
        b->blob = data[0] & 1 ? "input.txt.gz" : "input.jsonl.xz";
        b->place = (struct lvn_archive_position){.depth = 1, .growth = 1};
    }
    if (lvn_batch_encode(b, encoder, &o) != LVN_OK && !*b->error) abort();
    check(b);
    lvn_batch_free(b);
    return 0;
}
