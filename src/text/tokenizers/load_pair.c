/* load_pair.c - see load.h: reads a vocabulary and its merges from two files. */

#include "tokenizers/encoder_private.h"
#include "tokenizers/load.h"
#include "tokenizers/post_processor.h"

static int64_t count_lines(const char *text, int64_t bytes)
{
    int64_t n = 1;
    for (const char *p = text; (p = memchr(p, '\n', (size_t)(text + bytes - p))); p++) n++;
    return n;
}

static enum lvn_status read_merges(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes,
                                   const struct lvn_token_map *map)
{
    struct lvn_merge_reader r = {.bpe = &t->bpe, .map = map, .name = name};
    const char *end = text + bytes;
    int64_t line = 1;
    for (const char *p = text, *next; p < end; p = next, line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        next = stop ? stop + 1 : end;
        if (!stop) stop = end;
        if (stop > p && stop[-1] == '\r') stop--;
        bool version = line == 1 && stop - p >= 8 && !memcmp(p, "#version", 8);
        if (stop == p || version) continue;
        const char *gap = memchr(p, ' ', (size_t)(stop - p));
        LVN_CHECK(gap && gap > p && gap + 1 < stop && !memchr(gap + 1, ' ', (size_t)(stop - gap - 1)), FORMAT,
                  "'%s', line %lld: expected two tokens with one space between them, found '%.*s'", name,
                  (long long)line, (int)(stop - p < 60 ? stop - p : 60), p);
        LVN_TRY(lvn_merges_add(&r, line, p, gap - p, gap + 1, stop - gap - 1));
    }
    LVN_TRY(lvn_merges_end(&r));
    LVN_CHECK(t->bpe.n, FORMAT, "'%s' has no merges in it", name);
    return LVN_OK;
}

enum lvn_status lvn_load_check_merges(const struct lvn_tokenizer *t)
{
    bool *is_made = lvn_calloc((size_t)t->n, sizeof *is_made);
    if (!is_made) return LVN_MEMORY;
    for (uint64_t i = 0; i <= t->bpe.mask; i++)
        if (t->bpe.slot[i].pair != LVN_BPE_EMPTY) is_made[t->bpe.slot[i].id] = true;
    for (int i = 0; i < t->n_added; i++) is_made[t->added[i].id] = true;
    int64_t example = -1, missing = 0;
    for (int64_t id = 0; id < t->n_vocabulary; id++) {
        const uint8_t *p = t->byte + t->start[id];
        const int64_t n = t->start[id + 1] - t->start[id];
        const bool named = n > 2 && ((p[0] == '<' && p[n - 1] == '>') || (p[0] == '[' && p[n - 1] == ']'));
        if (is_made[id] || named || n <= 1) continue;
        if (!missing++) example = id;
    }
    free(is_made);
    LVN_CHECK(
        !missing, FORMAT,
        "'%s': no merge makes the token of id %lld, nor %lld others of its vocabulary: the two files do not belong "
        "together, or one is cut",
        t->path, (long long)example, (long long)missing - 1);
    return LVN_OK;
}

static enum lvn_status load_pair(struct lvn_tokenizer *t, struct lvn_token_map *map, struct lvn_json_scan *vocab,
                                 const char *merges_name, const char *merges, int64_t bytes)
{
    LVN_CHECK(lvn_json_scan_peek(vocab) == '{', FORMAT, "'%s' must be a JSON object of tokens and ids", vocab->name);
    LVN_TRY(lvn_token_map_read(map, vocab));
    LVN_TRY(lvn_json_scan_end(vocab));
    LVN_TRY(lvn_bpe_init(&t->bpe, count_lines(merges, bytes)));
    LVN_TRY(lvn_load_tokens(t, map));
    return read_merges(t, merges_name, merges, bytes, map);
}

enum lvn_status lvn_load_merges(struct lvn_tokenizer *t, const char *vocab_name, const char *vocab, int64_t vocab_bytes,
                                const char *merges_name, const char *merges, int64_t merges_bytes)
{
    struct lvn_token_map map = {0};
    struct lvn_json_scan scan = lvn_json_scan_begin(vocab_name, vocab, vocab_bytes, NULL);
    t->model = LVN_TOKENIZER_BYTES;
    t->unknown = -1;
    t->pre_tokenizer.step[t->pre_tokenizer.n++] = lvn_pre_tokenizer_split(LVN_SPLIT_BYTE_LEVEL);
    LVN_TRY(lvn_post_processor_read(t, vocab_name, NULL));
    enum lvn_status status = load_pair(t, &map, &scan, merges_name, merges, merges_bytes);
    lvn_token_map_release(&map);
    LVN_TRY(status);
    lvn_load_add_file(t, "vocab.json", vocab, vocab_bytes);
    lvn_load_add_file(t, "merges.txt", merges, merges_bytes);
    return lvn_added_sets(t);
}
