/* text_write.c - see text_write.h: state, then documents, then the final files. */
#include "data/prepare/text_write.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/log.h"
#include "base/target.h"
#include "data/prepare/token_shards.h"
#include "formats/json.h"
#include "tokenizers/post_processor.h"

enum {
    STATE_VERSION = 5,
    N_FILES = 3,
    COPY_BYTES = 1 << 20,
    VAL_WINDOWS = 16, /* at least that many windows validate, or a tenth of the tokens */
    WINDOW = 1024,    /* if it is not known */
};

/* --- hashes --- */

/* Add the hash; *is_new is false if the set already contains it. LVN_MEMORY if memory is exhausted. */
static enum lvn_status hash_set_add(struct lvn_hash_set *set, const uint64_t hash[2], bool *is_new)
{
    if (5 * (set->n + 1) > 3 * set->capacity) {
        struct lvn_hash_set larger = {.capacity = set->capacity ? 2 * set->capacity : 1 << 16};
        larger.slot = lvn_calloc((size_t)larger.capacity, 2 * sizeof *larger.slot);
        if (!larger.slot) return LVN_MEMORY;
        for (int64_t i = 0; i < set->capacity; i++)
            if (set->slot[2 * i] | set->slot[2 * i + 1]) LVN_TRY(hash_set_add(&larger, &set->slot[2 * i], is_new));
        free(set->slot);
        *set = larger;
    }
    uint64_t key[2] = {hash[0], hash[1] | (hash[0] == 0)}; /* a pair of zeros marks a free slot */
    uint64_t mask = (uint64_t)set->capacity - 1, i = key[0] & mask;
    for (; set->slot[2 * i] | set->slot[2 * i + 1]; i = (i + 1) & mask) {
        *is_new = set->slot[2 * i] != key[0] || set->slot[2 * i + 1] != key[1];
        if (!*is_new) return LVN_OK;
    }
    memcpy(&set->slot[2 * i], key, sizeof key);
    set->n++;
    *is_new = true;
    return LVN_OK;
}

static void hash_set_release(struct lvn_hash_set *set)
{
    free(set->slot);
    *set = (struct lvn_hash_set){0};
}

/* Read the file of hashes into w->seen. */
static enum lvn_status load_hashes(struct lvn_text_writer *w)
{
    struct lvn_mapping m;
    bool is_new;
    LVN_TRY(lvn_file_map(&m, w->hashes.path));
    enum lvn_status status = LVN_OK;
    for (int64_t at = 0; at + 16 <= w->hashes.bytes && at + 16 <= m.bytes && status == LVN_OK; at += 16) {
        uint64_t hash[2];
        memcpy(hash, m.data + at, sizeof hash);
        status = hash_set_add(&w->seen, hash, &is_new);
    }
    lvn_file_unmap(&m);
    return status;
}

/* --- state --- */

/* Counters in prepare.state.json. If the keys change, so does STATE_VERSION. */
static const struct {
    const char *key;
    size_t at; /* offset in struct lvn_text_writer */
} counters[] = {
// clang-format off
#define K(key, field) {key, offsetof(struct lvn_text_writer, field)}
    // clang-format on
    K("counts.documents[0]", counts.documents[0]),
    K("counts.documents[1]", counts.documents[1]),
    K("counts.tokens[0]", counts.tokens[0]),
    K("counts.tokens[1]", counts.tokens[1]),
    K("counts.text_bytes", counts.text_bytes),
    K("counts.empty", counts.empty),
    K("counts.duplicates", counts.duplicates),
    K("counts.bad", counts.bad),
    K("counts.passed_over", counts.skipped),
    K("batches", batches),
    K("file", file),
    K("file_batch", file_batch),
    K("open", open),
    K("least", min_key),
    K("most", max_key),
    K("again", second_pass),
    K("all", all),
    K("separators", counts.separators),
    K("crlf", counts.crlf),
    K("doubled", counts.doubled),
    K("special_texts", counts.notes.special),
    K("special_id", counts.notes.special_id),
    K("ids", counts.notes.ids),
    K("unknown", counts.notes.unknown),
#undef K
};
enum { N_COUNTERS = sizeof counters / sizeof counters[0] };

static struct lvn_resumable_file *file_of(struct lvn_text_writer *w, int i)
{
    return i < LVN_SPLITS_TRAINED ? &w->part[i] : &w->hashes;
}

/* The path to write, and the final path. If the latter is a symbolic link, both are in the folder of its target; shards
 * are in OUT itself. */
static enum lvn_status path_of(struct lvn_text_writer *w, int i, char **part, const char **final)
{
    const char *name = i < LVN_SPLITS_TRAINED ? lvn_split_names[i] : "hashes", *file;
    file = lvn_arena_printf(&w->arena, "%s/%s%s", w->o->out, name, i < LVN_SPLITS_TRAINED ? ".bin" : "");
    if (!file) return LVN_MEMORY;
    if (!w->o->shard_tokens) LVN_TRY(lvn_target_file(&w->arena, file, &file));
    *part = lvn_arena_printf(&w->arena, "%s.part", file);
    if (final) *final = file;
    return *part ? LVN_OK : LVN_MEMORY;
}

static char *state_path(struct lvn_arena *a, const char *out)
{
    return lvn_path_join(a, out, "prepare.state.json");
}

bool lvn_text_prepare_begun(const char *out)
{
    LVN_LOCAL_ARENA(a);
    char *path = state_path(&a, out);
    bool found = true;
    const enum lvn_status status = path ? lvn_path_find(path, &found) : LVN_MEMORY;
    if (status != LVN_OK) lvn_error_clear(); /* reading it gives the reason */
    return status != LVN_OK || found;
}

static enum lvn_status read_sum(const char *name, const json_t *root, const char *key, uint64_t *out)
{
    const char *text = NULL;
    LVN_TRY(lvn_json_string(name, root, key, true, &text));
    *out = strtoull(text, NULL, 16);
    return LVN_OK;
}

/* Was the file renamed or partly cut into shards before an interruption, so that its .json is complete? */
static enum lvn_status is_finished(const struct lvn_text_writer *w, int i, const char *path, int64_t bytes, bool *yes)
{
    struct stat s;
    bool found;
    LVN_TRY(lvn_path_find(path, &found));
    *yes = !found || (i < LVN_SPLITS_TRAINED && stat(path, &s) == 0 && s.st_size < bytes &&
                      lvn_token_shards_count(w->counts.tokens[i], w->o->shard_tokens));
    return LVN_OK;
}

/* Set w from a state, open the files and verify them against it. */
static enum lvn_status load_state(struct lvn_text_writer *w, const char *name, const json_t *root, int64_t files)
{
    int64_t version = 0;
    uint64_t settings;
    LVN_TRY(lvn_json_int(name, root, "version", true, 0, INT32_MAX, &version));
    LVN_TRY(read_sum(name, root, "settings", &settings));
    LVN_CHECK(version == STATE_VERSION, FORMAT, "another version of levin wrote it");
    LVN_CHECK(settings == w->settings, ARG, "it was of other input, or with other options");
    for (int i = 0; i < N_COUNTERS; i++)
        LVN_TRY(lvn_json_int(name, root, counters[i].key, true, 0, INT64_MAX,
                             (int64_t *)(void *)((char *)w + counters[i].at)));
    LVN_CHECK(w->file <= files, FORMAT, "'%s' counts more files than the input has", name);
    LVN_TRY(lvn_json_bool(name, root, "finished", true, &w->finished));
    for (int i = 0; i < N_FILES; i++) {
        char key[32];
        uint64_t sum;
        int64_t bytes = 0;
        char *path;
        bool done = false;
        LVN_TRY(path_of(w, i, &path, NULL));
        snprintf(key, sizeof key, "sum%d", i);
        LVN_TRY(read_sum(name, root, key, &sum));
        snprintf(key, sizeof key, "bytes%d", i);
        LVN_TRY(lvn_json_int(name, root, key, true, 0, INT64_MAX, &bytes));
        if (w->finished) LVN_TRY(is_finished(w, i, path, bytes, &done));
        if (!done) LVN_TRY(lvn_resumable_file_open(file_of(w, i), path, bytes, sum));
    }
    return w->hashes.fd >= 0 && w->hashes.bytes ? load_hashes(w) : LVN_OK;
}

static void close_files(struct lvn_text_writer *w)
{
    for (int i = 0; i < N_FILES; i++) lvn_resumable_file_close(file_of(w, i));
}

/* As before the first batch; second_pass and all stay. */
static void reset(struct lvn_text_writer *w)
{
    hash_set_release(&w->seen);
    w->counts = (struct lvn_text_counts){0};
    w->batches = w->file = w->file_batch = w->open = 0;
    w->min_key = INT64_MAX;
    w->max_key = 0;
    w->finished = false;
}

/* *yes: resumed from the state in OUT. ARG if the state is of other input or options and must not be overwritten; a
 * damaged state is discarded with a log line, but not one that cannot be read at this time. */
static enum lvn_status resume(struct lvn_text_writer *w, int64_t files, bool *yes)
{
    char *path = state_path(&w->arena, w->o->out);
    json_t *root = NULL;
    *yes = false;
    if (!path) return LVN_MEMORY;
    bool found;
    LVN_TRY(lvn_path_find(path, &found));
    if (!found) return LVN_OK;
    enum lvn_status status = lvn_json_read(path, &root);
    if (status == LVN_OK) status = load_state(w, path, root, files);
    json_decref(root);
    *yes = status == LVN_OK;
    if (*yes) return LVN_OK;
    LVN_CHECK(status != LVN_ARG || w->o->overwrite, ARG,
              "'%s' holds an interrupted preparation of other input, or with other options: finish it with the command "
              "that began it, replace it with --overwrite, or give another --out",
              w->o->out);
    if (status == LVN_MEMORY || (status == LVN_IO && !w->o->overwrite))
        return lvn_fail(status, "the interrupted preparation in '%s' was left unchanged: %s", w->o->out,
                        levin_error_text());
    lvn_log(LVN_LOG_WARN, "the interrupted preparation in '%s' cannot be continued and begins again: %s", w->o->out,
            levin_error_text());
    lvn_error_clear();
    close_files(w);
    reset(w);
    w->second_pass = w->all = 0;
    return LVN_OK;
}

static enum lvn_status open_empty(struct lvn_text_writer *w)
{
    for (int i = 0; i < N_FILES; i++) {
        char *path;
        LVN_TRY(path_of(w, i, &path, NULL));
        LVN_TRY(lvn_resumable_file_open(file_of(w, i), path, 0, 0));
    }
    return LVN_OK;
}

enum lvn_status lvn_text_writer_open(struct lvn_text_writer *w, const struct lvn_text_options *o, uint64_t settings,
                                     int64_t files)
{
    *w = (struct lvn_text_writer){.o = o, .settings = settings, .part = {{.fd = -1}, {.fd = -1}}, .hashes = {.fd = -1}};
    lvn_arena_init(&w->arena);
    bool resuming = false;
    w->created = !lvn_path_exists(o->out);
    enum lvn_status status = lvn_dir_make(o->out);
    reset(w);
    if (status == LVN_OK) status = resume(w, files, &resuming);
    if (status == LVN_OK && !resuming) status = open_empty(w);
    if (status != LVN_OK) lvn_text_writer_close(w);
    return status;
}

void lvn_text_writer_abandon(struct lvn_text_writer *w)
{
    if (lvn_text_prepare_begun(w->o->out)) return;
    for (int i = 0; i < N_FILES; i++)
        if (file_of(w, i)->path) unlink(file_of(w, i)->path);
    if (w->created) rmdir(w->o->out);
}

void lvn_text_writer_close(struct lvn_text_writer *w)
{
    close_files(w);
    hash_set_release(&w->seen);
    free(w->ids);
    lvn_arena_release(&w->arena);
    *w = (struct lvn_text_writer){.part = {{.fd = -1}, {.fd = -1}}, .hashes = {.fd = -1}};
}

static json_t *sum_text(uint64_t sum)
{
    char text[LVN_CHECKSUM_TEXT];
    return json_string(lvn_checksum_text(sum, text));
}

enum lvn_status lvn_text_writer_save(struct lvn_text_writer *w)
{
    for (int i = 0; i < N_FILES; i++) LVN_TRY(lvn_resumable_file_sync(file_of(w, i)));
    char *path = state_path(&w->arena, w->o->out);
    if (!path) return LVN_MEMORY;
    long begun = lvn_json_begin();
    json_t *root = json_object();
    json_object_set_new(root, "version", json_integer(STATE_VERSION));
    json_object_set_new(root, "settings", sum_text(w->settings));
    for (int i = 0; i < N_COUNTERS; i++)
        json_object_set_new(root, counters[i].key,
                            json_integer(*(const int64_t *)(const void *)((const char *)w + counters[i].at)));
    json_object_set_new(root, "finished", json_boolean(w->finished));
    for (int i = 0; i < N_FILES; i++) {
        char key[32];
        snprintf(key, sizeof key, "sum%d", i);
        json_object_set_new(root, key, sum_text(lvn_checksum_value(&file_of(w, i)->sum)));
        snprintf(key, sizeof key, "bytes%d", i);
        json_object_set_new(root, key, json_integer(file_of(w, i)->bytes));
    }
    enum lvn_status status = lvn_json_write(path, begun, root);
    json_decref(root);
    return status;
}

/* --- documents --- */

/* How many of `all` tokens are for validation. */
static int64_t validation_tokens(const struct lvn_text_writer *w, int64_t all)
{
    const struct lvn_text_options *o = w->o;
    const int64_t share = (int64_t)(o->val_fraction * (double)all + 0.5), tenth = (all + 9) / 10;
    if (o->val_given) return share;
    if (tenth < 2) return 0;
    const int64_t windows = VAL_WINDOWS * (o->window ? o->window : WINDOW), min = windows < tenth ? windows : tenth;
    return w->min_key >= w->max_key ? tenth : share > min ? share : min;
}

/* The key that assigns a document to a split: a hash of (seed, document) below 2^53, the same on every machine. */
static int64_t key_of(const struct lvn_text_options *o, const uint64_t hash[2])
{
    uint64_t x = hash[0] ^ (o->seed + 1) * 0x9e3779b97f4a7c15ULL;
    for (int i = 0; i < 2; i++) { /* the finalizer of splitmix64 */
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
        x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
        x ^= x >> 31;
    }
    return (int64_t)(x >> 11);
}

static bool is_validation(const struct lvn_text_writer *w, int64_t key)
{
    const double fraction = w->second_pass ? (double)validation_tokens(w, w->all) / (double)w->all : w->o->val_fraction;
    return (double)key * 0x1p-53 < fraction;
}

static enum lvn_status begin_document(struct lvn_text_writer *w, const struct lvn_document *d)
{
    bool is_new = true;
    if (w->o->drop_duplicates && d->last) { /* a document longer than a batch is never a duplicate */
        LVN_TRY(hash_set_add(&w->seen, d->hash, &is_new));
        if (is_new) LVN_TRY(lvn_resumable_file_write(&w->hashes, d->hash, sizeof d->hash));
    }
    int64_t key = key_of(w->o, d->hash);
    w->open = !is_new ? LVN_DOCUMENT_DROPPED : is_validation(w, key) ? LVN_DOCUMENT_VAL : LVN_DOCUMENT_TRAIN;
    w->counts.duplicates += !is_new;
    if (is_new && !w->second_pass) {
        w->min_key = key < w->min_key ? key : w->min_key;
        w->max_key = key > w->max_key ? key : w->max_key;
    }
    return LVN_OK;
}

static enum lvn_status write_document(struct lvn_text_writer *w, const struct lvn_document *d, const int32_t *ids)
{
    if (d->first) LVN_TRY(begin_document(w, d));
    if (w->open == LVN_DOCUMENT_TRAIN || w->open == LVN_DOCUMENT_VAL) {
        int width = lvn_text_width(w->o->corpus.tokenizer);
        int64_t n = d->n_ids + (d->last && w->o->end_id >= 0);
        if (n > w->ids_capacity) {
            free(w->ids);
            w->ids_capacity = 2 * n;
            w->ids = lvn_malloc((size_t)w->ids_capacity * 4);
            if (!w->ids) return LVN_MEMORY;
        }
        for (int64_t i = 0; i < n; i++) {
            uint32_t id = (uint32_t)(i < d->n_ids ? ids[i] : w->o->end_id);
            if (width == 2)
                ((uint16_t *)w->ids)[i] = (uint16_t)id;
            else
                ((uint32_t *)w->ids)[i] = id;
        }
        enum lvn_split_id split = w->open == LVN_DOCUMENT_VAL ? LVN_SPLIT_VAL : LVN_SPLIT_TRAIN;
        LVN_TRY(lvn_resumable_file_write(&w->part[split], w->ids, n * width));
        w->counts.tokens[split] += n;
        w->counts.documents[split] += d->last;
    }
    if (d->last) w->open = LVN_DOCUMENT_NONE;
    return LVN_OK;
}

enum lvn_status lvn_text_writer_batch(struct lvn_text_writer *w, const struct lvn_batch *b)
{
    const int32_t *ids = b->ids.p;
    for (int64_t i = 0; i < b->n_documents; i++) {
        LVN_TRY(write_document(w, &b->document[i], ids));
        ids += b->document[i].n_ids;
    }
    w->counts.text_bytes += b->text_bytes;
    w->counts.empty += b->empty;
    w->counts.bad += b->bad;
    w->counts.skipped += b->skipped;
    w->counts.separators += b->separators;
    w->counts.crlf += b->crlf;
    w->counts.doubled += b->doubled;
    lvn_encoder_notes_add(&w->counts.notes, b->notes);
    w->batches = b->number + 1;
    if (b->next_file >= 0) {
        w->file = b->next_file;
        w->file_batch = w->batches;
    }
    return LVN_OK;
}

/* --- the sizes of the splits --- */

enum lvn_status lvn_text_writer_second_pass(struct lvn_text_writer *w, bool *needed)
{
    const int64_t *tokens = w->counts.tokens, all = tokens[LVN_SPLIT_TRAIN] + tokens[LVN_SPLIT_VAL],
                  target = validation_tokens(w, all), missing = target - tokens[LVN_SPLIT_VAL];
    *needed = !w->second_pass && !w->o->val_given && w->min_key < w->max_key && missing > target / 5;
    if (!*needed) return LVN_OK;
    int64_t min = w->min_key, max = w->max_key;
    close_files(w);
    reset(w);
    w->min_key = min;
    w->max_key = max;
    w->second_pass = 1;
    w->all = all;
    LVN_TRY(open_empty(w));
    return lvn_text_writer_save(w);
}

/* The token that ends each document; -1: none. */
static enum lvn_status last_token(const struct lvn_text_options *o, int64_t *id)
{
    struct lvn_ids suffix = {0};
    LVN_TRY(lvn_post_processor_suffix(o->corpus.tokenizer, &suffix));
    *id = o->end_id >= 0 ? o->end_id : suffix.n ? suffix.p[suffix.n - 1] : -1;
    lvn_ids_release(&suffix);
    return LVN_OK;
}

/* Append tokens [from, to) of a file to another one. *documents: how many of them end a document; *cut: the token
 * before `from` (of a tail), or the last one (of a head), does not end one. */
static enum lvn_status copy_tokens(const struct lvn_text_writer *w, const struct lvn_resumable_file *in, int64_t from,
                                   int64_t to, struct lvn_resumable_file *out, int64_t *documents, bool *cut)
{
    const int64_t width = lvn_text_width(w->o->corpus.tokenizer), edge = from ? from - 1 : to - 1;
    int64_t end = -1, n;
    uint32_t id = 0;
    unsigned char *buffer = lvn_malloc(COPY_BYTES);
    if (!buffer) return LVN_MEMORY;
    *documents = 0;
    enum lvn_status status = last_token(w->o, &end);
    if (status == LVN_OK) status = lvn_fd_read_at(in->fd, in->path, &id, edge * width, width);
    *cut = id != (uint64_t)end;
    for (int64_t at = from; at < to && status == LVN_OK; at += n) {
        n = to - at < COPY_BYTES / 4 ? to - at : COPY_BYTES / 4;
        status = lvn_fd_read_at(in->fd, in->path, buffer, at * width, n * width);
        if (status == LVN_OK) status = lvn_resumable_file_write(out, buffer, n * width);
        for (int64_t i = 0; i < n && status == LVN_OK; i++) {
            memcpy(&id, buffer + i * width, (size_t)width);
            *documents += id == (uint64_t)end;
        }
    }
    free(buffer);
    return status;
}

/* Move the last n tokens of training to the end of validation. */
static enum lvn_status move_tail(struct lvn_text_writer *w, int64_t n)
{
    struct lvn_resumable_file *train = &w->part[LVN_SPLIT_TRAIN], *val = &w->part[LVN_SPLIT_VAL];
    const int64_t all = w->counts.tokens[LVN_SPLIT_TRAIN];
    int64_t documents;
    bool cut;
    LVN_TRY(copy_tokens(w, train, all - n, all, val, &documents, &cut));
    LVN_TRY(lvn_resumable_file_truncate(train, (all - n) * lvn_text_width(w->o->corpus.tokenizer)));
    if (!documents) documents = 1; /* no token ends documents */
    w->counts.documents[LVN_SPLIT_VAL] += documents;
    w->counts.documents[LVN_SPLIT_TRAIN] -= documents - (cut && n < all);
    return LVN_OK;
}

/* Move the first n tokens of validation to the end of training. */
static enum lvn_status move_head(struct lvn_text_writer *w, int64_t n)
{
    struct lvn_resumable_file *train = &w->part[LVN_SPLIT_TRAIN], *val = &w->part[LVN_SPLIT_VAL], rest;
    const int64_t all = w->counts.tokens[LVN_SPLIT_VAL];
    int64_t documents, others;
    bool cut, unused;
    LVN_TRY(copy_tokens(w, val, 0, n, train, &documents, &cut));
    char *path = lvn_arena_printf(&w->arena, "%s.rest", val->path);
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_resumable_file_open(&rest, path, 0, 0));
    enum lvn_status status = copy_tokens(w, val, n, all, &rest, &others, &unused);
    if (status == LVN_OK) status = lvn_resumable_file_sync(&rest);
    if (status == LVN_OK) status = lvn_file_rename(path, val->path);
    if (status != LVN_OK) {
        unlink(path);
        lvn_resumable_file_close(&rest);
        return status;
    }
    char *name = rest.path;
    rest.path = val->path;
    val->path = name;
    lvn_resumable_file_close(val);
    *val = rest;
    w->counts.documents[LVN_SPLIT_TRAIN] += documents + cut;
    w->counts.documents[LVN_SPLIT_VAL] -= documents;
    return LVN_OK;
}

enum lvn_status lvn_text_writer_balance(struct lvn_text_writer *w)
{
    int64_t *tokens = w->counts.tokens;
    const int64_t all = tokens[LVN_SPLIT_TRAIN] + tokens[LVN_SPLIT_VAL], target = validation_tokens(w, all),
                  missing = target - tokens[LVN_SPLIT_VAL];
    if (w->o->val_given) LVN_TRY(lvn_val_fraction_check(w->o->val_fraction, all - target, target, w->o->window));
    if (!w->o->val_given && w->min_key < w->max_key && llabs(missing) <= target / 5 && all > INT32_MAX)
        return LVN_OK; /* many documents: close to the fraction, and not worth reading the file again */
    for (int i = 0; i < LVN_SPLITS_TRAINED; i++) LVN_TRY(lvn_resumable_file_sync(&w->part[i]));
    if (missing > 0) LVN_TRY(move_tail(w, missing));
    if (missing < 0) LVN_TRY(move_head(w, -missing));
    tokens[LVN_SPLIT_VAL] = target;
    tokens[LVN_SPLIT_TRAIN] = all - target;
    return LVN_OK;
}

/* --- the end --- */

static json_t *describe_tokenizer(const struct lvn_tokenizer *t)
{
    json_t *files = json_array();
    for (int i = 0; i < t->n_files; i++) json_array_append_new(files, json_string(t->file[i].name));
    json_t *root = json_pack("{s:s, s:I, s:o, s:o}", "kind", t->wordpiece ? "wordpiece" : "byte-level bpe",
                             "vocab_size", (json_int_t)t->n, "files", files, "xxh64", sum_text(t->sum));
    if (root && t->end_id >= 0) json_object_set_new(root, "end_of_text", json_integer(t->end_id));
    return root;
}

static json_t *describe_run(const struct lvn_text_sidecar *s)
{
    const struct lvn_text_options *o = s->options;
    const struct lvn_text_counts *c = s->counts;
    return json_pack("{s:I, s:f, s:I, s:I, s:I, s:I, s:b}", "seed", (json_int_t)o->seed, "val_fraction",
                     o->val_fraction, "text_bytes", (json_int_t)c->text_bytes, "empty_documents", (json_int_t)c->empty,
                     "duplicate_documents", (json_int_t)c->duplicates, "bad_lines", (json_int_t)c->bad,
                     "duplicates_dropped", o->drop_duplicates);
}

enum lvn_status lvn_text_sidecar_write(const char *out, const struct lvn_text_sidecar *s)
{
    LVN_LOCAL_ARENA(a);
    char *path = lvn_arena_printf(&a, "%s/%s.bin.json", out, lvn_split_names[s->split]);
    long begun = lvn_json_begin();
    json_t *root =
        json_pack("{s:s, s:I, s:I, s:I, s:o, s:o}", "dtype", lvn_text_width(s->tokenizer) == 2 ? "uint16" : "uint32",
                  "vocab_size", (json_int_t)s->tokenizer->n, "tokens", (json_int_t)s->counts->tokens[s->split],
                  "documents", (json_int_t)s->counts->documents[s->split], "xxh64", sum_text(s->sum), "tokenizer",
                  describe_tokenizer(s->tokenizer));
    if (root && s->options) json_object_set_new(root, "prepared", describe_run(s));
    lvn_token_shards_describe(root, s->counts->tokens[s->split], s->shard_tokens);
    int64_t end = s->tokenizer->end_id; /* a single stream may contain it */
    enum lvn_status status = s->options ? last_token(s->options, &end) : LVN_OK;
    if (root && end >= 0) json_object_set_new(root, "end_token", json_integer(end));
    if (status == LVN_OK) status = path ? lvn_json_write(path, begun, root) : LVN_MEMORY;
    json_decref(root);
    return status;
}

/* Rename the file of a split, or cut it; remove files of an earlier run that are not replaced. */
static enum lvn_status rename_part(struct lvn_text_writer *w, enum lvn_split_id split)
{
    const char *bin;
    char *part, *json = lvn_arena_printf(&w->arena, "%s/%s.bin.json", w->o->out, lvn_split_names[split]);
    if (!json) return LVN_MEMORY;
    LVN_TRY(path_of(w, split, &part, &bin));
    bool found;
    LVN_TRY(lvn_path_find(part, &found));
    if (!found) return LVN_OK; /* renamed before an interruption */
    LVN_TRY(lvn_token_shards_remove_others(w->o->out, split, w->counts.tokens[split], w->o->shard_tokens));
    if (!w->counts.tokens[split]) {
        unlink(bin);
        unlink(json);
        unlink(part);
        return LVN_OK;
    }
    struct lvn_text_sidecar s = {.tokenizer = w->o->corpus.tokenizer,
                                 .options = w->o,
                                 .counts = &w->counts,
                                 .split = split,
                                 .sum = lvn_checksum_value(&w->part[split].sum),
                                 .shard_tokens = w->o->shard_tokens};
    if (w->part[split].fd >= 0) LVN_TRY(lvn_text_sidecar_write(w->o->out, &s));
    return lvn_token_shards_finish(w->o->out, split, part, bin, lvn_text_width(w->o->corpus.tokenizer),
                                   w->counts.tokens[split], w->o->shard_tokens);
}

enum lvn_status lvn_text_writer_finish(struct lvn_text_writer *w)
{
    if (!w->finished) {
        for (int i = 0; i < LVN_SPLITS_TRAINED; i++)
            LVN_TRY(lvn_token_shards_check(w->counts.tokens[i], w->o->shard_tokens));
        w->finished = true;
        LVN_TRY(lvn_text_writer_save(w));
    }
    LVN_TRY(lvn_tokenizer_save(w->o->corpus.tokenizer, w->o->out));
    for (int i = 0; i < LVN_SPLITS_TRAINED; i++) LVN_TRY(rename_part(w, (enum lvn_split_id)i));
    LVN_TRY(lvn_dir_sync(w->o->out));
    char *state = state_path(&w->arena, w->o->out), *hashes;
    if (!state) return LVN_MEMORY;
    LVN_TRY(path_of(w, LVN_SPLITS_TRAINED, &hashes, NULL));
    unlink(hashes);
    unlink(state);
    return lvn_dir_sync(w->o->out);
}
