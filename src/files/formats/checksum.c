/* checksum.c - see checksum.h: XXH64 from its specification. Four lanes over stripes of 32 bytes, then the tail, then
 * the final mix. */
#include "formats/checksum.h"

#include <unistd.h>

#include "base/work.h"

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t rotate_left(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static uint64_t load64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static uint64_t lane_round(uint64_t lane, uint64_t input)
{
    return rotate_left(lane + input * P2, 31) * P1;
}

void lvn_checksum_init(struct lvn_checksum *checksum)
{
    *checksum = (struct lvn_checksum){.lane = {P1 + P2, P2, 0, 0 - P1}};
}

static void add(struct lvn_checksum *checksum, const unsigned char *p, int64_t bytes)
{
    int64_t buffered = (int64_t)(checksum->bytes % 32);
    checksum->bytes += (uint64_t)bytes;
    if (buffered) {
        int64_t n = 32 - buffered < bytes ? 32 - buffered : bytes;
        memcpy(checksum->tail + buffered, p, (size_t)n);
        p += n;
        bytes -= n;
        if (buffered + n < 32) return;
        for (int i = 0; i < 4; i++)
            checksum->lane[i] = lane_round(checksum->lane[i], load64(checksum->tail + (size_t)8 * (size_t)i));
    }
    uint64_t a = checksum->lane[0], b = checksum->lane[1], d = checksum->lane[2],
             e = checksum->lane[3]; /* in registers: this loop determines the speed */
    for (; bytes >= 32; bytes -= 32, p += 32) {
        a = lane_round(a, load64(p));
        b = lane_round(b, load64(p + 8));
        d = lane_round(d, load64(p + 16));
        e = lane_round(e, load64(p + 24));
    }
    checksum->lane[0] = a, checksum->lane[1] = b, checksum->lane[2] = d, checksum->lane[3] = e;
    if (bytes) memcpy(checksum->tail, p, (size_t)bytes);
}

void lvn_checksum_add(struct lvn_checksum *checksum, const void *data, int64_t bytes)
{
    for (int64_t offset = 0; offset < bytes; offset += LVN_WORK_CHUNK) {
        int64_t n = bytes - offset < LVN_WORK_CHUNK ? bytes - offset : LVN_WORK_CHUNK;
        add(checksum, (const unsigned char *)data + offset, n);
        lvn_work_done(n);
    }
}

void lvn_checksum_add_text(struct lvn_checksum *checksum, const char *text)
{
    lvn_checksum_add(checksum, text ? text : "", text ? (int64_t)strlen(text) + 1 : 1);
}

uint64_t lvn_checksum_value(const struct lvn_checksum *checksum)
{
    uint64_t h = P5;
    if (checksum->bytes >= 32) {
        h = rotate_left(checksum->lane[0], 1) + rotate_left(checksum->lane[1], 7) + rotate_left(checksum->lane[2], 12) +
            rotate_left(checksum->lane[3], 18);
        for (int i = 0; i < 4; i++) h = (h ^ lane_round(0, checksum->lane[i])) * P1 + P4;
    }
    h += checksum->bytes;
    const unsigned char *p = checksum->tail;
    int64_t n = (int64_t)(checksum->bytes % 32);
    for (; n >= 8; n -= 8, p += 8) h = rotate_left(h ^ lane_round(0, load64(p)), 27) * P1 + P4;
    if (n >= 4) {
        uint32_t word;
        memcpy(&word, p, 4);
        h = rotate_left(h ^ word * P1, 23) * P2 + P3;
        n -= 4;
        p += 4;
    }
    for (; n > 0; n--, p++) h = rotate_left(h ^ *p * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}

enum lvn_status lvn_checksum_add_file(struct lvn_checksum *checksum, int fd, const char *path, int64_t n, void *buffer,
                                      int64_t capacity)
{
    while (n > 0) {
        const ssize_t got = read(fd, buffer, (size_t)(n < capacity ? n : capacity));
        if (got < 0 && errno == EINTR) continue;
        LVN_CHECK(got >= 0, IO, "cannot read '%s': %s", path, strerror(errno));
        LVN_CHECK(got > 0, FORMAT, "'%s' ends %lld bytes too early: it was truncated", path, (long long)n);
        lvn_checksum_add(checksum, buffer, got);
        n -= got;
    }
    return LVN_OK;
}

uint64_t lvn_checksum(const void *data, int64_t bytes)
{
    struct lvn_checksum checksum;
    lvn_checksum_init(&checksum);
    lvn_checksum_add(&checksum, data, bytes);
    return lvn_checksum_value(&checksum);
}

char *lvn_checksum_text(uint64_t value, char text[LVN_CHECKSUM_TEXT])
{
    snprintf(text, LVN_CHECKSUM_TEXT, "%016llx", (unsigned long long)value);
    return text;
}
