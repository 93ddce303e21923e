/* chars.c - data.kind=chars: any UTF-8 text, one token for each character.
 *
 * The vocabulary is the sorted set of code points that occur. The first nine tenths of the characters are for training,
 * the rest for validation (nanoGPT's split); data.val_path names a separate text for validation instead. A byte order
 * mark is no character of the text. Line ends are not normalized. The ids are in memory, two bytes each, or four for
 * more than 65536 characters. */

#include "base/arena.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/file_type.h"

struct text {
    struct lvn_mapping map;
    int64_t bom; /* bytes of a byte order mark, which are not part of the text */
    const char *path;
    char *quoted_path; /* "'path'", for messages */
    int64_t n_chars;
    void *ids;
    int width;
};

struct chars {
    struct lvn_arena arena;
    struct text text[LVN_SPLITS_TRAINED]; /* the second only with data.val_path */
};

/* given: the vocabulary of an existing model. One that learned a byte order mark as a character keeps it. */
static enum lvn_status read_text(struct chars *c, struct text *t, const char *path, const struct lvn_vocab *given,
                                 struct lvn_vocab *v)
{
    t->path = path;
    t->quoted_path = lvn_arena_printf(&c->arena, "'%s'", path);
    if (!t->quoted_path) return LVN_MEMORY;
    LVN_TRY(lvn_file_map(&t->map, path));
    LVN_CHECK(t->map.bytes, FORMAT, "'%s' is empty: there is no text to train on", path);
    if (!given || lvn_vocab_id(given, 0xfeff) < 0) t->bom = lvn_utf8_bom(t->map.data, t->map.bytes);
    LVN_CHECK(t->map.bytes > t->bom, FORMAT, "'%s' holds only a byte order mark: there is no text to train on", path);
    return lvn_vocab_add(v, t->quoted_path, (const char *)t->map.data + t->bom, t->map.bytes - t->bom, &t->n_chars);
}

static enum lvn_status encode(struct text *t, const struct lvn_vocab *v)
{
    t->width = v->n <= 65536 ? 2 : 4;
    t->ids = lvn_malloc((size_t)t->n_chars * (size_t)t->width);
    if (!t->ids) return LVN_MEMORY;
    const uint8_t *begin = t->map.data, *p = begin + t->bom, *end = begin + t->map.bytes;
    for (int64_t i = 0; i < t->n_chars; i++) {
        int length;
        uint32_t point = (uint32_t)lvn_utf8_decode(p, end - p, &length); /* checked when the text was read */
        int32_t id = lvn_vocab_id(v, point);
        if (id < 0) return lvn_vocab_refuse(v, t->quoted_path, point, p - begin);
        if (t->width == 2)
            ((uint16_t *)t->ids)[i] = (uint16_t)id;
        else
            ((uint32_t *)t->ids)[i] = (uint32_t)id;
        p += length;
    }
    lvn_file_unmap(&t->map);
    return LVN_OK;
}

static enum lvn_status set_splits(struct lvn_dataset *d, const struct chars *c)
{
    const struct text *train = &c->text[LVN_SPLIT_TRAIN], *val = &c->text[LVN_SPLIT_VAL];
    if (val->path) {
        LVN_TRY(lvn_split_set(&d->split[LVN_SPLIT_TRAIN], train->path, train->ids, train->width, train->n_chars));
        return lvn_split_set(&d->split[LVN_SPLIT_VAL], val->path, val->ids, val->width, val->n_chars);
    }
    int64_t n_train = (int64_t)(0.9 * (double)train->n_chars);
    LVN_TRY(lvn_split_set(&d->split[LVN_SPLIT_TRAIN], train->path, train->ids, train->width, n_train));
    LVN_TRY(lvn_split_set(&d->split[LVN_SPLIT_VAL], train->path, (char *)train->ids + n_train * train->width,
                          train->width, train->n_chars - n_train));
    d->split[LVN_SPLIT_VAL].first = n_train;
    return lvn_split_set(&d->split[LVN_SPLIT_ALL], train->path, train->ids, train->width, train->n_chars);
}

/* Line ends of Windows are learned as two characters. */
static void note_crlf(const struct chars *c)
{
    for (int i = 0; i < LVN_SPLITS_TRAINED; i++) {
        char lines[LVN_NUMBER_TEXT];
        const struct text *t = &c->text[i];
        int64_t n = t->path ? lvn_count_crlf(t->map.data, t->map.bytes) : 0;
        if (n)
            lvn_log_once(LVN_LOG_INFO,
                         "'%s': %s %s in CR LF, and '\\r' is learned as a character; `sed -i 's/\\r$//' FILE` "
                         "converts a file",
                         t->path, lvn_count_text(n, lines), n == 1 ? "line ends" : "lines end");
    }
}

static enum lvn_status open_chars(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    LVN_CHECK(o->path && *o->path, ARG, "data.kind=chars needs data.path: a text file");
    struct chars *c = d->state = lvn_calloc(1, sizeof *c);
    if (!c) return LVN_MEMORY;
    lvn_arena_init(&c->arena);
    struct lvn_vocab *v = d->vocabulary = lvn_vocab_new();
    if (!v) return LVN_MEMORY;
    bool two = o->val_path && *o->val_path;
    LVN_TRY(read_text(c, &c->text[LVN_SPLIT_TRAIN], o->path, o->vocabulary, v));
    if (two) LVN_TRY(read_text(c, &c->text[LVN_SPLIT_VAL], o->val_path, o->vocabulary, v));
    LVN_TRY(lvn_vocab_seal(v));
    if (lvn_vocab_id(v, '\r') >= 0) note_crlf(c);
    LVN_CHECK(c->text[0].n_chars > 1, FORMAT, "'%s' is a single character long: there is nothing to learn from it",
              o->path);
    if (o->vocabulary) {
        lvn_vocab_free(v);
        v = d->vocabulary = lvn_vocab_copy(o->vocabulary);
        if (!v) return LVN_MEMORY;
    } else {
        LVN_CHECK(v->n > 1, FORMAT, "'%s' is one and the same character throughout: there is nothing to learn from it",
                  o->path);
    }
    d->vocab_size = v->n;
    LVN_TRY(encode(&c->text[LVN_SPLIT_TRAIN], v));
    if (two) LVN_TRY(encode(&c->text[LVN_SPLIT_VAL], v));
    return set_splits(d, c);
}

static bool matches(const char *path)
{
    enum lvn_file_type type = lvn_file_type(path, (int64_t)strlen(path));
    return type == LVN_FILE_TYPE_TEXT ||
           (type == LVN_FILE_TYPE_UNKNOWN && lvn_path_exists(path) && !lvn_path_is_dir(path));
}

static void close_chars(struct lvn_dataset *d)
{
    struct chars *c = d->state;
    if (!c) return;
    for (int i = 0; i < LVN_SPLITS_TRAINED; i++) {
        lvn_file_unmap(&c->text[i].map);
        free(c->text[i].ids);
    }
    lvn_arena_release(&c->arena);
    free(c);
}

extern const struct lvn_dataset_kind lvn_dataset_chars;
const struct lvn_dataset_kind lvn_dataset_chars = {
    .name = "chars",
    .help = "characters of a UTF-8 text; the last tenth is used for validation",
    .typical_vocab = 65,
    .is_text = true,
    .mixes = true,
    .tokenized_kind = "documents",
    .own_tokens = "data.kind=chars makes each character a token",
    .instead_of_tokenizer = "set data.kind=documents",
    .try_command = "generate",
    .try_flags = " --prompt \"...\"",
    .matches = matches,
    .fields = lvn_stream_fields_of,
    .open = open_chars,
    .close = close_chars,
};
