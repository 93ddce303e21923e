/* download.c - into PATH.part, then verify, then rename. A lock on PATH.part keeps two processes apart. */
#include "io/download.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "io/curl.h"
#include "io/sha256.h"

enum { MOST_TRIES = 20, PART_BYTES = 1 << 20 };

struct download {
    const char *url, *sha256, *path, *part;
    lvn_download_progress *progress;
    void *context;
    int fd;    /* of part */
    int error; /* errno of a failed write */
};

static enum lvn_status check_sha256(const char *sha256)
{
    LVN_CHECK(strlen(sha256) == 64 && strspn(sha256, "0123456789abcdefABCDEF") == 64, ARG,
              "'%.80s' is not a SHA-256 checksum: wanted are 64 hexadecimal digits", sha256);
    return LVN_OK;
}

enum lvn_status lvn_download_verify(const char *path, const char *sha256)
{
    char found[LVN_SHA256_TEXT];
    LVN_TRY(check_sha256(sha256));
    LVN_TRY(lvn_sha256_file(path, found));
    LVN_CHECK(strcasecmp(found, sha256) == 0, FORMAT,
              "'%s' is not the file that was wanted: its SHA-256 is %s, it should be %s", path, found, sha256);
    return LVN_OK;
}

static bool take(void *context, const void *data, int64_t bytes)
{
    struct download *d = context;
    for (const char *p = data; bytes > 0;) {
        ssize_t done = lvn_files_refuse() ? -1 : write(d->fd, p, (size_t)bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            d->error = done < 0 ? errno : ENOSPC;
            return false;
        }
        p += done;
        bytes -= done;
    }
    return true;
}

static enum lvn_status part_failed(const struct download *d)
{
    LVN_FAIL(IO, "cannot write '%s': %s", d->part, strerror(d->error));
}

/* Continues at byte `from` of the part. */
static enum lvn_status part_from(struct download *d, int64_t from)
{
    if (ftruncate(d->fd, from) == 0 && lseek(d->fd, from, SEEK_SET) == from) return LVN_OK;
    d->error = errno;
    return part_failed(d);
}

/* --- file:// --- */

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* "file:///a%20b" and "file://localhost/a" to a path; in place. */
static enum lvn_status file_path(const char *url, char *text)
{
    const char *from = url + strlen("file://");
    if (strncmp(from, "localhost/", 10) == 0) from += 9;
    LVN_CHECK(*from == '/', ARG, "'%s': a file URL wants an absolute path, as file:///home/me/text.txt", url);
    char *to = text;
    for (; *from; from++) {
        bool coded = *from == '%' && hex(from[1]) >= 0 && hex(from[2]) >= 0;
        *to++ = coded ? (char)(hex(from[1]) * 16 + hex(from[2])) : *from;
        if (coded) from += 2;
    }
    *to = '\0';
    return LVN_OK;
}

static enum lvn_status copy(struct download *d, int in, const char *path, char *buffer)
{
    struct stat s;
    LVN_CHECK(fstat(in, &s) == 0 && S_ISREG(s.st_mode), IO, "cannot read '%s': it is not a regular file", path);
    for (int64_t done = 0;;) {
        ssize_t got = read(in, buffer, PART_BYTES);
        if (got < 0 && errno == EINTR) continue;
        LVN_CHECK(got >= 0, IO, "cannot read '%s': %s", path, strerror(errno));
        if (got == 0) return LVN_OK;
        if (!take(d, buffer, got)) return part_failed(d);
        done += got;
        LVN_CHECK(!d->progress || d->progress(d->context, done, s.st_size) == 0, STOPPED,
                  "the copy of '%s' was stopped", path);
    }
}

static enum lvn_status fetch_file(struct download *d)
{
    LVN_TRY(part_from(d, 0));
    char *path = lvn_malloc(strlen(d->url) + 1), *buffer = lvn_malloc(PART_BYTES);
    enum lvn_status status = path && buffer ? file_path(d->url, path) : LVN_MEMORY;
    if (status == LVN_OK) {
        int in = open(path, O_RDONLY | O_CLOEXEC);
        if (in < 0)
            status = lvn_fail_at(__FILE__, __LINE__, LVN_IO, "cannot fetch '%s': %s", d->url, strerror(errno));
        else
            status = copy(d, in, path, buffer);
        if (in >= 0) close(in);
    }
    free(buffer);
    free(path);
    return status;
}

/* --- http:// and https:// --- */

/* From where the part ends; again when the connection broke and each try brought something. */
static enum lvn_status fetch_http(struct download *d, int64_t from)
{
    struct lvn_curl_request r = {
        .url = d->url, .take = take, .context = d, .progress = d->progress, .progress_context = d->context};
    for (int i = 0;; i++) {
        enum lvn_curl_end end;
        char text[LVN_CURL_TEXT];
        LVN_TRY(part_from(d, from));
        r.from = from;
        LVN_TRY_WHILE(lvn_curl_get(&r, &end, text), "fetching '%s'; you can also put the file to '%s' yourself", d->url,
                      d->path);
        if (end == LVN_CURL_WHOLE) return LVN_OK;
        if (end == LVN_CURL_REFUSED && d->error) return part_failed(d);
        int64_t here = lseek(d->fd, 0, SEEK_CUR);
        LVN_CHECK(end != LVN_CURL_STOPPED, STOPPED, "the download of '%s' was stopped after %lld bytes", d->url,
                  (long long)here);
        bool again = i < MOST_TRIES && ((end == LVN_CURL_CUT && here > from) || (end == LVN_CURL_NO_RANGE && from > 0));
        LVN_CHECK(again, IO, "cannot fetch '%s': %s (you can also put the file to '%s' yourself)", d->url, text,
                  d->path);
        from = end == LVN_CURL_NO_RANGE ? 0 : here;
    }
}

/* --- both --- */

static bool is_file_url(const char *url)
{
    return strncmp(url, "file://", 7) == 0;
}

static enum lvn_status fetch(struct download *d)
{
    if (is_file_url(d->url)) return fetch_file(d);
    /* What is there may be of another file: only a checksum makes going on safe. */
    int64_t from = d->sha256 ? lseek(d->fd, 0, SEEK_END) : 0;
    LVN_TRY(fetch_http(d, from < 0 ? 0 : from));
    if (d->sha256 && from > 0 && lvn_download_verify(d->part, d->sha256) != LVN_OK) return fetch_http(d, 0);
    return LVN_OK;
}

static enum lvn_status finish(struct download *d)
{
    enum lvn_status status = d->sha256 ? lvn_download_verify(d->part, d->sha256) : LVN_OK;
    if (status == LVN_FORMAT) {
        unlink(d->part);
        return lvn_while_at(status, "fetching '%s'; it was thrown away", d->url);
    }
    if (status != LVN_OK) return status;
    if (lvn_files_refuse() || fsync(d->fd) != 0) {
        d->error = errno;
        return part_failed(d);
    }
    return lvn_file_rename(d->part, d->path);
}

static enum lvn_status verify_present(const struct download *d)
{
    return d->sha256 ? lvn_download_verify(d->path, d->sha256) : LVN_OK;
}

static enum lvn_status run(struct download *d)
{
    d->fd = open(d->part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    LVN_CHECK(d->fd >= 0, IO, "cannot write '%s': %s", d->part, strerror(errno));
    enum lvn_status status;
    (void)!flock(d->fd, LOCK_EX); /* where there are no locks, go without */
    /* Another process may have finished while this one waited: then the name is not ours any more. */
    if (lvn_path_exists(d->path))
        status = verify_present(d);
    else {
        status = fetch(d);
        if (status == LVN_OK)
            status = finish(d);
        else if (is_file_url(d->url))
            unlink(d->part);
    }
    close(d->fd);
    return status;
}

enum lvn_status lvn_download(const char *url, const char *sha256, const char *path, lvn_download_progress *progress,
                             void *context)
{
    struct download d = {.url = url, .sha256 = sha256, .path = path, .progress = progress, .context = context};
    bool known = is_file_url(url) || strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
    LVN_CHECK(known, ARG, "'%s' is not a URL that levin can fetch: wanted is http://, https:// or file://", url);
    if (sha256) LVN_TRY(check_sha256(sha256));
    if (lvn_path_exists(path)) return verify_present(&d);
    struct lvn_arena a;
    lvn_arena_init(&a);
    char *dir = lvn_path_dir(&a, path);
    d.part = lvn_arena_printf(&a, "%s.part", path);
    enum lvn_status status = dir && d.part ? lvn_dir_make(dir) : LVN_MEMORY;
    if (status == LVN_OK) status = run(&d);
    if (status == LVN_OK) status = lvn_dir_sync(dir);
    lvn_arena_release(&a);
    return status;
}
