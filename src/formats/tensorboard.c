/* tensorboard.c - see tensorboard.h. */
#include "formats/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "formats/crc.h"

enum { MOST_TAG = 256, MOST_RECORD = MOST_TAG + 128 };

/* --- protocol buffers: a field's key is its number and its wire type --- */

enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SUMMARY = 5, SESSION_LOG = 7 }; /* of Event */
enum { VALUE = 1, TAG = 1, SIMPLE_VALUE = 2, STATUS = 1, SESSION_START = 1 };     /* of Summary, Value, SessionLog */

struct message {
    unsigned char p[MOST_RECORD];
    int64_t n;
};

static void put(struct message *m, const void *p, int64_t n)
{
    memcpy(m->p + m->n, p, (size_t)n);
    m->n += n;
}

static void put_little_endian(struct message *m, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++) m->p[m->n++] = (unsigned char)(x >> 8 * i);
}

static void put_varint(struct message *m, uint64_t x)
{
    for (; x >= 0x80; x >>= 7) m->p[m->n++] = (unsigned char)(x | 0x80);
    m->p[m->n++] = (unsigned char)x;
}

static void put_key(struct message *m, int field, enum wire type)
{
    put_varint(m, (uint64_t)field << 3 | (uint64_t)type);
}

static void put_bytes(struct message *m, int field, const void *p, int64_t n)
{
    put_key(m, field, BYTES);
    put_varint(m, (uint64_t)n);
    put(m, p, n);
}

static struct message event(double wall_time, int64_t step)
{
    struct message m = {.n = 0};
    uint64_t bits;
    memcpy(&bits, &wall_time, sizeof bits);
    put_key(&m, WALL_TIME, FIXED64);
    put_little_endian(&m, bits, 8);
    put_key(&m, STEP, VARINT);
    put_varint(&m, (uint64_t)step);
    return m;
}

/* --- records --- */

/* A checksum that may itself be part of checksummed data is turned and moved first. */
static uint32_t masked(const void *p, int64_t n)
{
    uint32_t sum = lvn_crc32c(0, p, n);
    return (sum >> 15 | sum << 17) + 0xa282ead8u;
}

static enum lvn_status write_record(const struct lvn_tensorboard *t, const struct message *m)
{
    struct message r = {.n = 0};
    put_little_endian(&r, (uint64_t)m->n, 8);
    put_little_endian(&r, masked(r.p, 8), 4);
    put(&r, m->p, m->n);
    put_little_endian(&r, masked(m->p, m->n), 4);
    off_t before = lseek(t->fd, 0, SEEK_END);
    if (!lvn_files_refuse() && lvn_fd_write(t->fd, r.p, r.n)) return LVN_OK;
    int reason = errno;
    if (before >= 0 && ftruncate(t->fd, before) == 0) lseek(t->fd, before, SEEK_SET);
    LVN_FAIL(IO, "TensorBoard's events cannot be written: %s", strerror(reason));
}

static enum lvn_status write_start(const struct lvn_tensorboard *t, double wall_time, int64_t from_step)
{
    static const char version[] = "brain.Event:2"; /* stands first in every file */
    struct message m = event(wall_time, 0), start = event(wall_time, from_step), log = {.n = 0};
    put_bytes(&m, FILE_VERSION, version, (int64_t)strlen(version));
    LVN_TRY(write_record(t, &m));
    if (from_step <= 0) return LVN_OK;
    put_key(&log, STATUS, VARINT);
    put_varint(&log, SESSION_START);
    put_bytes(&start, SESSION_LOG, log.p, log.n);
    return write_record(t, &start);
}

/* Files are read in the order of their names: the time comes first. */
static enum lvn_status open_new(struct lvn_tensorboard *t, const char *dir, double wall_time)
{
    char host[64] = "host", path[4096];
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "host");
    for (int i = 0; i < 1000 && t->fd < 0; i++) {
        int n = snprintf(path, sizeof path, "%s/events.out.tfevents.%010" PRId64 ".%s.%ld.%d.levin", dir,
                         (int64_t)wall_time, host, (long)getpid(), i);
        LVN_CHECK(n > 0 && n < (int)sizeof path, ARG, "the path '%s' is too long for TensorBoard's events", dir);
        t->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (t->fd < 0 && errno != EEXIST) break;
    }
    LVN_CHECK(t->fd >= 0, IO, "'%s' cannot be made: %s", path, strerror(errno));
    return LVN_OK;
}

enum lvn_status lvn_tensorboard_open(struct lvn_tensorboard *t, const char *dir, double wall_time, int64_t from_step)
{
    t->fd = -1;
    LVN_TRY(lvn_dir_make(dir));
    LVN_TRY(open_new(t, dir, wall_time));
    enum lvn_status status = write_start(t, wall_time, from_step);
    if (status != LVN_OK) lvn_tensorboard_close(t);
    return status;
}

enum lvn_status lvn_tensorboard_scalar(struct lvn_tensorboard *t, double wall_time, int64_t step, const char *tag,
                                       double value)
{
    struct message m = event(wall_time, step), summary = {.n = 0}, entry = {.n = 0};
    int64_t n = (int64_t)strlen(tag);
    float single = (float)value;
    uint32_t bits;
    LVN_CHECK(n <= MOST_TAG, ARG, "the name '%.64s...' has %lld bytes; TensorBoard's events take at most %d", tag,
              (long long)n, MOST_TAG);
    memcpy(&bits, &single, sizeof bits);
    put_bytes(&entry, TAG, tag, n);
    put_key(&entry, SIMPLE_VALUE, FIXED32);
    put_little_endian(&entry, bits, 4);
    put_bytes(&summary, VALUE, entry.p, entry.n);
    put_bytes(&m, SUMMARY, summary.p, summary.n);
    return write_record(t, &m);
}

void lvn_tensorboard_close(struct lvn_tensorboard *t)
{
    if (t->fd >= 0) close(t->fd);
    t->fd = -1;
}
