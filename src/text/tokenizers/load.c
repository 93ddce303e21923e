/* load.c - see load.h: the alphabet, tokens of a vocabulary, tokens by their text; readers of vocab.json with
 * merges.txt, and of vocab.txt. load_json.c reads tokenizer.json. */
#include "tokenizers/load.h"

#include <pthread.h>

#include "base/log.h"
#include "base/text.h"
#include "formats/checksum.h"
#include "tokenizers/decoder.h"
#include "tokenizers/encoder_private.h"
#include "tokenizers/post_processor.h"
#include "tokenizers/wordpiece.h"

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

enum lvn_status lvn_load_text(struct lvn_arena *a, const char *text, const char **out, int64_t *n)
{
    *out = lvn_arena_strdup(a, text);
    *n = (int64_t)strlen(text);
    return *out ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_load_pattern(struct lvn_arena *a, const char *name, const json_t *object, const char **text,
                                 int64_t *n, const char **expression)
{
    const json_t *pattern = json_object_get(object, "pattern");
    const char *literal = NULL;
    *expression = NULL;
    LVN_CHECK(json_is_object(pattern), FORMAT, "'%s': %s expects a pattern, {\"String\": ..} or {\"Regex\": ..}", name,
              lvn_json_type(object));
    LVN_TRY(lvn_json_string(name, pattern, "String", false, &literal));
    LVN_TRY(lvn_json_string(name, pattern, "Regex", !literal, expression));
    if (literal && *literal) *expression = NULL;
    if (literal && !*literal) *expression = literal; /* "" matches everywhere */
    return *expression ? LVN_OK : lvn_load_text(a, literal, text, n);
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

/* --- a vocabulary and its merges, from two files --- */

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
    for (const char *p = text + lvn_utf8_bom(text, bytes), *next; p < end; p = next, line++) {
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

/* --- vocab.txt, with case, accents and names of tokens from tokenizer_config.json --- */

enum { LONGEST_WORD = 100 };

/* One token a line. An empty line has an id without a token. */
static enum lvn_status read_lines(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes)
{
    const char *end = text + bytes;
    int64_t lines = 0, wrong = lvn_utf8_check(text, bytes);
    text += lvn_utf8_bom(text, bytes);
    const char *zero = memchr(text, 0, (size_t)(end - text));
    LVN_CHECK(
        wrong < 0 && !zero, FORMAT,
        "'%s' is not a vocabulary of WordPiece: expected one token in each line, and the bytes at %lld are not text",
        name, (long long)(wrong < 0 ? bytes - (end - zero) : wrong));
    for (const char *p = text; p < end; lines++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        p = stop ? stop + 1 : end;
    }
    LVN_CHECK(lines > 0 && lines <= LVN_TOKENS_MAX, FORMAT, "'%s' has %lld tokens; expected 1 to %d, one a line", name,
              (long long)lines, LVN_TOKENS_MAX);
    struct lvn_raw_token *list = lvn_calloc((size_t)lines, sizeof *list);
    if (!list) return LVN_MEMORY;
    for (int64_t id = 0; id < lines; id++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        int64_t n = (stop ? stop : end) - text;
        if (n && text[n - 1] == '\r') n--;
        if (n) list[id] = (struct lvn_raw_token){.text = text, .bytes = n};
        text = stop ? stop + 1 : end;
    }
    enum lvn_status status = lvn_load_list(t, name, list, lines);
    free(list);
    return status;
}

static enum lvn_status check_once(const struct lvn_tokenizer *t, const char *name)
{
    for (int64_t id = 0; id < t->n; id++) {
        const char *p = (const char *)t->byte + t->start[id];
        int64_t n = t->start[id + 1] - t->start[id];
        int32_t other = n ? lvn_token_index_find(t, (const uint8_t *)p, n) : (int32_t)id;
        LVN_CHECK(other == id, FORMAT,
                  "'%s': the token '%.*s' is in line %lld and again in line %lld; expected each once", name,
                  (int)(n < 60 ? n : 60), p, (long long)(other < id ? other : id) + 1,
                  (long long)(other < id ? id : other) + 1);
    }
    return LVN_OK;
}

enum { UNK, CLS, SEP, N_NAMES };

/* The text of a token: a string, or an object with `content`. */
static enum lvn_status read_name(struct lvn_tokenizer *t, const json_t *value, const char **out)
{
    const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
    if (text && *text && !(*out = lvn_arena_strdup(&t->arena, text))) return LVN_MEMORY;
    return LVN_OK;
}

/* BERT's defaults (lower case, accents stripped, Chinese characters split, names of tokens), unless the file differs.
 */
static enum lvn_status read_config(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes,
                                   const char *names[N_NAMES])
{
    static const char *const keys[] = {"unk_token", "cls_token", "sep_token"};
    bool lower = true, chinese = true, accents;
    enum lvn_status status = LVN_OK;
    json_t *root = NULL;
    if (text) LVN_TRY(lvn_json_parse(name, text, bytes, &root));
    if (root && !json_is_object(root)) status = lvn_fail(LVN_FORMAT, "'%s' must be an object", name);
    if (root && status == LVN_OK) status = lvn_json_bool(name, root, "do_lower_case", false, &lower);
    accents = lower;
    if (root && status == LVN_OK) status = lvn_json_bool(name, root, "strip_accents", false, &accents);
    if (root && status == LVN_OK) status = lvn_json_bool(name, root, "tokenize_chinese_chars", false, &chinese);
    for (int i = 0; i < N_NAMES && root && status == LVN_OK; i++)
        status = read_name(t, json_object_get(root, keys[i]), &names[i]);
    json_decref(root);
    t->normalizer = (struct lvn_normalizer){.step = {lvn_normalizer_bert(lower, accents, chinese)}, .n = 1};
    t->pre_tokenizer = (struct lvn_pre_tokenizer){.step = {lvn_pre_tokenizer_bert()}, .n = 1};
    return status;
}

enum lvn_status lvn_load_wordpiece(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes,
                                   const char *config_name, const char *config, int64_t config_bytes)
{
    const char *names[N_NAMES] = {"[UNK]", "[CLS]", "[SEP]"};
    int32_t id[N_NAMES];
    t->model = LVN_TOKENIZER_WORDPIECE;
    LVN_TRY(read_config(t, config_name, config, config_bytes, names));
    LVN_TRY(read_lines(t, name, text, bytes));
    LVN_TRY(lvn_load_index(t));
    LVN_TRY(check_once(t, name));
    LVN_TRY(lvn_wordpiece_new(t, name, "##", LONGEST_WORD, names[UNK]));
    for (int i = CLS; i < N_NAMES; i++) {
        id[i] = lvn_token_index_find(t, (const uint8_t *)names[i], (int64_t)strlen(names[i]));
        LVN_CHECK(id[i] >= 0, FORMAT,
                  "'%s' has no token %s: it is not a vocabulary of WordPiece (as BERT's is), or it is cut", name,
                  names[i]);
    }
    lvn_post_processor_bert(t, id[CLS], id[SEP], false, true);
    LVN_TRY(lvn_decoder_wordpiece(t));
    lvn_load_add_file(t, "vocab.txt", text, bytes);
    if (config) lvn_load_add_file(t, "tokenizer_config.json", config, config_bytes);
    return lvn_added_sets(t);
}
