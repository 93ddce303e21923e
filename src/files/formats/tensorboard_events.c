/* tensorboard_events.c - see tensorboard_events.h. */
#include "formats/tensorboard_events.h"

#include <fcntl.h>
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

/* Clear a buffer; a failure of its previous content was already reported. */
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

/* Mask a CRC that may itself be part of checksummed data: rotated, plus a constant. */
static uint32_t masked(const void *p, int64_t n)
{
    uint32_t sum = lvn_crc32c(0, p, n);
    return (sum >> 15 | sum << 17) + 0xa282ead8u;
}

/* Write a record: the length, the payload, and a checksum after each. */
static enum lvn_status put_record(struct lvn_tensorboard *events)
{
    struct lvn_text *m = &events->event;
    unsigned char head[12], tail[4];
    LVN_TRY(lvn_text_status(m));
    for (int i = 0; i < 8; i++) head[i] = (unsigned char)((uint64_t)m->n >> 8 * i);
    uint32_t sums[2] = {masked(head, 8), masked(m->p, m->n)};
    for (int i = 0; i < 4; i++) {
        head[8 + i] = (unsigned char)(sums[0] >> 8 * i);
        tail[i] = (unsigned char)(sums[1] >> 8 * i);
    }
    begin(&events->record);
    lvn_text_add_bytes(&events->record, head, sizeof head);
    lvn_text_add_bytes(&events->record, m->p, m->n);
    lvn_text_add_bytes(&events->record, tail, sizeof tail);
    LVN_TRY(lvn_text_status(&events->record)); /* a partial record would corrupt the later ones */
    LVN_TRY_WHILE(lvn_append_file_write(&events->file, events->record.p, events->record.n),
                  "writing TensorBoard events");
    return LVN_OK;
}

static enum lvn_status write_start(struct lvn_tensorboard *events, double wall_time, int64_t from_step)
{
    static const char version[] = "brain.Event:2"; /* required at the start of every file */
    static const char start[] = {STATUS << 3 | VARINT, SESSION_START};
    begin_event(&events->event, wall_time, 0);
    put_bytes(&events->event, FILE_VERSION, version, (int64_t)strlen(version));
    LVN_TRY(put_record(events));
    if (from_step > 0) {
        begin_event(&events->event, wall_time, from_step);
        put_bytes(&events->event, SESSION_LOG, start, sizeof start);
        LVN_TRY(put_record(events));
    }
    return lvn_append_file_flush(&events->file);
}

/* Set *second to now, or to the second after that in the name of the newest file: a run may be resumed within a second,
 * or on a host whose clock is behind. */
static enum lvn_status choose_second(const char *dir, double now, int64_t *second)
{
    static const char prefix[] = "events.out.tfevents.";
    LVN_LOCAL_ARENA(names);
    const char *const *name;
    int n;
    *second = (int64_t)now;
    LVN_TRY(lvn_dir_list(&names, dir, &name, &n));
    for (int i = 0; i < n; i++) {
        int64_t other;
        if (strncmp(name[i], prefix, sizeof prefix - 1) == 0 &&
            sscanf(name[i] + sizeof prefix - 1, "%10" SCNd64, &other) == 1 && other >= *second)
            *second = other + 1;
    }
    return LVN_OK;
}

/* TensorBoard reads files in the order of their names, so the time comes first. */
static enum lvn_status open_new(struct lvn_tensorboard *events, const char *dir, double wall_time)
{
    char host[64] = "host", path[4096];
    int64_t second;
    LVN_TRY(choose_second(dir, wall_time, &second));
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "host");
    int fd = -1;
    for (int i = 0; i < 1000 && fd < 0; i++) {
        int n = snprintf(path, sizeof path, "%s/events.out.tfevents.%010" PRId64 ".%s.%ld.%d.levin", dir, second, host,
                         (long)getpid(), i);
        LVN_CHECK(n > 0 && n < (int)sizeof path, ARG, "the path '%s' is too long for TensorBoard events", dir);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    LVN_CHECK(fd >= 0, IO, "cannot create '%s': %s", path, strerror(errno));
    lvn_append_file_open(&events->file, fd);
    return LVN_OK;
}

enum lvn_status lvn_tensorboard_open(struct lvn_tensorboard *events, const char *dir, double wall_time,
                                     int64_t from_step)
{
    *events = (struct lvn_tensorboard){.file = {.fd = -1}};
    LVN_TRY(lvn_dir_make(dir));
    LVN_TRY(open_new(events, dir, wall_time));
    enum lvn_status status = write_start(events, wall_time, from_step);
    if (status != LVN_OK) lvn_tensorboard_close(events);
    return status;
}

void lvn_tensorboard_scalar(struct lvn_tensorboard *events, const char *tag, double value)
{
    const int64_t n = (int64_t)strlen(tag), number = 1 + 4; /* length of the second field */
    float single = (float)value;
    uint32_t bits;
    int64_t length = 1; /* length of n as a varint */
    for (int64_t rest = n >> 7; rest; rest >>= 7) length++;
    memcpy(&bits, &single, sizeof bits);
    put_key(&events->summary, VALUE, BYTES);
    put_varint(&events->summary, (uint64_t)(1 + length + n + number));
    put_bytes(&events->summary, TAG, tag, n);
    put_key(&events->summary, SIMPLE_VALUE, FIXED32);
    put_little_endian(&events->summary, bits, 4);
}

/* Does a file in the folder contain the event, apart from its time? Files that cannot be read do not. */
static bool is_written(const struct lvn_text *event, const char *dir)
{
    enum { TIME = 1 + 8 };
    LVN_LOCAL_ARENA(a);
    const char *const *name;
    int n = 0;
    bool found = false;
    if (lvn_dir_list(&a, dir, &name, &n) != LVN_OK) lvn_error_clear();
    for (int i = 0; i < n && !found; i++) {
        char *text = NULL;
        int64_t bytes = 0;
        const char *path = lvn_path_join(&a, dir, name[i]);
        if (!path || lvn_file_read(path, 0, &text, &bytes) != LVN_OK) lvn_error_clear();
        found = text && memmem(text, (size_t)bytes, event->p + TIME, (size_t)(event->n - TIME));
        free(text);
    }
    return found;
}

enum lvn_status lvn_tensorboard_event(struct lvn_tensorboard *events, double wall_time, int64_t step,
                                      const char *earlier)
{
    enum lvn_status status = lvn_text_status(&events->summary);
    if (status == LVN_OK && events->summary.n) {
        begin_event(&events->event, wall_time, step);
        put_bytes(&events->event, SUMMARY, events->summary.p, events->summary.n);
        status = lvn_text_status(&events->event);
        if (status == LVN_OK && !(earlier && is_written(&events->event, earlier))) status = put_record(events);
    }
    begin(&events->summary);
    return status;
}

enum lvn_status lvn_tensorboard_flush(struct lvn_tensorboard *events)
{
    LVN_TRY_WHILE(lvn_append_file_flush(&events->file), "writing TensorBoard events");
    return LVN_OK;
}

void lvn_tensorboard_close(struct lvn_tensorboard *events)
{
    if (lvn_append_file_close(&events->file) != LVN_OK) lvn_error_clear();
    lvn_text_release(&events->event);
    lvn_text_release(&events->summary);
    lvn_text_release(&events->record);
}
