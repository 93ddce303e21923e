/* upload_staging.c - see upload_staging.h. */
#include "stores/upload_staging.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/list.h"
#include "base/log.h"
#include "base/work.h"
#include "formats/checksum.h"
#include "stores/cache.h"
#include "stores/store_private.h"

enum { MAX_SENT = 64 << 20, MAX_DEPTH = 16 };

enum lvn_status lvn_upload_staging_open(struct lvn_arena *a, const char *path, const char **folder)
{
    const char *top;
    char hash[LVN_CHECKSUM_TEXT];
    *folder = path;
    if (!lvn_store_is_url(path)) return LVN_OK;
    if (!lvn_store_is_remote(path)) return lvn_store_download(a, path, LVN_WANT_ALL, folder);
    struct lvn_location location;
    LVN_TRY(lvn_location_open(&location, path));
    bool writable = location.store->upload != NULL;
    const char *format = location.store->url_format;
    lvn_location_close(&location);
    LVN_CHECK(writable, UNSUPPORTED, "'%s' cannot be written: levin only reads there (%s)", path, format);
    LVN_TRY(lvn_cache_folder(a, "stage", &top));
    char *plain = lvn_path_plain(a, path);
    if (!plain) return LVN_MEMORY;
    lvn_checksum_text(lvn_checksum(plain, (int64_t)strlen(plain)), hash);
    *folder = lvn_arena_printf(a, "%s/%s-%.8s", top, lvn_path_name(plain), hash);
    return *folder ? lvn_dir_make(*folder) : LVN_MEMORY;
}

/* --- local files --- */

struct item {
    const char *name;      /* relative to the folder */
    const char *link;      /* target of a link; NULL: a file */
    const char *hard_link; /* hard link that preserves the file during the upload; NULL: none */
    long long bytes, seconds;
    long nanoseconds;
    int order;       /* position in the upload: 0 is sent first */
    bool up_to_date; /* sent unchanged before, and in the store */
    bool dangling;   /* a link to a checkpoint that is not in the list */
};
struct items {
    struct lvn_arena *a;
    const char *folder;
    const char *hard_links;                 /* hidden folder of the hard links */
    const char *sent;                       /* content of `.sent`; NULL: nothing was sent before */
    const struct lvn_store_entries *remote; /* files in the store, sorted by name */
    const struct lvn_upload_owner *owner;   /* of the run; NULL: none */
    struct item *item;
    int n;
    int64_t capacity; /* of item */
};

static bool is_of_checkpoint(const char *name)
{
    return strncmp(name, "checkpoints/", 12) == 0;
}

static char *record_line(struct lvn_arena *a, const struct item *i)
{
    return lvn_arena_printf(a, "%lld %lld.%09ld %s %s\n", i->bytes, i->seconds, i->nanoseconds, i->link ? i->link : "-",
                            i->name);
}

/* Append a line to `.sent` right after the transfer, so that it is not lost if the upload fails later. If it cannot be
 * written, the file is only sent again. */
static enum lvn_status record(struct lvn_arena *a, const char *folder, const char *line)
{
    const char *path = lvn_path_join(a, folder, ".sent");
    if (!path) return LVN_MEMORY;
    FILE *file = fopen(path, "ae");
    if (!file) return LVN_OK;
    fputs(line, file);
    fclose(file);
    return LVN_OK;
}

/* The last line of `.sent` of a file; NULL: it was not sent from here. The name is what follows three fields. */
static const char *find_line(const char *sent, const char *name)
{
    const size_t n = strlen(name);
    const char *found = NULL;
    for (const char *line = sent, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        const char *at = line;
        for (int field = 0; field < 3 && at; field++)
            if ((at = memchr(at, ' ', (size_t)(end - at)))) at++;
        if (at && (size_t)(end - at) == n && memcmp(at, name, n) == 0) found = line;
    }
    return found;
}

/* Hard-links a file of a checkpoint, so that the checkpoint can be uploaded completely even if the run removes it.
 * *gone: it was already removed. */
static enum lvn_status make_hard_link(const struct items *items, struct item *i, const char *path, bool *gone)
{
    const char *hard_link = lvn_arena_printf(items->a, "%s/%d", items->hard_links, items->n);
    if (!hard_link) return LVN_MEMORY;
    *gone = false;
    if (link(path, hard_link) == 0)
        i->hard_link = hard_link;
    else
        *gone = errno == ENOENT; /* otherwise the file system has no hard links */
    return LVN_OK;
}

/* A run's settings are sent first: they show that levin wrote the other files if the upload ends before a manifest. */
static int send_order(const char *name, bool link)
{
    size_t n = strlen(name), k = strlen("state/manifest.json");
    if (link) return 3;
    if (strcmp(name, "settings.yaml") == 0) return 0;
    return 1 + (n >= k && strcmp(name + n - k, "state/manifest.json") == 0);
}

static enum lvn_status add(struct items *items, const char *name, const char *path, const struct stat *s)
{
    char target[256];
    struct item i = {
        .name = name, .bytes = s->st_size, .seconds = s->st_mtim.tv_sec, .nanoseconds = s->st_mtim.tv_nsec};
    if (S_ISLNK(s->st_mode)) {
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n < 0 && errno == ENOENT) return LVN_OK;
        LVN_CHECK(n > 0, IO, "cannot read '%s': %s", path, strerror(errno));
        i.link = lvn_arena_printf(items->a, "%.*s", (int)n, target);
        if (!i.link) return LVN_MEMORY;
    }
    i.order = send_order(name, i.link);
    const char *line = record_line(items->a, &i), *found = find_line(items->sent, name);
    if (!line) return LVN_MEMORY;
    i.up_to_date = found && strncmp(found, line, strlen(line)) == 0 && lvn_entries_have(items->remote, name);
    bool gone = false;
    if (is_of_checkpoint(name) && !i.link && !i.up_to_date) LVN_TRY(make_hard_link(items, &i, path, &gone));
    if (gone) return LVN_OK;
    if (!lvn_arena_list_reserve(items->a, &items->item, items->n, &items->capacity, items->n + 1, sizeof *items->item))
        return LVN_MEMORY;
    items->item[items->n++] = i;
    return LVN_OK;
}

/* Collect the files below a folder. Hidden ones are skipped. */
static enum lvn_status collect_items(struct items *items, const char *below, int depth)
{
    const char *path = *below ? lvn_path_join(items->a, items->folder, below) : items->folder, *const * names;
    int n;
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_dir_list(items->a, path, &names, &n));
    for (int i = 0; i < n; i++) {
        struct stat s;
        if (names[i][0] == '.') continue;
        const char *name = lvn_path_join(items->a, below, names[i]), *file = lvn_path_join(items->a, path, names[i]);
        if (!name || !file) return LVN_MEMORY;
        if (lstat(file, &s) != 0) {
            LVN_CHECK(errno == ENOENT, IO, "cannot read '%s': %s", file, strerror(errno));
            continue; /* removed in the meantime */
        }
        if (S_ISDIR(s.st_mode) && depth < MAX_DEPTH)
            LVN_TRY(collect_items(items, name, depth + 1));
        else if (S_ISREG(s.st_mode) || S_ISLNK(s.st_mode))
            LVN_TRY(add(items, name, file, &s));
    }
    return LVN_OK;
}

static int by_order(const void *a, const void *b)
{
    const struct item *first = a, *second = b;
    return first->order != second->order ? first->order - second->order : strcmp(first->name, second->name);
}

/* --- send --- */

static enum lvn_status confirm(const struct lvn_upload_owner *owner)
{
    return owner ? owner->confirm(owner->context) : LVN_OK;
}

/* Upload a file while the lease is valid. */
static enum lvn_status put(const struct items *items, const char *file, const char *url)
{
    if (!items->owner) return lvn_store_put(file, url, NULL, NULL);
    LVN_TRY(confirm(items->owner));
    enum lvn_status status = lvn_store_put_while(file, url, items->owner->is_valid, items->owner->context);
    if (status != LVN_STOPPED) return status;
    LVN_TRY(lvn_interrupt_check());
    LVN_TRY(confirm(items->owner));
    LVN_FAIL(IO, "the upload of '%s' was interrupted because the run's lease was not renewed in time", url);
}

/* Upload one file. Files other than those of checkpoints may still grow and are copied first. *lost: a file of a
 * checkpoint without a hard link was removed during the upload. */
static enum lvn_status send_one(struct items *items, const struct item *i, const char *path, bool *lost)
{
    const bool checkpoint = is_of_checkpoint(i->name);
    const char *url = lvn_store_join(items->a, path, i->name),
               *copy = lvn_path_join(items->a, items->folder, ".sending");
    const char *file = i->hard_link ? i->hard_link : lvn_path_join(items->a, items->folder, i->name);
    if (!file || !url || !copy) return LVN_MEMORY;
    if (i->link) {
        char *text = lvn_arena_printf(items->a, "%s\n", i->link);
        if (!text) return LVN_MEMORY;
        LVN_TRY(lvn_file_write(copy, text, (int64_t)strlen(text)));
    } else if (!checkpoint) {
        LVN_TRY(lvn_store_get(file, copy, NULL, NULL, NULL));
    }
    enum lvn_status status = put(items, i->link || !checkpoint ? copy : file, url);
    unlink(copy);
    struct stat s;
    *lost = status == LVN_IO && checkpoint && !i->link && lstat(file, &s) != 0 && errno == ENOENT;
    if (*lost) lvn_error_clear();
    return *lost ? LVN_OK : status;
}

/* `last` and `best` were read before the checkpoint folders, so the run may have removed their checkpoints in
 * between. */
static enum lvn_status find_dangling(struct items *items)
{
    for (int i = 0; i < items->n; i++) {
        struct item *link = &items->item[i];
        if (!link->link || !is_of_checkpoint(link->name)) continue;
        const char *manifest = lvn_arena_printf(items->a, "checkpoints/%s/state/manifest.json", link->link);
        if (!manifest) return LVN_MEMORY;
        link->dangling = true;
        for (int k = 0; k < items->n && link->dangling; k++)
            link->dangling = strcmp(items->item[k].name, manifest) != 0;
    }
    return LVN_OK;
}

/* Remove from the store the files that were sent before and no longer exist locally; with `keep`, keep and record
 * them. Files that were not sent from here stay. Without permission to remove, old checkpoints stay too. */
static enum lvn_status remove_gone(struct items *items, const char *path, bool keep, struct lvn_text *sent)
{
    for (int k = 0; items->sent && k < items->remote->n; k++) {
        const char *name = items->remote->entry[k].name;
        bool wanted = false;
        for (int i = 0; i < items->n && !wanted; i++) wanted = strcmp(items->item[i].name, name) == 0;
        const char *line = wanted ? NULL : find_line(items->sent, name), *url = lvn_store_join(items->a, path, name);
        if (!url) return LVN_MEMORY;
        enum lvn_status status = line && !keep ? lvn_store_remove(url) : LVN_OK;
        if (status == LVN_IO && is_of_checkpoint(name)) {
            lvn_log_once(LVN_LOG_WARN, "old checkpoints remain in the store: %s", levin_error_text());
            lvn_error_clear();
            keep = true;
        } else
            LVN_TRY(status);
        if (line && keep) lvn_text_add_bytes(sent, line, strchr(line, '\n') + 1 - line);
    }
    return LVN_OK;
}

/* List all files in the store; a missing folder is not an error. */
static enum lvn_status list_remote(struct lvn_arena *a, const char *path, struct lvn_store_entries *remote)
{
    enum lvn_store_kind kind;
    int64_t bytes;
    *remote = (struct lvn_store_entries){0};
    LVN_TRY(lvn_store_stat(path, &kind, &bytes));
    return kind == LVN_STORE_FOLDER ? lvn_store_list(a, path, true, remote) : LVN_OK;
}

/* Upload the items in order. If a checkpoint is incomplete, the links in the store and their targets stay
 * unchanged; the next upload continues. */
static enum lvn_status send_items(struct items *items, const char *path, struct lvn_text *sent)
{
    bool partial = false;
    for (int i = 0; i < items->n; i++) {
        const struct item *item = &items->item[i];
        const char *line = record_line(items->a, item);
        if (!line) return LVN_MEMORY;
        partial |= item->dangling;
        if (item->link && partial) continue;
        bool lost = false;
        if (!item->up_to_date) {
            LVN_TRY(send_one(items, item, path, &lost));
            if (!lost) LVN_TRY(record(items->a, items->folder, line));
        }
        partial |= lost;
        lvn_text_add(sent, line);
    }
    LVN_TRY(confirm(items->owner));
    return remove_gone(items, path, partial, sent);
}

static enum lvn_status send(struct lvn_arena *a, const char *folder, const char *path,
                            const struct lvn_upload_owner *owner)
{
    struct lvn_store_entries remote;
    struct items items = {.a = a, .folder = folder, .remote = &remote, .owner = owner};
    LVN_LOCAL_TEXT(sent);
    const char *path_sent = lvn_path_join(a, folder, ".sent");
    char *text = NULL;
    int64_t bytes;
    items.hard_links = lvn_path_join(a, folder, ".held");
    if (!path_sent || !items.hard_links) return LVN_MEMORY;
    LVN_TRY(confirm(owner));
    LVN_TRY(list_remote(a, path, &remote));
    LVN_TRY(lvn_tree_remove(items.hard_links));
    LVN_TRY(lvn_dir_make(items.hard_links));
    enum lvn_status status = lvn_path_is_file(path_sent) ? lvn_file_read(path_sent, MAX_SENT, &text, &bytes) : LVN_OK;
    items.sent = text;
    if (status == LVN_OK) status = collect_items(&items, "", 0);
    if (items.n) qsort(items.item, (size_t)items.n, sizeof *items.item, by_order);
    if (status == LVN_OK) status = find_dangling(&items);
    if (status == LVN_OK) status = send_items(&items, path, &sent);
    free(text);
    if (status == LVN_OK && !sent.failed && lvn_file_write(path_sent, sent.p, sent.n) != LVN_OK) lvn_error_clear();
    if (lvn_tree_remove(items.hard_links) != LVN_OK && status == LVN_OK) lvn_error_clear();
    return status;
}

bool lvn_upload_staging_was_sent(const char *folder)
{
    LVN_LOCAL_ARENA(a);
    char *record = lvn_path_join(&a, folder, ".sent");
    return record && lvn_path_exists(record);
}

enum lvn_status lvn_upload_staging_fetched(struct lvn_arena *a, const char *folder, const char *name)
{
    struct stat s;
    const char *path = lvn_path_join(a, folder, name), *line;
    if (!path) return LVN_MEMORY;
    if (stat(path, &s) != 0) return LVN_OK;
    const struct item i = {
        .name = name, .bytes = s.st_size, .seconds = s.st_mtim.tv_sec, .nanoseconds = s.st_mtim.tv_nsec};
    return (line = record_line(a, &i)) ? record(a, folder, line) : LVN_MEMORY;
}

enum lvn_status lvn_upload_staging_send(const char *folder, const char *path)
{
    return lvn_upload_staging_send_run(folder, path, NULL);
}

enum lvn_status lvn_upload_staging_send_run(const char *folder, const char *path, const struct lvn_upload_owner *owner)
{
    LVN_LOCAL_ARENA(a);
    if (!lvn_store_is_remote(path)) return LVN_OK;
    LVN_TRY_WHILE(send(&a, folder, path, owner), "sending '%s' to '%s'; the local folder is complete", folder, path);
    return LVN_OK;
}

/* True if it is one of the names, or below one. */
static bool is_below(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(name, names[i], length) == 0 && (!name[length] || name[length] == '/')) return true;
    }
    return false;
}

enum lvn_status lvn_upload_staging_clear(const char *path, const char *const *names, int n)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_store_entries remote;
    enum lvn_status status = list_remote(&a, path, &remote);
    for (int i = 0; i < remote.n && status == LVN_OK; i++) {
        if (!is_below(remote.entry[i].name, names, n)) continue;
        const char *url = lvn_store_join(&a, path, remote.entry[i].name);
        status = url ? lvn_store_remove(url) : LVN_MEMORY;
    }
    return status;
}
