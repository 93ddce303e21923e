/* load.c - vocabularies and merges: see load.h. */
#include "tokenizers/load.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checksum.h"

enum { MOST_TOKENS = 1 << 24, SLACK = 16, LONGEST_TOKEN = 1 << 16 };

/* --- the alphabet --- */

static int16_t alphabet[LVN_ALPHABET];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_alphabet(void)
{
    int next = 0x100;
    for (int i = 0; i < LVN_ALPHABET; i++) alphabet[i] = -1;
    for (int b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        alphabet[printable ? b : next++] = (int16_t)b;
    }
}

int lvn_alphabet_byte(int32_t code)
{
    pthread_once(&once, make_alphabet);
    return code >= 0 && code < LVN_ALPHABET ? alphabet[code] : -1;
}

/* The bytes that a token's text stands for (room for as many as it has); as they are where a letter is not of the
 * alphabet, as in names of special tokens. */
static int64_t bytes_of(const char *text, int64_t n, unsigned char *out)
{
    int64_t made = 0;
    for (int64_t i = 0; i < n;) {
        int used, byte = lvn_alphabet_byte(lvn_utf8_decode(text + i, n - i, &used));
        if (byte < 0) {
            memcpy(out, text, (size_t)n);
            return n;
        }
        out[made++] = (unsigned char)byte;
        i += used;
    }
    return made;
}

/* --- tokens --- */

/* Added tokens into a list that has room for them. */
static enum lvn_status join_added(const struct lvn_tokenizer *t, const char *file, struct lvn_written *list)
{
    for (int i = 0; i < t->n_added; i++) {
        const struct lvn_added_token *a = &t->added[i];
        LVN_CHECK(!list[a->id].text || !strcmp(list[a->id].text, a->text), FORMAT,
                  "'%s': the added token '%.60s' has the id %d, which is that of '%.60s'", file, a->text, a->id,
                  list[a->id].text);
        bool own = list[a->id].text; /* of the vocabulary: written in its alphabet */
        list[a->id] = (struct lvn_written){.text = a->text, .bytes = a->bytes, .literal = !own};
    }
    return LVN_OK;
}

static int64_t most_added(const struct lvn_tokenizer *t, int64_t most)
{
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].id > most) most = t->added[i].id;
    return most;
}

static enum lvn_status collect(struct lvn_tokenizer *t, const char *file, const json_t *vocab,
                               struct lvn_written **names, int64_t *n)
{
    const char *key;
    json_t *value;
    int64_t most = -1;
    json_object_foreach((json_t *)(uintptr_t)vocab, key, value)
    {
        int64_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        LVN_CHECK(id >= 0 && id < MOST_TOKENS, FORMAT,
                  "'%s': the id of the token '%.60s' must be a whole number from 0 to %d", file, key, MOST_TOKENS - 1);
        if (id > most) most = id;
    }
    LVN_CHECK(t->model != LVN_MODEL_BYTES || most_added(t, most) >= 255, FORMAT,
              "'%s' has %lld tokens; a vocabulary of byte-level BPE has at least one for each of the 256 bytes", file,
              (long long)(most_added(t, most) + 1));
    LVN_CHECK(most >= 0, FORMAT, "'%s' has no tokens", file);
    *n = most + 1;
    struct lvn_written *list = *names = lvn_calloc((size_t)*n, sizeof *list);
    if (!list) return LVN_MEMORY;
    json_object_foreach((json_t *)(uintptr_t)vocab, key, value)
    {
        int64_t id = json_integer_value(value);
        LVN_CHECK(!list[id].text, FORMAT, "'%s': the tokens '%.60s' and '%.60s' have the same id, %lld", file,
                  list[id].text, key, (long long)id);
        list[id] = (struct lvn_written){.text = key, .bytes = (int64_t)strlen(key)};
    }
    return LVN_OK;
}

static enum lvn_status find_bytes(struct lvn_tokenizer *t, const char *file)
{
    for (int b = 0; b < 256; b++) t->bpe.byte_id[b] = -1;
    for (int64_t id = 0; id < t->n; id++)
        if (t->own[id] && t->start[id + 1] - t->start[id] == 1 && t->bpe.byte_id[t->byte[t->start[id]]] < 0)
            t->bpe.byte_id[t->byte[t->start[id]]] = (int32_t)id;
    for (int b = 0; b < 256; b++)
        LVN_CHECK(t->bpe.byte_id[b] >= 0, FORMAT,
                  "'%s' has no token for the byte 0x%02x: it is no vocabulary of byte-level BPE", file, (unsigned)b);
    return LVN_OK;
}

static void add_sum(struct lvn_tokenizer *t)
{
    struct lvn_checksum sum;
    lvn_checksum_init(&sum);
    lvn_checksum_add(&sum, t->start, (t->n + 1) * (int64_t)sizeof *t->start);
    lvn_checksum_add(&sum, t->byte, t->start[t->n]);
    t->sum = lvn_checksum_value(&sum);
}

/* list[0..t->n), of which the first n are the model's. */
static enum lvn_status write_tokens(struct lvn_tokenizer *t, const char *name, const struct lvn_written *list,
                                    const struct lvn_written *own, int64_t n)
{
    int64_t total = 0;
    for (int64_t id = 0; id < t->n; id++) {
        LVN_CHECK(list[id].bytes <= LONGEST_TOKEN, FORMAT, "'%s': token %lld has more than %d bytes", name,
                  (long long)id, LONGEST_TOKEN);
        total += list[id].bytes;
    }
    LVN_CHECK(total <= UINT32_MAX, FORMAT, "'%s' has too many tokens", name);
    t->byte = lvn_arena_alloc(&t->arena, (size_t)total + SLACK);
    t->start = lvn_arena_alloc(&t->arena, sizeof *t->start * (size_t)(t->n + 1));
    t->own = lvn_arena_alloc(&t->arena, (size_t)t->n);
    if (!t->byte || !t->start || !t->own) return LVN_MEMORY;
    uint32_t at = 0;
    for (int64_t id = 0; id < t->n; id++) {
        int64_t bytes = list[id].bytes;
        t->own[id] = id < n && own[id].text;
        t->start[id] = at;
        if (list[id].text && t->model == LVN_MODEL_BYTES && !list[id].literal)
            bytes = bytes_of(list[id].text, bytes, t->byte + at);
        else if (list[id].text)
            memcpy(t->byte + at, list[id].text, (size_t)bytes);
        at += (uint32_t)bytes;
        t->start[id + 1] = at;
    }
    t->shown = t->byte;
    t->shown_start = t->start;
    add_sum(t);
    return t->model == LVN_MODEL_BYTES ? find_bytes(t, name) : LVN_OK;
}

enum lvn_status lvn_load_list(struct lvn_tokenizer *t, const char *name, const struct lvn_written *list, int64_t n)
{
    t->n = most_added(t, n - 1) + 1;
    LVN_CHECK(t->n > 0 && t->n <= MOST_TOKENS, FORMAT, "'%s' has %lld tokens; wanted are 1 to %d", name,
              (long long)t->n, MOST_TOKENS);
    struct lvn_written *all = lvn_calloc((size_t)t->n, sizeof *all);
    if (!all) return LVN_MEMORY;
    memcpy(all, list, (size_t)n * sizeof *all);
    enum lvn_status status = join_added(t, name, all);
    if (status == LVN_OK) status = write_tokens(t, name, all, list, n);
    free(all);
    return status;
}

enum lvn_status lvn_load_tokens(struct lvn_tokenizer *t, const char *name, const json_t *vocab)
{
    struct lvn_written *list = NULL;
    int64_t n = 0;
    enum lvn_status status = collect(t, name, vocab, &list, &n);
    if (status == LVN_OK) status = lvn_load_list(t, name, list, n);
    free(list);
    return status;
}

enum lvn_status lvn_load_keep(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes)
{
    char *copy = lvn_arena_alloc(&t->arena, (size_t)bytes + 1);
    if (!copy) return LVN_MEMORY;
    memcpy(copy, text, (size_t)bytes);
    t->file[t->n_files++] = (struct lvn_tokenizer_file){.name = name, .text = copy, .bytes = bytes};
    return LVN_OK;
}

/* --- tokens by their text --- */

static uint64_t hash_of(const uint8_t *p, int64_t n)
{
    uint64_t hash = (uint64_t)n;
    for (int64_t i = 0; i < n; i++) hash = lvn_bpe_hash(hash ^ p[i]);
    return hash;
}

int32_t lvn_token_index_find(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n)
{
    const struct lvn_token_index *x = &t->index;
    for (uint64_t i = hash_of(p, n) & x->mask; x->slot[i] >= 0; i = (i + 1) & x->mask) {
        uint32_t at = t->start[x->slot[i]];
        if (t->start[x->slot[i] + 1] - at == n && !memcmp(t->byte + at, p, (size_t)n)) return x->slot[i];
    }
    return -1;
}

enum lvn_status lvn_load_index(struct lvn_tokenizer *t)
{
    uint64_t room = 1024;
    while (room < 2 * (uint64_t)t->n) room *= 2;
    t->index =
        (struct lvn_token_index){.mask = room - 1, .slot = lvn_arena_alloc(&t->arena, sizeof *t->index.slot * room)};
    if (!t->index.slot) return LVN_MEMORY;
    for (uint64_t i = 0; i < room; i++) t->index.slot[i] = -1;
    for (int64_t id = 0; id < t->n; id++) {
        int64_t bytes = t->start[id + 1] - t->start[id];
        if (!t->own[id] || !bytes) continue;
        uint64_t at = hash_of(t->byte + t->start[id], bytes) & t->index.mask;
        while (t->index.slot[at] >= 0) at = (at + 1) & t->index.mask;
        t->index.slot[at] = (int32_t)id;
    }
    for (int b = 0; b < 256; b++) {
        char name[8];
        t->fallback[b] =
            lvn_token_index_find(t, (const uint8_t *)name, snprintf(name, sizeof name, "<0x%02X>", (unsigned)b));
    }
    return LVN_OK;
}

/* --- merges --- */

static int32_t id_of(const json_t *vocab, const char *text)
{
    const json_t *id = json_object_get(vocab, text);
    return id ? (int32_t)json_integer_value(id) : -1;
}

enum lvn_status lvn_load_merge(struct lvn_tokenizer *t, const char *name, int64_t line, const json_t *vocab,
                               const char *left, size_t n_left, const char *right, size_t n_right)
{
    char text[1024];
    LVN_CHECK(n_left && n_right && n_left + n_right < sizeof text, FORMAT,
              "'%s', merge %lld: wanted are two tokens of at most %d bytes together", name, (long long)line,
              (int)sizeof text - 1);
    int32_t id[3];
    memcpy(text, left, n_left);
    text[n_left] = '\0';
    id[0] = id_of(vocab, text);
    memcpy(text, right, n_right);
    text[n_right] = '\0';
    id[1] = id_of(vocab, text);
    memcpy(text, left, n_left);
    memcpy(text + n_left, right, n_right);
    text[n_left + n_right] = '\0';
    id[2] = id_of(vocab, text);
    for (int i = 0; i < 3; i++)
        LVN_CHECK(id[i] >= 0, FORMAT,
                  "'%s', merge %lld: '%.*s' + '%.*s' %s a token that the vocabulary lacks: the files do not belong "
                  "together, or one is damaged",
                  name, (long long)line, (int)(n_left < 60 ? n_left : 60), left, (int)(n_right < 60 ? n_right : 60),
                  right, i == 2 ? "make" : "name");
    lvn_bpe_add(&t->bpe, id[0], id[1], id[2]);
    return LVN_OK;
}

static int64_t count_lines(const char *text, int64_t bytes)
{
    int64_t n = 1;
    for (const char *p = text; (p = memchr(p, '\n', (size_t)(text + bytes - p))); p++) n++;
    return n;
}

static enum lvn_status read_merges(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes,
                                   const json_t *vocab)
{
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
                  "'%s', line %lld: wanted are two tokens with one space between them, found '%.*s'", name,
                  (long long)line, (int)(stop - p < 60 ? stop - p : 60), p);
        LVN_TRY(lvn_load_merge(t, name, line, vocab, p, (size_t)(gap - p), gap + 1, (size_t)(stop - gap - 1)));
    }
    LVN_CHECK(t->bpe.n, FORMAT, "'%s' has no merges in it", name);
    return LVN_OK;
}

/* Every token but single bytes and names in brackets must come from a merge: otherwise merges are missing. */
static enum lvn_status check_made(const struct lvn_tokenizer *t, const char *name, const char *merges,
                                  const json_t *vocab)
{
    const char *key;
    json_t *value;
    bool *made = lvn_calloc((size_t)t->n, sizeof *made);
    if (!made) return LVN_MEMORY;
    for (uint64_t i = 0; i <= t->bpe.mask; i++)
        if (t->bpe.slot[i].pair != LVN_BPE_EMPTY) made[t->bpe.slot[i].id] = true;
    const char *example = NULL;
    int64_t lost = 0;
    json_object_foreach((json_t *)(uintptr_t)vocab, key, value)
    {
        int64_t id = json_integer_value(value);
        size_t n = strlen(key);
        bool named = n > 2 && ((key[0] == '<' && key[n - 1] == '>') || (key[0] == '[' && key[n - 1] == ']'));
        if (made[id] || named || t->start[id + 1] - t->start[id] <= 1) continue;
        example = example ? example : key;
        lost++;
    }
    free(made);
    LVN_CHECK(!lost, FORMAT,
              "'%s' has no merge for %lld tokens of '%s', as '%.60s': the files do not belong together, or one is cut",
              merges, (long long)lost, name, example);
    return LVN_OK;
}

static enum lvn_status load_pair(struct lvn_tokenizer *t, const char *vocab_name, const json_t *vocab,
                                 const char *merges_name, const char *merges, int64_t bytes)
{
    LVN_CHECK(json_is_object(vocab), FORMAT, "'%s' must be a JSON object of tokens and ids", vocab_name);
    LVN_TRY(lvn_bpe_init(&t->bpe, count_lines(merges, bytes)));
    LVN_TRY(lvn_load_tokens(t, vocab_name, vocab));
    LVN_TRY(read_merges(t, merges_name, merges, bytes, vocab));
    return check_made(t, vocab_name, merges_name, vocab);
}

enum lvn_status lvn_load_merges(struct lvn_tokenizer *t, const char *vocab_name, const char *vocab, int64_t vocab_bytes,
                                const char *merges_name, const char *merges, int64_t merges_bytes)
{
    json_t *root;
    t->model = LVN_MODEL_BYTES;
    t->unknown = -1;
    t->pre.step[t->pre.n++] = lvn_pre_tiles(LVN_SPLIT_BYTE_LEVEL);
    LVN_TRY(lvn_frame_read(t, vocab_name, NULL));
    LVN_TRY(lvn_json_parse(vocab_name, vocab, vocab_bytes, &root));
    enum lvn_status status = load_pair(t, vocab_name, root, merges_name, merges, merges_bytes);
    json_decref(root);
    if (status == LVN_OK) status = lvn_load_keep(t, "vocab.json", vocab, vocab_bytes);
    if (status == LVN_OK) status = lvn_load_keep(t, "merges.txt", merges, merges_bytes);
    return status == LVN_OK ? lvn_added_sets(t) : status;
}
