/* tensorboard_events.c - see tensorboard_events.h. */
#include "formats/tensorboard_events.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "formats/crc.h"

/* --- protocol buffers: a field's key is its number and its wire type --- */

enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SUMMARY = 5, SESSION_LOG = 7 }; /* fields of Event */
enum { VALUE = 1, TAG = 1, SIMPLE_VALUE = 2, STATUS = 1, SESSION_START = 1 }; /* fields of Summary, Value, SessionLog */
enum { MAX_VARINT = 10 };

static void put_little_endian(struct lvn_text *m, uint64_t x, int bytes)
{
    unsigned char p[8];
    for (int i = 0; i < bytes; i++) p[i] = (unsigned char)(x >> 8 * i);
    lvn_text_add_bytes(m, p, bytes);
}

static void put_varint(struct lvn_text *m, uint64_t x)
{
    unsigned char p[MAX_VARINT];
    int n = 0;
    for (; x >= 0x80; x >>= 7) p[n++] = (unsigned char)(x | 0x80);
    p[n++] = (unsigned char)x;
    lvn_text_add_bytes(m, p, n);
}

static void put_key(struct lvn_text *m, int field, enum wire type)
{
    put_varint(m, (uint64_t)field << 3 | (uint64_t)type);
}

static void put_bytes(struct lvn_text *m, int field, const void *p, int64_t n)
{
    put_key(m, field, BYTES);
    put_varint(m, (uint64_t)n);
    lvn_text_add_bytes(m, p, n);
}

/* Empties a buffer; a failure of its former content has been reported by now. */
static void begin(struct lvn_text *m)
{
    lvn_text_clear(m);
    m->failed = false;
}

static void begin_event(struct lvn_text *m, double wall_time, int64_t step)
{
    uint64_t bits;
    memcpy(&bits, &wall_time, sizeof bits);
    begin(m);
    put_key(m, WALL_TIME, FIXED64);
    put_little_endian(m, bits, 8);
    put_key(m, STEP, VARINT);
    put_varint(m, (uint64_t)step);
}

/* --- records --- */

/* Masks a CRC that may itself be part of checksummed data: rotated, plus a constant. */
static uint32_t masked(const void *p, int64_t n)
{
    uint32_t sum = lvn_crc32c(0, p, n);
    return (sum >> 15 | sum << 17) + 0xa282ead8u;
}

/* Writes a record: the length, the payload, and a checksum after each. */
static enum lvn_status put_record(struct lvn_tensorboard *t)
{
    struct lvn_text *m = &t->event;
    unsigned char head[12], tail[4];
    LVN_TRY(lvn_text_status(m));
    for (int i = 0; i < 8; i++) head[i] = (unsigned char)((uint64_t)m->n >> 8 * i);
    uint32_t sums[2] = {masked(head, 8), masked(m->p, m->n)};
    for (int i = 0; i < 4; i++) {
        head[8 + i] = (unsigned char)(sums[0] >> 8 * i);
        tail[i] = (unsigned char)(sums[1] >> 8 * i);
    }
    begin(&t->record);
    lvn_text_add_bytes(&t->record, head, sizeof head);
    lvn_text_add_bytes(&t->record, m->p, m->n);
    lvn_text_add_bytes(&t->record, tail, sizeof tail);
    LVN_TRY(lvn_text_status(&t->record)); /* a partial record would corrupt the later ones */
    LVN_TRY_WHILE(lvn_append_file_write(&t->file, t->record.p, t->record.n), "writing TensorBoard's events");
    return LVN_OK;
}

static enum lvn_status write_start(struct lvn_tensorboard *t, double wall_time, int64_t from_step)
{
    static const char version[] = "brain.Event:2"; /* required at the start of every file */
    static const char start[] = {STATUS << 3 | VARINT, SESSION_START};
    begin_event(&t->event, wall_time, 0);
    put_bytes(&t->event, FILE_VERSION, version, (int64_t)strlen(version));
    LVN_TRY(put_record(t));
    if (from_step > 0) {
        begin_event(&t->event, wall_time, from_step);
        put_bytes(&t->event, SESSION_LOG, start, sizeof start);
        LVN_TRY(put_record(t));
    }
    return lvn_append_file_flush(&t->file);
}

/* TensorBoard reads files in the order of their names, so the time comes first. */
static enum lvn_status open_new(struct lvn_tensorboard *t, const char *dir, double wall_time)
{
    char host[64] = "host", path[4096];
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "host");
    int fd = -1;
    for (int i = 0; i < 1000 && fd < 0; i++) {
        int n = snprintf(path, sizeof path, "%s/events.out.tfevents.%010" PRId64 ".%s.%ld.%d.levin", dir,
                         (int64_t)wall_time, host, (long)getpid(), i);
        LVN_CHECK(n > 0 && n < (int)sizeof path, ARG, "the path '%s' is too long for TensorBoard's events", dir);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    LVN_CHECK(fd >= 0, IO, "'%s' cannot be made: %s", path, strerror(errno));
    lvn_append_file_open(&t->file, fd);
    return LVN_OK;
}

enum lvn_status lvn_tensorboard_open(struct lvn_tensorboard *t, const char *dir, double wall_time, int64_t from_step)
{
    *t = (struct lvn_tensorboard){.file = {.fd = -1}};
    LVN_TRY(lvn_dir_make(dir));
    LVN_TRY(open_new(t, dir, wall_time));
    enum lvn_status status = write_start(t, wall_time, from_step);
    if (status != LVN_OK) lvn_tensorboard_close(t);
    return status;
}

void lvn_tensorboard_scalar(struct lvn_tensorboard *t, const char *tag, double value)
{
    const int64_t n = (int64_t)strlen(tag), number = 1 + 4; /* length of the second field */
    float single = (float)value;
    uint32_t bits;
    int64_t length = 1; /* length of n as a varint */
    for (int64_t rest = n >> 7; rest; rest >>= 7) length++;
    memcpy(&bits, &single, sizeof bits);
    put_key(&t->summary, VALUE, BYTES);
    put_varint(&t->summary, (uint64_t)(1 + length + n + number));
    put_bytes(&t->summary, TAG, tag, n);
    put_key(&t->summary, SIMPLE_VALUE, FIXED32);
    put_little_endian(&t->summary, bits, 4);
}

enum lvn_status lvn_tensorboard_event(struct lvn_tensorboard *t, double wall_time, int64_t step)
{
    enum lvn_status status = lvn_text_status(&t->summary);
    if (status == LVN_OK && t->summary.n) {
        begin_event(&t->event, wall_time, step);
        put_bytes(&t->event, SUMMARY, t->summary.p, t->summary.n);
        status = put_record(t);
    }
    begin(&t->summary);
    return status;
}

enum lvn_status lvn_tensorboard_flush(struct lvn_tensorboard *t)
{
    LVN_TRY_WHILE(lvn_append_file_flush(&t->file), "writing TensorBoard's events");
    return LVN_OK;
}

void lvn_tensorboard_close(struct lvn_tensorboard *t)
{
    if (lvn_append_file_close(&t->file) != LVN_OK) lvn_error_clear();
    lvn_text_release(&t->event);
    lvn_text_release(&t->summary);
    lvn_text_release(&t->record);
}
