/* tokens.c - data.kind=tokens: token ids in files.
 *
 * FILE.bin holds little-endian ids without a header: uint16, or the type in FILE.bin.json (the sidecar):
 *     {"dtype": "uint32", "vocab_size": 100277, "vocabulary": "..."}
 * All keys are optional. "vocabulary" (all characters, ascending) exists if levin prepared the text by characters,
 * "tokenizer" if it used a tokenizer, whose files are then in the same folder. No other JSON file is read. data.path is
 * one .bin, or a folder with train.bin, val.bin and optionally test.bin, which only evaluation opens.
 *
 * Files are mapped, not copied; on a network file system windows of them are read (small ones as a whole). Files up to
 * 256 MiB are scanned at once for ids beyond the vocabulary; in larger ones each window is checked when it is read. The
 * size of the vocabulary is the model's; for a new model the sidecar's; if that has none, 50304, or, if an id is beyond
 * that, the largest id + 1. Left out: big-endian machines. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/text.h"
#include "data/dataset.h"
#include "formats/json.h"
#include "stores/streaming_file.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "token files are mapped as they are: little-endian machines only"
#endif

enum {
    SCAN_BYTES = 256 << 20,
    SIDECAR_BYTES = 16 << 20,
    TYPICAL_VOCAB = 50304, /* the most common byte-level BPE, 50257, padded to a multiple of 64 */
};

struct tokens {
    struct lvn_arena arena;
    struct lvn_mapping map[LVN_SPLIT_COUNT];
};

struct sidecar {
    int width;
    int64_t vocab_size; /* 0: absent */
    struct lvn_vocab *vocabulary;
    bool tokenized;     /* made by a tokenizer */
    uint64_t tokenizer; /* checksum of the tokenizer */
};

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
    if (dtype) {
        const char *name = json_string_value(dtype);
        LVN_CHECK(name && (!strcmp(name, "uint16") || !strcmp(name, "uint32")), FORMAT,
                  "'%s' says dtype %s%s%s; levin reads \"uint16\" and \"uint32\"", path, name ? "\"" : "",
                  name ? name : "of another kind than text", name ? "\"" : "");
        s->width = strcmp(name, "uint32") ? 2 : 4;
    }
    if (size) {
        LVN_CHECK(json_is_integer(size) && json_integer_value(size) > 0 && json_integer_value(size) <= INT32_MAX,
                  FORMAT, "'%s': vocab_size must be a whole number from 1 to %d", path, INT32_MAX);
        s->vocab_size = json_integer_value(size);
    }
    if (text) {
        LVN_CHECK(json_is_string(text), FORMAT, "'%s': vocabulary must be a text of characters", path);
        LVN_TRY(lvn_vocab_from_text(&s->vocabulary, path, json_string_value(text), (int64_t)json_string_length(text)));
        LVN_CHECK(!size || s->vocabulary->n <= s->vocab_size, FORMAT,
                  "'%s': vocabulary has %lld characters, vocab_size is %lld", path, (long long)s->vocabulary->n,
                  (long long)s->vocab_size);
        if (!size) s->vocab_size = s->vocabulary->n;
    }
    return LVN_OK;
}

/* Reads FILE.bin.json; uint16 if there is none. */
static enum lvn_status read_sidecar(struct sidecar *s, const char *path)
{
    *s = (struct sidecar){.width = 2};
    if (!lvn_path_exists(path)) return LVN_OK;
    char *text;
    int64_t bytes;
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

/* Opens the tokenizer in the folder of the tokens. FORMAT if another one made the tokens. A tokenizer that cannot be
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

static enum lvn_status open_split(struct lvn_dataset *d, enum lvn_split_id id, const char *path)
{
    struct tokens *t = d->state;
    char *json = lvn_arena_printf(&t->arena, "%s.json", path);
    if (!json) return LVN_MEMORY;
    struct stat is;
    const bool windows = !d->split[id].streaming && stat(path, &is) == 0 && S_ISREG(is.st_mode) &&
                         is.st_size > LVN_FILE_COPY_BYTES && !lvn_path_is_local(path);
    if (windows) LVN_TRY(lvn_streaming_file_open_path(&d->split[id].streaming, path));
    struct lvn_streaming_file *streaming = d->split[id].streaming;
    if (!streaming) LVN_TRY(lvn_file_map(&t->map[id], path));
    int64_t bytes = streaming ? lvn_streaming_file_bytes(streaming) : t->map[id].bytes;
    LVN_CHECK(bytes, FORMAT, "'%s' is empty: there are no tokens in it", path);
    LVN_CHECK(streaming || bytes < 6 || memcmp(t->map[id].data, "\x93NUMPY", 6) != 0, FORMAT,
              "'%s' is a file of numpy.save, and token files have no header: write it again with "
              "numpy.load('%s').astype('uint16').tofile('%s.bin')",
              path, path, path);
    struct sidecar s;
    enum lvn_status status = read_sidecar(&s, json);
    if (!d->vocabulary)
        d->vocabulary = s.vocabulary;
    else
        lvn_vocab_free(s.vocabulary);
    LVN_TRY(status);
    LVN_TRY(open_tokenizer(d, &s, path));
    LVN_CHECK(
        bytes % s.width == 0, FORMAT,
        "'%s' has %lld bytes, which is no whole number of uint%d token ids: the file is damaged or of another type%s",
        path, (long long)bytes, 8 * s.width, s.width == 2 ? "" : " than its .json says");
    if (s.vocab_size > d->vocab_size) d->vocab_size = s.vocab_size;
    if (streaming) return lvn_split_set_streaming(&d->split[id], path, s.width);
    return lvn_split_set(&d->split[id], path, t->map[id].data, s.width, bytes / s.width);
}

/* Checks the ids, and sets the size of the vocabulary. */
static enum lvn_status check_ids(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    int64_t given = o->vocab_size ? o->vocab_size : d->vocab_size, largest = 0;
    for (int i = 0; i < LVN_SPLIT_COUNT; i++) {
        const struct lvn_split *p = &d->split[i];
        if (!p->n_tokens || p->streaming || p->n_tokens * p->width > SCAN_BYTES) continue;
        int64_t position, max = lvn_split_max(p, &position);
        if (given) LVN_TRY(lvn_split_check_id(p, position, max, given));
        LVN_CHECK(max < INT32_MAX, FORMAT,
                  "'%s' holds the token id %lld at position %lld, which no vocabulary can have", p->path,
                  (long long)max, (long long)position);
        if (max > largest) largest = max;
    }
    if (o->vocab_size)
        d->vocab_size = largest + 1; /* a padded vocab_size of the sidecar may be larger than the model's */
    else if (!given)
        d->vocab_size = largest < TYPICAL_VOCAB ? TYPICAL_VOCAB : largest + 1;
    return LVN_OK;
}

static enum lvn_status open_tokens(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    LVN_CHECK(o->path && *o->path, ARG,
              "data.kind=tokens needs data.path: a .bin file, or a folder with train.bin and val.bin");
    struct tokens *t = d->state = lvn_calloc(1, sizeof *t);
    if (!t) return LVN_MEMORY;
    lvn_arena_init(&t->arena);
    const char *train = o->path, *val = o->val_path && *o->val_path ? o->val_path : NULL;
    const char *test = NULL;
    if (lvn_path_is_dir(o->path)) {
        train = lvn_path_join(&t->arena, o->path, "train.bin");
        char *val_bin = lvn_path_join(&t->arena, o->path, "val.bin");
        char *test_bin = lvn_path_join(&t->arena, o->path, "test.bin");
        if (!train || !val_bin || !test_bin) return LVN_MEMORY;
        if (!val && lvn_path_exists(val_bin)) val = val_bin;
        if (o->for_evaluation && lvn_path_exists(test_bin)) test = test_bin;
    }
    LVN_TRY(open_split(d, LVN_SPLIT_TRAIN, train));
    if (val) LVN_TRY(open_split(d, LVN_SPLIT_VAL, val));
    if (test) LVN_TRY(open_split(d, LVN_SPLIT_TEST, test));
    return check_ids(d, o);
}

static bool matches(const char *path)
{
    LVN_LOCAL_ARENA(a);
    const char *train = lvn_path_join(&a, path, "train.bin");
    bool folder = train && lvn_path_is_file(train);
    return folder || (lvn_ends_with(path, ".bin") && !lvn_path_is_dir(path));
}

static void close_tokens(struct lvn_dataset *d)
{
    struct tokens *t = d->state;
    if (!t) return;
    for (int i = 0; i < LVN_SPLIT_COUNT; i++) lvn_file_unmap(&t->map[i]);
    lvn_arena_release(&t->arena);
    free(t);
}

extern const struct lvn_dataset_kind lvn_dataset_tokens;
const struct lvn_dataset_kind lvn_dataset_tokens = {
    .name = "tokens",
    .help = "token ids in .bin files (uint16, or uint32 where FILE.bin.json says so)",
    .typical_vocab = TYPICAL_VOCAB,
    .matches = matches,
    .fields = lvn_stream_fields_of,
    .open = open_tokens,
    .close = close_tokens,
};
