/* output.c - see output.h. */
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/target.h"
#include "base/work.h"

enum { LARGEST_WRITE = 64 << 20 };
/* Direct I/O: alignment of addresses and sizes (4096 satisfies every disk), and the bytes after which the speed is
 * judged; on a slow disk the page cache takes the file at once and is better. */
enum { DIRECT_UNIT = 4096, DIRECT_PROBE_BYTES = 32 << 20 };
static const double DIRECT_MIN = 400e6; /* bytes per second */

static enum lvn_status output_failed(struct lvn_output *o, const char *action)
{
    (void)lvn_fail(LVN_IO, "cannot %s '%s': %s", action, o->path, strerror(errno));
    return o->status = LVN_IO;
}

enum lvn_status lvn_output_open(struct lvn_output *o, const char *path)
{
    *o = (struct lvn_output){.fd = -1};
    o->path = lvn_strdup(path);
    o->buffer = lvn_malloc_aligned(DIRECT_UNIT, LVN_OUTPUT_BUFFER);
    if (o->path && o->buffer) {
        if (lvn_files_refuse())
            (void)output_failed(o, "write");
        else
            o->status = lvn_file_open_nofollow(path, O_WRONLY | O_CREAT | O_TRUNC, &o->fd);
        if (o->status == LVN_OK) return LVN_OK;
    } else {
        o->status = LVN_MEMORY;
    }
    free(o->path);
    free(o->buffer);
    return o->status;
}

static bool set_direct(struct lvn_output *o, bool on)
{
#ifdef O_DIRECT
    int flags = fcntl(o->fd, F_GETFL);
    return flags >= 0 && fcntl(o->fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
#else
    return !on;
#endif
}

void lvn_output_bypass_cache(struct lvn_output *o)
{
    if (o->status == LVN_OK) o->direct = set_direct(o, true);
}

/* Uses the page cache from now on. */
static void disable_direct(struct lvn_output *o)
{
    if (o->direct) (void)set_direct(o, false);
    o->direct = false;
}

static ssize_t write_some(struct lvn_output *o, const char *p, int64_t n)
{
    size_t part = n < LARGEST_WRITE ? (size_t)n : LARGEST_WRITE;
    if (lvn_files_refuse()) return -1;
    if (n % DIRECT_UNIT) disable_direct(o); /* the end of the file is not aligned */
    if (!o->direct) return write(o->fd, p, part);
    double start = lvn_seconds();
    ssize_t done = write(o->fd, p, part);
    bool cannot = done < 0 && errno == EINVAL;
    o->direct_s += lvn_seconds() - start;
    o->direct_bytes += done > 0 ? done : 0;
    bool slow = o->direct_bytes >= DIRECT_PROBE_BYTES && (double)o->direct_bytes < DIRECT_MIN * o->direct_s;
    if (cannot || (done > 0 && (slow || done % DIRECT_UNIT))) disable_direct(o);
    return cannot ? write(o->fd, p, part) : done;
}

static enum lvn_status write_all(struct lvn_output *o, const char *p, int64_t n)
{
    while (n > 0) {
        ssize_t done = write_some(o, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done == 0) errno = ENOSPC;
        if (done <= 0) return output_failed(o, "write");
        p += done;
        n -= done;
        lvn_work_done(done);
    }
    return LVN_OK;
}

enum lvn_status lvn_output_write(struct lvn_output *o, const void *data, int64_t bytes)
{
    if (o->status != LVN_OK) return o->status;
    o->bytes += bytes;
    const char *p = data;
    while (bytes > 0) {
        if (!o->used && !o->direct && bytes >= LVN_OUTPUT_BUFFER) return write_all(o, p, bytes);
        int64_t part = bytes < LVN_OUTPUT_BUFFER - o->used ? bytes : LVN_OUTPUT_BUFFER - o->used;
        memcpy(o->buffer + o->used, p, (size_t)part);
        p += part;
        bytes -= part;
        o->used += part;
        if (o->used < LVN_OUTPUT_BUFFER) return LVN_OK;
        o->used = 0; /* only full buffers, so that offsets in the file stay aligned */
        LVN_TRY(write_all(o, o->buffer, LVN_OUTPUT_BUFFER));
    }
    return LVN_OK;
}

enum lvn_status lvn_output_close(struct lvn_output *o)
{
    if (o->status == LVN_OK) (void)!write_all(o, o->buffer, o->used);
    if (o->status == LVN_OK && !o->no_sync && (lvn_files_refuse() || fsync(o->fd) != 0))
        (void)output_failed(o, "write");
    /* Network file systems may report a full disk only here. */
    if (close(o->fd) != 0 && o->status == LVN_OK) (void)output_failed(o, "write");
    free(o->path);
    free(o->buffer);
    enum lvn_status status = o->status;
    *o = (struct lvn_output){.fd = -1, .status = status, .bytes = o->bytes};
    return status;
}
