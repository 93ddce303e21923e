/* append_file.c - see append_file.h. */
#include "base/append_file.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"

void lvn_append_file_open(struct lvn_append_file *file, int fd)
{
    *file = (struct lvn_append_file){.fd = fd, .is_open = true};
}

/* Write at the end of the file. After a failure truncate it again: a partial row would corrupt the next one. */
static enum lvn_status write_rows(struct lvn_append_file *file, const void *p, int64_t n)
{
    off_t before = lseek(file->fd, 0, SEEK_END);
    file->last_write_s = lvn_seconds();
    if (lvn_fd_write(file->fd, p, n)) return LVN_OK;
    int reason = errno;
    bool whole = before >= 0 && ftruncate(file->fd, before) == 0;
    if (whole) lseek(file->fd, before, SEEK_SET);
    LVN_FAIL(IO, "%s%s", strerror(reason), whole ? "" : "; the last row of the file is incomplete");
}

enum lvn_status lvn_append_file_flush(struct lvn_append_file *file)
{
    if (!file->is_open || !file->pending.n) return LVN_OK;
    enum lvn_status status = write_rows(file, file->pending.p, file->pending.n);
    lvn_text_clear(&file->pending);
    return status;
}

enum lvn_status lvn_append_file_write(struct lvn_append_file *file, const void *p, int64_t n)
{
    const double max_s = 0.25;
    lvn_text_add_bytes(&file->pending, p, n);
    if (file->pending.failed) { /* out of memory: write directly */
        file->pending.failed = false;
        lvn_error_clear();
        LVN_TRY(lvn_append_file_flush(file));
        return write_rows(file, p, n);
    }
    return lvn_seconds() - file->last_write_s >= max_s ? lvn_append_file_flush(file) : LVN_OK;
}

enum lvn_status lvn_append_file_close(struct lvn_append_file *file)
{
    enum lvn_status status = lvn_append_file_flush(file);
    if (file->is_open) close(file->fd);
    file->is_open = false;
    lvn_text_release(&file->pending);
    return status;
}
