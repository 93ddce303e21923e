/* output.c - see output.h. */
#include "base/output.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/system.h"
#include "base/target.h"
#include "base/work.h"

enum { LARGEST_WRITE = 64 << 20 };
/* Direct I/O: alignment of addresses and sizes (4096 satisfies every disk), and the bytes after which the speed is
 * measured. On a slow disk the page cache is better, because it accepts the file immediately. */
enum { DIRECT_UNIT = 4096, DIRECT_PROBE_BYTES = 32 << 20 };
static const double DIRECT_MIN = 400e6; /* bytes per second */

static enum lvn_status output_failed(struct lvn_output *output, const char *action)
{
    (void)lvn_fail(LVN_IO, "cannot %s '%s': %s", action, output->path, strerror(errno));
    return output->status = LVN_IO;
}

enum lvn_status lvn_output_open(struct lvn_output *output, const char *path)
{
    *output = (struct lvn_output){.fd = -1};
    output->path = lvn_strdup(path);
    output->buffer = lvn_malloc_aligned(DIRECT_UNIT, LVN_OUTPUT_BUFFER);
    if (output->path && output->buffer) {
        output->status = lvn_file_open_nofollow(path, O_WRONLY | O_CREAT | O_TRUNC, &output->fd);
        if (output->status == LVN_OK) return LVN_OK;
    } else {
        output->status = LVN_MEMORY;
    }
    free(output->path);
    free(output->buffer);
    return output->status;
}

static bool set_direct(struct lvn_output *output, bool on)
{
#ifdef O_DIRECT
    int flags = fcntl(output->fd, F_GETFL);
    return flags >= 0 && fcntl(output->fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
#else
    return !on;
#endif
}

void lvn_output_bypass_cache(struct lvn_output *output)
{
    if (output->status == LVN_OK) output->direct = set_direct(output, true);
}

/* Use the page cache for the rest of the file. */
static void disable_direct(struct lvn_output *output)
{
    if (output->direct) (void)set_direct(output, false);
    output->direct = false;
}

static ssize_t write_some(struct lvn_output *output, const char *p, int64_t n)
{
    size_t part = n < LARGEST_WRITE ? (size_t)n : LARGEST_WRITE;
    if (n % DIRECT_UNIT) disable_direct(output); /* the end of the file is not aligned */
    if (!output->direct) return lvn_system.write(output->fd, p, part);
    double start = lvn_seconds();
    ssize_t done = lvn_system.write(output->fd, p, part);
    bool cannot = done < 0 && errno == EINVAL;
    output->direct_s += lvn_seconds() - start;
    output->direct_bytes += done > 0 ? done : 0;
    bool slow =
        output->direct_bytes >= DIRECT_PROBE_BYTES && (double)output->direct_bytes < DIRECT_MIN * output->direct_s;
    if (cannot || (done > 0 && (slow || done % DIRECT_UNIT))) disable_direct(output);
    return cannot ? lvn_system.write(output->fd, p, part) : done;
}

static enum lvn_status write_all(struct lvn_output *output, const char *p, int64_t n)
{
    while (n > 0) {
        ssize_t done = write_some(output, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done == 0) errno = ENOSPC;
        if (done <= 0) return output_failed(output, "write");
        p += done;
        n -= done;
        lvn_work_done(done);
    }
    return LVN_OK;
}

enum lvn_status lvn_output_write(struct lvn_output *output, const void *data, int64_t bytes)
{
    if (output->status != LVN_OK) return output->status;
    output->bytes += bytes;
    const char *p = data;
    while (bytes > 0) {
        if (!output->used && !output->direct && bytes >= LVN_OUTPUT_BUFFER) return write_all(output, p, bytes);
        int64_t part = bytes < LVN_OUTPUT_BUFFER - output->used ? bytes : LVN_OUTPUT_BUFFER - output->used;
        memcpy(output->buffer + output->used, p, (size_t)part);
        p += part;
        bytes -= part;
        output->used += part;
        if (output->used < LVN_OUTPUT_BUFFER) return LVN_OK;
        output->used = 0; /* only full buffers are written, so that offsets in the file are aligned */
        LVN_TRY(write_all(output, output->buffer, LVN_OUTPUT_BUFFER));
    }
    return LVN_OK;
}

enum lvn_status lvn_output_close(struct lvn_output *output)
{
    if (output->status == LVN_OK) (void)!write_all(output, output->buffer, output->used);
    if (output->status == LVN_OK && !output->no_sync && lvn_system.fsync(output->fd) != 0)
        (void)output_failed(output, "write");
    /* Network file systems may report a full disk only here. */
    if (close(output->fd) != 0 && output->status == LVN_OK) (void)output_failed(output, "write");
    free(output->path);
    free(output->buffer);
    enum lvn_status status = output->status;
    *output = (struct lvn_output){.fd = -1, .status = status, .bytes = output->bytes};
    return status;
}
