/* append_file.c - see append_file.h. */
#include "base/append_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"

void lvn_append_file_open(struct lvn_append_file *a, int fd)
{
    *a = (struct lvn_append_file){.fd = fd, .is_open = true};
}

/* Writes at the end of the file. After a failure truncates it again: a partial row would corrupt the next one. */
static enum lvn_status write_rows(struct lvn_append_file *a, const void *p, int64_t n)
{
    off_t before = lseek(a->fd, 0, SEEK_END);
    a->last_write_s = lvn_seconds();
    if (!lvn_files_refuse() && lvn_fd_write(a->fd, p, n)) return LVN_OK;
    int reason = errno;
    bool whole = before >= 0 && ftruncate(a->fd, before) == 0;
    if (whole) lseek(a->fd, before, SEEK_SET);
    LVN_FAIL(IO, "%s%s", strerror(reason), whole ? "" : ", and its last row is incomplete");
}

enum lvn_status lvn_append_file_flush(struct lvn_append_file *a)
{
    if (!a->is_open || !a->pending.n) return LVN_OK;
    enum lvn_status status = write_rows(a, a->pending.p, a->pending.n);
    lvn_text_clear(&a->pending);
    return status;
}

enum lvn_status lvn_append_file_write(struct lvn_append_file *a, const void *p, int64_t n)
{
    const double max_s = 0.25;
    lvn_text_add_bytes(&a->pending, p, n);
    if (a->pending.failed) { /* out of memory: write directly */
        a->pending.failed = false;
        lvn_error_clear();
        LVN_TRY(lvn_append_file_flush(a));
        return write_rows(a, p, n);
    }
    return lvn_seconds() - a->last_write_s >= max_s ? lvn_append_file_flush(a) : LVN_OK;
}

enum lvn_status lvn_append_file_close(struct lvn_append_file *a)
{
    enum lvn_status status = lvn_append_file_flush(a);
    if (a->is_open) close(a->fd);
    a->is_open = false;
    lvn_text_release(&a->pending);
    return status;
}
