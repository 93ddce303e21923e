/* unicode.c - see unicode.h: lower case, and normalization forms by Unicode Standard Annex 15, with
 * Hangul by rule (chapter 3.12 of the standard). */
#include "tokenizers/unicode/unicode.h"

#include <pthread.h>

#include "base/list.h"

enum {
    S_BASE = 0xac00,
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11a7,
    L_COUNT = 19,
    V_COUNT = 21,
    T_COUNT = 28,
    S_COUNT = L_COUNT * V_COUNT * T_COUNT,
    FIRST_MARK = 0x300, /* all code points below are in NFC */
};

/* Code points first, first + step, ..., last: lower case is the code point + add; some have a second code point. */
static const struct lower {
    uint32_t first, last, step;
    int32_t add;
    uint32_t second;
} lower_rows[] = {
#define L(...) {__VA_ARGS__},
#include "tokenizers/unicode/unicode_lower.def"
#undef L
};

static const struct pair {
    uint32_t point, first, second; /* second 0: there is none */
    bool composes;
} pairs[] = {
#define D(point, first, second) {point, first, second, true},
#define E(point, first, second) {point, first, second, false},
#include "tokenizers/unicode/unicode_compose.def"
#undef D
#undef E
};
enum { N_PAIRS = sizeof pairs / sizeof pairs[0] };

/* Runs of adjacent code points with n parts each. The words of a run: n | number of code points << 8 | index of the
 * part that counts up << 16 (n: none does); the first code point; the n parts of the first code point. */
static const uint32_t compatible[] = {
#define K(n, ...) S(n, 1, n, __VA_ARGS__)
#define S(n, count, varying, ...) (n) | (count) << 8 | (varying) << 16, __VA_ARGS__,
#include "tokenizers/unicode/unicode_compat.def"
#undef K
#undef S
};
enum { N_COMPATIBLE = sizeof compatible / sizeof compatible[0] };
static uint16_t compatible_at[0x20000]; /* index of the first code point of a code point's run; 0: none */

static const struct pair *by_parts[N_PAIRS];
static int n_composed;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int by_parts_order(const void *a, const void *b)
{
    const struct pair *x = *(const struct pair *const *)a, *y = *(const struct pair *const *)b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->second > y->second) - (x->second < y->second);
}

static void fill(void)
{
    for (int i = 0; i < N_PAIRS; i++)
        if (pairs[i].composes) by_parts[n_composed++] = &pairs[i];
    for (uint32_t i = 0; i < N_COMPATIBLE; i += 2 + (compatible[i] & 0xff))
        for (uint32_t k = 0; k < (compatible[i] >> 8 & 0xff); k++)
            compatible_at[compatible[i + 1] + k] = (uint16_t)(i + 1);
    qsort(by_parts, (size_t)n_composed, sizeof *by_parts, by_parts_order);
}

bool lvn_unicode_is_normalized(enum lvn_unicode_form form, const uint8_t *p, int64_t n)
{
    lvn_unicode_init();
    for (const uint8_t *end = p + n; p < end;) {
        int bytes;
        if (*p < 0x80) {
            p++;
            continue;
        }
        int32_t code = lvn_utf8_decode(p, end - p, &bytes);
        if (form != LVN_NFC && code >= 0) return false;
        if (code >= FIRST_MARK && lvn_char((uint32_t)code)->changes) return false;
        p += bytes;
    }
    return true;
}

static const struct pair *decomposition(uint32_t c)
{
    int lo = 0, hi = N_PAIRS - 1; /* the rows ascend */
    while (lo <= hi) {
        int mid = (lo + hi) / 2;
        if (pairs[mid].point == c) return &pairs[mid];
        if (pairs[mid].point < c)
            lo = mid + 1;
        else
            hi = mid - 1;
    }
    return NULL;
}

static int by_run(const void *code, const void *run)
{
    const struct lower *r = run;
    uint32_t c = *(const uint32_t *)code;
    return c < r->first ? -1 : c > r->last;
}

int lvn_unicode_lower(uint32_t code, uint32_t low[2])
{
    if (code < 0x80) {
        low[0] = code | 32;
        return code >= 'A' && code <= 'Z';
    }
    const struct lower *found =
        bsearch(&code, lower_rows, sizeof lower_rows / sizeof lower_rows[0], sizeof lower_rows[0], by_run);
    if (!found || (code - found->first) % found->step) return 0;
    low[0] = code + (uint32_t)found->add;
    low[1] = found->second;
    return low[1] ? 2 : 1;
}

static int nfd(uint32_t c, uint32_t *parts, int n)
{
    const struct pair *d = c >= 0xc0 && n < LVN_NFD_MAX - 2 ? decomposition(c) : NULL;
    if (!d) {
        parts[n] = c;
        return n + 1;
    }
    n = nfd(d->first, parts, n);
    return d->second ? nfd(d->second, parts, n) : n;
}

int lvn_unicode_nfd(uint32_t code, uint32_t parts[LVN_NFD_MAX])
{
    if (code - S_BASE >= S_COUNT) return nfd(code, parts, 0);
    parts[0] = L_BASE + (code - S_BASE) / (V_COUNT * T_COUNT);
    parts[1] = V_BASE + (code - S_BASE) / T_COUNT % V_COUNT;
    parts[2] = T_BASE + (code - S_BASE) % T_COUNT;
    return (code - S_BASE) % T_COUNT ? 3 : 2;
}

static uint32_t composition(uint32_t a, uint32_t b)
{
    if (a - L_BASE < L_COUNT && b - V_BASE < V_COUNT) return S_BASE + ((a - L_BASE) * V_COUNT + b - V_BASE) * T_COUNT;
    if (a - S_BASE < S_COUNT && (a - S_BASE) % T_COUNT == 0 && b - T_BASE - 1 < T_COUNT - 1) return a + b - T_BASE;
    struct pair key = {.first = a, .second = b};
    const struct pair *k = &key;
    const struct pair *const *found = bsearch(&k, by_parts, (size_t)n_composed, sizeof *by_parts, by_parts_order);
    return found ? (*found)->point : 0;
}

/* Code points of a part of the text, fully decomposed, in canonical order. */
struct sequence {
    uint32_t *point;
    int64_t n, capacity;
    bool failed;
};

static void push(struct sequence *s, uint32_t c)
{
    if (lvn_list_reserve(&s->point, &s->capacity, s->n + 1, sizeof *s->point))
        s->point[s->n++] = c;
    else
        s->failed = true;
}

static void decompose(struct sequence *s, enum lvn_unicode_form form, uint32_t c)
{
    uint32_t parts[LVN_NFD_MAX], at = form & LVN_COMPATIBLE && c < 0x20000 ? compatible_at[c] : 0;
    if (at) {
        uint32_t varying = compatible[at - 1] >> 16;
        for (uint32_t i = 0; i < (compatible[at - 1] & 0xff); i++)
            push(s, compatible[at + 1 + i] + (i == varying ? c - compatible[at] : 0));
        return;
    }
    int n = lvn_unicode_nfd(c, parts);
    for (int i = 0; i < n; i++) push(s, parts[i]);
}

static int by_class(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sort adjacent marks by their combining classes (stable). */
static void order(struct sequence *s)
{
    for (int64_t i = 0; i < s->n;) {
        int64_t end = i;
        while (end < s->n && lvn_char(s->point[end])->combining) end++;
        if (end - i > 64) { /* many marks: sort (class, place, point) */
            uint64_t *key = lvn_malloc((size_t)(end - i) * 2 * sizeof *key);
            if (!key) {
                s->failed = true;
                return;
            }
            for (int64_t k = i; k < end; k++) {
                key[2 * (k - i)] = (uint64_t)lvn_char(s->point[k])->combining << 40 | (uint64_t)(k - i);
                key[2 * (k - i) + 1] = s->point[k];
            }
            qsort(key, (size_t)(end - i), 2 * sizeof *key, by_class);
            for (int64_t k = i; k < end; k++) s->point[k] = (uint32_t)key[2 * (k - i) + 1];
            free(key);
        } else {
            for (int64_t k = i + 1; k < end; k++)
                for (int64_t m = k; m > i && lvn_char(s->point[m - 1])->combining > lvn_char(s->point[m])->combining;
                     m--) {
                    uint32_t swap = s->point[m];
                    s->point[m] = s->point[m - 1];
                    s->point[m - 1] = swap;
                }
        }
        i = end + 1;
    }
}

static void compose(struct sequence *s)
{
    int64_t starter = -1, out = 0;
    int last = -1; /* class of the last code point retained after the starter; -1: none */
    for (int64_t i = 0; i < s->n; i++) {
        uint32_t c = s->point[i], joined = 0;
        int class = lvn_char(c)->combining;
        if (starter >= 0 && (last < class || last == -1)) joined = composition(s->point[starter], c);
        if (joined) {
            s->point[starter] = joined;
            continue;
        }
        if (class == 0) {
            starter = out;
            last = -1;
        } else {
            last = class;
        }
        s->point[out++] = c;
    }
    s->n = out;
}

static void flush(struct sequence *s, enum lvn_unicode_form form, struct lvn_text *out)
{
    char text[4];
    order(s);
    if (form & LVN_COMPOSED) compose(s);
    for (int64_t i = 0; i < s->n; i++) lvn_text_add_bytes(out, text, lvn_utf8_encode((int32_t)s->point[i], text));
    s->n = 0;
}

void lvn_unicode_normalize(enum lvn_unicode_form form, const uint8_t *p, int64_t n, struct lvn_text *out)
{
    struct sequence s = {0};
    pthread_once(&once, fill);
    for (const uint8_t *end = p + n; p < end;) {
        int bytes;
        int32_t code = lvn_utf8_decode(p, end - p, &bytes);
        /* The sequence can end before a character that never changes and never composes with the previous one. */
        if (s.n > 200 && code >= 0 && code < FIRST_MARK) flush(&s, form, out);
        if (code >= 0) {
            decompose(&s, form, (uint32_t)code);
        } else {
            flush(&s, form, out);
            lvn_text_add_bytes(out, p, 1);
        }
        p += bytes;
    }
    flush(&s, form, out);
    if (s.failed) out->failed = true;
    free(s.point);
}
