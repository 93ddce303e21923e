/* shard_list.c - see shard_list.h. */
#include "data/sources/shard_list.h"

#include <pthread.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "base/work.h"
#include "formats/checksum.h"
#include "formats/json.h"
#include "stores/fetch_limit.h"
#include "stores/streaming_file.h"

struct open_shard {
    int64_t shard;
    struct lvn_streaming_file *file; /* NULL: the slot is free */
    int64_t used;                    /* number of the read that used it last */
};

struct lvn_shard_list {
    struct lvn_arena arena;
    struct lvn_shard_file *shard;
    int64_t n;
    int width;
    int64_t n_tokens;
    int64_t largest;       /* tokens of a shard */
    bool streams;          /* they are in a store */
    char folder[PATH_MAX]; /* the current one of relative paths; "": unknown */
    int64_t id_limit;      /* data.skip_bad_shards: ids must be below; 0: damaged shards are errors */
    pthread_mutex_t lock;  /* of the following, and of shard[].bad */
    struct open_shard open[LVN_SHARDS_OPEN];
    int64_t reads;
    bool *checked; /* [n] with id_limit */
    int64_t *bad;  /* [n] numbers of damaged shards, in the order in which they were found */
    int64_t n_bad;
};

static int64_t tokens_of(const struct lvn_shard_list *s, int64_t i)
{
    return (s->shard[i].bytes - s->shard[i].header) / s->width;
}

static enum lvn_status copy_list(struct lvn_shard_list *s, const struct lvn_shard_file *shard)
{
    s->shard = lvn_arena_alloc(&s->arena, sizeof *s->shard * (size_t)s->n);
    s->checked = lvn_arena_alloc(&s->arena, sizeof *s->checked * (size_t)s->n);
    s->bad = lvn_arena_alloc(&s->arena, sizeof *s->bad * (size_t)s->n);
    if (!s->shard || !s->checked || !s->bad) return LVN_MEMORY;
    for (int64_t i = 0; i < s->n; i++) {
        s->shard[i] = shard[i];
        s->shard[i].first = s->n_tokens;
        s->shard[i].path = lvn_arena_strdup(&s->arena, shard[i].path);
        if (!s->shard[i].path) return LVN_MEMORY;
        s->n_tokens += tokens_of(s, i);
        if (tokens_of(s, i) > s->largest) s->largest = tokens_of(s, i);
        if (s->shard[i].bad) s->shard[i].bad = lvn_arena_strdup(&s->arena, s->shard[i].bad);
        if (shard[i].bad && !s->shard[i].bad) return LVN_MEMORY;
        if (s->shard[i].bad) s->bad[s->n_bad++] = i;
    }
    s->streams = lvn_store_is_remote(shard[0].path);
    if (!getcwd(s->folder, sizeof s->folder)) *s->folder = '\0';
    return LVN_OK;
}

static enum lvn_status check_cache(const struct lvn_shard_list *s)
{
    int64_t max;
    char text[LVN_NUMBER_TEXT];
    if (!s->streams) return LVN_OK;
    LVN_TRY(lvn_size_variable("LEVIN_CACHE_SIZE", &max));
    const int64_t bytes = (s->n < LVN_SHARDS_STREAMED ? s->n : LVN_SHARDS_STREAMED) * s->largest * s->width;
    LVN_CHECK(bytes <= max, ARG,
              "data.stream keeps %lld shards of '%s' in the cache, which needs %s, and LEVIN_CACHE_SIZE allows less: "
              "increase it, or prepare smaller shards",
              (long long)(s->n < LVN_SHARDS_STREAMED ? s->n : LVN_SHARDS_STREAMED), s->shard[0].path,
              lvn_bytes_text(bytes, text));
    return LVN_OK;
}

enum lvn_status lvn_shard_list_open(struct lvn_shard_list **out, const struct lvn_shard_file *shard, int64_t n,
                                    int width)
{
    *out = NULL;
    struct lvn_shard_list *s = lvn_calloc(1, sizeof *s);
    if (!s) return LVN_MEMORY;
    lvn_arena_init(&s->arena);
    pthread_mutex_init(&s->lock, NULL);
    s->n = n;
    s->width = width;
    enum lvn_status status = copy_list(s, shard);
    if (status == LVN_OK) status = check_cache(s);
    if (status == LVN_OK)
        *out = s;
    else
        lvn_shard_list_close(s);
    return status;
}

void lvn_shard_list_close(struct lvn_shard_list *s)
{
    if (!s) return;
    for (int i = 0; i < LVN_SHARDS_OPEN; i++) lvn_streaming_file_close(s->open[i].file);
    pthread_mutex_destroy(&s->lock);
    lvn_arena_release(&s->arena);
    free(s);
}

int64_t lvn_shard_list_tokens(const struct lvn_shard_list *s)
{
    return s->n_tokens;
}

/* Index of the shard with token `at`: the last one that begins at it or before. */
static int64_t find(const struct lvn_shard_list *s, int64_t at)
{
    int64_t low = 0, high = s->n;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (s->shard[middle].first <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

const struct lvn_shard_file *lvn_shard_list_at(const struct lvn_shard_list *s, int64_t at)
{
    return &s->shard[find(s, at)];
}

/* FORMAT if the size differs from that in the list, or the header does not count these tokens. */
static enum lvn_status check_opened(const struct lvn_shard_list *s, const struct lvn_shard_file *shard,
                                    struct lvn_streaming_file *file)
{
    const int64_t bytes = lvn_streaming_file_bytes(file);
    int32_t header[3] = {0};
    LVN_CHECK(bytes == shard->bytes, FORMAT,
              "'%s' has %lld bytes, and had %lld when the run began: restore the file, or continue without it with "
              "data.skip_bad_shards=true",
              shard->path, (long long)bytes, (long long)shard->bytes);
    if (!shard->header) return LVN_OK;
    LVN_TRY(lvn_streaming_file_read(file, 0, sizeof header, header));
    LVN_CHECK(
        header[2] == (bytes - shard->header) / s->width, FORMAT,
        "'%s' has a header that counts %d tokens, and %lld follow it: the file is damaged, or of another kind than "
        "the other shards; restore it, or continue without it with data.skip_bad_shards=true",
        shard->path, header[2], (long long)((bytes - shard->header) / s->width));
    return LVN_OK;
}

/* The program may have changed the current folder since the list was made. */
static enum lvn_status open_local(const struct lvn_shard_list *s, const char *path, struct lvn_streaming_file **file)
{
    char here[PATH_MAX];
    LVN_LOCAL_ARENA(a);
    if (*s->folder && !(getcwd(here, sizeof here) && strcmp(here, s->folder) == 0))
        path = lvn_path_join(&a, s->folder, path);
    return path ? lvn_streaming_file_open_path(file, path) : LVN_MEMORY;
}

/* Open a shard in the slot that was not used for the longest time, unless it is open. */
static enum lvn_status open_shard(struct lvn_shard_list *s, int64_t i, struct lvn_streaming_file **file)
{
    const struct lvn_shard_file *shard = &s->shard[i];
    struct open_shard *slot = &s->open[0];
    for (int k = 0; k < (s->streams ? LVN_SHARDS_STREAMED : LVN_SHARDS_OPEN); k++) {
        struct open_shard *other = &s->open[k];
        if (other->file && other->shard == i) {
            slot = other;
            break;
        }
        if (other->used < slot->used) slot = other;
    }
    slot->used = ++s->reads;
    *file = slot->file;
    if (slot->file && slot->shard == i) return LVN_OK;
    lvn_streaming_file_release(slot->file);
    *slot = (struct open_shard){.shard = i};
    LVN_TRY(s->streams ? lvn_streaming_file_open(&slot->file, shard->path) : open_local(s, shard->path, &slot->file));
    slot->used = s->reads;
    *file = slot->file;
    enum lvn_status status = check_opened(s, shard, slot->file);
    if (status == LVN_OK) return LVN_OK;
    lvn_streaming_file_close(slot->file);
    *slot = (struct open_shard){0};
    return status;
}

static enum lvn_status read_locked(struct lvn_shard_list *s, int64_t at, int64_t n, char *to)
{
    for (int64_t i = find(s, at), some; n > 0; i++, at += some, n -= some, to += some * s->width) {
        const int64_t skipped = at - s->shard[i].first, left = tokens_of(s, i) - skipped;
        struct lvn_streaming_file *file;
        some = n < left ? n : left;
        LVN_TRY(open_shard(s, i, &file));
        LVN_TRY(lvn_streaming_file_read(file, s->shard[i].header + skipped * s->width, some * s->width, to));
    }
    return LVN_OK;
}

enum lvn_status lvn_shard_list_read(struct lvn_shard_list *s, int64_t at, int64_t n, void *to)
{
    LVN_CHECK(at >= 0 && n >= 0 && at <= s->n_tokens - n, INTERNAL, "tokens %lld to %lld of %lld in shards",
              (long long)at, (long long)(at + n), (long long)s->n_tokens);
    pthread_mutex_lock(&s->lock);
    enum lvn_status status = read_locked(s, at, n, to);
    pthread_mutex_unlock(&s->lock);
    return status;
}

bool lvn_shard_list_streams(const struct lvn_shard_list *s)
{
    return s->streams;
}

int64_t lvn_shard_list_largest(const struct lvn_shard_list *s)
{
    return s->largest;
}

void lvn_shard_list_prefetch(struct lvn_shard_list *s, int64_t at, int64_t n)
{
    pthread_mutex_lock(&s->lock);
    for (int64_t i = find(s, at); i < s->n && s->shard[i].first < at + n; i++) {
        struct lvn_streaming_file *file;
        if (!s->shard[i].bad && open_shard(s, i, &file) != LVN_OK) lvn_error_clear();
    }
    pthread_mutex_unlock(&s->lock);
}

uint64_t lvn_shard_list_sum(const struct lvn_shard_list *s)
{
    struct lvn_checksum sum;
    lvn_checksum_init(&sum);
    for (int64_t i = 0; i < s->n; i++) {
        const char *name = lvn_path_name(s->shard[i].path);
        const int64_t sizes[] = {s->shard[i].bytes, s->shard[i].header};
        lvn_checksum_add(&sum, name, (int64_t)strlen(name) + 1);
        lvn_checksum_add(&sum, sizes, sizeof sizes);
    }
    return lvn_checksum_value(&sum);
}

/* --- data.skip_bad_shards --- */

void lvn_shard_list_skip_bad(struct lvn_shard_list *s, int64_t id_limit)
{
    s->id_limit = id_limit;
}

bool lvn_shard_list_skips(const struct lvn_shard_list *s)
{
    return s->id_limit > 0;
}

/* FORMAT if one of n ids is not below the limit; the first is token `at` of the shard. */
static enum lvn_status check_block(const struct lvn_shard_list *s, const struct lvn_shard_file *shard, const char *ids,
                                   int64_t at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t id = 0;
        memcpy(&id, ids + i * s->width, (size_t)s->width); /* little-endian */
        LVN_CHECK(id < s->id_limit, FORMAT,
                  "'%s' holds the token id %u at position %lld (byte %lld), and the vocabulary has %lld tokens",
                  shard->path, id, (long long)(at + i), (long long)(shard->header + (at + i) * s->width),
                  (long long)s->id_limit);
    }
    return LVN_OK;
}

static enum lvn_status check_ids(struct lvn_shard_list *s, int64_t i)
{
    enum { BLOCK = 1 << 18 };
    const struct lvn_shard_file *shard = &s->shard[i];
    const int64_t n = tokens_of(s, i);
    struct lvn_streaming_file *file;
    LVN_TRY(open_shard(s, i, &file));
    char *ids = lvn_malloc((size_t)BLOCK * (size_t)s->width);
    enum lvn_status status = ids ? LVN_OK : LVN_MEMORY;
    for (int64_t at = 0, some; at < n && status == LVN_OK; at += some) {
        some = n - at < BLOCK ? n - at : BLOCK;
        status = lvn_streaming_file_read(file, shard->header + at * s->width, some * s->width, ids);
        if (status == LVN_OK) status = check_block(s, shard, ids, at, some);
        lvn_work_done(some);
    }
    free(ids);
    return status;
}

static void mark(struct lvn_shard_list *s, int64_t i, const char *reason)
{
    if (s->shard[i].bad) return;
    const char *copy = lvn_arena_strdup(&s->arena, reason);
    s->shard[i].bad = copy ? copy : "damaged";
    s->bad[s->n_bad++] = i;
}

/* Is shard i good? Reads it, unless that is known. */
static enum lvn_status examine(struct lvn_shard_list *s, int64_t i, bool *good)
{
    if (!s->checked[i] && !s->shard[i].bad) {
        const enum lvn_status status = check_ids(s, i);
        if (status != LVN_FORMAT) LVN_TRY(status);
        if (status == LVN_FORMAT) {
            mark(s, i, levin_error_text());
            lvn_error_clear();
        }
        s->checked[i] = true;
    }
    *good = !s->shard[i].bad;
    return LVN_OK;
}

static enum lvn_status window_locked(struct lvn_shard_list *s, int64_t at, int64_t n, int64_t *out)
{
    const int64_t first = find(s, at);
    bool good = true;
    for (int64_t i = first; i < s->n && s->shard[i].first < at + n && good; i++) LVN_TRY(examine(s, i, &good));
    *out = at;
    if (good) return LVN_OK;
    for (int64_t k = 1; k <= s->n; k++) {
        const int64_t i = (first + k) % s->n, tokens = tokens_of(s, i);
        if (tokens < n) continue;
        LVN_TRY(examine(s, i, &good));
        if (!good) continue;
        *out = s->shard[i].first + (at - s->shard[first].first) % (tokens - n + 1);
        return LVN_OK;
    }
    LVN_FAIL(FORMAT,
             "none of the %lld shards from '%s' on is undamaged and has %lld tokens, a window, so "
             "data.skip_bad_shards has nothing to train on; the first is damaged like this: %s",
             (long long)s->n, s->shard[0].path, (long long)n, s->n_bad ? s->shard[s->bad[0]].bad : "too short");
}

enum lvn_status lvn_shard_list_window(struct lvn_shard_list *s, int64_t at, int64_t n, int64_t *out)
{
    pthread_mutex_lock(&s->lock);
    enum lvn_status status = window_locked(s, at, n, out);
    pthread_mutex_unlock(&s->lock);
    return status;
}

bool lvn_shard_list_bad(struct lvn_shard_list *s, int64_t k, struct lvn_bad_shard *out)
{
    pthread_mutex_lock(&s->lock);
    const bool has = k < s->n_bad;
    if (has) {
        const int64_t i = s->bad[k];
        *out = (struct lvn_bad_shard){s->shard[i].path, s->shard[i].bad, tokens_of(s, i)};
    }
    pthread_mutex_unlock(&s->lock);
    return has;
}

/* Is it the name of a shard in a checkpoint? Its bytes that are not UTF-8 were replaced there, as JSON requires. */
static bool is_named(const char *name, const char *saved)
{
    if (!strcmp(name, saved)) return true;
    if (lvn_utf8_check(name, (int64_t)strlen(name)) < 0) return false;
    json_t *json = lvn_json_text(name, INT64_MAX);
    const bool same = json && !strcmp(json_string_value(json), saved);
    json_decref(json);
    return same;
}

void lvn_shard_list_mark(struct lvn_shard_list *s, const char *name, const char *reason)
{
    pthread_mutex_lock(&s->lock);
    for (int64_t i = 0; i < s->n; i++)
        if (is_named(lvn_path_name(s->shard[i].path), name)) mark(s, i, reason);
    pthread_mutex_unlock(&s->lock);
}

/* --- names --- */

enum { N_PARTS = 3 };
static const char *const parts[N_PARTS] = {"train", "val", "test"};

int lvn_shard_file_split(const char *name, int64_t *prefix)
{
    const int64_t n = (int64_t)strlen(name);
    int split = -1;
    *prefix = 0;
    if (!lvn_ends_with(name, ".bin") || *name == '.') return -1;
    for (int i = 0; i < N_PARTS; i++) {
        const int64_t m = (int64_t)strlen(parts[i]);
        if (strncmp(name, parts[i], (size_t)m) == 0 && name[m] == '-') {
            *prefix = m + 1;
            return i;
        }
        for (int64_t at = 1; at + m < n; at++) { /* the last of several words decides */
            const char *end = name + at + m;
            if (name[at - 1] != '_' || strncmp(name + at, parts[i], (size_t)m) != 0) continue;
            if ((*end == '_' || strcmp(end, ".bin") == 0) && at + m + 1 > *prefix) {
                *prefix = at + m + 1;
                split = i;
            }
        }
    }
    return split;
}

/* The number at the end of a shard's name, before .bin; -1: there is none. */
static int64_t number_of(const char *path)
{
    const char *end = path + strlen(path) - 4, *digit = end;
    while (digit > path && digit[-1] >= '0' && digit[-1] <= '9') digit--;
    return digit < end && end - digit < 18 ? strtoll(digit, NULL, 10) : -1;
}

/* Report the first gap in the numbers of the shards. */
static void report_gap(const struct lvn_shard_file *shard, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const int64_t before = number_of(shard[i - 1].path), number = number_of(shard[i].path);
        if (before < 0 || number < 0 || number == before + 1) continue;
        lvn_log(LVN_LOG_WARN, "no shard has a number between '%s' and '%s'; the run uses the shards that exist",
                shard[i - 1].path, shard[i].path);
        return;
    }
}

enum lvn_status lvn_shard_list_find(struct lvn_arena *a, const char *folder, const struct lvn_store_entries *files,
                                    int split, struct lvn_shard_file **out, int64_t *n)
{
    const char *first = NULL;
    int64_t prefix, first_prefix = 0;
    *n = 0;
    *out = lvn_arena_alloc(a, sizeof **out * ((size_t)files->n + 1));
    if (!*out) return LVN_MEMORY;
    for (int i = 0; i < files->n; i++) {
        const char *name = files->entry[i].name;
        if (files->entry[i].kind != LVN_STORE_FILE || lvn_shard_file_split(name, &prefix) != split) continue;
        if (!first) {
            first = name;
            first_prefix = prefix;
        }
        LVN_CHECK(prefix == first_prefix && strncmp(first, name, (size_t)prefix) == 0, FORMAT,
                  "'%s' has token files of two data sets, '%s' and '%s': move one of them to another folder, or mix "
                  "the folders with data.mix",
                  folder, first, name);
        (*out)[*n] = (struct lvn_shard_file){.path = lvn_store_join(a, folder, name), .bytes = files->entry[i].bytes};
        if (!(*out)[(*n)++].path) return LVN_MEMORY;
    }
    report_gap(*out, *n);
    return LVN_OK;
}
