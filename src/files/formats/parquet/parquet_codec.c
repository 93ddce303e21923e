/* parquet_codec.c - decompresses the pages of Parquet files; see parquet_private.h. snappy and LZ4 are short and
 * decoded here; libz and libzstd are loaded when they are first needed. */

#include "formats/parquet/parquet_private.h"
#include "host/library.h"

/* --- libraries --- */

/* The state of zlib's inflate(), as its header declares it. */
struct z_stream {
    const unsigned char *next_in;
    unsigned avail_in;
    unsigned long total_in;
    unsigned char *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *message;
    void *state, *allocate, *release, *opaque;
    int data_type;
    unsigned long sum, reserved;
};
enum { Z_STREAM_END = 1, Z_OK = 0, Z_NO_FLUSH = 0, GZIP_OR_ZLIB = 15 + 32 };

#define Z_FUNCTIONS(F)                                                                                                 \
    F(const char *, version, (void), "zlibVersion")                                                                    \
    F(int, begin, (struct z_stream *, int, const char *, int), "inflateInit2_")                                        \
    F(int, inflate, (struct z_stream *, int), "inflate")                                                               \
    F(int, reset, (struct z_stream *), "inflateReset")                                                                 \
    F(int, end, (struct z_stream *), "inflateEnd")

static struct {
    Z_FUNCTIONS(LVN_LIBRARY_POINTER)
} z;

struct lvn_library lvn_library_z = {.name = "libz",
                                    .files = {"libz.so.1"},
                                    .use = "reading Parquet files with gzip",
                                    .hint = "install it (apt install zlib1g), or write the files with snappy",
                                    .symbols = (const char *const[]){Z_FUNCTIONS(LVN_LIBRARY_SYMBOL) NULL},
                                    .functions = &z,
                                    .version_of = &z.version};

#define ZSTD_FUNCTIONS(F)                                                                                              \
    F(size_t, decompress, (void *, size_t, const void *, size_t), "ZSTD_decompress")                                   \
    F(unsigned, failed, (size_t), "ZSTD_isError")                                                                      \
    F(const char *, error, (size_t), "ZSTD_getErrorName")                                                              \
    F(const char *, version, (void), "ZSTD_versionString")

static struct {
    ZSTD_FUNCTIONS(LVN_LIBRARY_POINTER)
} zstd;

struct lvn_library lvn_library_zstd = {.name = "libzstd",
                                       .files = {"libzstd.so.1"},
                                       .use = "reading Parquet files with zstd",
                                       .hint = "install it (apt install libzstd1), or write the files with snappy",
                                       .symbols = (const char *const[]){ZSTD_FUNCTIONS(LVN_LIBRARY_SYMBOL) NULL},
                                       .functions = &zstd,
                                       .version_of = &zstd.version};

static enum lvn_status decompress_gzip(const unsigned char *from, int64_t n, unsigned char *to, int64_t bytes)
{
    struct z_stream s = {.next_in = from, .avail_in = (unsigned)n, .next_out = to, .avail_out = (unsigned)bytes};
    LVN_TRY(lvn_library_open(&lvn_library_z));
    LVN_CHECK(z.begin(&s, GZIP_OR_ZLIB, z.version(), (int)sizeof s) == Z_OK, MEMORY, "libz cannot begin to inflate");
    int code = Z_OK;
    while (code == Z_OK) {
        const unsigned in = s.avail_in, out = s.avail_out;
        code = z.inflate(&s, Z_NO_FLUSH);
        if (code == Z_STREAM_END && s.avail_in && s.avail_out) code = z.reset(&s); /* another member follows */
        if (code == Z_OK && in == s.avail_in && out == s.avail_out) break;
    }
    const bool good = code == Z_STREAM_END && !s.avail_out;
    z.end(&s);
    LVN_CHECK(good, FORMAT, "its gzip data are invalid");
    return LVN_OK;
}

static enum lvn_status decompress_zstd(const unsigned char *from, int64_t n, unsigned char *to, int64_t bytes)
{
    LVN_TRY(lvn_library_open(&lvn_library_zstd));
    const size_t got = zstd.decompress(to, (size_t)bytes, from, (size_t)n);
    LVN_CHECK(!zstd.failed(got), FORMAT, "its zstd data are invalid (%s)", zstd.error(got));
    LVN_CHECK(got == (size_t)bytes, FORMAT, "its zstd data have %lld bytes instead of %lld", (long long)got,
              (long long)bytes);
    return LVN_OK;
}

/* --- snappy and LZ4 --- */

/* Append n bytes that begin `back` bytes before `at`; they may overlap. The buffer extends LVN_PARQUET_SLACK bytes past
 * its end. */
static unsigned char *repeat(unsigned char *at, int64_t back, int64_t n)
{
    const unsigned char *from = at - back;
    unsigned char *end = at + n;
    if (back >= 16) {
        for (; at < end; at += 16, from += 16) memcpy(at, from, 16);
    } else if (back >= 8) {
        for (; at < end; at += 8, from += 8) memcpy(at, from, 8);
    } else {
        while (at < end) *at++ = *from++;
    }
    return end;
}

/* Copy n literal bytes. The caller has checked that the input has them and the output has room. */
static unsigned char *literal(unsigned char *at, const unsigned char *from, const unsigned char *end, int64_t n)
{
    if (n <= 16 && end - from >= 16)
        memcpy(at, from, 16);
    else
        memcpy(at, from, (size_t)n);
    return at + n;
}

bool lvn_snappy_decompress(const unsigned char *from, int64_t n, unsigned char *to, int64_t bytes)
{
    const unsigned char *p = from, *end = from + n;
    unsigned char *at = to, *stop = to + bytes;
    uint64_t size;
    if (!lvn_varint(&p, end, &size) || size != (uint64_t)bytes) return false;
    while (p < end) {
        const unsigned tag = *p++, kind = tag & 3;
        int64_t length = tag >> 2, back;
        if (kind == 0) {
            const int more = length >= 60 ? (int)length - 59 : 0;
            if (end - p < more) return false;
            for (int k = 0; k < more; k++) length = (k ? length : 0) | (int64_t)p[k] << 8 * k;
            p += more;
            if (++length > end - p || length > stop - at) return false;
            at = literal(at, p, end, length);
            p += length;
            continue;
        }
        const int more = kind == 1 ? 1 : kind == 2 ? 2 : 4;
        if (end - p < more) return false;
        back = kind == 1 ? (int64_t)(tag >> 5) << 8 | p[0] : p[0] | p[1] << 8;
        if (kind == 3) back |= (int64_t)p[2] << 16 | (int64_t)p[3] << 24;
        length = kind == 1 ? (length & 7) + 4 : length + 1;
        p += more;
        if (back == 0 || back > at - to || length > stop - at) return false;
        at = repeat(at, back, length);
    }
    return at == stop;
}

/* A length of LZ4 that continues in further bytes; -1: the input ends. */
static int64_t lz4_length(const unsigned char **p, const unsigned char *end, int64_t length)
{
    if (length < 15) return length;
    for (unsigned more = 255; more == 255; length += more) {
        if (*p == end) return -1;
        more = *(*p)++;
    }
    return length;
}

static bool decompress_lz4(const unsigned char *from, int64_t n, unsigned char *to, int64_t bytes)
{
    const unsigned char *p = from, *end = from + n;
    unsigned char *at = to, *stop = to + bytes;
    while (p < end) {
        const unsigned token = *p++;
        int64_t length = lz4_length(&p, end, token >> 4);
        if (length < 0 || length > end - p || length > stop - at) return false;
        at = literal(at, p, end, length);
        p += length;
        if (p == end) break; /* the last sequence is literals alone */
        if (end - p < 2) return false;
        const int64_t back = p[0] | p[1] << 8;
        p += 2;
        length = lz4_length(&p, end, token & 15);
        if (length < 0 || back == 0 || back > at - to || length + 4 > stop - at) return false;
        at = repeat(at, back, length + 4);
    }
    return at == stop;
}

enum lvn_status lvn_parquet_decompress(int codec, const unsigned char *from, int64_t n, unsigned char *to,
                                       int64_t bytes)
{
    enum { SNAPPY = 1, GZIP = 2, ZSTD = 6, LZ4_RAW = 7 };
    static const char *const others[] = {[3] = "LZO", [4] = "BROTLI", [5] = "LZ4 (of Hadoop)"};
    const char *name = codec >= 0 && codec < (int)(sizeof others / sizeof *others) ? others[codec] : NULL;
    if (codec == GZIP) return decompress_gzip(from, n, to, bytes);
    if (codec == ZSTD) return decompress_zstd(from, n, to, bytes);
    LVN_CHECK(codec == SNAPPY || codec == LZ4_RAW, UNSUPPORTED,
              "it is compressed with %s (codec %d); levin reads uncompressed pages, snappy, gzip, zstd and LZ4_RAW",
              name ? name : "an unknown codec", codec);
    LVN_CHECK(codec == SNAPPY ? lvn_snappy_decompress(from, n, to, bytes) : decompress_lz4(from, n, to, bytes), FORMAT,
              "its %s data are invalid", codec == SNAPPY ? "snappy" : "LZ4");
    return LVN_OK;
}
