/* resumable_file.c - see resumable_file.h. */
#include "data/resumable_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/system.h"

enum { BUFFER = 1 << 20 };

static enum lvn_status failed(const struct lvn_resumable_file *f)
{
    LVN_FAIL(IO, "cannot write '%s': %s", f->path, strerror(errno));
}

/* Read the first `bytes` bytes for their checksum. */
static enum lvn_status read_prefix(struct lvn_resumable_file *f, int64_t bytes)
{
    f->bytes = bytes;
    lvn_checksum_init(&f->sum);
    if (lseek(f->fd, 0, SEEK_SET) != 0) return failed(f);
    return lvn_checksum_add_file(&f->sum, f->fd, f->path, bytes, f->buffer, BUFFER);
}

static enum lvn_status cut(struct lvn_resumable_file *f)
{
    if (ftruncate(f->fd, f->bytes) != 0 || lseek(f->fd, f->bytes, SEEK_SET) != f->bytes) return failed(f);
    return LVN_OK;
}

/* Verify the first `bytes` bytes by their checksum, and truncate the file to them. */
static enum lvn_status verify_prefix(struct lvn_resumable_file *f, int64_t bytes, uint64_t sum)
{
    LVN_TRY(read_prefix(f, bytes));
    LVN_CHECK(bytes == 0 || lvn_checksum_value(&f->sum) == sum, FORMAT, "'%s' is not what was written", f->path);
    return cut(f);
}

enum lvn_status lvn_resumable_file_open(struct lvn_resumable_file *f, const char *path, int64_t bytes, uint64_t sum)
{
    *f = (struct lvn_resumable_file){.fd = -1};
    f->path = lvn_strdup(path);
    f->buffer = lvn_malloc(BUFFER);
    enum lvn_status status = f->path && f->buffer ? LVN_OK : LVN_MEMORY;
    if (status == LVN_OK) {
        f->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (f->fd < 0) status = failed(f);
    }
    if (status == LVN_OK && flock(f->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        status = lvn_fail(LVN_IO, "'%s' is being written by another process", path);
    if (status == LVN_OK) status = verify_prefix(f, bytes, sum);
    if (status != LVN_OK) lvn_resumable_file_close(f);
    return status;
}

static enum lvn_status flush(struct lvn_resumable_file *f)
{
    if (!lvn_fd_write(f->fd, f->buffer, f->used)) return failed(f);
    f->used = 0;
    return LVN_OK;
}

enum lvn_status lvn_resumable_file_truncate(struct lvn_resumable_file *f, int64_t bytes)
{
    LVN_TRY(flush(f));
    LVN_TRY(read_prefix(f, bytes));
    return cut(f);
}

enum lvn_status lvn_resumable_file_write(struct lvn_resumable_file *f, const void *p, int64_t bytes)
{
    lvn_checksum_add(&f->sum, p, bytes);
    f->bytes += bytes;
    for (const char *cursor = p; bytes > 0;) {
        int64_t take = BUFFER - f->used < bytes ? BUFFER - f->used : bytes;
        memcpy(f->buffer + f->used, cursor, (size_t)take);
        f->used += take;
        cursor += take;
        bytes -= take;
        if (f->used == BUFFER) LVN_TRY(flush(f));
    }
    return LVN_OK;
}

enum lvn_status lvn_resumable_file_sync(struct lvn_resumable_file *f)
{
    LVN_TRY(flush(f));
    return lvn_system.fsync(f->fd) != 0 ? failed(f) : LVN_OK;
}

void lvn_resumable_file_close(struct lvn_resumable_file *f)
{
    if (f->fd >= 0) close(f->fd);
    free(f->path);
    free(f->buffer);
    *f = (struct lvn_resumable_file){.fd = -1};
}
