/* text_encoding.c - see text_encoding.h. */
#include "data/text_encoding.h"

static const char *const names[] = {"utf-8", "latin-1", "windows-1252", "utf-16"};
enum { N_NAMES = sizeof names / sizeof names[0], BUFFER = 4096 };

/* Characters of the bytes 0x80 to 0x9f in windows-1252; 0: none. The others are those of latin-1. */
static const uint16_t windows_1252[32] = {0x20ac, 0,      0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021,
                                          0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0,      0x017d, 0,
                                          0,      0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
                                          0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0,      0x017e, 0x0178};

enum lvn_status lvn_text_encoding_find(const char *name, enum lvn_text_encoding *encoding)
{
    for (int i = 0; i < N_NAMES; i++) {
        *encoding = (enum lvn_text_encoding)i;
        if (!strcasecmp(names[i], name)) return LVN_OK;
    }
    LVN_FAIL(ARG,
             "--encoding must be utf-8, latin-1, windows-1252 or utf-16, got '%.40s'; convert files of other encodings "
             "with iconv -f ENCODING -t UTF-8",
             name);
}

static int32_t unit(const struct lvn_text_decoder *d, int at)
{
    const unsigned char *p = d->pending + at;
    return d->big_endian ? p[0] << 8 | p[1] : p[1] << 8 | p[0];
}

/* Add a byte of UTF-16. *code: the character that is complete now; -1: none is; 0: the bytes do not encode one. */
static void add_utf_16(struct lvn_text_decoder *d, unsigned char byte, int32_t *code)
{
    *code = -1;
    d->pending[d->n++] = byte;
    if (d->n % 2) return;
    int32_t first = unit(d, 0);
    if (d->bytes == 1 && first == 0xfffe) {
        d->big_endian = true;
        first = 0xfeff;
    }
    const bool high = first >= 0xd800 && first < 0xdc00;
    if (d->n == 2 && high) return;
    *code = first >= 0xdc00 && first < 0xe000 ? 0 : first;
    if (high) {
        const int32_t second = unit(d, 2);
        *code = second >= 0xdc00 && second < 0xe000 ? 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00) : 0;
    }
    if (*code) d->n = 0;
}

static enum lvn_status refuse(const struct lvn_text_decoder *d, const char *name, int64_t offset)
{
    LVN_FAIL(FORMAT, "'%s' is not %s text: what is at offset %lld does not belong to a character", name,
             names[d->encoding], (long long)offset);
}

enum lvn_status lvn_text_decode(struct lvn_text_decoder *d, const char *name, const void *p, int64_t n,
                                struct lvn_text *out)
{
    const unsigned char *at = p;
    char buffer[BUFFER];
    int used = 0;
    for (int64_t i = 0; i < n; i++, d->bytes++) {
        int32_t code = at[i];
        if (d->encoding == LVN_TEXT_UTF_16)
            add_utf_16(d, at[i], &code);
        else if (d->encoding == LVN_TEXT_WINDOWS_1252 && code >= 0x80 && code < 0xa0)
            code = windows_1252[code - 0x80];
        if (!code) return refuse(d, name, d->bytes + 1 - (d->n ? d->n : 1));
        if (code > 0) used += lvn_utf8_encode(code, buffer + used);
        if (used > BUFFER - 4) {
            lvn_text_add_bytes(out, buffer, used);
            used = 0;
        }
    }
    lvn_text_add_bytes(out, buffer, used);
    return lvn_text_status(out);
}

enum lvn_status lvn_text_decode_end(const struct lvn_text_decoder *d, const char *name)
{
    return d->n ? refuse(d, name, d->bytes - d->n) : LVN_OK;
}
