/* text.c - the growing string, UTF-8 and edit distances of text.h.
 *
 * The distance is that of optimal string alignment (Damerau 1964, without editing a swapped pair again): three rows of
 * the usual table. */
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

void lvn_text_release(struct lvn_text *t)
{
    free(t->p);
    *t = (struct lvn_text){0};
}

void lvn_text_clear(struct lvn_text *t)
{
    t->n = 0;
    if (t->p) t->p[0] = '\0';
}

/* Room for `more` bytes and the NUL. */
static bool grow(struct lvn_text *t, int64_t more)
{
    if (t->failed) return false;
    if (t->n + more < t->room) return true;
    int64_t room = 2 * t->room + more + 64;
    char *p = lvn_realloc(t->p, (size_t)room);
    if (!p) {
        t->failed = true;
        return false;
    }
    t->p = p;
    t->room = room;
    return true;
}

void lvn_text_add_bytes(struct lvn_text *t, const void *bytes, int64_t n)
{
    if (!grow(t, n)) return;
    if (n) memcpy(t->p + t->n, bytes, (size_t)n);
    t->n += n;
    t->p[t->n] = '\0';
}

void lvn_text_add(struct lvn_text *t, const char *s)
{
    lvn_text_add_bytes(t, s, (int64_t)strlen(s));
}

void lvn_text_printf(struct lvn_text *t, const char *format, ...)
{
    va_list args, again;
    const int64_t left = t->room - t->n; /* mostly enough, and formatting is slow: once, where it is */
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(left ? t->p + t->n : NULL, (size_t)left, format, args);
    va_end(args);
    if (n < 0) t->failed = true;
    if (n >= left && grow(t, n)) vsnprintf(t->p + t->n, (size_t)n + 1, format, again);
    va_end(again);
    if (!t->failed) t->n += n;
    if (t->p) t->p[t->n] = '\0'; /* what did not fit is not there */
}

enum lvn_status lvn_text_status(const struct lvn_text *t)
{
    LVN_CHECK(!t->failed, MEMORY, "not enough memory for a text of more than %lld bytes", (long long)t->n);
    return LVN_OK;
}

const char *lvn_text_string(struct lvn_text *t)
{
    if (lvn_text_status(t) != LVN_OK) return NULL;
    return t->p ? t->p : "";
}

bool lvn_fit(char *to, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(to, room, format, args);
    va_end(args);
    bool whole = n >= 0 && (size_t)n < room;
    if (!whole) to[0] = '\0';
    return whole;
}

void lvn_print_more(char *text, size_t room, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, room - used, format, args);
    va_end(args);
}

enum lvn_status lvn_take(char *to, size_t room, const char *what, const char *from, size_t n)
{
    to[0] = '\0';
    LVN_CHECK(n < room, ARG, "%s has %zu bytes; at most %zu are taken", what, n, room - 1);
    memcpy(to, from, n);
    to[n] = '\0';
    return LVN_OK;
}

enum lvn_status lvn_gather(struct lvn_text *all, enum lvn_status status)
{
    if (status != LVN_ARG) return status;
    lvn_text_printf(all, "%s%s", all->n ? "; and " : "", lvn_error_text());
    lvn_error_clear();
    return lvn_text_status(all);
}

enum lvn_status lvn_gathered(struct lvn_text *all, enum lvn_status status)
{
    if (status == LVN_OK && all->n) status = lvn_fail(LVN_ARG, "%s", all->p);
    lvn_text_release(all);
    return status;
}

bool lvn_ends_with(const char *text, const char *tail)
{
    size_t n = strlen(text), k = strlen(tail);
    return n >= k && strcmp(text + n - k, tail) == 0;
}

int32_t lvn_utf8_decode(const void *p, int64_t n, int *used)
{
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = p;
    *used = 1;
    if (s[0] < 0x80) return s[0];
    int length = s[0] >= 0xf0 && s[0] <= 0xf4  ? 4
                 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                                               : 0;
    if (!length || length > n) return -1;
    int32_t code = s[0] & (0x7f >> length);
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) return -1;
        code = code << 6 | (s[i] & 0x3f);
    }
    if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return -1;
    *used = length;
    return code;
}

int lvn_utf8_encode(int32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00 >> length & 0xff) | code);
    return length;
}

int64_t lvn_utf8_check(const void *p, int64_t n)
{
    const unsigned char *s = p;
    int used;
    for (int64_t i = 0; i < n; i += used)
        if (lvn_utf8_decode(s + i, n - i, &used) < 0) return i;
    return -1;
}

int64_t lvn_utf8_mark(const void *p, int64_t n)
{
    return n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

enum { LONGEST = 64 };

int lvn_edit_distance(const char *a, const char *b)
{
    int row[3][LONGEST + 1]; /* of a's letters i-2, i-1, i against b's first j */
    int na = (int)strnlen(a, LONGEST), nb = (int)strnlen(b, LONGEST);
    int *before = row[0], *last = row[1], *now = row[2];
    for (int j = 0; j <= nb; j++) last[j] = j;
    for (int i = 1; i <= na; i++) {
        now[0] = i;
        for (int j = 1; j <= nb; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            now[j] = best;
        }
        int *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[nb];
}

const char *lvn_nearest(const char *word, const char *const *words, int n)
{
    int letters = (int)strnlen(word, LONGEST);
    int limit = letters / 3 < 1 ? 1 : letters / 3 > 3 ? 3 : letters / 3;
    const char *nearest = NULL;
    for (int i = 0; i < n; i++) {
        int distance = words[i] ? lvn_edit_distance(word, words[i]) : limit + 1;
        if (distance > limit) continue;
        nearest = words[i];
        limit = distance - 1; /* later ones must be nearer */
    }
    return nearest;
}

char *lvn_bytes_text(int64_t bytes, char text[LVN_NUMBER_TEXT])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double x = (double)bytes;
    int unit = 0;
    for (; fabs(x) >= 999.5 && unit < 5; unit++) x /= 1024;
    snprintf(text, LVN_NUMBER_TEXT, unit && x < 9.95 ? "%.1f %s" : "%.0f %s", x, units[unit]);
    return text;
}

char *lvn_count_text(int64_t n, char text[LVN_NUMBER_TEXT])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRId64, n < 0 ? -n : n), used = 0;
    if (n < 0) text[used++] = '-';
    for (int i = 0; i < length; i++) {
        text[used++] = digits[i];
        if ((length - i) % 3 == 1 && i < length - 1) text[used++] = ',';
    }
    text[used] = '\0';
    return text;
}

void lvn_hex_text(const void *bytes, size_t n, char *text)
{
    for (size_t i = 0; i < n; i++) snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *)bytes)[i]);
}
