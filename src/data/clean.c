/* clean.c - see clean.h. The rule is that of the README of KcBERT (Junbum Lee: "KcBERT: Korean comments BERT", 2020):
 * two regular expressions and soynlp's repeat_normalize(num_repeats=2). Here they are three passes over characters. */
#include "data/clean.h"

#include <string.h>

#include "base/arena.h"
#include "tokenizers/unicode/unicode.h"

static bool is_emoji(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } range[] = {
#include "data/emoji.def"
    };
    for (size_t low = 0, high = sizeof range / sizeof *range; low < high;) {
        size_t middle = (low + high) / 2;
        if (c > range[middle].last)
            low = middle + 1;
        else if (c < range[middle].first)
            high = middle;
        else
            return true;
    }
    return false;
}

static bool is_kept(uint32_t c)
{
    return c < 0x80 || (c >= 0x3131 && c <= 0xd7a3) || c == 0xff05 || c == 0xb7 || c == 0x223c || is_emoji(c);
}

/* The character at p < end, and its bytes. */
static uint32_t character(const char *p, const char *end, int *bytes)
{
    int32_t c = lvn_utf8_decode(p, end - p, bytes);
    return c < 0 ? (uint32_t)(unsigned char)*p : (uint32_t)c;
}

/* A letter, a digit or an underscore, as \w. */
static bool is_word(const char *p, const char *end)
{
    int bytes;
    if (p >= end) return false;
    enum lvn_char_class k = lvn_char_class((const uint8_t *)p, (const uint8_t *)end, &bytes);
    return k == LVN_CHAR_LETTER || k == LVN_CHAR_NUMBER || *p == '_';
}

static bool is_space(const char *p, const char *end)
{
    int bytes;
    return lvn_char_class((const uint8_t *)p, (const uint8_t *)end, &bytes) == LVN_CHAR_SPACE ||
           (*p >= 0x1c && *p <= 0x1f);
}

static bool among(char c, const char *others)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr(others, c));
}

/* Where a name like www.example.com/path that begins at p ends; NULL: there is none. The longest name before a dot that
 * leaves an ending of one to six letters, digits or brackets after it, which ends where a word does. */
static const char *host_end(const char *p, const char *end)
{
    enum { NAME = 256, ENDING = 6 };
    int64_t n = 0;
    while (n < NAME && p + n < end && among(p[n], "-@:%._+~#=")) n++;
    for (; n >= 1; n--) {
        const char *dot = p + n;
        int64_t m = 0;
        if (dot >= end || *dot != '.') continue;
        while (m < ENDING && dot + 1 + m < end && among(dot[1 + m], "()")) m++;
        for (; m >= 1; m--) {
            const char *stop = dot + 1 + m;
            if (is_word(stop - 1, end) == is_word(stop, end)) continue;
            while (stop < end && among(*stop, "-()@:%_+.~#?&/=")) stop++;
            return stop;
        }
    }
    return NULL;
}

/* Where an address that begins at p ends; NULL: none begins here. */
static const char *address_end(const char *p, const char *end)
{
    static const char *const schemes[] = {"https://", "http://"};
    for (int i = 0; i < 2; i++) {
        int64_t n = (int64_t)strlen(schemes[i]);
        if (end - p < n || memcmp(p, schemes[i], (size_t)n) != 0) continue;
        const char *stop = end - p - n > 4 && memcmp(p + n, "www.", 4) == 0 ? host_end(p + n + 4, end) : NULL;
        return stop ? stop : host_end(p + n, end);
    }
    return NULL;
}

static void keep(const char *p, const char *end, struct lvn_text *out)
{
    bool dropped = false;
    for (int n; p < end; p += n) {
        bool kept = is_kept(character(p, end, &n));
        if (kept) lvn_text_add_bytes(out, p, n);
        if (!kept && !dropped) lvn_text_add(out, " ");
        dropped = !kept;
    }
}

static void drop_addresses(const char *p, const char *end, struct lvn_text *out)
{
    while (p < end) {
        const char *stop = address_end(p, end);
        if (!stop) lvn_text_add_bytes(out, p, 1);
        p = stop ? stop : p + 1;
    }
}

/* Repeats, then white space, whose runs are one blank between others. */
static void shorten(const char *p, const char *end, struct lvn_text *out)
{
    uint32_t last = 0;
    int64_t times = 0;
    bool blank = false;
    lvn_text_clear(out);
    for (int n; p < end; p += n) {
        uint32_t c = character(p, end, &n);
        times = c == last ? times + 1 : 1;
        last = c;
        if (is_space(p, end)) {
            blank = true;
            continue;
        }
        if (times > 2 && is_word(p, end)) continue;
        if (blank && out->n) lvn_text_add(out, " ");
        blank = false;
        lvn_text_add_bytes(out, p, n);
    }
}

void lvn_clean_nsmc(const char *text, int64_t bytes, struct lvn_text *out)
{
    struct lvn_text kept = {0}, left = {0};
    lvn_unicode_init();
    keep(text, text + bytes, &kept);
    drop_addresses(kept.p, kept.p + kept.n, &left);
    shorten(left.p, left.p + left.n, out);
    if (out->n == 0) lvn_text_add(out, "");
    lvn_text_release(&kept);
    lvn_text_release(&left);
}
