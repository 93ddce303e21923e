/* load.c - see load.h: the alphabet, tokens of a vocabulary, tokens by their text. */
#include "tokenizers/load.h"

#include <pthread.h>

#include "base/log.h"
#include "formats/checksum.h"

enum { SLACK = 16 };

/* --- the alphabet --- */

static int16_t alphabet[LVN_ALPHABET], codes[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_alphabet(void)
{
    int next = 0x100;
    for (int i = 0; i < LVN_ALPHABET; i++) alphabet[i] = -1;
    for (int b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        codes[b] = (int16_t)(printable ? b : next++);
        alphabet[codes[b]] = (int16_t)b;
    }
}

int lvn_alphabet_byte(int32_t code)
{
    pthread_once(&once, make_alphabet);
    return code >= 0 && code < LVN_ALPHABET ? alphabet[code] : -1;
}

int32_t lvn_alphabet_code(int byte)
{
    pthread_once(&once, make_alphabet);
    return codes[byte];
}

/* Decode a token's text from the alphabet (capacity: n); returns the number of bytes, -1 if a character is not in the
 * alphabet, as in names of special tokens. */
static int64_t bytes_of(const char *text, int64_t n, unsigned char *out)
{
    int64_t made = 0;
    for (int64_t i = 0; i < n;) {
        unsigned char c = (unsigned char)text[i];
        int used = 1, byte = c > ' ' && c < 0x7f ? c : lvn_alphabet_byte(lvn_utf8_decode(text + i, n - i, &used));
        if (byte < 0) return -1;
        out[made++] = (unsigned char)byte;
        i += used;
    }
    return made;
}

/* --- tokens --- */

/* Write the added tokens into a list of t->n tokens. The ids are those of the file. */
static enum lvn_status join_added(const struct lvn_tokenizer *t, const char *file, struct lvn_raw_token *list)
{
    int64_t next = 0, number = 0;
    const struct lvn_added_token *first = NULL; /* of those whose ids differ */
    int others = -1;
    for (int64_t id = 0; id < t->n && t->n_added; id++) next += list[id].text != NULL;
    for (int i = 0; i < t->n_added; i++) {
        const struct lvn_added_token *a = &t->added[i];
        const struct lvn_raw_token *w = &list[a->id];
        LVN_CHECK(!w->text || (w->bytes == a->bytes && !memcmp(w->text, a->text, (size_t)a->bytes)), FORMAT,
                  "'%s': the added token '%.60s' has the id %d, which is that of '%.*s'", file, a->text, a->id,
                  (int)(w->bytes < 60 ? w->bytes : 60), w->text);
        bool in_vocabulary = w->text; /* of the vocabulary: written in its alphabet */
        if (!in_vocabulary && a->id != next++) {
            if (!first) first = a, number = next - 1;
            others++;
        }
        list[a->id] =
            (struct lvn_raw_token){.text = a->text, .bytes = a->bytes, .id = a->id, .literal = !in_vocabulary};
    }
    if (first)
        lvn_log_once(LVN_LOG_WARN,
                     "'%s': the added token '%.60s' has the id %d, and %lld in transformers, which numbers the added "
                     "tokens from the end of the vocabulary on; other such tokens: %d",
                     file, first->text, first->id, (long long)number, others);
    return LVN_OK;
}

static int64_t max_added(const struct lvn_tokenizer *t, int64_t max)
{
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].id > max) max = t->added[i].id;
    return max;
}

/* A byte without a token is no error: it is dropped from text, or becomes the unknown token. */
static enum lvn_status check_bytes(struct lvn_tokenizer *t, const char *file)
{
    int tokens = 0;
    for (int b = 0; b < 256; b++) tokens += t->bpe.byte_id[b] >= 0;
    t->missing_bytes = tokens < 256;
    LVN_CHECK(tokens, FORMAT, "'%s' has a token for none of the 256 bytes: it is not a vocabulary of byte-level BPE",
              file);
    return LVN_OK;
}

void lvn_load_sum(struct lvn_tokenizer *t)
{
    struct lvn_checksum sum;
    lvn_checksum_init(&sum);
    lvn_checksum_add(&sum, t->start, (t->n + 1) * (int64_t)sizeof *t->start);
    lvn_checksum_add(&sum, t->byte, t->start[t->n]);
    t->sum = lvn_checksum_value(&sum);
}

/* Write the bytes of one token to t->byte + at; returns their number. */
static int64_t write_token(struct lvn_tokenizer *t, int64_t id, const struct lvn_raw_token *w, uint32_t at)
{
    unsigned char *out = t->byte + at;
    if (!w->text) return 0;
    if (t->model == LVN_TOKENIZER_BYTES && !w->literal) {
        int64_t made = bytes_of(w->text, w->bytes, out);
        if (made == 1 && t->in_model[id] && t->bpe.byte_id[*out] < 0) t->bpe.byte_id[*out] = (int32_t)id;
        if (made >= 0) return made;
        t->in_model[id] = false; /* no byte sequence is encoded as it */
    }
    memcpy(out, w->text, (size_t)w->bytes);
    return w->bytes;
}

/* Write list[0, t->n); in_vocabulary[0, n): the model's tokens without added ones. */
static enum lvn_status write_tokens(struct lvn_tokenizer *t, const char *name, const struct lvn_raw_token *list,
                                    const struct lvn_raw_token *in_vocabulary, int64_t n)
{
    int64_t total = 0;
    for (int64_t id = 0; id < t->n; id++) total += list[id].bytes;
    LVN_CHECK(total <= UINT32_MAX, UNSUPPORTED, "'%s': its tokens have %lld bytes together; at most %lld fit", name,
              (long long)total, (long long)UINT32_MAX);
    t->byte = lvn_arena_alloc(&t->arena, (size_t)total + SLACK);
    t->start = lvn_arena_alloc(&t->arena, sizeof *t->start * (size_t)(t->n + 1));
    t->in_model = lvn_arena_alloc(&t->arena, (size_t)t->n);
    if (!t->byte || !t->start || !t->in_model) return LVN_MEMORY;
    for (int b = 0; b < 256; b++) t->bpe.byte_id[b] = -1;
    uint32_t at = 0;
    for (int64_t id = 0; id < t->n; id++) {
        t->in_model[id] = id < n && in_vocabulary[id].text;
        t->start[id] = at;
        at += (uint32_t)write_token(t, id, &list[id], at);
        t->start[id + 1] = at;
    }
    t->decoded = t->byte;
    t->decoded_start = t->start;
    lvn_load_sum(t);
    return t->model == LVN_TOKENIZER_BYTES ? check_bytes(t, name) : LVN_OK;
}

enum lvn_status lvn_load_list(struct lvn_tokenizer *t, const char *name, const struct lvn_raw_token *list, int64_t n)
{
    t->n = max_added(t, n - 1) + 1;
    LVN_CHECK(t->n > 0 && t->n <= LVN_TOKENS_MAX, FORMAT, "'%s' has %lld tokens; expected 1 to %d", name,
              (long long)t->n, LVN_TOKENS_MAX);
    struct lvn_raw_token *all = lvn_calloc((size_t)t->n, sizeof *all);
    if (!all) return LVN_MEMORY;
    memcpy(all, list, (size_t)n * sizeof *all);
    enum lvn_status status = join_added(t, name, all);
    if (status == LVN_OK) status = write_tokens(t, name, all, list, n);
    free(all);
    return status;
}

enum lvn_status lvn_load_tokens(struct lvn_tokenizer *t, const struct lvn_token_map *map)
{
    struct lvn_raw_token *list = lvn_calloc((size_t)map->max_id + 1, sizeof *list);
    enum lvn_status status = list ? LVN_OK : LVN_MEMORY;
    for (int64_t i = 0; i < map->n && status == LVN_OK; i++) {
        const struct lvn_raw_token *w = &map->token[i], *other = &list[w->id];
        if (other->text)
            status = lvn_fail(LVN_FORMAT, "'%s': the tokens '%.*s' and '%.*s' have the same id, %d", map->name,
                              (int)(other->bytes < 60 ? other->bytes : 60), other->text,
                              (int)(w->bytes < 60 ? w->bytes : 60), w->text, w->id);
        list[w->id] = *w;
    }
    if (status == LVN_OK) status = lvn_load_list(t, map->name, list, map->max_id + 1);
    free(list);
    return status;
}

void lvn_load_add_file(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes)
{
    t->file[t->n_files++] = (struct lvn_tokenizer_file){.name = name, .text = text, .bytes = bytes};
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
    uint64_t capacity = 1024;
    while (capacity < 2 * (uint64_t)t->n) capacity *= 2;
    t->index = (struct lvn_token_index){.mask = capacity - 1,
                                        .slot = lvn_arena_alloc(&t->arena, sizeof *t->index.slot * capacity)};
    if (!t->index.slot) return LVN_MEMORY;
    for (uint64_t i = 0; i < capacity; i++) t->index.slot[i] = -1;
    for (int64_t id = 0; id < t->n; id++) {
        int64_t bytes = t->start[id + 1] - t->start[id];
        if (!t->in_model[id] || !bytes) continue;
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
