/* store.c - parses paths and implements what all stores have in common: stat, list, remove, small reads. */
#include "stores/store.h"

#include "base/files.h"
#include "base/list.h"
#include "base/redact.h"
#include "stores/store_private.h"

static const struct {
    const char *scheme;
    const struct lvn_store *store;
} stores[] = {
#define LVN_STORE(name, scheme) {scheme, &lvn_store_##name},
#include "stores/stores.def"
};
enum { N_STORES = sizeof stores / sizeof stores[0] };

/* The length of "s3" in "s3://..."; 0: a local path. */
static size_t scheme_length(const char *path)
{
    size_t n = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    return n > 0 && strncmp(path + n, "://", 3) == 0 ? n : 0;
}

bool lvn_store_is_url(const char *path)
{
    return scheme_length(path) > 0;
}

bool lvn_store_is_remote(const char *path)
{
    return lvn_store_is_url(path) && strncmp(path, "file:", 5) != 0;
}

static enum lvn_status find_store(const char *path, const struct lvn_store **out)
{
    const char *names[N_STORES];
    size_t n = scheme_length(path);
    char word[32];
    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), path);
    *out = &lvn_store_local;
    if (n == 0) return LVN_OK;
    for (int i = 0; i < N_STORES; i++) {
        names[i] = stores[i].scheme;
        *out = stores[i].store;
        if (strcmp(names[i], word) == 0) return LVN_OK;
    }
    const char *near = lvn_nearest(word, names, N_STORES);
    if (near) LVN_FAIL(ARG, "'%s': unknown scheme '%s://'; did you mean '%s://'?", path, word, near);
    LVN_FAIL(ARG, "'%s': unknown scheme '%s://': use s3://, gs://, hf://, https://, http:// or file://", path, word);
}

enum lvn_status lvn_location_open(struct lvn_location *location, const char *path)
{
    *location = (struct lvn_location){0};
    lvn_arena_init(&location->arena);
    LVN_CHECK(*path, ARG, "the path is empty");
    LVN_CHECK(!lvn_secrets_hidden(path), ARG,
              "the password or token in '%s' was removed before the address was saved: give the complete address "
              "again, for example with --data.path=URL",
              path);
    enum lvn_status status = find_store(path, &location->store);
    if (status == LVN_OK && !(location->url = lvn_arena_strdup(&location->arena, path))) status = LVN_MEMORY;
    if (status == LVN_OK) status = location->store->open(location);
    if (status != LVN_OK) lvn_location_close(location);
    return status;
}

void lvn_location_close(struct lvn_location *location)
{
    if (location->store && location->store->close) location->store->close(location);
    lvn_arena_release(&location->arena);
    *location = (struct lvn_location){0};
}

enum lvn_status lvn_location_stat(struct lvn_location *location, struct lvn_http *http, struct lvn_object *object)
{
    const int64_t min = 4 << 20; /* for smaller files a second request is not worthwhile */
    LVN_TRY(location->store->stat(location, http, object));
    if (location->store->fetch_checksum && object->kind == LVN_STORE_FILE && object->bytes > min)
        location->store->fetch_checksum(location, http, object);
    return LVN_OK;
}

enum lvn_status lvn_location_split(struct lvn_location *location)
{
    const char *from = location->url + scheme_length(location->url) + 3;
    size_t n = strcspn(from, "/");
    LVN_CHECK(n > 0, ARG, "'%s' contains no %s: expected %s", location->url,
              location->store == &lvn_store_https ? "host" : "bucket", location->store->url_format);
    location->bucket = lvn_arena_printf(&location->arena, "%.*s", (int)n, from);
    location->key = from + n + (from[n] == '/');
    return location->bucket ? LVN_OK : LVN_MEMORY;
}

char *lvn_store_join(struct lvn_arena *a, const char *dir, const char *name)
{
    if (!lvn_store_is_url(dir)) return lvn_path_join(a, dir, name);
    size_t n = strlen(dir);
    return lvn_arena_printf(a, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name);
}

/* Open a location, and an HTTP client if it needs one. */
static enum lvn_status open_both(struct lvn_location *location, struct lvn_http **http, const char *path)
{
    *http = NULL;
    LVN_TRY(lvn_location_open(location, path));
    enum lvn_status status = location->store->network ? lvn_http_open(http) : LVN_OK;
    if (status != LVN_OK) lvn_location_close(location);
    return status;
}

static void close_both(struct lvn_location *location, struct lvn_http *http)
{
    lvn_http_close(http);
    lvn_location_close(location);
}

/* --- metadata and listing --- */

enum lvn_status lvn_entries_add(struct lvn_arena *a, struct lvn_store_entries *list, const char *name, int64_t length,
                                enum lvn_store_kind kind, int64_t bytes)
{
    if (!lvn_arena_list_reserve(a, &list->entry, list->n, &list->capacity, list->n + 1, sizeof *list->entry))
        return LVN_MEMORY;
    const char *copy = lvn_arena_printf(a, "%.*s", (int)length, name);
    if (!copy) return LVN_MEMORY;
    list->entry[list->n++] = (struct lvn_store_entry){copy, kind, bytes};
    return LVN_OK;
}

bool lvn_entries_have(const struct lvn_store_entries *list, const char *name)
{
    int low = 0, high = list->n;
    while (low < high) {
        int middle = (low + high) / 2, c = strcmp(list->entry[middle].name, name);
        if (c == 0) return true;
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* Remove leases from a listing: a run's files are the same whether or not a job is training in it. */
static void drop_leases(struct lvn_store_entries *all)
{
    const size_t n = strlen(LVN_LEASE_NAME);
    int k = 0;
    for (int i = 0; i < all->n; i++) {
        const char *name = lvn_path_name(all->entry[i].name);
        bool lease = strncmp(name, LVN_LEASE_NAME, n) == 0 && (!name[n] || name[n] == '-');
        if (!lease || all->entry[i].kind != LVN_STORE_FILE) all->entry[k++] = all->entry[i];
    }
    all->n = k;
}

/* A key that is not a file is a folder if other keys begin with it. */
static enum lvn_status stat_both(struct lvn_location *location, struct lvn_http *http, struct lvn_object *object)
{
    size_t n = strlen(location->key);
    *object = (struct lvn_object){.bytes = -1};
    bool folder = n == 0 || location->key[n - 1] == '/';
    if (!folder || !location->store->list || !location->store->network)
        LVN_TRY(location->store->stat(location, http, object));
    if (object->kind != LVN_STORE_NOTHING || !location->store->list || !location->store->network) return LVN_OK;
    struct lvn_store_entries below = {0};
    LVN_TRY(location->store->list(location, http, false, &location->arena, &below));
    drop_leases(&below);
    if (below.n > 0) object->kind = LVN_STORE_FOLDER;
    return LVN_OK;
}

enum lvn_status lvn_store_stat(const char *path, enum lvn_store_kind *kind, int64_t *bytes)
{
    struct lvn_location location;
    struct lvn_http *http;
    struct lvn_object object;
    LVN_TRY(open_both(&location, &http, path));
    enum lvn_status status = stat_both(&location, http, &object);
    *kind = object.kind;
    *bytes = object.bytes;
    close_both(&location, http);
    return status;
}

static enum lvn_status list(struct lvn_location *location, struct lvn_http *http, bool deep, struct lvn_arena *a,
                            struct lvn_store_entries *out)
{
    *out = (struct lvn_store_entries){0};
    LVN_CHECK(location->store->list, UNSUPPORTED,
              "cannot list '%s': web servers do not support it; give the URL of a file", location->url);
    LVN_TRY(location->store->list(location, http, deep, a, out));
    drop_leases(out);
    if (out->n) qsort(out->entry, (size_t)out->n, sizeof *out->entry, lvn_by_text);
    if (out->n > 0) return LVN_OK;
    struct lvn_object object = {0};
    size_t n = strlen(location->key);
    if (n && (location->key[n - 1] != '/' || !location->store->network))
        LVN_TRY(location->store->stat(location, http, &object));
    if (object.kind == LVN_STORE_FOLDER) return LVN_OK;
    LVN_CHECK(object.kind == LVN_STORE_FILE, IO, "'%s' does not exist: check the address", location->url);
    const char *name = lvn_path_name(location->key);
    return lvn_entries_add(a, out, name, (int64_t)strlen(name), object.kind, object.bytes);
}

enum lvn_status lvn_store_list(struct lvn_arena *a, const char *path, bool deep, struct lvn_store_entries *out)
{
    struct lvn_location location;
    struct lvn_http *http;
    LVN_TRY(open_both(&location, &http, path));
    enum lvn_status status = list(&location, http, deep, a, out);
    close_both(&location, http);
    return status;
}

enum lvn_status lvn_store_remove(const char *path)
{
    struct lvn_location location;
    struct lvn_http *http;
    LVN_TRY(open_both(&location, &http, path));
    enum lvn_status status = LVN_UNSUPPORTED;
    if (location.store->remove)
        status = location.store->remove(&location, http);
    else
        lvn_fail(status, "'%s' cannot be removed: levin only reads there (%s)", path, location.store->url_format);
    close_both(&location, http);
    return status;
}

/* --- small files --- */

struct small {
    struct lvn_text text;
    int64_t limit;
    bool tail; /* the last `limit` bytes; else the file may not have more */
    bool too_large;
};

static bool on_small(void *context, const void *data, int64_t bytes)
{
    struct small *s = context;
    s->too_large = s->text.n + bytes > s->limit;
    if (s->too_large) return false;
    lvn_text_add_bytes(&s->text, data, bytes);
    return !s->text.failed;
}

static enum lvn_status read_small(struct lvn_location *location, struct lvn_http *http, struct small *s)
{
    struct lvn_object object;
    LVN_TRY(location->store->stat(location, http, &object));
    LVN_CHECK(object.kind == LVN_STORE_FILE, IO, "the file '%s' does not exist", location->url);
    const int64_t first = s->tail && object.bytes > s->limit ? object.bytes - s->limit : 0;
    enum lvn_status status = location->store->read(location, http, &object, first, object.bytes - first, on_small, s);
    LVN_TRY(lvn_text_status(&s->text));
    LVN_CHECK(!s->too_large, FORMAT, "'%s' has more than %lld bytes, the limit for this kind of file", location->url,
              (long long)s->limit);
    return status;
}

static enum lvn_status read_file(const char *path, int64_t limit, bool tail, char **text, int64_t *bytes)
{
    struct lvn_location location;
    struct lvn_http *http;
    struct small s = {.limit = limit, .tail = tail};
    LVN_TRY(open_both(&location, &http, path));
    enum lvn_status status = read_small(&location, http, &s);
    if (status == LVN_OK && !s.text.p) lvn_text_add(&s.text, "");
    if (status == LVN_OK) status = lvn_text_status(&s.text);
    close_both(&location, http);
    if (status != LVN_OK) {
        lvn_text_release(&s.text);
        return status;
    }
    *text = s.text.p;
    *bytes = s.text.n;
    return LVN_OK;
}

enum lvn_status lvn_store_read(const char *path, int64_t limit, char **text, int64_t *bytes)
{
    return read_file(path, limit, false, text, bytes);
}

enum lvn_status lvn_store_read_tail(const char *path, int64_t limit, char **text, int64_t *bytes)
{
    return read_file(path, limit, true, text, bytes);
}
