/* text.c - see text.h.
 *
 * The edit distance is that of optimal string alignment (Damerau 1964, without editing a swapped pair again): three
 * rows of the usual table. */
#include "base/text.h"

#include <float.h>

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

/* Ensure capacity for `more` bytes and the NUL. */
static bool grow(struct lvn_text *t, int64_t more)
{
    if (t->failed) return false;
    if (t->n + more < t->capacity) return true;
    int64_t capacity = 2 * t->capacity + more + 64;
    char *p = lvn_realloc(t->p, (size_t)capacity);
    if (!p) {
        t->failed = true;
        return false;
    }
    t->p = p;
    t->capacity = capacity;
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
    va_list args, args_copy;
    const int64_t left = t->capacity - t->n; /* usually sufficient; formatting is slow, so it is done once then */
    va_start(args, format);
    va_copy(args_copy, args);
    int n = vsnprintf(left ? t->p + t->n : NULL, (size_t)left, format, args);
    va_end(args);
    if (n < 0) t->failed = true;
    if (n >= left && grow(t, n)) vsnprintf(t->p + t->n, (size_t)n + 1, format, args_copy);
    va_end(args_copy);
    if (!t->failed) t->n += n;
    if (t->p) t->p[t->n] = '\0'; /* removes what did not fit */
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

bool lvn_fit(char *to, size_t capacity, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(to, capacity, format, args);
    va_end(args);
    bool whole = n >= 0 && (size_t)n < capacity;
    if (!whole) to[0] = '\0';
    return whole;
}

void lvn_print_append(char *text, size_t capacity, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, capacity - used, format, args);
    va_end(args);
}

enum lvn_status lvn_copy_bytes(char *to, size_t capacity, const char *name, const char *from, size_t n)
{
    to[0] = '\0';
    LVN_CHECK(n < capacity, ARG, "%s has %zu bytes; at most %zu are supported", name, n, capacity - 1);
    memcpy(to, from, n);
    to[n] = '\0';
    return LVN_OK;
}

enum lvn_status lvn_collect_error(struct lvn_text *all, enum lvn_status status)
{
    if (status != LVN_ARG) return status;
    lvn_text_printf(all, "%s%s", all->n ? "; and " : "", levin_error_text());
    lvn_error_clear();
    return lvn_text_status(all);
}

enum lvn_status lvn_collected_errors(struct lvn_text *all, enum lvn_status status)
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
    static const int32_t min[] = {0, 0, 0x80, 0x800, 0x10000};
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
    if (code < min[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return -1;
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
    for (int64_t i = 0; i < n; i += used) {
        uint64_t next;
        if (n - i >= (used = sizeof next)) {
            memcpy(&next, s + i, sizeof next);
            if (!(next & 0x8080808080808080)) continue;
        }
        if (lvn_utf8_decode(s + i, n - i, &used) < 0) return i;
    }
    return -1;
}

int64_t lvn_utf8_bom(const void *p, int64_t n)
{
    return n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

int64_t lvn_count_crlf(const void *p, int64_t n)
{
    int64_t lines = 0;
    for (const char *at = p, *end = at + n; n && (at = memchr(at, '\r', (size_t)(end - at)));)
        lines += ++at < end && *at == '\n';
    return lines;
}

enum { LONGEST = 64 };

int lvn_edit_distance(const char *a, const char *b)
{
    int row[3][LONGEST + 1]; /* for a's letters i-2, i-1, i and the first j letters of b */
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
        limit = distance - 1; /* later words must be nearer */
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

int64_t lvn_bytes_of_text(const char *text)
{
    static const char letters[] = "KMGT";
    char *end;
    if (*text < '0' || *text > '9') return -1; /* no sign, no space, no word */
    double x = strtod(text, &end);
    while (*end == ' ') end++;
    const char *power = *end ? strchr(letters, toupper((unsigned char)*end)) : NULL;
    if (power) {
        const bool binary = toupper((unsigned char)end[1]) == 'I';
        x *= pow(binary ? 1024 : 1000, (double)(power - letters) + 1);
        end += binary ? 2 : 1;
    }
    if (*end == 'B' || *end == 'b') end++;
    return *end || !(x < 0x1p62) || strpbrk(text, "xXpP") ? -1 : (int64_t)x;
}

char *lvn_shortest_text(double x, int digits, char text[LVN_NUMBER_TEXT])
{
    do snprintf(text, LVN_NUMBER_TEXT, "%.*g", digits, x);
    while (digits++ < DBL_DECIMAL_DIG && strtod(text, NULL) != x);
    return text;
}

bool lvn_range_next(const char **list, long *first, long *last)
{
    char *end;
    *first = *last = strtol(*list, &end, 10);
    if (end == *list) return false;
    if (*end == '-') *last = strtol(end + 1, &end, 10);
    *list = *end ? end + 1 : end;
    return true;
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

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
                  base64_of_urls[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

int64_t lvn_base64_bytes(const char *text, void *bytes, int64_t capacity)
{
    int64_t n = 0;
    uint32_t bits = 0;
    for (int n_bits = 0; *text && *text != '='; text++) {
        const char *at = strchr(base64, *text);
        if (!at) return -1;
        bits = bits << 6 | (uint32_t)(at - base64);
        n_bits += 6;
        if (n_bits < 8) continue;
        if (n == capacity) return -1;
        n_bits -= 8;
        ((unsigned char *)bytes)[n++] = (unsigned char)(bits >> n_bits);
    }
    return n;
}

void lvn_text_add_base64(struct lvn_text *t, const void *data, size_t n, bool url)
{
    const char *digits = url ? base64_of_urls : base64;
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t x =
            (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
        for (size_t k = 0; k < 4; k++) {
            if (i + k <= n)
                lvn_text_add_bytes(t, &digits[x >> (18 - 6 * k) & 63], 1);
            else if (!url)
                lvn_text_add(t, "=");
        }
    }
}

void lvn_hex_text(const void *bytes, size_t n, char *text)
{
    for (size_t i = 0; i < n; i++) snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *)bytes)[i]);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int64_t lvn_hex_number(const char *text, int n)
{
    int64_t value = 0;
    for (int i = 0; i < n && value >= 0; i++) {
        const int digit = digit_of(text[i]);
        value = digit < 0 ? -1 : value * 16 + digit;
    }
    return value;
}

bool lvn_hex_bytes(const char *text, size_t n, void *bytes)
{
    for (size_t i = 0; i < n; i++) {
        const int64_t byte = lvn_hex_number(text + 2 * i, 2);
        if (byte < 0) return false;
        ((unsigned char *)bytes)[i] = (unsigned char)byte;
    }
    return true;
}

/* --- numbers, with exactly the text of printf's %g ---
 *
 * A double times an exact power of ten is a long double except for its last bit. So its digits are those of an
 * integer, unless it is so close to half a unit of the last digit that this bit decides; then printf is called. */
enum { MAX_DIGITS = 15, MAX_POWER = 27 }; /* 5^27 is the largest power that fits 64 bits */

static const long double ten[MAX_POWER + 1] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,
                                               1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L,
                                               1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};

/* x * 10^power; NaN outside the table. */
static long double shifted(double x, int power)
{
    if (power > MAX_POWER || power < -MAX_POWER) return NAN;
    return power < 0 ? x / ten[-power] : x * ten[power];
}

/* magnitude = 0.dddd... * 10^*point, rounded to `digits` digits, the integer *number. False: printf must be called. */
static bool decimal(double magnitude, int digits, uint64_t *number, int *point)
{
    *point = (ilogb(magnitude) * 1233 >> 12) + 1; /* 1233 / 4096 is about log10(2): right, or one too small */
    long double x = shifted(magnitude, digits - *point);
    if (x >= ten[digits]) x = shifted(magnitude, digits - ++*point);
    if (isnan(x)) return false;
    *number = (uint64_t)x;
    const long double above = x - (long double)*number - 0.5L;
    if (fabsl(above) <= 2 * LDBL_EPSILON * x) return false;
    *number += above > 0;
    if ((long double)*number < ten[digits]) return true;
    *number /= 10; /* 9.99.. was rounded to 10 */
    ++*point;
    return true;
}

void lvn_text_number(struct lvn_text *t, double value, int digits)
{
    char text[40], *p = text, *d = text + sizeof text; /* digits are generated from the last one */
    uint64_t number;
    int point, n = digits;
    const bool plain = isfinite(value) && value != 0 && digits > 0 && digits <= MAX_DIGITS;
    if (!plain || !decimal(fabs(value), digits, &number, &point)) {
        lvn_text_printf(t, "%.*g", digits, value);
        return;
    }
    const bool power = point < -3 || point > digits;
    const int whole = power ? 1 : point; /* number of digits before the point */
    for (; n > 1 && n > whole && number % 10 == 0; n--) number /= 10;
    for (int i = 0; i < n; i++, number /= 10) *--d = (char)('0' + number % 10);
    if (value < 0) *p++ = '-';
    if (whole <= 0) p = memcpy(p, "0.000", (size_t)(2 - whole)), p += 2 - whole;
    for (int i = 0; i < n; i++) {
        if (i && i == whole) *p++ = '.';
        *p++ = d[i];
    }
    lvn_text_add_bytes(t, text, p - text);
    if (power) lvn_text_printf(t, "e%+03d", point - 1);
}
