/* local.c - the store of local paths and file:///PATH. It has no upload functions: store_put.c and store_copy.c call
 * store_get.c to copy files. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "stores/store_private.h"

enum { PIECE_BYTES = 1 << 20, MAX_DEPTH = 64 };

/* Decode "file:///a%20b" and "file://localhost/a"; any other location is a path already. */
static enum lvn_status open_location(struct lvn_location *location)
{
    location->bucket = "";
    location->key = location->url;
    if (strncmp(location->url, "file://", 7) != 0) return LVN_OK;
    const char *from = location->url + 7;
    if (strncmp(from, "localhost/", 10) == 0) from += 9;
    LVN_CHECK(*from == '/', ARG, "'%s': a file URL needs an absolute path, such as file:///home/me/text.txt",
              location->url);
    char *to = lvn_arena_strdup(&location->arena, from);
    if (!to) return LVN_MEMORY;
    location->key = to;
    for (; *from; from++) {
        const int64_t byte = *from == '%' ? lvn_hex_number(from + 1, 2) : -1;
        LVN_CHECK(byte != 0, ARG, "'%s': a path cannot contain a NUL byte (%%00)", location->url);
        *to++ = byte > 0 ? (char)byte : *from;
        if (byte > 0) from += 2;
    }
    *to = '\0';
    return LVN_OK;
}

static enum lvn_status stat_file(struct lvn_location *location, struct lvn_http *http, struct lvn_object *object)
{
    struct stat s;
    (void)http;
    *object = (struct lvn_object){.bytes = -1};
    if (stat(location->key, &s) != 0) {
        LVN_CHECK(errno == ENOENT || errno == ENOTDIR, IO, "cannot read '%s': %s", location->key, strerror(errno));
        return LVN_OK;
    }
    object->kind = S_ISDIR(s.st_mode) ? LVN_STORE_FOLDER : LVN_STORE_FILE;
    LVN_CHECK(S_ISDIR(s.st_mode) || S_ISREG(s.st_mode), IO, "cannot read '%s': it is neither a file nor a folder",
              location->key);
    if (object->kind == LVN_STORE_FOLDER) return LVN_OK;
    object->bytes = s.st_size;
    object->ranges = true;
    snprintf(object->version, sizeof object->version, "%lld.%lld.%09ld", (long long)s.st_ino,
             (long long)s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
    return LVN_OK;
}

static enum lvn_status read_some(struct lvn_location *location, int fd, char *buffer, int64_t from, int64_t n,
                                 bool (*on_data)(void *, const void *, int64_t), void *context)
{
    for (int64_t left = n; left > 0;) {
        ssize_t got = pread(fd, buffer, (size_t)(left < PIECE_BYTES ? left : PIECE_BYTES), from);
        if (got < 0 && errno == EINTR) continue;
        LVN_CHECK(got >= 0, IO, "cannot read '%s': %s", location->key, strerror(errno));
        LVN_CHECK(got > 0, IO, "cannot read '%s': it was truncated while it was read", location->key);
        if (!on_data(context, buffer, got)) LVN_FAIL(STOPPED, "reading '%s' was stopped", location->key);
        from += got;
        left -= got;
    }
    return LVN_OK;
}

static enum lvn_status read_file(struct lvn_location *location, struct lvn_http *http, const struct lvn_object *object,
                                 int64_t from, int64_t n, bool (*on_data)(void *, const void *, int64_t), void *context)
{
    (void)http, (void)object;
    int fd = open(location->key, O_RDONLY | O_CLOEXEC);
    LVN_CHECK(fd >= 0, IO, "cannot read '%s': %s", location->key, strerror(errno));
    char *buffer = lvn_malloc(PIECE_BYTES);
    enum lvn_status status = buffer ? read_some(location, fd, buffer, from, n, on_data, context) : LVN_MEMORY;
    free(buffer);
    close(fd);
    return status;
}

/* --- folders --- */

struct listing {
    struct lvn_arena *a;
    struct lvn_store_entries *out;
    const char *top;
    bool deep;
};

/* A folder and those that it is listed in. */
struct folder {
    const struct folder *parent; /* NULL: the top */
    dev_t device;
    ino_t inode;
};

/* True for a link to a folder that contains it, which would be listed again and again. */
static bool leads_up(const struct folder *folder, const struct stat *s)
{
    for (; folder; folder = folder->parent)
        if (folder->device == s->st_dev && folder->inode == s->st_ino) return true;
    return false;
}

static enum lvn_status list_dir(struct listing *listing, const char *below, int depth, const struct folder *self)
{
    const char *const *names, *path = *below ? lvn_path_join(listing->a, listing->top, below) : listing->top;
    int n;
    LVN_CHECK(depth < MAX_DEPTH, IO, "the folder '%s' is more than %d levels deep", listing->top, MAX_DEPTH);
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_dir_list(listing->a, path, &names, &n));
    for (int i = 0; i < n; i++) {
        const char *name = lvn_path_join(listing->a, below, names[i]),
                   *file = lvn_path_join(listing->a, path, names[i]);
        struct stat s;
        if (!name || !file) return LVN_MEMORY;
        if (stat(file, &s) != 0) {
            LVN_CHECK(errno == ENOENT || errno == ENOTDIR || errno == ELOOP, IO, "cannot read '%s': %s", file,
                      strerror(errno));
            continue; /* removed in the meantime, or a dangling link */
        }
        const struct folder folder = {.parent = self, .device = s.st_dev, .inode = s.st_ino};
        if (S_ISDIR(s.st_mode) && listing->deep && leads_up(self, &s)) continue;
        if (S_ISDIR(s.st_mode) && listing->deep)
            LVN_TRY(list_dir(listing, name, depth + 1, &folder));
        else
            LVN_TRY(lvn_entries_add(listing->a, listing->out, name, (int64_t)strlen(name),
                                    S_ISDIR(s.st_mode) ? LVN_STORE_FOLDER : LVN_STORE_FILE,
                                    S_ISDIR(s.st_mode) ? -1 : s.st_size));
    }
    return LVN_OK;
}

static enum lvn_status list(struct lvn_location *location, struct lvn_http *http, bool deep, struct lvn_arena *a,
                            struct lvn_store_entries *out)
{
    struct listing listing = {.a = a, .out = out, .top = location->key, .deep = deep};
    struct stat s;
    (void)http;
    if (stat(location->key, &s) != 0) {
        LVN_CHECK(errno == ENOENT || errno == ENOTDIR, IO, "cannot read '%s': %s", location->key, strerror(errno));
        return LVN_OK;
    }
    if (!S_ISDIR(s.st_mode)) return LVN_OK;
    return list_dir(&listing, "", 0, &(struct folder){.device = s.st_dev, .inode = s.st_ino});
}

static enum lvn_status remove_file(struct lvn_location *location, struct lvn_http *http)
{
    (void)http;
    LVN_CHECK(unlink(location->key) == 0 || errno == ENOENT, IO, "cannot remove '%s': %s", location->key,
              strerror(errno));
    return LVN_OK;
}

const struct lvn_store lvn_store_local = {.url_format = "/PATH",
                                          .open = open_location,
                                          .stat = stat_file,
                                          .read = read_file,
                                          .list = list,
                                          .remove = remove_file};
