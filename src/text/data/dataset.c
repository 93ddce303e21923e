/* dataset.c - see dataset.h: the table of kinds, and code for all kinds: opening, planned lengths, windows of a stream,
 * masks. */
#include "data/dataset.h"

#include <sys/stat.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/log.h"
#include "base/redact.h"
#include "base/text.h"
#include "base/work.h"
#include "data/file_type.h"
#include "data/sources/shard_list.h"
#include "data/table.h"
#include "stores/store.h"
#include "stores/streaming_file.h"

#define LVN_DATASET(name) extern const struct lvn_dataset_kind lvn_dataset_##name;
#include "data/datasets_each.h"

static const struct lvn_dataset_kind *const kinds[] = {
#define LVN_DATASET(name) &lvn_dataset_##name,
#include "data/datasets_each.h"
    NULL};

const struct lvn_dataset_kind *const *lvn_dataset_kinds(void)
{
    return kinds;
}

const struct lvn_dataset_kind *lvn_dataset_kind_find(const char *name)
{
    char names[256] = "";
    for (int i = 0; kinds[i]; i++) {
        if (name && strcmp(kinds[i]->name, name) == 0) return kinds[i];
        lvn_print_append(names, sizeof names, "%s%s", i ? ", " : "", kinds[i]->name);
    }
    lvn_fail(LVN_ARG, "data.kind is '%s'; levin knows %s", name ? name : "", names);
    return NULL;
}

static enum lvn_status list_columns(const char *path, char *list, size_t capacity)
{
    struct lvn_table t;
    enum lvn_status status = lvn_table_open(&t, path);
    if (status == LVN_OK) status = lvn_table_unread(&t, list, capacity);
    lvn_table_close(&t);
    return status;
}

/* FORMAT with a command that converts what no kind matches. */
static enum lvn_status refuse_path(const char *path)
{
    const bool folder = lvn_path_is_dir(path);
    const int64_t plain = lvn_file_uncompressed_name(path);
    const bool compressed = path[plain] != '\0', lines = lvn_file_type(path, plain) == LVN_FILE_TYPE_LINES;
    char columns[300] = "";
    if (!folder && !lines && lvn_table_is_named(path)) LVN_TRY(list_columns(path, columns, sizeof columns));
    enum lvn_status status = folder ? LVN_OK : lvn_file_refuse_name(path);
    if (status == LVN_FORMAT && *columns)
        LVN_FAIL(
            FORMAT,
            "'%s' needs one column of texts ('text') and one of labels ('label'), and its columns are %s. To learn "
            "labels, name the two: --data.text_column=COLUMN --data.label_column=COLUMN, and --data.pair_column=COLUMN "
            "for a second text. To learn answers (columns such as instruction and output), train on the lines of JSON "
            "of "
            "the following command. To learn texts alone: %s",
            path, columns, levin_error_text());
    LVN_TRY(status);
    if (lines && !compressed) LVN_TRY(lvn_file_refuse_array(path));
    LVN_FAIL(FORMAT,
             "'%s' is %s, on which levin cannot train directly%s: `levin prepare %s --tokenizer=TOKENIZER` makes token "
             "files of it, and prints the keys to train on them",
             path,
             lines    ? "lines of JSON"
             : folder ? "a folder"
                      : "an archive",
             folder ? " (there is no train.bin in it, nor the files of MNIST)" : "", path);
}

enum lvn_status lvn_dataset_guess(const char *path, const struct lvn_dataset_kind **out)
{
    LVN_LOCAL_ARENA(a);
    *out = NULL;
    const enum lvn_file_type type = lvn_file_type(path, lvn_file_uncompressed_name(path));
    LVN_CHECK(!lvn_path_exists(path) || lvn_path_is_file(path) || lvn_path_is_dir(path), FORMAT,
              "'%s' is a pipe or a device, and data are read more than once: write them to a file", path);
    if (lvn_store_is_url(path) && (type == LVN_FILE_TYPE_LINES || type == LVN_FILE_TYPE_PARQUET))
        LVN_TRY(lvn_store_download(&a, path, LVN_WANT_ALL, &path)); /* its rows determine the kind */
    for (int i = 0; kinds[i] && !*out; i++)
        if (kinds[i]->matches && kinds[i]->matches(path)) *out = kinds[i];
    if (*out && (*out)->check_guess) LVN_TRY((*out)->check_guess(path));
    if (type == LVN_FILE_TYPE_TEXT && lvn_table_is_disguised(path))
        lvn_log_once(
            LVN_LOG_WARN,
            "the first line of '%s' names columns, of which one is 'label', and the file is read as a text: to "
            "learn its labels, rename it to .tsv",
            path);
    if (*out || (!lvn_path_exists(path) && lvn_file_type(path, (int64_t)strlen(path)) == LVN_FILE_TYPE_UNKNOWN))
        return LVN_OK;
    LVN_CHECK(lvn_path_exists(path) || lvn_store_is_url(path), IO, "cannot open '%s': No such file or directory", path);
    return refuse_path(path);
}

const char *const lvn_split_names[LVN_SPLIT_COUNT] = {"train", "val", "test", "all"};

/* --- opening --------------------------------------------------------------------------------------------------- */

static enum lvn_status check_lengths(const struct lvn_dataset *d, const struct lvn_data_options *o)
{
    const struct lvn_split *train = &d->split[LVN_SPLIT_TRAIN];
    if (o->block_size && d->block_size)
        LVN_CHECK(o->block_size >= d->block_size, ARG,
                  "model.block_size is %lld, but a sample of '%s' has %lld tokens: give model.block_size=%lld or leave "
                  "it out",
                  (long long)o->block_size, d->kind->name, (long long)d->block_size, (long long)d->block_size);
    if (o->block_size && train->n_tokens && !train->pack && !o->for_evaluation)
        LVN_CHECK(
            train->n_tokens > o->block_size, FORMAT,
            "'%s' has %lld tokens to train on, but one window of model.block_size=%lld needs %lld: give more data "
            "or a smaller model.block_size",
            train->path, (long long)train->n_tokens, (long long)o->block_size, (long long)o->block_size + 1);
    return LVN_OK;
}

/* Replace the fields of text by those with masks: ids, types, length, labels. */
static void mask_fields(struct lvn_fields *f)
{
    struct lvn_field ids = f->field[0], types = ids, labels = ids;
    if (!ids.tokens) return; /* no text: the task then refuses the data */
    types.name = "types";
    types.tokens = false;
    types.below = 2;
    labels.name = "labels";
    labels.label = LVN_LABEL_TOKEN;
    *f = (struct lvn_fields){
        .field = {ids, types, {.name = "length", .dtype = LVN_I32, .below = ids.dim[0] + 1}, labels}, .n = 4};
}

static enum lvn_status open_mask(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    const struct lvn_tokenizer *t = d->tokenizer ? d->tokenizer : o->model_tokenizer;
    if (!t)
        LVN_TRY(lvn_tokenizer_require(d->tokenizer_error ? d->tokenizer_error : o->tokenizer_error, "task.kind=mlm"));
    LVN_CHECK(t, ARG,
              "task.kind=mlm replaces words with the token [MASK], and neither the data ('%s') nor the model have a "
              "tokenizer: prepare the text with one (`levin prepare TEXT --tokenizer=DIR`)",
              d->path);
    LVN_TRY(lvn_mask_init(&d->mask, t, o->mask_fraction, o->whole_words, o->seed));
    d->masks = true;
    return LVN_OK;
}

static enum lvn_status check_pack(const struct lvn_data_options *o, const struct lvn_dataset_kind *kind)
{
    if (!o->pack) return LVN_OK;
    LVN_CHECK(!o->skip_bad_shards, ARG,
              "data.pack places the documents of all shards before the first step, and data.skip_bad_shards finds "
              "damaged shards later: leave one of them out");
    LVN_CHECK(kind->documents, ARG,
              "data.pack packs documents into rows, and data.kind=%s has none: it is for token files, whose documents "
              "end with an end-of-text token; leave it out",
              kind->name);
    LVN_CHECK(!o->masks, ARG,
              "data.pack is for next-token prediction, and task.kind=mlm masks tokens of whole samples: leave one of "
              "them out");
    LVN_CHECK(!o->stream, ARG,
              "data.pack reads all documents before the first step, and data.stream starts before they are downloaded: "
              "leave one of them out");
    return LVN_OK;
}

/* Pack the documents of all splits into rows. */
static enum lvn_status pack(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    const enum lvn_overlong overlong = o->overlong == LVN_OVERLONG_AUTO ? d->kind->overlong : o->overlong;
    for (int k = 0; k < LVN_SPLIT_COUNT; k++) {
        struct lvn_split *p = &d->split[k];
        struct lvn_pack_source source;
        if (!p->n_tokens && !p->n_samples) continue;
        LVN_TRY(d->kind->documents(d, o, (enum lvn_split_id)k, &source));
        LVN_TRY(lvn_pack_new(&p->pack, &source, d->fields.field[0].dim[0], overlong, o->seed));
        p->n_samples = p->pack->rows;
        lvn_pack_report(p->pack);
    }
    return LVN_OK;
}

enum lvn_status lvn_dataset_fields(const struct lvn_data_options *o, struct lvn_fields *out)
{
    const struct lvn_dataset_kind *kind = lvn_dataset_kind_find(o->kind);
    *out = (struct lvn_fields){0};
    if (!kind) return LVN_ARG;
    kind->fields(o, out);
    LVN_TRY(check_pack(o, kind));
    LVN_CHECK(out->n, ARG,
              "data.kind=%s is for programs that use the library and give samples themselves (Python: "
              "levin.Run(data=...)); name files with data.path instead",
              kind->name);
    if (o->masks) mask_fields(out);
    if (o->pack) *out = lvn_pack_fields(o->block_size, o->vocab_size);
    return LVN_OK;
}

int lvn_dataset_length(const struct lvn_dataset *d, enum lvn_split_id split, int64_t at)
{
    return d->n_lengths ? lvn_length_find(d->length, d->n_lengths, d->kind->length(d, split, at)) : 0;
}

/* Sort the samples of a split by planned length (counting sort). */
static enum lvn_status sort_by_length(struct lvn_dataset *d, enum lvn_split_id split)
{
    struct lvn_split *p = &d->split[split];
    int64_t next[LVN_LENGTHS];
    if (!p->n_samples) return LVN_OK;
    p->by_length = lvn_malloc(sizeof *p->by_length * (size_t)p->n_samples);
    if (!p->by_length) return LVN_MEMORY;
    for (int64_t i = 0; i < p->n_samples; i++) p->length_start[lvn_dataset_length(d, split, i) + 1]++;
    for (int k = 0; k < d->n_lengths; k++) {
        p->length_start[k + 1] += p->length_start[k];
        next[k] = p->length_start[k];
    }
    for (int64_t i = 0; i < p->n_samples; i++) p->by_length[next[lvn_dataset_length(d, split, i)]++] = i;
    return LVN_OK;
}

enum lvn_status lvn_dataset_sort(struct lvn_dataset *d)
{
    d->n_lengths = lvn_fields_lengths(&d->fields, d->length);
    for (int k = 0; k < LVN_SPLIT_COUNT && d->n_lengths; k++) LVN_TRY(sort_by_length(d, (enum lvn_split_id)k));
    return LVN_OK;
}

static enum lvn_status open_into(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    LVN_TRY(lvn_dataset_fields(o, &d->fields));
    d->kind = lvn_dataset_kind_find(o->kind);
    LVN_TRY(d->kind->open(d, o));
    if (o->vocab_size)
        LVN_CHECK(d->vocab_size <= o->vocab_size, ARG,
                  "the data ('%s') has %lld different tokens, but model.vocab_size is %lld: they must fit",
                  d->split[0].path ? d->split[0].path : d->kind->name, (long long)d->vocab_size,
                  (long long)o->vocab_size);
    d->id_limit = o->vocab_size ? o->vocab_size : d->vocab_size;
    for (int k = 0; k < d->fields.n && d->id_limit; k++)
        if (d->fields.field[k].tokens) d->fields.field[k].below = d->id_limit;
    if (o->skip_bad_shards && !o->for_evaluation)
        lvn_shard_list_skip_bad(d->split[LVN_SPLIT_TRAIN].shards, d->id_limit); /* tokens.c has checked that */
    if (o->masks) LVN_TRY(open_mask(d, o));
    if (o->pack) LVN_TRY(pack(d, o));
    LVN_TRY(lvn_dataset_sort(d));
    return check_lengths(d, o);
}

/* --- downloads --- */

enum { MIN_STREAM = 16 << 20 };

/* The sidecar, nanoGPT's meta.pkl and the tokenizer's files of a .bin file. */
static enum lvn_status download_sidecars(struct lvn_arena *a, const char *url)
{
    const char *dir = lvn_path_dir(a, url), *json = lvn_arena_printf(a, "%s.json", url),
               *meta = dir ? lvn_store_join(a, dir, "meta.pkl") : NULL;
    if (!json || !meta) return LVN_MEMORY;
    LVN_TRY(lvn_store_download_optional(json));
    LVN_TRY(lvn_store_download_optional(meta));
    return lvn_store_download_companions(a, url);
}

/* The local path, in the arena, of a text, a .bin file or a folder of token files; a path that is no URL is returned
 * unchanged. FILE.bin.json and the tokenizer's files of a .bin file are downloaded, too. */
static enum lvn_status fetch_path(struct lvn_arena *a, const char *path, const char **local)
{
    *local = path;
    if (!path || !lvn_store_is_url(path)) return LVN_OK;
    LVN_TRY(lvn_store_download(a, path, LVN_WANT_TOKENS, local));
    bool tokens = lvn_ends_with(path, ".bin") && lvn_path_is_file(*local);
    return tokens && lvn_store_is_remote(path) ? download_sidecars(a, path) : LVN_OK;
}

/* Download what a folder with training shards has besides these, and the sidecar of the first one. *first NULL: it has
 * no training shards. */
static enum lvn_status download_others(struct lvn_arena *a, const char *path, const char **first)
{
    struct lvn_store_entries files;
    const char *local, *sidecar = "";
    int64_t prefix;
    *first = NULL;
    LVN_TRY(lvn_store_list_wanted(a, path, LVN_WANT_TOKENS, &files));
    for (int i = 0; i < files.n && !*first; i++)
        if (lvn_shard_file_split(files.entry[i].name, &prefix) == LVN_SPLIT_TRAIN) *first = files.entry[i].name;
    if (!*first) return LVN_OK;
    sidecar = lvn_arena_printf(a, "%s.json", *first);
    if (!sidecar) return LVN_MEMORY;
    for (int i = 0; i < files.n; i++) {
        const char *name = files.entry[i].name, *url = lvn_store_join(a, path, name);
        const bool json = lvn_ends_with(name, ".json"), of_shard = json && lvn_ends_with(name, ".bin.json");
        const char *bin = lvn_arena_printf(a, "%.*s", (int)(strlen(name) - (json ? 5 : 0)), name);
        if (!url || !bin) return LVN_MEMORY;
        const bool training = lvn_shard_file_split(of_shard ? bin : name, &prefix) == LVN_SPLIT_TRAIN;
        if (!training || !strcmp(name, sidecar)) LVN_TRY(lvn_store_download(a, url, LVN_WANT_ALL, &local));
    }
    return LVN_OK;
}

static enum lvn_status stream_shards(struct lvn_arena *a, const char *path, const char **local, const char **shards)
{
    const char *first, *file;
    LVN_TRY(download_others(a, path, &first));
    if (!first) return fetch_path(a, path, local);
    const char *url = lvn_store_join(a, path, first);
    if (!url) return LVN_MEMORY;
    LVN_TRY(lvn_store_cached_path(a, url, &file));
    *shards = path;
    *local = lvn_path_dir(a, file);
    return *local ? lvn_dir_make(*local) : LVN_MEMORY;
}

/* The same for token files whose training split is read during its download: *stream reads it, and *local is its path
 * when complete; all other files are downloaded first. *stream is NULL for a file that is local or below 16 MiB.
 * *shards: the folder in the store if its training split is in shards, which are not downloaded; else NULL. */
static enum lvn_status stream_path(struct lvn_arena *a, const char *path, const char **local,
                                   struct lvn_streaming_file **stream, const char **shards)
{
    enum lvn_store_kind kind;
    int64_t bytes;
    const char *folder;
    *stream = NULL;
    *shards = NULL;
    if (!lvn_store_is_remote(path)) {
        lvn_log_once(LVN_LOG_WARN, "data.stream has no effect on '%s', which is on this machine", path);
        return fetch_path(a, path, local);
    }
    LVN_TRY(lvn_store_stat(path, &kind, &bytes));
    bool is_folder = kind == LVN_STORE_FOLDER, is_bin = lvn_ends_with(path, ".bin");
    const char *url = is_folder ? lvn_store_join(a, path, "train.bin") : path;
    if (!url) return LVN_MEMORY;
    if (is_folder) LVN_TRY(lvn_store_stat(url, &kind, &bytes));
    if (is_folder && kind == LVN_STORE_NOTHING) return stream_shards(a, path, local, shards);
    if (kind != LVN_STORE_FILE || (!is_folder && !is_bin) || bytes < MIN_STREAM) return fetch_path(a, path, local);
    const char *val = lvn_store_join(a, path, "val.bin");
    const char *val_json = val ? lvn_arena_printf(a, "%s.json", val) : NULL;
    if (!val_json) return LVN_MEMORY;
    LVN_TRY(download_sidecars(a, url));
    if (is_folder) LVN_TRY(lvn_store_download_optional(val));
    if (is_folder) LVN_TRY(lvn_store_download_optional(val_json));
    LVN_TRY(lvn_store_cached_path(a, url, &folder)); /* path of the file once downloaded */
    *local = is_folder ? lvn_path_dir(a, folder) : folder;
    return *local ? lvn_streaming_file_open(stream, url) : LVN_MEMORY;
}

/* Download the files of a kind that reads local ones only; *is_file: data.path is one file. */
static enum lvn_status fetch(struct lvn_arena *a, const struct lvn_data_options *o, struct lvn_data_options *local,
                             struct lvn_streaming_file **streaming, bool *is_file)
{
    const struct lvn_dataset_kind *kind = lvn_dataset_kind_find(o->kind);
    if (!kind) return LVN_ARG;
    if (kind->reads_stores && o->path && *o->path) {
        enum lvn_store_kind what;
        int64_t bytes;
        LVN_TRY(lvn_store_stat(o->path, &what, &bytes));
        *is_file = what != LVN_STORE_FOLDER;
    }
    if (kind->reads_stores) return LVN_OK;
    LVN_TRY(o->stream ? stream_path(a, o->path, &local->path, streaming, &local->shards)
                      : fetch_path(a, o->path, &local->path));
    LVN_TRY(fetch_path(a, o->val_path, &local->val_path));
    if (o->for_evaluation) LVN_TRY(fetch_path(a, o->test_path, &local->test_path));
    *is_file = local->path && *local->path && !lvn_path_is_dir(local->path);
    return LVN_OK;
}

/* Warn if the file that validates is the one that is trained on. */
static void compare_files(const struct lvn_data_options *o)
{
    struct stat a, b;
    if (o->for_evaluation || !o->path || !o->val_path || !*o->val_path || lvn_path_is_dir(o->path)) return;
    const bool same = strcmp(o->path, o->val_path) == 0 || (stat(o->path, &a) == 0 && stat(o->val_path, &b) == 0 &&
                                                            a.st_dev == b.st_dev && a.st_ino == b.st_ino);
    if (same)
        lvn_log(LVN_LOG_WARN,
                "data.val_path is the file of data.path ('%s'): the validation loss is one of data that are trained on",
                o->path);
}

/* File names in the cache contain no secrets, so two URLs that differ only in a secret share one file. */
static enum lvn_status check_secrets(struct lvn_arena *a, const struct lvn_data_options *o)
{
    if (!o->path || !o->val_path || !lvn_store_is_remote(o->path) || strcmp(o->path, o->val_path) == 0) return LVN_OK;
    char *path = lvn_arena_strdup(a, o->path), *val_path = lvn_arena_strdup(a, o->val_path);
    if (!path || !val_path) return LVN_MEMORY;
    (void)lvn_secrets_hide(path);
    (void)lvn_secrets_hide(val_path);
    LVN_CHECK(strcmp(path, val_path) != 0, ARG,
              "data.path and data.val_path ('%s') differ only in a parameter that is treated as a secret, so their "
              "downloads would be one file: copy one of them to this machine (levin cp), and give that path",
              path);
    return LVN_OK;
}

static enum lvn_status open_one(struct lvn_dataset **out, const struct lvn_data_options *o)
{
    *out = NULL;
    struct lvn_dataset *d = lvn_calloc(1, sizeof *d);
    if (!d) return LVN_MEMORY;
    struct lvn_data_options local = *o;
    LVN_LOCAL_ARENA(a);
    enum lvn_status status = check_secrets(&a, o);
    if (status == LVN_OK) status = fetch(&a, o, &local, &d->split[LVN_SPLIT_TRAIN].streaming, &d->is_file);
    d->path = lvn_strdup(o->path && *o->path ? o->path : o->kind);
    if (status == LVN_OK && !d->path) status = LVN_MEMORY;
    d->for_evaluation = o->for_evaluation;
    d->answer_end = -1;
    if (status == LVN_OK) compare_files(&local);
    if (status == LVN_OK) status = open_into(d, &local);
    if (status == LVN_OK)
        *out = d;
    else
        lvn_dataset_close(d);
    return status;
}

/* --- data.mix --------------------------------------------------------------------------------------------------- */

/* ARG for options that are not for a mix. */
static enum lvn_status check_mix(const struct lvn_data_options *o)
{
    const struct {
        const char *key;
        bool given;
    } others[] = {{"data.path", o->path && *o->path},
                  {"data.url", o->url && *o->url},
                  {"data.test_path", o->test_path && *o->test_path},
                  {"data.stream", o->stream}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        LVN_CHECK(!others[i].given, ARG,
                  "data.mix names the sources, and %s is for a single one: leave one of them out", others[i].key);
    const struct lvn_dataset_kind *kind = lvn_dataset_kind_find(o->kind);
    char names[128] = "";
    for (int i = 0; kinds[i]; i++)
        if (kinds[i]->mixes) lvn_print_append(names, sizeof names, "%s%s", *names ? ", " : "", kinds[i]->name);
    LVN_CHECK(!kind || kind->mixes, ARG, "data.mix is for data.kind %s, and the data are of the kind %s", names,
              o->kind);
    LVN_CHECK(!kind || !kind->needs_tokenizer || (o->tokenizer && *o->tokenizer) || o->model_tokenizer, ARG,
              "data.mix needs one tokenizer for all sources: set data.tokenizer, or train a model that has one");
    return LVN_OK;
}

/* ARG if rows of two sources cannot be in one batch. */
static enum lvn_status compare_sources(const struct lvn_dataset *a, const struct lvn_dataset *b)
{
    const struct lvn_codec codecs[] = {lvn_dataset_codec(a), lvn_dataset_codec(b)};
    bool same = a->fields.n == b->fields.n && a->masks == b->masks;
    for (int k = 0; k < a->fields.n && same; k++)
        same = !strcmp(a->fields.field[k].name, b->fields.field[k].name) &&
               a->fields.field[k].dim[0] == b->fields.field[k].dim[0];
    LVN_CHECK(same, ARG, "data.mix: the samples of '%s' and '%s' have different fields or lengths", a->path, b->path);
    const bool stated = a->stated_vocab_size && b->stated_vocab_size;
    LVN_CHECK(lvn_codec_agree(&codecs[0], &codecs[1]) && (!stated || a->stated_vocab_size == b->stated_vocab_size), ARG,
              "data.mix: '%s' and '%s' have different vocabularies: the same ids mean other words; prepare both with "
              "one tokenizer",
              a->path, b->path);
    return LVN_OK;
}

static enum lvn_status open_source(struct lvn_mix *m, int k, const struct lvn_data_options *o)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_data_options one = *o;
    one.path = lvn_mix_path(&a, m, k, o->folder);
    if (!one.path) return LVN_MEMORY;
    LVN_TRY_WHILE(open_one(&m->data[k], &one), "opening entry %d of data.mix", k + 1);
    LVN_TRY(compare_sources(m->data[0], m->data[k]));
    if (k && o->val_path && *o->val_path) /* the first source has it already */
        m->data[k]->split[LVN_SPLIT_VAL].n_tokens = m->data[k]->split[LVN_SPLIT_VAL].n_samples = 0;
    LVN_CHECK(o->for_evaluation || lvn_dataset_has(m->data[k], LVN_SPLIT_TRAIN), ARG,
              "data.mix: '%s' has no training data", m->data[k]->path);
    return LVN_OK;
}

/* Give all sources what has to be the same, and report them. */
static enum lvn_status join_sources(struct lvn_mix *m)
{
    struct lvn_dataset *d = m->data[0];
    LVN_LOCAL_TEXT(t);
    for (int k = 0; k < m->n; k++) {
        if (m->data[k]->vocab_size > d->vocab_size) d->vocab_size = m->data[k]->vocab_size;
        if (m->data[k]->id_limit > d->id_limit) d->id_limit = m->data[k]->id_limit;
        if (k) d->skipped += m->data[k]->skipped;
        lvn_text_printf(&t, "%s'%s' %.4g %%", k ? ", " : "", m->data[k]->path,
                        100.0 * (double)m->weight[k] / (double)m->period);
    }
    for (int k = 0; k < m->n; k++) {
        m->data[k]->id_limit = d->id_limit;
        struct lvn_shard_list *shards = m->data[k]->split[LVN_SPLIT_TRAIN].shards;
        if (shards && lvn_shard_list_skips(shards)) lvn_shard_list_skip_bad(shards, d->id_limit);
        for (int i = 0; i < d->fields.n && d->id_limit; i++)
            if (m->data[k]->fields.field[i].tokens) m->data[k]->fields.field[i].below = d->id_limit;
    }
    LVN_TRY(lvn_text_status(&t));
    if (!d->for_evaluation) lvn_log(LVN_LOG_INFO, "data.mix: %s", t.p);
    free(d->path);
    d->path = lvn_strdup("data.mix");
    d->is_file = false;
    return d->path ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_dataset_open(struct lvn_dataset **out, const struct lvn_data_options *o)
{
    struct lvn_mix *m;
    *out = NULL;
    if (!o->mix || !*o->mix) return open_one(out, o);
    LVN_TRY(check_mix(o));
    LVN_TRY(lvn_mix_new(&m, o->mix));
    enum lvn_status status = LVN_OK;
    for (int k = 0; k < m->n && status == LVN_OK; k++) status = open_source(m, k, o);
    if (status == LVN_OK) status = join_sources(m);
    if (status == LVN_OK) {
        *out = m->data[0];
        (*out)->mix = m;
    } else {
        for (int k = 0; k < m->n; k++) lvn_dataset_close(m->data[k]);
        lvn_mix_free(m);
    }
    return status;
}

void lvn_dataset_close(struct lvn_dataset *d)
{
    if (!d) return;
    for (int k = 1; d->mix && k < d->mix->n; k++) lvn_dataset_close(d->mix->data[k]);
    lvn_mix_free(d->mix);
    if (d->kind && d->kind->close) d->kind->close(d);
    lvn_vocab_free(d->vocabulary);
    lvn_tokenizer_close(d->tokenizer);
    free(d->tokenizer_error);
    for (int i = 0; i < LVN_SPLIT_COUNT; i++) {
        lvn_streaming_file_close(d->split[i].streaming);
        lvn_shard_list_close(d->split[i].shards);
        free(d->split[i].blocks);
        lvn_pack_free(d->split[i].pack);
        free(d->split[i].by_length);
        free(d->split[i].path);
    }
    free(d->path);
    free(d);
}

bool lvn_dataset_has(const struct lvn_dataset *d, enum lvn_split_id split)
{
    bool has = d->split[split].n_tokens > 1 || d->split[split].n_samples > 0;
    for (int k = 1; d->mix && k < d->mix->n; k++) has |= lvn_dataset_has(d->mix->data[k], split);
    return has;
}

void lvn_dataset_count(const struct lvn_dataset *d, enum lvn_split_id split, int64_t *tokens, int64_t *samples)
{
    const struct lvn_split *p = &d->split[split];
    *tokens = p->pack ? p->pack->tokens : p->n_tokens;
    *samples = p->n_samples;
    for (int k = 1; d->mix && k < d->mix->n; k++) {
        int64_t more_tokens, more_samples;
        lvn_dataset_count(d->mix->data[k], split, &more_tokens, &more_samples);
        *tokens += more_tokens;
        *samples += more_samples;
    }
}

enum lvn_status lvn_dataset_splits(const struct lvn_dataset *d, enum lvn_split_id split, struct lvn_split_list *out)
{
    static const char *const titles[LVN_SPLIT_ALL] = {"training", "validation", "test"};
    char available[64] = "";
    *out = (struct lvn_split_list){0};
    if (lvn_dataset_has(d, split)) {
        out->id[out->n++] = split;
        return LVN_OK;
    }
    for (int i = 0; i < LVN_SPLIT_ALL; i++) {
        if (!lvn_dataset_has(d, (enum lvn_split_id)i)) continue;
        lvn_print_append(available, sizeof available, "%s%s", *available ? ", " : "", lvn_split_names[i]);
        if (split == LVN_SPLIT_ALL) out->id[out->n++] = (enum lvn_split_id)i;
    }
    LVN_CHECK(*available, FORMAT, "'%s' holds a single token: there is nothing to score", d->path);
    LVN_CHECK(out->n, ARG,
              "'%s' has no %s part; it has %s: say which to score (--data.split=%.*s), or name a file with --data.path",
              d->path, titles[split], available, (int)strcspn(available, ","), available);
    return LVN_OK;
}

/* --- streams --------------------------------------------------------------------------------------------------- */

enum lvn_status lvn_split_set(struct lvn_split *p, const char *path, const void *tokens, int width, int64_t n_tokens)
{
    p->path = lvn_strdup(path);
    if (!p->path) return LVN_MEMORY;
    p->tokens = tokens;
    p->width = width;
    p->n_tokens = n_tokens;
    return LVN_OK;
}

static int64_t id_at(const void *tokens, int width, int64_t i)
{
    return width == 2 ? ((const uint16_t *)tokens)[i] : ((const uint32_t *)tokens)[i];
}

enum lvn_status lvn_split_tokens(const struct lvn_split *p, int64_t at, int64_t n, void *to)
{
    if (p->shards) return lvn_shard_list_read(p->shards, at, n, to);
    if (p->streaming) return lvn_streaming_file_read(p->streaming, p->header + at * p->width, n * p->width, to);
    memcpy(to, (const char *)p->tokens + at * p->width, (size_t)(n * p->width));
    return LVN_OK;
}

/* The largest of n ids; those of `width` bytes. */
static int64_t max_of(const void *tokens, int width, int64_t n)
{
    if (width == 2) {
        uint16_t m = 0;
        for (int64_t i = 0; i < n; i++) m = ((const uint16_t *)tokens)[i] > m ? ((const uint16_t *)tokens)[i] : m;
        return m;
    }
    uint32_t m = 0;
    for (int64_t i = 0; i < n; i++) m = ((const uint32_t *)tokens)[i] > m ? ((const uint32_t *)tokens)[i] : m;
    return m;
}

enum lvn_status lvn_split_max(const struct lvn_split *p, int64_t *max, int64_t *position)
{
    enum { BLOCK = 1 << 18 };
    *max = -1;
    *position = 0;
    void *buffer = p->tokens ? NULL : lvn_malloc((size_t)BLOCK * 4);
    enum lvn_status status = p->tokens || buffer ? LVN_OK : LVN_MEMORY;
    for (int64_t at = 0, n; at < p->n_tokens && status == LVN_OK; at += n) {
        n = p->n_tokens - at < BLOCK ? p->n_tokens - at : BLOCK;
        const void *tokens = buffer ? buffer : (const char *)p->tokens + at * p->width;
        if (buffer) status = lvn_split_tokens(p, at, n, buffer);
        const int64_t here = status == LVN_OK ? max_of(tokens, p->width, n) : -1;
        lvn_work_done(n);
        if (here <= *max) continue;
        *max = here;
        for (*position = at; id_at(tokens, p->width, *position - at) != here;) ++*position;
    }
    free(buffer);
    return status;
}

enum lvn_status lvn_split_check_id(const struct lvn_split *p, int64_t position, int64_t id, int64_t limit)
{
    const struct lvn_shard_file *shard = p->shards ? lvn_shard_list_at(p->shards, position) : NULL;
    LVN_CHECK(id < limit, FORMAT,
              "'%s' holds the token id %lld at position %lld, but the model's vocabulary has %lld tokens (0 to %lld): "
              "give the vocabulary that the file was made with as model.vocab_size%s",
              shard ? shard->path : p->path, (long long)id,
              (long long)(p->first + position - (shard ? shard->first : 0)), (long long)limit, (long long)limit - 1,
              shard ? ", or, if the file is damaged, continue without it with data.skip_bad_shards=true" : "");
    return LVN_OK;
}

/* The shards of source k of a mix, or of the data set itself, if damaged ones are skipped; NULL: they are not. */
static struct lvn_shard_list *skipping(const struct lvn_dataset *d, int k)
{
    struct lvn_shard_list *shards = (d->mix ? d->mix->data[k] : d)->split[LVN_SPLIT_TRAIN].shards;
    return shards && lvn_shard_list_skips(shards) ? shards : NULL;
}

static int n_sources(const struct lvn_dataset *d)
{
    return d->mix ? d->mix->n : 1;
}

bool lvn_dataset_skips_shards(const struct lvn_dataset *d)
{
    bool any = false;
    for (int k = 0; k < n_sources(d); k++) any |= skipping(d, k) != NULL;
    return any;
}

int64_t lvn_dataset_bad_shards(const struct lvn_dataset *d, int64_t *tokens, struct lvn_text *names)
{
    struct lvn_bad_shard one;
    int64_t n = 0;
    *tokens = 0;
    for (int k = 0; k < n_sources(d); k++) {
        struct lvn_shard_list *shards = skipping(d, k);
        for (int64_t i = 0; shards && lvn_shard_list_bad(shards, i, &one); i++, n++) {
            *tokens += one.tokens;
            lvn_text_printf(names, "%d/%s\n", k, lvn_path_name(one.path));
        }
    }
    return n;
}

bool lvn_dataset_bad_shard(const struct lvn_dataset *d, int64_t *seen, struct lvn_bad_shard *out)
{
    for (int k = 0; k < n_sources(d); k++) {
        struct lvn_shard_list *shards = skipping(d, k);
        if (!shards || !lvn_shard_list_bad(shards, seen[k], out)) continue;
        seen[k]++;
        return true;
    }
    return false;
}

enum lvn_status lvn_dataset_mark_shards(const struct lvn_dataset *d, const char *names)
{
    LVN_LOCAL_ARENA(a);
    for (const char *at = names, *end; (end = strchr(at, '\n')); at = end + 1) {
        char *name;
        const long k = strtol(at, &name, 10);
        const char *copy = *name == '/' ? lvn_arena_printf(&a, "%.*s", (int)(end - name - 1), name + 1) : "";
        if (!copy) return LVN_MEMORY;
        struct lvn_shard_list *shards = k >= 0 && k < n_sources(d) ? skipping(d, (int)k) : NULL;
        if (shards) lvn_shard_list_mark(shards, copy, "it was skipped before the run was resumed");
    }
    return LVN_OK;
}

struct lvn_fields lvn_stream_fields(int64_t T, int64_t below)
{
    return (struct lvn_fields){
        .field = {{.name = "ids", .dtype = LVN_I32, .rank = 1, .dim = {T}, .below = below, .tokens = true},
                  {.name = "labels",
                   .dtype = LVN_I32,
                   .rank = 1,
                   .dim = {T},
                   .below = below,
                   .label = LVN_LABEL_TOKEN,
                   .tokens = true}},
        .n = 2};
}

void lvn_stream_fields_of(const struct lvn_data_options *o, struct lvn_fields *out)
{
    *out = lvn_stream_fields(o->block_size, o->vocab_size);
}

int64_t lvn_dataset_samples(const struct lvn_dataset *d, enum lvn_split_id split)
{
    const struct lvn_split *p = &d->split[split];
    if (p->n_samples) return p->n_samples;
    int64_t T = d->fields.field[0].dim[0];
    if (p->n_tokens < 2 || T < 1) return 0;
    int64_t windows = (p->n_tokens - 1) / T;
    return windows ? windows : split != LVN_SPLIT_TRAIN || d->for_evaluation;
}

double lvn_dataset_fill(const struct lvn_dataset *d, enum lvn_split_id split)
{
    const struct lvn_pack *pack = d->split[split].pack;
    double fill = pack ? (double)pack->tokens / (double)(pack->rows * pack->T) : 1;
    if (!d->mix) return fill;
    fill *= (double)d->mix->weight[0];
    for (int k = 1; k < d->mix->n; k++) fill += (double)d->mix->weight[k] * lvn_dataset_fill(d->mix->data[k], split);
    return fill / (double)d->mix->period;
}

/* n ids from memory, and their labels, the last of which is the token after them. */
static void copy_window(const struct lvn_split *p, int64_t at, int64_t n, int32_t *ids, int32_t *labels)
{
    if (p->width == 2)
        for (int64_t i = 0; i < n; i++) ids[i] = ((const uint16_t *)p->tokens)[at + i];
    else
        for (int64_t i = 0; i < n; i++) ids[i] = (int32_t)((const uint32_t *)p->tokens)[at + i];
    memcpy(labels, ids + 1, (size_t)(n - 1) * sizeof *labels);
    labels[n - 1] = (int32_t)id_at(p->tokens, p->width, at + n);
}

/* The same from files. With two bytes a token all n + 1 tokens fit into `labels` as scratch. */
static enum lvn_status read_window(const struct lvn_split *p, int64_t at, int64_t n, int32_t *ids, int32_t *labels)
{
    if (p->width == 2) {
        const char *bytes = (const char *)labels;
        uint16_t id;
        LVN_TRY(lvn_split_tokens(p, at, n + 1, labels));
        for (int64_t i = 0; i < n; i++) {
            memcpy(&id, bytes + 2 * i, 2);
            ids[i] = id;
        }
        memcpy(&id, bytes + 2 * n, 2);
        memcpy(labels, ids + 1, (size_t)(n - 1) * sizeof *labels);
        labels[n - 1] = id;
        return LVN_OK;
    }
    LVN_TRY(lvn_split_tokens(p, at, n, ids));
    memcpy(labels, ids + 1, (size_t)(n - 1) * sizeof *labels);
    return lvn_split_tokens(p, at + n, 1, &labels[n - 1]);
}

static enum lvn_status read_token(const struct lvn_split *p, int64_t at, int32_t *id)
{
    uint16_t narrow = 0;
    LVN_TRY(lvn_split_tokens(p, at, 1, p->width == 2 ? (void *)&narrow : (void *)id));
    if (p->width == 2) *id = narrow;
    return LVN_OK;
}

enum lvn_status lvn_split_read(const struct lvn_split *p, int64_t at, int64_t n, int64_t id_limit, int32_t *ids,
                               int32_t *labels)
{
    const int64_t labeled = n < p->n_tokens - at ? n : n - 1; /* the last token of the stream has no label */
    uint32_t max = 0;
    if (labeled > 0) {
        if (p->tokens)
            copy_window(p, at, labeled, ids, labels);
        else
            LVN_TRY(read_window(p, at, labeled, ids, labels));
        for (int64_t i = 0; i < labeled; i++) max = (uint32_t)ids[i] > max ? (uint32_t)ids[i] : max;
        max = (uint32_t)labels[labeled - 1] > max ? (uint32_t)labels[labeled - 1] : max;
    }
    if (labeled < n) {
        ids[n - 1] = labeled ? labels[labeled - 1] : -1;
        if (!labeled) LVN_TRY(read_token(p, at, &ids[0]));
        labels[n - 1] = -1;
    }
    if (max >= (uint64_t)id_limit)
        for (int64_t i = 0; i <= labeled; i++)
            LVN_TRY(lvn_split_check_id(p, at + i, (uint32_t)(i < labeled ? ids[i] : labels[labeled - 1]), id_limit));
    return LVN_OK;
}

static enum lvn_status read_stream_sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t at,
                                          int32_t *ids, int32_t *labels)
{
    const struct lvn_split *p = &d->split[split];
    int64_t T = d->fields.field[0].dim[0];
    int64_t n = p->n_tokens - 1 - at < T ? p->n_tokens - 1 - at : T;
    if (n < 0) n = 0;
    if (n > 0) LVN_TRY(lvn_split_read(p, at, n, d->id_limit, ids, labels));
    for (int64_t i = n; i < T; i++) ids[i] = 0, labels[i] = -1;
    return LVN_OK;
}

static enum lvn_status read_masked_sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t at,
                                          struct lvn_draw draw, void *const *out)
{
    int32_t *ids = out[0], *types = out[1], *length = out[2], *labels = out[3];
    int64_t T = d->n_lengths ? draw.length : d->fields.field[0].dim[0];
    if (d->split[split].n_samples) {
        LVN_TRY(d->kind->sample(d, split, at, draw, out));
    } else {
        LVN_TRY(read_stream_sample(d, split, at, ids, labels));
        memset(types, 0, sizeof *types * (size_t)T);
        for (*length = (int32_t)T; *length > 1 && labels[*length - 1] < 0; --*length) {
        }
    }
    lvn_mask_sample(&d->mask, draw.order, at, *length, ids, labels);
    for (int64_t t = *length; t < T; t++) labels[t] = -1;
    return LVN_OK;
}

enum lvn_status lvn_dataset_sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t at,
                                   struct lvn_draw draw, void *const *out)
{
    if (d->masks) return read_masked_sample(d, split, at, draw, out);
    if (d->split[split].pack) return lvn_pack_row(d->split[split].pack, at, out[0], out[1], out[2]);
    if (d->split[split].n_samples) return d->kind->sample(d, split, at, draw, out);
    return read_stream_sample(d, split, at, out[0], out[1]);
}
