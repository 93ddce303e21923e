/* tokens.c - data.kind=tokens: token ids in files.
 *
 * FILE.bin holds little-endian ids: uint16, or the type in FILE.bin.json (the sidecar):
 *     {"dtype": "uint32", "vocab_size": 100277, "vocabulary": "...", "end_token": 100257}
 * All keys are optional. "end_token" is the id after each document, by which data.pack finds documents. "vocabulary"
 * (all characters, ascending) exists if levin prepared the text by characters, "tokenizer" if it used a tokenizer,
 * whose files are then in the same folder. Besides these and the tokenizer's files no JSON file is read. data.path is
 * one .bin, or a folder with train.bin, val.bin and optionally test.bin, which only evaluation opens.
 *
 * In place of train.bin a folder may have shards (shard_list.h), train-00000.bin and so on, whose tokens follow each
 * other. The sidecar of a shard is its own FILE.bin.json, else the train.bin.json of all. With "shards", their number,
 * and "shard_tokens", those of each but the last, it reveals a file that is missing or was cut.
 *
 * Files of other programs: a shard of llm.c or modded-nanogpt begins with a header, which gives the type and the number
 * of tokens. nanoGPT's meta.pkl gives the size of the vocabulary, and its characters, if no sidecar does. The beginning
 * of a file is checked: texts, other formats, and ids that seem to be wider than 16 bits are refused.
 *
 * Files are mapped, not copied; on a network file system windows of them are read (small ones as a whole). Files up to
 * 256 MiB are scanned for ids beyond the vocabulary when they are opened; in larger ones each window is checked when it
 * is read. Big-endian machines are not supported. The size of the vocabulary is the first that exists of
 * - the model's;
 * - that of the sidecar, of meta.pkl or of the header;
 * - 50304, or the largest id + 1 if that is more. */
#include <jansson.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "base/work.h"
#include "data/dataset.h"
#include "data/file_type.h"
#include "data/sources/shard_list.h"
#include "formats/json.h"
#include "formats/pickle.h"
#include "stores/streaming_file.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "token files are mapped as they are: little-endian machines only"
#endif

enum {
    SCAN_BYTES = 256 << 20,
    SIDECAR_BYTES = 16 << 20,
    BEGINNING_BYTES = 1 << 16, /* are checked when a file is opened */
    SHARD_BYTES = 4096,        /* the same, of each shard but the first */
    HEADER_BYTES = 1024,       /* of shards with a header */
    TYPICAL_VOCAB = 50304,     /* the most common byte-level BPE, 50257, padded to a multiple of 64 */
};

/* The documents of a split, with data.pack. */
struct documents {
    int64_t n;
    int64_t *start; /* [n + 1] position of the first token of each document; the last one: the number of tokens */
    int64_t capacity;
    const struct lvn_split *split;
    int64_t id_limit;
};

struct tokens {
    struct lvn_arena arena;
    struct lvn_mapping map[LVN_SPLIT_COUNT];
    int64_t end_token[LVN_SPLIT_COUNT]; /* that the file's sidecar states; -1: none */
    struct documents documents[LVN_SPLIT_COUNT];
    bool skips;                      /* data.skip_bad_shards, in training */
    char beginning[BEGINNING_BYTES]; /* of the file that is opened */
};

struct sidecar {
    int width;
    bool has_width;       /* the file states the width */
    int64_t shards;       /* number of shards; 0: absent */
    int64_t shard_tokens; /* of each shard but the last; 0: absent */
    int64_t tokens;       /* of all of them; 0: absent */
    uint64_t sum;         /* checksum of the tokens that it states; 0: absent */
    int64_t vocab_size;   /* 0: absent */
    int64_t end_token;    /* -1: absent */
    struct lvn_vocab *vocabulary;
    bool from_meta;     /* vocabulary: of meta.pkl */
    bool tokenized;     /* made by a tokenizer */
    uint64_t tokenizer; /* checksum of the tokenizer */
};

/* {"end_token": 50256} */
static enum lvn_status parse_end_token(struct sidecar *s, const char *path, const json_t *root)
{
    const json_t *end = json_object_get(root, "end_token");
    if (!end) return LVN_OK;
    LVN_CHECK(json_is_integer(end) && json_integer_value(end) >= 0 && json_integer_value(end) <= INT32_MAX, FORMAT,
              "'%s': end_token must be a token id, from 0 to %d", path, INT32_MAX);
    s->end_token = json_integer_value(end);
    return LVN_OK;
}

/* {"tokenizer": {"xxh64": "..."}} */
static enum lvn_status parse_tokenizer(struct sidecar *s, const char *path, const json_t *tokenizer)
{
    const char *sum = json_string_value(json_object_get(tokenizer, "xxh64"));
    LVN_CHECK(sum, FORMAT, "'%s': tokenizer must be an object with its checksum, xxh64", path);
    s->tokenized = true;
    s->tokenizer = strtoull(sum, NULL, 16);
    return LVN_OK;
}

static enum lvn_status parse_sidecar(struct sidecar *s, const char *path, const json_t *root)
{
    LVN_CHECK(json_is_object(root), FORMAT, "'%s' must be a JSON object like {\"dtype\":\"uint32\"}", path);
    const json_t *dtype = json_object_get(root, "dtype"), *size = json_object_get(root, "vocab_size");
    const json_t *text = json_object_get(root, "vocabulary"), *tokenizer = json_object_get(root, "tokenizer");
    if (tokenizer) LVN_TRY(parse_tokenizer(s, path, tokenizer));
    LVN_TRY(parse_end_token(s, path, root));
    const char *sum = json_string_value(json_object_get(root, "xxh64"));
    if (sum) s->sum = strtoull(sum, NULL, 16);
    LVN_TRY(lvn_json_int(path, root, "shards", false, 0, INT32_MAX, &s->shards));
    LVN_TRY(lvn_json_int(path, root, "shard_tokens", false, 0, (int64_t)1 << 40, &s->shard_tokens));
    LVN_TRY(lvn_json_int(path, root, "tokens", false, 0, (int64_t)1 << 48, &s->tokens));
    if (dtype) {
        const char *name = json_string_value(dtype);
        LVN_CHECK(name && (!strcmp(name, "uint16") || !strcmp(name, "uint32")), FORMAT,
                  "'%s' has %s%s%s; supported are \"uint16\" and \"uint32\"", path, name ? "dtype \"" : "",
                  name ? name : "a dtype that is not a string", name ? "\"" : "");
        s->width = strcmp(name, "uint32") ? 2 : 4;
        s->has_width = true;
    }
    if (size) {
        LVN_CHECK(json_is_integer(size) && json_integer_value(size) > 0 && json_integer_value(size) <= INT32_MAX,
                  FORMAT, "'%s': vocab_size must be an integer from 1 to %d", path, INT32_MAX);
        s->vocab_size = json_integer_value(size);
    }
    if (text) {
        LVN_CHECK(json_is_string(text), FORMAT, "'%s': vocabulary must be a string", path);
        LVN_TRY(lvn_vocab_from_text(&s->vocabulary, path, json_string_value(text), (int64_t)json_string_length(text)));
        LVN_CHECK(!size || s->vocabulary->n <= s->vocab_size, FORMAT,
                  "'%s': vocabulary has %lld characters, vocab_size is %lld", path, (long long)s->vocabulary->n,
                  (long long)s->vocab_size);
        if (!size) s->vocab_size = s->vocabulary->n;
    }
    return LVN_OK;
}

/* Read FILE.bin.json; uint16 if there is none. */
static enum lvn_status read_sidecar(struct sidecar *s, const char *path)
{
    *s = (struct sidecar){.width = 2, .end_token = -1};
    char *text;
    int64_t bytes;
    bool found;
    LVN_TRY(lvn_path_find(path, &found));
    if (!found) return LVN_OK;
    LVN_TRY(lvn_file_read(path, SIDECAR_BYTES, &text, &bytes));
    json_error_t error;
    json_t *root;
    enum lvn_status status = lvn_json_load(text, bytes, JSON_REJECT_DUPLICATES, &root, &error);
    free(text);
    LVN_TRY(status);
    LVN_CHECK(root, FORMAT, "'%s' is not JSON: %s in line %d", path, error.text, error.line);
    status = parse_sidecar(s, path, root);
    json_decref(root);
    return status;
}

/* --- nanoGPT's meta.pkl: {"vocab_size": 65, "itos": {0: "\n", ...}, "stoi": {"\n": 0, ...}} --- */

static enum lvn_status refuse_call(void *context, struct lvn_arena *a, const char *function,
                                   const struct lvn_pickle *arguments, struct lvn_pickle **out)
{
    (void)a, (void)arguments, (void)out;
    LVN_FAIL(FORMAT, "'%s' contains a call of %s; only plain values are supported", (const char *)context, function);
}

static enum lvn_status refuse_load(void *context, struct lvn_arena *a, const struct lvn_pickle *id,
                                   struct lvn_pickle **out)
{
    (void)id;
    return refuse_call(context, a, "persistent_load", NULL, out);
}

/* The characters of itos (or stoi) in the order of their ids; FORMAT if an id has none. */
static enum lvn_status meta_characters(struct lvn_arena *a, const char *path, const struct lvn_pickle *dict, int64_t n,
                                       struct lvn_text *out)
{
    const char **character = lvn_arena_alloc(a, sizeof *character * (size_t)n);
    if (!character) return LVN_MEMORY;
    for (int64_t i = 0; i + 1 < dict->n; i += 2) {
        bool itos = dict->item[i]->kind == LVN_PICKLE_INT;
        const struct lvn_pickle *id = dict->item[itos ? i : i + 1], *text = dict->item[itos ? i + 1 : i];
        if (id->kind == LVN_PICKLE_INT && text->kind == LVN_PICKLE_TEXT && id->integer >= 0 && id->integer < n)
            character[id->integer] = text->text;
    }
    for (int64_t i = 0; i < n; i++) {
        LVN_CHECK(character[i], FORMAT, "'%s' has no character for the id %lld", path, (long long)i);
        lvn_text_add(out, character[i]);
    }
    return lvn_text_status(out);
}

static enum lvn_status parse_meta(struct lvn_arena *a, struct sidecar *s, const char *path, const char *bytes,
                                  int64_t n_bytes)
{
    const struct lvn_pickle_functions functions = {(void *)(uintptr_t)path, refuse_call, refuse_load};
    struct lvn_pickle *root;
    int64_t used;
    LVN_TRY(lvn_pickle_read(a, path, (const unsigned char *)bytes, n_bytes, &functions, &root, &used));
    const struct lvn_pickle *size = lvn_pickle_get(root, "vocab_size"), *dict = lvn_pickle_get(root, "itos");
    if (!dict) dict = lvn_pickle_get(root, "stoi");
    int64_t n = dict && dict->kind == LVN_PICKLE_DICT ? dict->n / 2 : 0;
    if (size) n = size->kind == LVN_PICKLE_INT ? size->integer : 0;
    LVN_CHECK(n > 0 && n <= SIDECAR_BYTES, FORMAT, "'%s' has no valid integer vocab_size", path);
    s->vocab_size = n;
    LVN_CHECK(dict && dict->kind == LVN_PICKLE_DICT, FORMAT,
              "'%s' has no dict 'itos', so prompts must be given as token ids", path);
    LVN_LOCAL_TEXT(text);
    LVN_TRY(meta_characters(a, path, dict, n, &text));
    s->from_meta = true;
    return lvn_vocab_from_text(&s->vocabulary, path, text.p, text.n);
}

/* Read meta.pkl in the folder of the tokens, if it exists. If it cannot be read, log a warning, because token ids
 * are sufficient. */
static enum lvn_status read_meta(struct sidecar *s, const char *bin)
{
    LVN_LOCAL_ARENA(a);
    const char *dir = lvn_path_dir(&a, bin), *path = dir ? lvn_path_join(&a, dir, "meta.pkl") : NULL;
    char *bytes = NULL;
    int64_t n;
    bool found;
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_path_find(path, &found));
    if (!found) return LVN_OK;
    enum lvn_status status = lvn_file_read(path, SIDECAR_BYTES, &bytes, &n);
    if (status == LVN_OK) status = parse_meta(&a, s, path, bytes, n);
    free(bytes);
    if (status == LVN_OK || status == LVN_MEMORY) return status;
    lvn_log(LVN_LOG_WARN, "the vocabulary of '%s' is not used: %s", path, levin_error_text());
    lvn_error_clear();
    return LVN_OK;
}

/* --- the beginning of a file --- */

/* Files that begin with 256 int32: the kind of file, its version, the number of tokens (llm.c: dev/data/data_common.py;
 * modded-nanogpt). width 0: there are no tokens in it. */
static const struct {
    int32_t magic, version;
    int width;
    int vocab_size; /* 0: GPT-2's */
    const char *content;
} headers[] = {
    {20240520, 1, 2, 0, "tokens of GPT-2"}, {20240801, 7, 4, 128256, "tokens of Llama 3"},
    {20240326, 0, 0, 0, "a model"},         {20240328, 0, 0, 0, "a tokenizer"},
    {20240522, 0, 0, 0, "an evaluation"},   {20240327, 0, 0, 0, "activations"},
    {20240527, 0, 0, 0, "optimizer state"},
};
enum { N_HEADERS = sizeof headers / sizeof headers[0] };

/* Set the width and *skip, the bytes of the header, if there is one. */
static enum lvn_status read_header(struct sidecar *s, const char *path, const char *p, int64_t n, int64_t bytes,
                                   int64_t *skip)
{
    int32_t field[3] = {0};
    int k = 0;
    memcpy(field, p, n < (int64_t)sizeof field ? (size_t)n : sizeof field);
    while (k < N_HEADERS && headers[k].magic != field[0]) k++;
    if (k == N_HEADERS) return LVN_OK;
    LVN_CHECK(headers[k].width, FORMAT, "'%s' is a file of llm.c with %s, and no token file", path, headers[k].content);
    LVN_CHECK(field[1] == headers[k].version, FORMAT,
              "'%s' has the header of llm.c for %s in version %d; levin reads version %d", path, headers[k].content,
              field[1], headers[k].version);
    LVN_CHECK(!s->has_width || s->width == headers[k].width, FORMAT,
              "'%s' has a header for uint%d ids, and its .json states uint%d: correct the .json, or remove it", path,
              8 * headers[k].width, 8 * s->width);
    s->width = headers[k].width;
    s->has_width = true;
    if (!s->vocab_size) s->vocab_size = headers[k].vocab_size;
    const int64_t here = bytes - HEADER_BYTES;
    LVN_CHECK(
        here >= 0 && here == (int64_t)field[2] * s->width, FORMAT, /* a negative count is that of no file */
        "'%s' has a header that counts %d tokens of %d bytes, and %lld bytes follow it: the file is damaged or cut "
        "off",
        path, field[2], s->width, here > 0 ? (long long)here : 0);
    LVN_CHECK(here, FORMAT, "'%s' has a header and no tokens", path);
    *skip = HEADER_BYTES;
    return LVN_OK;
}

/* FORMAT if the file has another format, or is a text. */
static enum lvn_status refuse_formats(const char *path, const char *p, int64_t n)
{
    static const char *const formats[][2] = {
        {"PK\3\4", "a zip archive, as torch.save() and numpy.savez() write them"},
        {"\x80\2\x8a\n", "a file of torch.save()"},
        {"\x89HDF", "an HDF5 file"},
        {"PAR1", "a Parquet file"},
        {"ARROW1", "an Arrow file"},
        {"GGUF", "a GGUF model"},
    };
    enum { TEXT_MIN = 64, TEXT_BYTES = 4096 };
    LVN_CHECK(n < 6 || memcmp(p, "\x93NUMPY", 6) != 0, FORMAT,
              "'%s' is a file of numpy.save, and token files have no header: write it again with "
              "numpy.load('%s').astype('uint16').tofile('%s.bin')",
              path, path, path);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        size_t m = strlen(formats[i][0]);
        LVN_CHECK(n < (int64_t)m || memcmp(p, formats[i][0], m) != 0, FORMAT,
                  "'%s' is %s; data.kind=tokens reads files that hold only uint16 or uint32 token ids", path,
                  formats[i][1]);
    }
    const int64_t checked = n < TEXT_BYTES ? n : TEXT_BYTES, wrong = lvn_utf8_check(p, checked);
    enum lvn_file_type type = lvn_file_type(path, (int64_t)strlen(path));
    bool text = checked >= TEXT_MIN && (wrong < 0 || wrong > checked - 4);
    for (int64_t i = 0; i < checked && text; i++) text = (unsigned char)p[i] >= ' ' || strchr("\t\n\r\f", p[i]);
    LVN_CHECK(!text && type != LVN_FILE_TYPE_TEXT && type != LVN_FILE_TYPE_LINES && type != LVN_FILE_TYPE_ARCHIVE,
              FORMAT,
              "'%s' is %s, and data.kind=tokens reads token ids: `levin prepare %s --tokenizer=TOKENIZER` makes token "
              "files of it, and prints the keys to train on them",
              path, type == LVN_FILE_TYPE_ARCHIVE ? "an archive" : "a text", path);
    LVN_CHECK((type != LVN_FILE_TYPE_REFUSED && type != LVN_FILE_TYPE_PARQUET) || lvn_ends_with(path, ".bin"), FORMAT,
              "'%s' has the name of another format; data.kind=tokens reads files that hold only uint16 or uint32 token "
              "ids, named .bin",
              path);
    return LVN_OK;
}

/* FORMAT if 16-bit ids seem to be halves or quarters of wider ones: the upper halves are 0 or close to it. */
static enum lvn_status refuse_wide(const char *path, const char *p, int64_t n, int64_t bytes)
{
    enum { MIN_IDS = 16, UPPER_MAX = 16 /* ids below 2^20 */, LOWER_MIN = 256 };
    uint16_t max[4] = {0}, id;
    for (int64_t i = 0; 2 * i + 1 < n; i++) {
        memcpy(&id, p + 2 * i, 2);
        if (id > max[i % 4]) max[i % 4] = id;
    }
    const int upper = max[1] > max[3] ? max[1] : max[3], lower = max[0] > max[2] ? max[0] : max[2];
    bool is_wide = bytes % 4 == 0 && n >= 2 * MIN_IDS && upper < UPPER_MAX && lower >= (upper ? LOWER_MIN : 1);
    LVN_CHECK(!is_wide || max[2] || upper || bytes % 8, FORMAT,
              "'%s' seems to hold int64 ids: of four 16-bit ids three are 0. Write it again with "
              "numpy.fromfile('%s', 'int64').astype('uint16').tofile('%s'), or, if it holds uint16 ids, write "
              "{\"dtype\": \"uint16\"} to '%s.json'",
              path, path, path, path);
    LVN_CHECK(!is_wide, FORMAT,
              "'%s' seems to hold uint32 ids: as uint16 every second id is %s, and the others are up to %d. Write "
              "{\"dtype\": \"uint32\"} to '%s.json', or, if it holds uint16 ids, {\"dtype\": \"uint16\"}",
              path, upper ? "below 16" : "0", lower, path);
    return LVN_OK;
}

/* --- opening --- */

/* Open the tokenizer in the folder of the tokens. FORMAT if another one made the tokens. A tokenizer that cannot be
 * read is ignored: the tokens suffice. */
static enum lvn_status open_tokenizer(struct lvn_dataset *d, const struct sidecar *s, const char *path)
{
    struct tokens *t = d->state;
    const char *dir = lvn_path_dir(&t->arena, path);
    if (!dir) return LVN_MEMORY;
    if (!s->tokenized || (!d->tokenizer && !lvn_tokenizer_exists(dir))) return LVN_OK;
    if (!d->tokenizer && !d->tokenizer_error)
        LVN_TRY(lvn_tokenizer_open_optional(&d->tokenizer, &d->tokenizer_error, dir));
    if (d->tokenizer_error) return LVN_OK;
    LVN_CHECK(d->tokenizer->sum == s->tokenizer, FORMAT, "'%s' was made with another tokenizer than the one in '%s'",
              path, d->tokenizer->path);
    return LVN_OK;
}

/* Map the file, or open it for reading window by window. */
static enum lvn_status open_file(struct tokens *t, struct lvn_split *p, enum lvn_split_id id, const char *path,
                                 int64_t *bytes)
{
    struct stat is;
    const bool windows = !p->streaming && stat(path, &is) == 0 && S_ISREG(is.st_mode) &&
                         is.st_size > LVN_FILE_COPY_BYTES && !lvn_path_is_local(path);
    if (windows) LVN_TRY(lvn_streaming_file_open_path(&p->streaming, path));
    if (!p->streaming) LVN_TRY(lvn_file_map(&t->map[id], path));
    *bytes = p->streaming ? lvn_streaming_file_bytes(p->streaming) : t->map[id].bytes;
    LVN_CHECK(*bytes, FORMAT, "'%s' is empty", path);
    return LVN_OK;
}

/* Read what is known of a file that begins with these n bytes: its sidecar, header and, if with_meta, meta.pkl.
 * *header: bytes before the tokens. */
static enum lvn_status describe(const char *path, const char *json, const char *beginning, int64_t n, int64_t bytes,
                                bool with_meta, struct sidecar *s, int64_t *header)
{
    LVN_TRY(refuse_formats(path, beginning, n));
    LVN_TRY(read_sidecar(s, json));
    LVN_TRY(read_header(s, path, beginning, n, bytes, header));
    if (!s->has_width) LVN_TRY(refuse_wide(path, beginning, n, bytes));
    LVN_CHECK(bytes % s->width == 0, FORMAT,
              "'%s' has %lld bytes, which is not a multiple of the size of a uint%d token id: the file is damaged or "
              "of another type%s",
              path, (long long)bytes, 8 * s->width, s->width == 2 ? "" : " than its .json says");
    return with_meta && !s->vocab_size && !s->tokenized ? read_meta(s, path) : LVN_OK;
}

/* Add what a split's files state to the data set, which owns s->vocabulary from now on. */
static enum lvn_status use_description(struct lvn_dataset *d, enum lvn_split_id id, const char *path, struct sidecar *s)
{
    if (!d->vocabulary) {
        d->vocabulary = s->vocabulary;
        d->vocabulary_of_meta = s->from_meta;
    } else {
        lvn_vocab_free(s->vocabulary);
    }
    s->vocabulary = NULL;
    LVN_TRY(open_tokenizer(d, s, path));
    ((struct tokens *)d->state)->end_token[id] = s->end_token;
    if (s->vocab_size > d->vocab_size) d->vocab_size = s->vocab_size;
    return LVN_OK;
}

static enum lvn_status open_split(struct lvn_dataset *d, enum lvn_split_id id, const char *path)
{
    struct tokens *t = d->state;
    struct lvn_split *p = &d->split[id];
    struct sidecar s = {0};
    int64_t bytes, n;
    const char *json = lvn_arena_printf(&t->arena, "%s.json", path);
    if (!json) return LVN_MEMORY;
    LVN_TRY(open_file(t, p, id, path, &bytes));
    n = bytes < BEGINNING_BYTES ? bytes : BEGINNING_BYTES;
    if (p->streaming)
        LVN_TRY(lvn_streaming_file_read(p->streaming, 0, n, t->beginning));
    else
        memcpy(t->beginning, t->map[id].data, (size_t)n);
    enum lvn_status status = describe(path, json, t->beginning, n, bytes, id == LVN_SPLIT_TRAIN, &s, &p->header);
    if (status == LVN_OK) status = use_description(d, id, path, &s);
    lvn_vocab_free(s.vocabulary);
    LVN_TRY(status);
    if (p->streaming) return lvn_split_set_streaming(p, path, s.width);
    return lvn_split_set(p, path, t->map[id].data + p->header, s.width, (bytes - p->header) / s.width);
}

/* --- shards --- */

/* FORMAT if a shard is of another kind than the first one. */
static enum lvn_status compare_shards(const struct lvn_shard_file *first, const struct sidecar *expected,
                                      const struct lvn_shard_file *shard, const struct sidecar *s)
{
    const struct lvn_vocab *a = expected->vocabulary, *b = s->vocabulary;
    const char *differs = NULL;
    if (shard->header != first->header)
        differs = "one of them has a header of llm.c";
    else if (s->width != expected->width)
        differs = "their ids have 16 and 32 bits";
    else if (s->vocab_size != expected->vocab_size || !a != !b ||
             (a && (a->n != b->n || memcmp(a->points, b->points, (size_t)a->n * sizeof *a->points) != 0)))
        differs = "their vocabularies differ";
    else if (s->tokenized != expected->tokenized || s->tokenizer != expected->tokenizer)
        differs = "two tokenizers made them";
    else if (s->end_token != expected->end_token)
        differs = "their .json name two end tokens";
    LVN_CHECK(!differs, FORMAT, "'%s' and '%s' are not shards of one data set: %s; move one of them to another folder",
              shard->path, first->path, differs);
    return LVN_OK;
}

/* Read header and sidecar of a shard. json: the sidecar of all shards, whose folder has those of shards in a store. */
static enum lvn_status describe_shard(struct tokens *t, const char *json, bool is_first, struct lvn_shard_file *shard,
                                      struct sidecar *s)
{
    LVN_LOCAL_ARENA(a);
    const bool streams = lvn_store_is_remote(shard->path);
    const int64_t limit = is_first ? BEGINNING_BYTES : SHARD_BYTES, n = shard->bytes < limit ? shard->bytes : limit;
    const char *folder = lvn_path_dir(&a, json), *name = lvn_path_name(shard->path);
    const char *own = folder ? lvn_arena_printf(&a, "%s/%s.json", folder, name) : NULL;
    struct lvn_streaming_file *file;
    if (!own) return LVN_MEMORY;
    bool found;
    LVN_CHECK(shard->bytes, FORMAT, "'%s' is empty", shard->path);
    LVN_TRY(lvn_path_find(own, &found));
    LVN_TRY(streams ? lvn_streaming_file_open(&file, shard->path) : lvn_streaming_file_open_path(&file, shard->path));
    enum lvn_status status = lvn_streaming_file_read(file, 0, n, t->beginning);
    lvn_streaming_file_close(file);
    LVN_TRY(status);
    return describe(shard->path, found ? own : json, t->beginning, n, shard->bytes, false, s, &shard->header);
}

/* The first of the shards that `levin prepare` wrote, train.bin.json counts and the folder lacks; NULL: none. */
static const char *missing_shard(struct lvn_arena *a, const char *json, int64_t shards)
{
    const int stem = (int)(strlen(json) - strlen(".bin.json"));
    for (int64_t i = 0; i < shards; i++) {
        const char *path = lvn_arena_printf(a, "%.*s-%05lld.bin", stem, json, (long long)i);
        if (!path || !lvn_path_exists(path)) return path;
    }
    return NULL;
}

/* The expected number of tokens of shard i of n, by the sidecar or by its header; -1: as many as its size implies. If
 * the size equals that of a good shard, the header is the damaged part and is not used. */
static int64_t expected_tokens(const struct sidecar *s, const struct lvn_shard_file *good,
                               const struct lvn_shard_file *shard, int64_t i, int64_t n)
{
    int32_t field[3] = {0};
    if (s->shard_tokens && i < n - 1) return s->shard_tokens;
    if (s->shard_tokens && s->tokens > (n - 1) * s->shard_tokens) return s->tokens - (n - 1) * s->shard_tokens;
    struct lvn_streaming_file *file;
    if (lvn_store_is_remote(shard->path) || shard->bytes == good->bytes || shard->bytes < (int64_t)sizeof field)
        return -1;
    enum lvn_status status = lvn_streaming_file_open_path(&file, shard->path);
    if (status == LVN_OK) {
        status = lvn_streaming_file_read(file, 0, sizeof field, field);
        lvn_streaming_file_close(file);
    }
    if (status != LVN_OK) lvn_error_clear();
    int k = 0;
    while (k < N_HEADERS && (headers[k].magic != field[0] || headers[k].width != s->width)) k++;
    return k < N_HEADERS && field[2] > 0 ? field[2] : -1;
}

/* With data.skip_bad_shards: the shard is damaged, as the last error says. It keeps its place in the stream, with the
 * tokens that it should have, so that the order of all others stays the same. */
static enum lvn_status keep_place(struct tokens *t, const struct sidecar *s, const struct lvn_shard_file *good,
                                  struct lvn_shard_file *shard, int64_t i, int64_t n)
{
    if (!shard[i].bad) shard[i].bad = lvn_arena_strdup(&t->arena, levin_error_text());
    lvn_error_clear();
    if (!shard[i].bad) return LVN_MEMORY;
    int64_t tokens = expected_tokens(s, good, &shard[i], i, n);
    if (tokens < 0) tokens = (shard[i].bytes - good->header) / s->width;
    shard[i].header = good->header;
    shard[i].bytes = good->header + (tokens > 0 ? tokens : 0) * s->width;
    return LVN_OK;
}

/* FORMAT if shards are missing or truncated, by the sizes in the sidecar. */
static enum lvn_status check_sizes(const char *json, const struct sidecar *s, const struct lvn_shard_file *shard,
                                   int64_t n)
{
    LVN_LOCAL_ARENA(a);
    const char *missing = s->shards > n ? missing_shard(&a, json, s->shards) : NULL;
    LVN_CHECK(!s->shards || s->shards == n, FORMAT,
              "'%s' counts %lld shards, and its folder has %lld, from '%s' to '%s'%s%s: restore the folder, or, to use "
              "what it has, remove \"shards\" from the .json",
              json, (long long)s->shards, (long long)n, shard[0].path, shard[n - 1].path,
              missing ? "; the first that is missing is " : "", missing ? lvn_path_name(missing) : "");
    return LVN_OK;
}

static enum lvn_status check_size(const char *json, const struct sidecar *s, const struct lvn_shard_file *shard,
                                  bool is_last)
{
    const int64_t tokens = (shard->bytes - shard->header) / s->width;
    LVN_CHECK(!s->shard_tokens || tokens == s->shard_tokens || (is_last && tokens < s->shard_tokens), FORMAT,
              "'%s' has %lld tokens, and '%s' says that each shard but the last has %lld: the file is damaged or "
              "cut off",
              shard->path, (long long)tokens, json, (long long)s->shard_tokens);
    return LVN_OK;
}

/* For a shard in a store only the size is known; it is assumed to have the first shard's format. */
static enum lvn_status describe_streamed(const struct lvn_shard_file *first, const struct sidecar *s,
                                         struct lvn_shard_file *shard)
{
    shard->header = first->header;
    LVN_CHECK(shard->bytes > shard->header && (shard->bytes - shard->header) % s->width == 0, FORMAT,
              "'%s' has %lld bytes, which are not uint%d token ids: the file is damaged or cut off", shard->path,
              (long long)shard->bytes, 8 * s->width);
    return LVN_OK;
}

/* Describe shard i like the good one before it, or as the first one (good NULL). */
static enum lvn_status describe_next(struct tokens *t, const char *json, const struct lvn_shard_file *good,
                                     struct sidecar *first, struct lvn_shard_file *shard)
{
    struct sidecar s = {0};
    if (!good) {
        lvn_vocab_free(first->vocabulary); /* of one that is damaged */
        *first = (struct sidecar){0};
        return describe_shard(t, json, true, shard, first);
    }
    if (lvn_store_is_remote(shard->path)) return describe_streamed(good, first, shard); /* the rest when it is opened */
    enum lvn_status status = describe_shard(t, json, false, shard, &s);
    if (status == LVN_OK) status = compare_shards(good, first, shard, &s);
    lvn_vocab_free(s.vocabulary);
    return status;
}

/* Describe all shards. *first: the description that they share. */
static enum lvn_status describe_shards(struct tokens *t, const char *json, bool skips, struct sidecar *first,
                                       struct lvn_shard_file *shard, int64_t n)
{
    const struct lvn_shard_file *good = NULL;
    for (int64_t i = 0; i < n; i++) {
        const enum lvn_status status = describe_next(t, json, good, first, &shard[i]);
        if (status == LVN_OK && !good) good = &shard[i];
        if (status != LVN_FORMAT || !skips) LVN_TRY(status);
        if (status == LVN_FORMAT && !(shard[i].bad = lvn_arena_strdup(&t->arena, levin_error_text())))
            return LVN_MEMORY;
        lvn_error_clear();
    }
    LVN_CHECK(good, FORMAT, "all %lld shards from '%s' on are damaged: %s", (long long)n, shard[0].path, shard[0].bad);
    LVN_TRY(check_sizes(json, first, shard, n));
    for (int64_t i = 0; i < n; i++) {
        const enum lvn_status status = shard[i].bad ? LVN_FORMAT : check_size(json, first, &shard[i], i == n - 1);
        if (status != LVN_FORMAT || !skips) LVN_TRY(status);
        if (status == LVN_FORMAT) LVN_TRY(keep_place(t, first, good, shard, i, n));
    }
    return LVN_OK;
}

static enum lvn_status open_shards(struct lvn_dataset *d, enum lvn_split_id id, const char *folder,
                                   struct lvn_shard_file *shard, int64_t n)
{
    struct tokens *t = d->state;
    struct lvn_split *p = &d->split[id];
    struct sidecar first = {0};
    const char *json = lvn_arena_printf(&t->arena, "%s/%s.bin.json", folder, lvn_split_names[id]);
    const char *path = lvn_arena_printf(&t->arena, "%s ... %s", shard[0].path, lvn_path_name(shard[n - 1].path));
    if (!json || !path) return LVN_MEMORY;
    enum lvn_status status = describe_shards(t, json, t->skips && id == LVN_SPLIT_TRAIN, &first, shard, n);
    if (status == LVN_OK && id == LVN_SPLIT_TRAIN && !first.vocab_size && !first.tokenized)
        status = read_meta(&first, shard[0].path);
    if (status == LVN_OK) status = use_description(d, id, shard[0].path, &first);
    lvn_vocab_free(first.vocabulary);
    LVN_TRY(status);
    d->contents = d->contents * 31 + first.sum; /* names and sizes alone do not detect different tokens */
    LVN_TRY(lvn_shard_list_open(&p->shards, shard, n, first.width));
    return lvn_split_set(p, n > 1 ? path : shard[0].path, NULL, first.width, lvn_shard_list_tokens(p->shards));
}

/* Open a part of a folder; *found false: it has none. store: the folder of a store with its shards; NULL: none. */
static enum lvn_status open_part(struct lvn_dataset *d, enum lvn_split_id id, const char *folder, const char *store,
                                 bool *found)
{
    struct tokens *t = d->state;
    struct lvn_store_entries files;
    struct lvn_shard_file *shard;
    int64_t n;
    const char *whole = lvn_arena_printf(&t->arena, "%s/%s.bin", folder, lvn_split_names[id]);
    if (!whole) return LVN_MEMORY;
    LVN_TRY(lvn_store_list(&t->arena, store ? store : folder, false, &files));
    LVN_TRY(lvn_shard_list_find(&t->arena, store ? store : folder, &files, id, &shard, &n));
    bool is_whole = false;
    if (!store) LVN_TRY(lvn_path_find(whole, &is_whole));
    *found = is_whole || n;
    if (is_whole && n && strncmp(lvn_path_name(shard[0].path), lvn_split_names[id], strlen(lvn_split_names[id])) != 0)
        n = 0; /* files of other names beside train.bin are not part of it */
    LVN_CHECK(!is_whole || !n, FORMAT,
              "'%s' has both '%s' and '%s': the tokens must be in one file or in shards; move one of them to another "
              "folder",
              folder, lvn_path_name(whole), n ? lvn_path_name(shard[0].path) : "");
    if (is_whole || (!n && id == LVN_SPLIT_TRAIN)) return open_split(d, id, whole);
    return n ? open_shards(d, id, folder, shard, n) : LVN_OK;
}

/* The size of the vocabulary of a new model if the files do not state it. largest: id, -1: not known. */
static int64_t assume_vocabulary(const struct lvn_dataset *d, const struct lvn_data_options *o, int64_t largest)
{
    const bool typical = largest < TYPICAL_VOCAB;
    const int64_t n = typical ? TYPICAL_VOCAB : largest + 1;
    char of[64] = "";
    if (largest >= 0) snprintf(of, sizeof of, "%slargest id %lld", typical ? "; " : "", (long long)largest);
    if (!o->for_evaluation)
        lvn_log(LVN_LOG_INFO,
                "'%s' does not state its vocabulary: vocabulary %lld (%s%s); model.vocab_size gives another one",
                d->split[LVN_SPLIT_TRAIN].path, (long long)n, typical ? "GPT-2's, assumed" : "", of);
    return n;
}

/* Check the ids, and set the size of the vocabulary. */
static enum lvn_status check_ids(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    const struct tokens *t = d->state;
    int64_t given = o->vocab_size ? o->vocab_size : d->vocab_size, largest = -1;
    d->stated_vocab_size = d->vocab_size;
    for (int i = 0; i < LVN_SPLIT_COUNT; i++) {
        const struct lvn_split *p = &d->split[i];
        int64_t position, max;
        if (!p->n_tokens || p->streaming || p->n_tokens * p->width > SCAN_BYTES) continue;
        if (p->shards && (lvn_shard_list_streams(p->shards) || (t->skips && i == LVN_SPLIT_TRAIN))) continue;
        LVN_TRY(lvn_split_max(p, &max, &position));
        if (given) LVN_TRY(lvn_split_check_id(p, position, max, given));
        LVN_CHECK(max < INT32_MAX, FORMAT,
                  "'%s' holds the token id %lld at position %lld, which no vocabulary can have", p->path,
                  (long long)max, (long long)position);
        if (max > largest) largest = max;
    }
    if (o->vocab_size)
        d->vocab_size = largest + 1; /* a padded vocab_size of the sidecar may be larger than the model's */
    else if (!given)
        d->vocab_size = assume_vocabulary(d, o, largest);
    return LVN_OK;
}

static enum lvn_status open_tokens(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    LVN_CHECK(o->path && *o->path, ARG,
              "data.kind=tokens needs data.path: a .bin file, or a folder with train.bin and val.bin, or with shards");
    struct tokens *t = d->state = lvn_calloc(1, sizeof *t);
    if (!t) return LVN_MEMORY;
    lvn_arena_init(&t->arena);
    t->skips = o->skip_bad_shards && !o->for_evaluation;
    const char *val = o->val_path && *o->val_path ? o->val_path : NULL;
    const bool is_folder = lvn_path_is_dir(o->path), val_folder = val ? lvn_path_is_dir(val) : is_folder;
    bool found;
    LVN_TRY(is_folder ? open_part(d, LVN_SPLIT_TRAIN, o->path, o->shards, &found)
                      : open_split(d, LVN_SPLIT_TRAIN, o->path));
    LVN_CHECK(!t->skips || d->split[LVN_SPLIT_TRAIN].shards, ARG,
              "data.skip_bad_shards is for a folder with shards, and '%s' has none: leave it out", o->path);
    if (val_folder) {
        LVN_TRY(open_part(d, LVN_SPLIT_VAL, val ? val : o->path, NULL, &found));
        LVN_CHECK(found || !val, ARG, "data.val_path is the folder '%s', which has neither val.bin nor shards of it",
                  val);
    } else if (val) {
        LVN_TRY(open_split(d, LVN_SPLIT_VAL, val));
    }
    if (is_folder && o->for_evaluation) LVN_TRY(open_part(d, LVN_SPLIT_TEST, o->path, NULL, &found));
    return check_ids(d, o);
}

/* --- data.pack: the documents of a stream of tokens, each of which ends with an end-of-text token ---
 *
 * The whole stream is read once. Tokens after the last end token are a document too. Memory: eight bytes for each
 * document. */

enum { SCANNED_TOKENS = 1 << 18 }; /* tokens that are read at a time */

static enum lvn_status add_document(struct documents *d, int64_t start)
{
    if (!lvn_list_reserve(&d->start, &d->capacity, d->n + 2, sizeof *d->start)) return LVN_MEMORY;
    d->start[d->n++] = start;
    return LVN_OK;
}

/* Add the documents that begin after the end tokens among tokens [at, at + n), which are in `p`. */
static enum lvn_status scan_documents(struct documents *d, const void *p, int64_t at, int64_t n, int64_t end)
{
    const bool is_narrow = d->split->width == 2;
    const uint16_t *narrow = p;
    const uint32_t *wide = p;
    for (int64_t i = 0; i < n; i++)
        if ((is_narrow ? narrow[i] : wide[i]) == end) LVN_TRY(add_document(d, at + i + 1));
    return LVN_OK;
}

/* FORMAT if the split does not contain the token `end`. */
static enum lvn_status find_documents(struct documents *d, int64_t end)
{
    const struct lvn_split *split = d->split;
    void *buffer = split->tokens ? NULL : lvn_malloc((size_t)SCANNED_TOKENS * 4);
    enum lvn_status status = !split->tokens && !buffer ? LVN_MEMORY : add_document(d, 0);
    for (int64_t at = 0, n; at < split->n_tokens && status == LVN_OK; at += n) {
        const void *p = buffer;
        n = split->n_tokens - at < SCANNED_TOKENS ? split->n_tokens - at : SCANNED_TOKENS;
        if (buffer)
            status = lvn_split_tokens(split, at, n, buffer);
        else
            p = (const char *)split->tokens + at * split->width;
        if (status == LVN_OK) status = scan_documents(d, p, at, n, end);
        lvn_work_done(n);
    }
    free(buffer);
    LVN_TRY(status);
    LVN_CHECK(d->n > 1, FORMAT,
              "data.pack: the end token %lld never occurs in '%s', so the ends of its documents are not known: give "
              "the id of the token that ends a document as data.end_token, or prepare the text again with `levin "
              "prepare`, which writes one after each document",
              (long long)end, split->path);
    if (d->start[d->n - 1] == split->n_tokens) d->n--;
    d->start[d->n] = split->n_tokens;
    return LVN_OK;
}

static int64_t document_length(const void *context, int64_t document)
{
    const int64_t *start = ((const struct documents *)context)->start;
    return start[document + 1] - start[document];
}

static enum lvn_status read_document(const void *context, int64_t document, int64_t first, int64_t n, int32_t *ids,
                                     int32_t *labels)
{
    const struct documents *d = context;
    return lvn_split_read(d->split, d->start[document] + first, n, d->id_limit, ids, labels);
}

/* Find the documents of a split by its end token. */
static enum lvn_status documents(struct lvn_dataset *d, const struct lvn_data_options *o, enum lvn_split_id split,
                                 struct lvn_pack_source *out)
{
    struct tokens *t = d->state;
    const struct lvn_split *p = &d->split[split];
    int64_t end = o->end_token >= 0 ? o->end_token : t->end_token[split];
    if (end < 0) end = t->end_token[LVN_SPLIT_TRAIN];
    LVN_CHECK(end >= 0, ARG,
              "data.pack needs the token that ends a document, and no sidecar of '%s' contains one (end_token in "
              "'%s.json', which `levin prepare` writes): give its id as data.end_token (GPT-2's is 50256)",
              p->path, p->path);
    LVN_CHECK(end < d->id_limit, ARG, "data.end_token is %lld, and the vocabulary has %lld tokens (0 to %lld)",
              (long long)end, (long long)d->id_limit, (long long)d->id_limit - 1);
    struct documents *found = &t->documents[split];
    found->split = p;
    found->id_limit = d->id_limit;
    LVN_TRY(find_documents(found, end));
    *out = (struct lvn_pack_source){
        .context = found, .name = p->path, .n = found->n, .length = document_length, .read = read_document};
    return LVN_OK;
}

/* Has the folder shards of training data? */
static bool has_shards(struct lvn_arena *a, const char *folder)
{
    const char *const *names;
    int64_t prefix;
    int n = 0;
    if (lvn_dir_list(a, folder, &names, &n) != LVN_OK) lvn_error_clear();
    for (int i = 0; i < n; i++)
        if (lvn_shard_file_split(names[i], &prefix) == LVN_SPLIT_TRAIN) return true;
    return false;
}

static bool matches(const char *path)
{
    LVN_LOCAL_ARENA(a);
    if (!lvn_path_is_dir(path)) return lvn_ends_with(path, ".bin");
    const char *train = lvn_path_join(&a, path, "train.bin");
    return train && (lvn_path_is_file(train) || has_shards(&a, path));
}

static void close_tokens(struct lvn_dataset *d)
{
    struct tokens *t = d->state;
    if (!t) return;
    for (int i = 0; i < LVN_SPLIT_COUNT; i++) {
        lvn_file_unmap(&t->map[i]);
        free(t->documents[i].start);
    }
    lvn_arena_release(&t->arena);
    free(t);
}

extern const struct lvn_dataset_kind lvn_dataset_tokens;
const struct lvn_dataset_kind lvn_dataset_tokens = {
    .name = "tokens",
    .help = "token ids in .bin files (uint16, or the type in FILE.bin.json or a header of llm.c)",
    .typical_vocab = TYPICAL_VOCAB,
    .mixes = true,
    .needs_val_path = true,
    .own_tokens = "token files already contain token ids",
    .instead_of_tokenizer = "make new ones with `levin prepare TEXT --tokenizer=TOKENIZER`",
    .try_command = "generate",
    .try_flags = " --prompt \"...\"",
    .matches = matches,
    .fields = lvn_stream_fields_of,
    .open = open_tokens,
    .close = close_tokens,
    .documents = documents,
    .overlong = LVN_OVERLONG_SPLIT,
};
