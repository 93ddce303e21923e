/* prepare.c - see prepare.h. Each file is replaced atomically, the description before the ids. */
#include "data/prepare/prepare.h"

#include <unistd.h>

#include "base/files.h"
#include "base/target.h"
#include "data/prepare/text_prepare.h"
#include "data/prepare/token_shards.h"
#include "data/sources/shard_list.h"
#include "formats/json.h"
#include "stores/store.h"
#include "tokenizers/tokenizer.h"

enum { MAX_TOKENIZER = 1 << 30 };

/* The sidecar's text: element type, size of the vocabulary, and the characters if the kind has them. */
static enum lvn_status describe(const struct lvn_dataset *d, const struct lvn_split *p, int64_t shard_tokens,
                                char **text)
{
    char *vocabulary = NULL;
    if (d->vocabulary) LVN_TRY(lvn_vocab_to_json(d->vocabulary, &vocabulary));
    long begun = lvn_json_begin();
    json_error_t error;
    json_t *more = NULL;
    enum lvn_status status = LVN_OK;
    if (vocabulary) status = lvn_json_load(vocabulary, (int64_t)strlen(vocabulary), 0, &more, &error);
    json_t *root =
        json_pack("{s:s, s:I}", "dtype", p->width == 2 ? "uint16" : "uint32", "vocab_size", (json_int_t)d->vocab_size);
    if (more) json_object_update(root, more);
    lvn_token_shards_describe(root, p->n_tokens, shard_tokens);
    if (status == LVN_OK) status = lvn_json_dump(begun, root, JSON_INDENT(1), text);
    json_decref(root);
    json_decref(more);
    free(vocabulary);
    LVN_TRY_WHILE(status, "describing the token files");
    return LVN_OK;
}

static enum lvn_status write_split(const struct lvn_dataset *d, enum lvn_split_id id, int64_t shard_tokens,
                                   const char *out)
{
    LVN_LOCAL_ARENA(arena);
    const struct lvn_split *p = &d->split[id];
    const bool cut = lvn_token_shards_count(p->n_tokens, shard_tokens) != 0;
    const char *bin = lvn_arena_printf(&arena, "%s/%s.bin", out, lvn_split_names[id]);
    const char *json = lvn_arena_printf(&arena, "%s.json", bin), *part = lvn_arena_printf(&arena, "%s.part", bin);
    char *text = NULL;
    enum lvn_status status = bin && json && part ? LVN_OK : LVN_MEMORY;
    if (status == LVN_OK) status = lvn_token_shards_check(p->n_tokens, shard_tokens);
    if (status == LVN_OK && !cut) status = lvn_target_file(&arena, bin, &bin); /* of a link: ids are mapped later */
    if (status == LVN_OK) status = lvn_token_shards_remove_others(out, id, p->n_tokens, shard_tokens);
    if (status == LVN_OK) status = describe(d, p, shard_tokens, &text);
    if (status == LVN_OK) status = lvn_target_write(json, text, (int64_t)strlen(text));
    if (status == LVN_OK) status = lvn_file_write(cut ? part : bin, p->tokens, p->n_tokens * p->width);
    if (status == LVN_OK && cut)
        status = lvn_token_shards_finish(out, id, part, bin, p->width, p->n_tokens, shard_tokens);
    free(text);
    return status;
}

/* Does the file differ from this text? */
static enum lvn_status differs(const char *path, const void *text, int64_t bytes, bool *yes)
{
    char *existing;
    int64_t n;
    LVN_TRY(lvn_store_read(path, MAX_TOKENIZER, &existing, &n));
    *yes = n != bytes || memcmp(existing, text, (size_t)n) != 0;
    free(existing);
    return LVN_OK;
}

static enum lvn_status refuse_existing(const char *path)
{
    LVN_FAIL(ARG, "'%s' exists already: replace it with --overwrite, or give another folder with --out", path);
}

/* in_store: --overwrite was given, and the folder is in a store. */
static enum lvn_status refuse_shards(struct lvn_arena *a, const char *out, bool in_store)
{
    struct lvn_store_entries files;
    enum lvn_store_kind kind;
    int64_t bytes, prefix;
    LVN_TRY(lvn_store_stat(out, &kind, &bytes));
    if (kind != LVN_STORE_FOLDER) return LVN_OK;
    LVN_TRY(lvn_store_list(a, out, false, &files));
    for (int i = 0; i < files.n; i++) {
        const int split = lvn_shard_file_split(files.entry[i].name, &prefix);
        if (split < 0 || split >= LVN_SPLITS_TRAINED) continue;
        const char *path = lvn_store_join(a, out, files.entry[i].name);
        if (!path) return LVN_MEMORY;
        LVN_CHECK(!in_store, ARG,
                  "'%s' exists already, and --overwrite does not remove shards from a store: give another folder with "
                  "--out, or remove the shards first",
                  path);
        return refuse_existing(path);
    }
    return LVN_OK;
}

static enum lvn_status refuse(struct lvn_arena *a, const char *out, const struct lvn_tokenizer *t)
{
    static const char *const names[] = {"train.bin", "val.bin", "train.bin.json", "val.bin.json"};
    int n_names = (int)(sizeof names / sizeof names[0]), n = n_names + (t ? t->n_files : 0);
    for (int i = 0; i < n; i++) {
        const char *path = lvn_store_join(a, out, i < n_names ? names[i] : t->file[i - n_names].name);
        enum lvn_store_kind kind;
        int64_t bytes;
        bool other = true;
        if (!path) return LVN_MEMORY;
        LVN_TRY(lvn_store_stat(path, &kind, &bytes));
        if (kind == LVN_STORE_NOTHING) continue;
        if (kind == LVN_STORE_FILE && i >= n_names)
            LVN_TRY(differs(path, t->file[i - n_names].text, t->file[i - n_names].bytes, &other));
        if (other) return refuse_existing(path);
    }
    return LVN_OK;
}

enum lvn_status lvn_prepare_refuse(const char *out, const struct lvn_tokenizer *t, bool overwrites)
{
    LVN_LOCAL_ARENA(a);
    if (overwrites && !lvn_store_is_remote(out)) return LVN_OK;
    LVN_TRY(refuse_shards(&a, out, overwrites));
    return overwrites ? LVN_OK : refuse(&a, out, t);
}

/* Move the cut of a single text. */
static enum lvn_status move_cut(struct lvn_dataset *d, double fraction, int64_t window)
{
    const struct lvn_split *all = &d->split[LVN_SPLIT_ALL];
    struct lvn_split *train = &d->split[LVN_SPLIT_TRAIN], *val = &d->split[LVN_SPLIT_VAL];
    LVN_CHECK(all->n_tokens, ARG,
              "--val-fraction=%g divides a single text, and the data ('%s') have their own validation data, or are "
              "token files: leave it out",
              fraction, d->path);
    train->n_tokens = (int64_t)((double)all->n_tokens * (1 - fraction));
    val->n_tokens = all->n_tokens - train->n_tokens;
    val->tokens = (const char *)all->tokens + train->n_tokens * all->width;
    return lvn_val_fraction_check(fraction, train->n_tokens, val->n_tokens, window);
}

static enum lvn_status write_splits(const struct lvn_dataset *d, int64_t shard_tokens, const char *out,
                                    struct lvn_prepared *result)
{
    LVN_LOCAL_ARENA(a);
    LVN_TRY(lvn_dir_make(out));
    *result = (struct lvn_prepared){.vocab_size = d->vocab_size};
    for (int i = 0; i < LVN_SPLITS_TRAINED; i++) {
        result->n_tokens[i] = d->split[i].n_tokens;
        if (d->split[i].n_tokens) {
            LVN_TRY(write_split(d, (enum lvn_split_id)i, shard_tokens, out));
            continue;
        }
        LVN_TRY(lvn_token_shards_remove_others(out, (enum lvn_split_id)i, 0, 0));
        const char *bin = lvn_arena_printf(&a, "%s/%s.bin", out, lvn_split_names[i]);
        const char *json = bin ? lvn_arena_printf(&a, "%s.json", bin) : NULL;
        if (!json) return LVN_MEMORY;
        unlink(bin); /* of an earlier preparation */
        unlink(json);
    }
    return LVN_OK;
}

enum lvn_status lvn_prepare(const struct lvn_data_options *o, const double *val_fraction, int64_t shard_tokens,
                            const char *out, struct lvn_prepared *result)
{
    const struct lvn_dataset_kind *kind = lvn_dataset_kind_find(o->kind);
    if (!kind) return LVN_ARG;
    LVN_CHECK(!kind->sample, ARG, "data.kind=%s is read as it is: there is nothing to prepare", kind->name);
    LVN_CHECK(!kind->needs_tokenizer, ARG,
              "data.kind=%s needs a tokenizer: leave data.kind out, and give --tokenizer=MODEL_OR_FILE", kind->name);
    LVN_CHECK(!o->mix || !*o->mix, ARG,
              "data.mix is for training, and token files are written of one source: give data.path instead");
    struct lvn_dataset *d;
    LVN_TRY(lvn_dataset_open(&d, o));
    enum lvn_status status = val_fraction ? move_cut(d, *val_fraction, o->block_size) : LVN_OK;
    if (status == LVN_OK && !d->split[LVN_SPLIT_TRAIN].tokens)
        status = lvn_fail(LVN_ARG, "'%s' is read as it is: there is nothing to prepare", d->path);
    if (status == LVN_OK) status = write_splits(d, shard_tokens, out, result);
    lvn_dataset_close(d);
    return status;
}
