/* archive_reader.c - see archive_reader.h. Archives are read by libarchive; a nested archive is read from an entry of
 * the enclosing one. */
#include "formats/archive_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/input.h"
#include "base/list.h"
#include "base/text.h"
#include "host/library.h"

enum { CHUNK = 1 << 18, GROWTH_FROM = 64 << 20, NAME_BYTES = 4096 };

struct traversal {
    const struct lvn_archive_visitor *visitor;
    const char *root;  /* the path that was opened, for messages */
    int64_t in;        /* bytes read */
    int64_t out;       /* bytes unpacked from archives */
    double growth;     /* expansion of the enclosing archives */
    int64_t *reported; /* set to `in` on each read; may be NULL */
};

/* --- libarchive --- */

struct archive;
struct archive_entry;
enum { ARCHIVE_EOF = 1, ARCHIVE_OK = 0, ARCHIVE_WARN = -20, ARCHIVE_RAW = 0x90000 };

typedef int opened_function(struct archive *, void *);
typedef ssize_t read_function(struct archive *, void *, const void **);

#define FUNCTIONS(F)                                                                                                   \
    F(struct archive *, read_new, (void), "archive_read_new")                                                          \
    F(int, read_free, (struct archive *), "archive_read_free")                                                         \
    F(int, filter_gzip, (struct archive *), "archive_read_support_filter_gzip")                                        \
    F(int, filter_bzip2, (struct archive *), "archive_read_support_filter_bzip2")                                      \
    F(int, filter_xz, (struct archive *), "archive_read_support_filter_xz")                                            \
    F(int, filter_zstd, (struct archive *), "archive_read_support_filter_zstd")                                        \
    F(int, format_tar, (struct archive *), "archive_read_support_format_tar")                                          \
    F(int, format_raw, (struct archive *), "archive_read_support_format_raw")                                          \
    F(int, format_empty, (struct archive *), "archive_read_support_format_empty")                                      \
    F(int, open, (struct archive *, void *, opened_function *, read_function *, opened_function *),                    \
      "archive_read_open")                                                                                             \
    F(int, next_header, (struct archive *, struct archive_entry **), "archive_read_next_header")                       \
    F(ssize_t, data, (struct archive *, void *, size_t), "archive_read_data")                                          \
    F(int, format, (struct archive *), "archive_format")                                                               \
    F(const char *, error, (struct archive *), "archive_error_string")                                                 \
    F(const char *, pathname, (struct archive_entry *), "archive_entry_pathname")                                      \
    F(const char *, pathname_utf8, (struct archive_entry *), "archive_entry_pathname_utf8")                            \
    F(const char *, hardlink, (struct archive_entry *), "archive_entry_hardlink")                                      \
    F(mode_t, filetype, (struct archive_entry *), "archive_entry_filetype")                                            \
    F(int64_t, size, (struct archive_entry *), "archive_entry_size")                                                   \
    F(const char *, version, (void), "archive_version_string")

static struct {
    FUNCTIONS(LVN_LIBRARY_POINTER)
} api;

struct lvn_library lvn_library_archive = {.name = "libarchive",
                                          .files = {"libarchive.so.13"},
                                          .use = "reading archives and compressed files",
                                          .hint = "install it (apt install libarchive13), or unpack them first",
                                          .symbols = (const char *const[]){FUNCTIONS(LVN_LIBRARY_SYMBOL) NULL},
                                          .functions = &api,
                                          .version_of = &api.version};

/* A source of bytes in chunks; *n 0 at the end. */
struct stream {
    enum lvn_status (*next)(struct stream *stream, const void **p, int64_t *n);
    struct traversal *traversal;
    const char *name;
    unsigned char *buffer;
    int fd;
    const unsigned char *memory;
    int64_t left;
    struct archive *archive;
    const void *first; /* the first chunk, read to detect the format */
    int64_t n_first;
    bool replay; /* deliver the first chunk again */
    enum lvn_status status;
};

static enum lvn_status next_chunk(struct stream *stream, const void **p, int64_t *n)
{
    if (stream->replay) {
        stream->replay = false;
        *p = stream->first;
        *n = stream->n_first;
        return LVN_OK;
    }
    return stream->next(stream, p, n);
}

static enum lvn_status read_file_chunk(struct stream *stream, const void **p, int64_t *n)
{
    ssize_t got;
    do got = read(stream->fd, stream->buffer, CHUNK);
    while (got < 0 && errno == EINTR);
    LVN_CHECK(got >= 0, IO, "cannot read '%s': %s", stream->name, strerror(errno));
    stream->traversal->in += got;
    if (stream->traversal->reported) *stream->traversal->reported = stream->traversal->in;
    *p = stream->buffer;
    *n = got;
    return LVN_OK;
}

static enum lvn_status read_memory_chunk(struct stream *stream, const void **p, int64_t *n)
{
    *n = stream->left < CHUNK ? stream->left : CHUNK;
    *p = stream->memory;
    stream->memory += *n;
    stream->left -= *n;
    stream->traversal->in += *n;
    return LVN_OK;
}

static enum lvn_status archive_failed(struct stream *stream)
{
    const char *text = api.error(stream->archive);
    LVN_FAIL(FORMAT, "'%s' cannot be read as an archive: %s; it is damaged or truncated", stream->name,
             text ? text : "an unknown error");
}

static enum lvn_status read_entry_chunk(struct stream *stream, const void **p, int64_t *n)
{
    ssize_t got = api.data(stream->archive, stream->buffer, CHUNK);
    if (stream->status != LVN_OK) return stream->status; /* reading the archive's own bytes failed */
    if (got < 0) return archive_failed(stream);
    struct traversal *traversal = stream->traversal;
    traversal->out += got;
    double grown = traversal->in ? (double)traversal->out / (double)traversal->in * traversal->growth : 0;
    LVN_CHECK(traversal->out < GROWTH_FROM || grown < LVN_ARCHIVE_GROWTH, FORMAT,
              "'%s' expands more than %d-fold when it is unpacked (at '%s'): it may be a decompression bomb; if not, "
              "unpack it yourself",
              traversal->root, LVN_ARCHIVE_GROWTH, stream->name);
    *p = stream->buffer;
    *n = got;
    return LVN_OK;
}

bool lvn_archive_is(const void *bytes, int64_t n)
{
    const unsigned char *p = bytes;
    return (n > 2 && p[0] == 0x1f && p[1] == 0x8b) ||
           (n > 5 && !memcmp(p,
                             "\xfd"
                             "7zXZ",
                             6)) ||
           (n > 3 && !memcmp(p, "\x28\xb5\x2f\xfd", 4)) ||
           (n > 9 && !memcmp(p, "BZh", 3) && p[3] >= '1' && p[3] <= '9' && !memcmp(p + 4, "1AY&SY", 6)) ||
           (n >= 512 && !memcmp(p + 257, "ustar", 5));
}

static enum lvn_status read_stream(struct stream *stream, int depth, bool named);

/* --- archives --- */

/* Callback data: libarchive reads the archive's bytes from `source`. */
struct feed {
    struct stream *source;
    enum lvn_status status;
};

static int no_open(struct archive *a, void *context)
{
    (void)a;
    (void)context;
    return ARCHIVE_OK;
}

static ssize_t feed_chunk(struct archive *a, void *context, const void **p)
{
    struct feed *feed = context;
    int64_t n = 0;
    (void)a;
    if (feed->status == LVN_OK) feed->status = next_chunk(feed->source, p, &n);
    return feed->status == LVN_OK ? n : -1;
}

/* True if the name leads out of the folder, for example "a/../../b" or "/a". */
static bool escapes_folder(const char *name)
{
    int depth = 0;
    if (*name == '/') return true;
    for (const char *p = name; *p; p += strspn(p, "/")) {
        size_t n = strcspn(p, "/");
        depth += n == 2 && !strncmp(p, "..", 2) ? -1 : n == 1 && *p == '.' ? 0 : 1;
        if (depth < 0) return true;
        p += n;
    }
    return false;
}

/* The name of the content: text.gz contains text; other names are unchanged. */
static bool inner_name(const char *name, char *out)
{
    static const char *const extensions[] = {".gz", ".bz2", ".xz", ".zst"};
    size_t n = strlen(name);
    for (size_t i = 0; i < 4; i++) {
        size_t m = strlen(extensions[i]);
        if (n > m && !strcmp(name + n - m, extensions[i])) n -= m;
    }
    return lvn_fit(out, NAME_BYTES, "%.*s", (int)n, name);
}

static enum lvn_status collect_blob(struct stream *stream, int64_t size, int depth)
{
    unsigned char *all = lvn_malloc((size_t)size + 1);
    int64_t got = 0, n;
    const void *p;
    enum lvn_status status = all ? LVN_OK : LVN_MEMORY;
    while (status == LVN_OK && (status = next_chunk(stream, &p, &n)) == LVN_OK && n) {
        int64_t count = n < size - got ? n : size - got;
        memcpy(all + got, p, (size_t)count);
        got += count;
    }
    double growth = stream->traversal->in
                        ? (double)stream->traversal->out / (double)stream->traversal->in * stream->traversal->growth
                        : 1;
    struct lvn_archive_position position = {.depth = depth, .growth = growth > 1 ? growth : 1};
    if (status == LVN_OK)
        status =
            stream->traversal->visitor->blob(stream->traversal->visitor->context, stream->name, all, got, position);
    free(all);
    return status;
}

static enum lvn_status read_entry(struct stream *stream, const struct stream *source, struct archive_entry *e,
                                  int depth, bool named)
{
    const char *path = api.pathname_utf8(e);
    if (!path) path = api.pathname(e);
    char name[NAME_BYTES];
    bool raw = api.format(stream->archive) == ARCHIVE_RAW, whole;
    if (!raw && (api.filetype(e) != S_IFREG || (api.hardlink(e) && !api.size(e)))) return LVN_OK;
    const char *outer = stream->name;
    if (raw) {
        whole = inner_name(outer, name);
    } else {
        if (!path || !*path) path = "(no name)"; /* not representable in this locale; only messages show it */
        LVN_CHECK(!escapes_folder(path), FORMAT,
                  "'%s' contains '%.200s', a name that leads out of its folder: not unpacked", outer, path);
        whole = lvn_fit(name, sizeof name, "%s/%s", outer, path);
    }
    LVN_CHECK(whole, FORMAT, "'%.200s' contains a member whose name has more than %d bytes", outer, NAME_BYTES - 1);
    stream->name = name;
    stream->replay = false;
    enum lvn_status status = next_chunk(stream, &stream->first, &stream->n_first);
    stream->replay = true;
    /* If the output equals the input, libarchive did not recognize the format despite the signature of an archive. */
    int64_t n = stream->n_first < source->n_first ? stream->n_first : source->n_first;
    LVN_CHECK(status != LVN_OK || !raw || n < 512 || memcmp(stream->first, source->first, 512) != 0, FORMAT,
              "'%s' begins like an archive, but cannot be read as one; it is damaged or truncated", outer);
    int64_t size = raw ? INT64_MAX : api.size(e);
    bool blob =
        stream->traversal->visitor->blob && size <= LVN_ARCHIVE_BLOB && lvn_archive_is(stream->first, stream->n_first);
    if (status == LVN_OK) status = blob ? collect_blob(stream, size, depth) : read_stream(stream, depth, named && raw);
    stream->name = outer;
    return status;
}

static enum lvn_status read_entries(struct stream *stream, struct feed *feed, int depth, bool named)
{
    struct archive *a = stream->archive;
    int code = api.open(a, feed, no_open, feed_chunk, no_open);
    while (code == ARCHIVE_OK || code == ARCHIVE_WARN) {
        struct archive_entry *e;
        code = api.next_header(a, &e);
        if (code != ARCHIVE_OK && code != ARCHIVE_WARN) break;
        enum lvn_status status = read_entry(stream, feed->source, e, depth + 1, named);
        if (feed->status != LVN_OK) return feed->status;
        LVN_TRY(status);
    }
    if (feed->status != LVN_OK) return feed->status;
    return code == ARCHIVE_EOF ? LVN_OK : archive_failed(stream);
}

static enum lvn_status read_archive(struct stream *source, int depth, bool named)
{
    LVN_CHECK(depth < LVN_ARCHIVE_DEPTH, FORMAT, "'%s' is an archive within %d others: at most %d levels are supported",
              source->name, depth, LVN_ARCHIVE_DEPTH);
    LVN_TRY(lvn_library_open(&lvn_library_archive));
    struct feed feed = {.source = source};
    struct stream stream = {.next = read_entry_chunk, .traversal = source->traversal, .name = source->name};
    stream.buffer = lvn_malloc(CHUNK);
    stream.archive = api.read_new();
    enum lvn_status status = stream.buffer && stream.archive ? LVN_OK : LVN_MEMORY;
    if (status == LVN_OK) {
        api.filter_gzip(stream.archive);
        api.filter_bzip2(stream.archive);
        api.filter_xz(stream.archive);
        api.filter_zstd(stream.archive);
        api.format_empty(stream.archive);
        api.format_tar(stream.archive);
        api.format_raw(stream.archive);
        status = read_entries(&stream, &feed, depth, named);
    }
    if (stream.archive) api.read_free(stream.archive);
    free(stream.buffer);
    return status;
}

/* --- plain files --- */

static enum lvn_status read_plain(struct stream *stream, bool named)
{
    const struct lvn_archive_visitor *visitor = stream->traversal->visitor;
    bool want = false;
    LVN_TRY(visitor->begin(visitor->context, stream->name, named, &want));
    while (want) {
        const void *p;
        int64_t n;
        LVN_TRY(next_chunk(stream, &p, &n));
        if (n == 0) return visitor->end(visitor->context);
        LVN_TRY(visitor->data(visitor->context, p, n));
    }
    return LVN_OK;
}

/* stream->first has been read. */
static enum lvn_status read_stream(struct stream *stream, int depth, bool named)
{
    return lvn_archive_is(stream->first, stream->n_first) ? read_archive(stream, depth, named)
                                                          : read_plain(stream, named);
}

static enum lvn_status start(struct stream *stream, int depth, bool named)
{
    LVN_TRY(stream->next(stream, &stream->first, &stream->n_first));
    stream->replay = true;
    return read_stream(stream, depth, named);
}

enum lvn_status lvn_archive_read(const char *path, bool named, const struct lvn_archive_visitor *visitor,
                                 int64_t *bytes_read)
{
    struct traversal traversal = {.visitor = visitor, .root = path, .growth = 1, .reported = bytes_read};
    struct stream stream = {.next = read_file_chunk, .traversal = &traversal, .name = path};
    *bytes_read = 0;
    stream.buffer = lvn_malloc(CHUNK);
    if (!stream.buffer) return LVN_MEMORY;
    enum lvn_status status = lvn_input_open(path, named ? LVN_INPUT_OPENED : LVN_INPUT_REGULAR, &stream.fd);
    if (status == LVN_OK) status = start(&stream, 0, named);
    if (stream.fd >= 0) close(stream.fd);
    free(stream.buffer);
    return status;
}

enum lvn_status lvn_archive_read_memory(const char *name, const void *p, int64_t n,
                                        struct lvn_archive_position position, const struct lvn_archive_visitor *visitor)
{
    struct traversal traversal = {.visitor = visitor, .root = name, .growth = position.growth};
    struct stream stream = {.next = read_memory_chunk, .traversal = &traversal, .name = name, .memory = p, .left = n};
    return start(&stream, position.depth, false);
}

/* --- folders --- */

struct folder {
    dev_t device;
    ino_t inode;
};
struct names {
    const char **name;
    int64_t n, capacity;
};
struct list {
    struct lvn_arena *a;
    struct names files, links; /* links: to folders, which are read after the folder itself */
    struct folder *read;       /* folders that have been read */
    int64_t n_read, capacity;
};

static enum lvn_status add(struct names *list, const char *path)
{
    if (!lvn_list_reserve(&list->name, &list->capacity, list->n + 1, sizeof *list->name)) return LVN_MEMORY;
    list->name[list->n++] = path;
    return LVN_OK;
}

static int by_inode(const void *a, const void *b)
{
    const struct folder *x = a, *y = b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    return (x->inode > y->inode) - (x->inode < y->inode);
}

/* Lists a folder that is not one of the first `n` folders, which are sorted. */
static enum lvn_status list_dir(struct list *l, const char *dir, int64_t n, int depth)
{
    const char *const *names;
    int n_names;
    struct stat s;
    LVN_CHECK(depth < 64, FORMAT, "'%s': folders are nested more than 64 deep", dir);
    LVN_CHECK(stat(dir, &s) == 0, IO, "cannot read the directory '%s': %s", dir, strerror(errno));
    const struct folder this = {s.st_dev, s.st_ino};
    if (n && bsearch(&this, l->read, (size_t)n, sizeof this, by_inode)) return LVN_OK;
    if (!lvn_list_reserve(&l->read, &l->capacity, l->n_read + 1, sizeof *l->read)) return LVN_MEMORY;
    l->read[l->n_read++] = this;
    LVN_TRY(lvn_dir_list(l->a, dir, &names, &n_names));
    for (int i = 0; i < n_names; i++) {
        if (names[i][0] == '.') continue;
        char *path = lvn_path_join(l->a, dir, names[i]);
        if (!path) return LVN_MEMORY;
        bool found;
        LVN_TRY(lvn_path_find(path, &found));
        if (!found) continue;
        if (lstat(path, &s) == 0 && S_ISDIR(s.st_mode))
            LVN_TRY(list_dir(l, path, n, depth + 1));
        else if (lvn_path_is_file(path))
            LVN_TRY(add(&l->files, path));
        else if (lvn_path_is_dir(path))
            LVN_TRY(add(&l->links, path));
    }
    return LVN_OK;
}

/* Each folder is read once, even if links lead to it or form a cycle, and by its own name rather than that of a link.
 */
static enum lvn_status list_folders(struct list *l, const char *path)
{
    LVN_TRY(list_dir(l, path, 0, 0));
    for (int64_t i = 0; i < l->links.n; i++) {
        qsort(l->read, (size_t)l->n_read, sizeof *l->read, by_inode);
        LVN_TRY(list_dir(l, l->links.name[i], l->n_read, 0));
    }
    return LVN_OK;
}

enum lvn_status lvn_archive_list(struct lvn_arena *a, const char *path, const char *const **names, int64_t *n)
{
    struct list l = {.a = a};
    bool found;
    LVN_TRY(lvn_path_find(path, &found));
    LVN_CHECK(found, IO, "'%s' does not exist", path);
    enum lvn_status status = lvn_path_is_dir(path) ? list_folders(&l, path) : add(&l.files, path);
    const struct names *files = &l.files;
    if (files->n) qsort(files->name, (size_t)files->n, sizeof *files->name, lvn_by_text);
    const char **sorted = status == LVN_OK ? lvn_arena_alloc(a, sizeof *sorted * (size_t)(files->n + 1)) : NULL;
    if (status == LVN_OK && !sorted) status = LVN_MEMORY;
    if (sorted && files->n) memcpy(sorted, files->name, sizeof *sorted * (size_t)files->n);
    *names = sorted;
    *n = files->n;
    free(l.files.name);
    free(l.links.name);
    free(l.read);
    return status;
}
