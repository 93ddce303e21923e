/* common_file.c - see common_file.h. */
#include "checkpoints/common_file.h"

#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/files.h"
#include "base/system.h"
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
    struct lvn_common_file file = {.direct = -1, .path = path};
    LVN_TRY(lvn_file_open_nofollow(path, O_WRONLY | O_CREAT | O_TRUNC, &file.fd));
    enum lvn_status status = LVN_OK;
    if (lvn_system.ftruncate(file.fd, (off_t)bytes) != 0)
        status =
            lvn_fail(LVN_IO, "cannot set the size of '%s' to %lld bytes: %s", path, (long long)bytes, strerror(errno));
    if (status == LVN_OK) status = lvn_common_file_write(&file, data, 0, n);
    close(file.fd);
    return status;
}

enum lvn_status lvn_common_file_open(struct lvn_common_file *file, const char *path, char *block)
{
    *file = (struct lvn_common_file){.fd = -1, .direct = -1, .block = block, .path = path};
    LVN_TRY(lvn_file_open_nofollow(path, O_WRONLY, &file->fd));
#ifdef O_DIRECT
    if (block) file->direct = open(path, O_WRONLY | O_DIRECT | O_NOFOLLOW | O_CLOEXEC);
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

static enum lvn_status write_cached(const struct lvn_common_file *file, const char *data, int64_t offset, int64_t bytes)
{
    for (int64_t n = 0; n < bytes;) {
        const int64_t part = bytes - n < LARGEST_WRITE ? bytes - n : LARGEST_WRITE;
        const ssize_t done = lvn_system.pwrite(file->fd, data + n, (size_t)part, (off_t)(offset + n));
        if (done < 0 && errno == EINTR) continue;
        if (done == 0) errno = ENOSPC;
        LVN_CHECK(done > 0, IO, "cannot write '%s': %s", file->path, strerror(errno));
        begin_sync(file->fd, offset + n, done);
        lvn_work_done(done);
        n += done;
    }
    return LVN_OK;
}

/* Write whole blocks; returns the bytes written: fewer if the file system does not support it, or the disk is full. */
static int64_t write_direct(const struct lvn_common_file *file, const char *data, int64_t offset, int64_t bytes)
{
    int64_t n = 0;
    while (n < bytes) {
        const int64_t part = bytes - n < LVN_DIRECT_BYTES ? bytes - n : LVN_DIRECT_BYTES;
        memcpy(file->block, data + n, (size_t)part);
        if (lvn_system.pwrite(file->direct, file->block, (size_t)part, (off_t)(offset + n)) != part) break;
        lvn_work_done(part);
        n += part;
    }
    return n;
}

enum lvn_status lvn_common_file_write(const struct lvn_common_file *file, const void *data, int64_t offset,
                                      int64_t bytes)
{
    const char *from = data;
    int64_t head = (LVN_DIRECT_UNIT - offset % LVN_DIRECT_UNIT) % LVN_DIRECT_UNIT;
    if (file->direct < 0 || bytes < head + LVN_DIRECT_UNIT) return write_cached(file, from, offset, bytes);
    LVN_TRY(write_cached(file, from, offset, head));
    const int64_t body = (bytes - head) / LVN_DIRECT_UNIT * LVN_DIRECT_UNIT;
    head += write_direct(file, from + head, offset + head, body);
    return write_cached(file, from + head, offset + head, bytes - head);
}

enum lvn_status lvn_common_file_close(struct lvn_common_file *file, enum lvn_status so_far)
{
    if (file->fd < 0) return so_far;
    if (so_far == LVN_OK) so_far = lvn_file_sync(file->path);
    if (file->direct >= 0) close(file->direct);
    if (close(file->fd) != 0 && so_far == LVN_OK)
        so_far = lvn_fail(LVN_IO, "cannot write '%s': %s", file->path, strerror(errno));
    *file = (struct lvn_common_file){.fd = -1, .direct = -1, .path = file->path};
    return so_far;
}

void lvn_common_file_close_unsynced(struct lvn_common_file *file)
{
    const enum lvn_status failed = lvn_common_file_close(file, LVN_IO);
    (void)failed;
}
