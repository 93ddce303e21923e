/* common_file.c - see common_file.h. */
#include "checkpoints/common_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/files.h"
#include "base/target.h"
#include "base/work.h"

enum { LARGEST_WRITE = 8 << 20 };

bool lvn_path_has_common_writes(const char *path)
{
    static const unsigned long parallel[] = {0x0bd00bd0, 0x47504653, 0x19830326, 0x00c36400}; /* as in the header */
    struct statfs s;
    if (lvn_path_is_local(path)) return true;
    if (statfs(path, &s) != 0) return false;
    for (size_t i = 0; i < sizeof parallel / sizeof *parallel; i++)
        if ((unsigned long)s.f_type == parallel[i]) return true;
    return false;
}

enum lvn_status lvn_common_file_create(const char *path, const void *data, int64_t n, int64_t bytes)
{
    struct lvn_common_file f = {.direct = -1, .path = path};
    LVN_TRY(lvn_file_open_nofollow(path, O_WRONLY | O_CREAT | O_TRUNC, &f.fd));
    enum lvn_status status = LVN_OK;
    if (lvn_files_refuse() || ftruncate(f.fd, (off_t)bytes) != 0)
        status = lvn_fail(LVN_IO, "cannot make '%s' %lld bytes long: %s", path, (long long)bytes, strerror(errno));
    if (status == LVN_OK) status = lvn_common_file_write(&f, data, 0, n);
    close(f.fd);
    return status;
}

enum lvn_status lvn_common_file_open(struct lvn_common_file *f, const char *path, char *block)
{
    *f = (struct lvn_common_file){.fd = -1, .direct = -1, .block = block, .path = path};
    LVN_TRY(lvn_file_open_nofollow(path, O_WRONLY, &f->fd));
#ifdef O_DIRECT
    if (block) f->direct = open(path, O_WRONLY | O_DIRECT | O_NOFOLLOW | O_CLOEXEC);
#endif
    return LVN_OK;
}

static void begin_sync(int fd, int64_t offset, int64_t bytes)
{
#ifdef SYNC_FILE_RANGE_WRITE
    (void)sync_file_range(fd, (off_t)offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE); /* closing reports failures */
#else
    (void)fd, (void)offset, (void)bytes;
#endif
}

static enum lvn_status write_cached(const struct lvn_common_file *f, const char *data, int64_t offset, int64_t bytes)
{
    for (int64_t n = 0; n < bytes;) {
        const int64_t part = bytes - n < LARGEST_WRITE ? bytes - n : LARGEST_WRITE;
        const ssize_t done = lvn_files_refuse() ? -1 : pwrite(f->fd, data + n, (size_t)part, (off_t)(offset + n));
        if (done < 0 && errno == EINTR) continue;
        if (done == 0) errno = ENOSPC;
        LVN_CHECK(done > 0, IO, "cannot write '%s': %s", f->path, strerror(errno));
        begin_sync(f->fd, offset + n, done);
        lvn_work_done(done);
        n += done;
    }
    return LVN_OK;
}

/* Whole blocks; returns how many bytes were written: fewer where the file system cannot, or the disk is full. */
static int64_t write_direct(const struct lvn_common_file *f, const char *data, int64_t offset, int64_t bytes)
{
    int64_t n = 0;
    while (n < bytes && !lvn_files_refuse()) {
        const int64_t part = bytes - n < LVN_DIRECT_BYTES ? bytes - n : LVN_DIRECT_BYTES;
        memcpy(f->block, data + n, (size_t)part);
        if (pwrite(f->direct, f->block, (size_t)part, (off_t)(offset + n)) != part) break;
        lvn_work_done(part);
        n += part;
    }
    return n;
}

enum lvn_status lvn_common_file_write(const struct lvn_common_file *f, const void *data, int64_t offset, int64_t bytes)
{
    const char *from = data;
    int64_t head = (LVN_DIRECT_UNIT - offset % LVN_DIRECT_UNIT) % LVN_DIRECT_UNIT;
    if (f->direct < 0 || bytes < head + LVN_DIRECT_UNIT) return write_cached(f, from, offset, bytes);
    LVN_TRY(write_cached(f, from, offset, head));
    const int64_t body = (bytes - head) / LVN_DIRECT_UNIT * LVN_DIRECT_UNIT;
    head += write_direct(f, from + head, offset + head, body);
    return write_cached(f, from + head, offset + head, bytes - head);
}

enum lvn_status lvn_common_file_close(struct lvn_common_file *f, enum lvn_status so_far)
{
    if (f->fd < 0) return so_far;
    if (so_far == LVN_OK) so_far = lvn_file_sync(f->path);
    if (f->direct >= 0) close(f->direct);
    if (close(f->fd) != 0 && so_far == LVN_OK)
        so_far = lvn_fail(LVN_IO, "cannot write '%s': %s", f->path, strerror(errno));
    *f = (struct lvn_common_file){.fd = -1, .direct = -1, .path = f->path};
    return so_far;
}

void lvn_common_file_close_unsynced(struct lvn_common_file *f)
{
    const enum lvn_status failed = lvn_common_file_close(f, LVN_IO);
    (void)failed;
}
