/* load_wordpiece.c - vocab.txt, and what tokenizer_config.json beside it says of letters and accents. */
#include <string.h>

#include "base/text.h"
#include "formats/checksum.h"
#include "tokenizers/load.h"
#include "tokenizers/unicode.h"
#include "tokenizers/wordpiece.h"

enum { MOST_TOKENS = 1 << 24 };

/* Lines become tokens. An empty one has an id and is no token. */
static enum lvn_status read_lines(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes)
{
    const char *end = text + bytes;
    int64_t lines = 0, wrong = lvn_utf8_check(text, bytes);
    LVN_CHECK(wrong < 0 && !memchr(text, 0, (size_t)bytes), FORMAT,
              "'%s' is no vocabulary of WordPiece: a token a line is wanted, and at byte %lld it is no text", name,
              (long long)(wrong < 0 ? 0 : wrong));
    for (const char *p = text; p < end; lines++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        p = stop ? stop + 1 : end;
    }
    LVN_CHECK(lines > 0 && lines <= MOST_TOKENS, FORMAT, "'%s' has %lld tokens; wanted are 1 to %d, one a line", name,
              (long long)lines, MOST_TOKENS);
    t->n = lines;
    t->byte = lvn_arena_alloc(&t->arena, (size_t)bytes + 16);
    t->start = lvn_arena_alloc(&t->arena, sizeof *t->start * (size_t)(lines + 1));
    if (!t->byte || !t->start) return LVN_MEMORY;
    uint32_t at = 0;
    for (int64_t id = 0; id < lines; id++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        int64_t n = (stop ? stop : end) - text;
        if (n && text[n - 1] == '\r') n--;
        memcpy(t->byte + at, text, (size_t)n);
        t->start[id] = at;
        at += (uint32_t)n;
        text = stop ? stop + 1 : end;
    }
    t->start[lines] = at;
    struct lvn_checksum sum;
    lvn_checksum_init(&sum);
    lvn_checksum_add(&sum, t->start, (t->n + 1) * (int64_t)sizeof *t->start);
    lvn_checksum_add(&sum, t->byte, at);
    t->sum = lvn_checksum_value(&sum);
    return LVN_OK;
}

/* Ids by hash; of two equal lines the later one counts. */
static enum lvn_status index_tokens(struct lvn_tokenizer *t, struct lvn_wordpiece *w)
{
    uint64_t room = 1024;
    while (room < 2 * (uint64_t)t->n) room *= 2;
    w->mask = room - 1;
    w->slot = lvn_arena_alloc(&t->arena, sizeof *w->slot * room);
    if (!w->slot) return LVN_MEMORY;
    for (uint64_t i = 0; i < room; i++) w->slot[i] = -1;
    t->wordpiece = w;
    for (int64_t id = 0; id < t->n; id++) lvn_wordpiece_index(t, w, (int32_t)id);
    return LVN_OK;
}

static enum lvn_status read_config(struct lvn_wordpiece *w, const char *name, const char *text, int64_t bytes)
{
    json_t *root;
    LVN_TRY(lvn_json_parse(name, text, bytes, &root));
    enum lvn_status status = LVN_OK;
    if (!json_is_object(root)) status = lvn_fail_at(__FILE__, __LINE__, LVN_FORMAT, "'%s' must be an object", name);
    if (status == LVN_OK) status = lvn_json_bool(name, root, "do_lower_case", false, &w->lower);
    w->strip = w->lower;
    if (status == LVN_OK) status = lvn_json_bool(name, root, "strip_accents", false, &w->strip);
    if (status == LVN_OK) status = lvn_json_bool(name, root, "tokenize_chinese_chars", false, &w->chinese);
    json_decref(root);
    return status;
}

enum lvn_status lvn_load_wordpiece(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes,
                                   const char *config_name, const char *config, int64_t config_bytes)
{
    struct lvn_wordpiece *w = lvn_arena_alloc(&t->arena, sizeof *w);
    if (!w) return LVN_MEMORY;
    *w = (struct lvn_wordpiece){.lower = true, .strip = true, .chinese = true};
    if (config) LVN_TRY(read_config(w, config_name, config, config_bytes));
    LVN_TRY(read_lines(t, name, text, bytes));
    LVN_TRY(index_tokens(t, w));
    w->unknown = lvn_tokenizer_find(t, "[UNK]", 5);
    LVN_CHECK(w->unknown >= 0, FORMAT,
              "'%s' has no token [UNK]: it is no vocabulary of WordPiece (as BERT's is), or it is cut", name);
    LVN_TRY(lvn_load_keep(t, "vocab.txt", text, bytes));
    if (config) LVN_TRY(lvn_load_keep(t, "tokenizer_config.json", config, config_bytes));
    return lvn_added_sets(t);
}
