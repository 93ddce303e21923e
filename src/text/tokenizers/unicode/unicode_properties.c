/* unicode_properties.c - see unicode.h: the properties of characters, and what follows from them alone. */
#include <pthread.h>

#include "tokenizers/unicode/unicode.h"

const struct lvn_char lvn_chars[] = {
#define P(char_class, word, category, cluster, ...)                                                                    \
    {LVN_CHAR_##char_class, LVN_WORD_##word, LVN_CATEGORY_##category, LVN_CLUSTER_##cluster, __VA_ARGS__},
#define R(...)
#define M(...)
#include "tokenizers/unicode/unicode_properties.def"
#undef P
#undef R
#undef M
};

static const struct {
    uint32_t n;
    uint8_t kind;
} runs[] = {
#define P(...)
#define R(...) {__VA_ARGS__},
#define M(...)
#include "tokenizers/unicode/unicode_properties.def"
#undef P
#undef R
#undef M
};

enum {
    N_KINDS = sizeof lvn_chars / sizeof *lvn_chars,
    N_MIXED =
#define P(...)
#define R(...)
#define M(n) n
#include "tokenizers/unicode/unicode_properties.def"
#undef P
#undef R
#undef M
};

uint8_t lvn_char_blocks[N_KINDS + N_MIXED][128]; /* first the blocks of identical code points, by their kind */
uint16_t lvn_char_block[0x110000 / 128];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void)
{
    int mixed = N_KINDS;
    uint32_t run = 0, left = runs[0].n; /* characters of this run that have no entry yet */
    for (int kind = 0; kind < N_KINDS; kind++) memset(lvn_char_blocks[kind], kind, sizeof *lvn_char_blocks);
    for (size_t block = 0; block < sizeof lvn_char_block / sizeof *lvn_char_block; block++) {
        if (!left) left = runs[++run].n;
        if (left >= 128) {
            lvn_char_block[block] = runs[run].kind;
            left -= 128;
            continue;
        }
        for (int i = 0; i < 128; i++, left--) {
            if (!left) left = runs[++run].n;
            lvn_char_blocks[mixed][i] = runs[run].kind;
        }
        lvn_char_block[block] = (uint16_t)mixed++;
    }
}

void lvn_unicode_init(void)
{
    pthread_once(&once, fill);
}

uint32_t lvn_category_set(const char *name, int64_t bytes)
{
    static const char names[] =
        "CnLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCo"; /* in the order of the enum */
    uint32_t set = 0;
    for (int i = 0; i < LVN_CATEGORY_COUNT; i++)
        if (bytes >= 1 && bytes <= 2 && !memcmp(names + 2 * i, name, (size_t)bytes)) set |= (uint32_t)1 << i;
    return set;
}

/* Is there no cluster boundary between two neighbors? pictographic: `a` ends, or follows, a pictograph and its
 * extenders. */
static bool no_break(enum lvn_cluster_class a, enum lvn_cluster_class b, bool pictographic)
{
    switch (b) {
    case LVN_CLUSTER_EXTEND:
    case LVN_CLUSTER_JOINER:
    case LVN_CLUSTER_SPACING:
        return a != LVN_CLUSTER_CONTROL;
    case LVN_CLUSTER_CONTROL:
        return false;
    default:
        break;
    }
    switch (a) {
    case LVN_CLUSTER_PREPEND:
        return true;
    case LVN_CLUSTER_HANGUL_L:
        return b == LVN_CLUSTER_HANGUL_L || b == LVN_CLUSTER_HANGUL_V || b == LVN_CLUSTER_HANGUL_LV ||
               b == LVN_CLUSTER_HANGUL_S;
    case LVN_CLUSTER_HANGUL_LV:
    case LVN_CLUSTER_HANGUL_V:
        return b == LVN_CLUSTER_HANGUL_V || b == LVN_CLUSTER_HANGUL_T;
    case LVN_CLUSTER_HANGUL_S:
    case LVN_CLUSTER_HANGUL_T:
        return b == LVN_CLUSTER_HANGUL_T;
    case LVN_CLUSTER_JOINER:
        return b == LVN_CLUSTER_PICTURE && pictographic;
    default:
        return false;
    }
}

static enum lvn_cluster_class cluster_class(int32_t code)
{
    if (code < 0 || code == '\n' || code == '\r') return LVN_CLUSTER_CONTROL;
    const uint8_t class = lvn_char((uint32_t)code)->cluster_class;
    return class == LVN_CLUSTER_HANGUL_S && (code - 0xac00) % 28 == 0 ? LVN_CLUSTER_HANGUL_LV : class;
}

int64_t lvn_grapheme(const uint8_t *p, int64_t n)
{
    int bytes, first;
    lvn_unicode_init();
    int32_t code = lvn_utf8_decode(p, n, &first);
    enum lvn_cluster_class a = cluster_class(code);
    bool pictographic = a == LVN_CLUSTER_PICTURE;
    if (code == '\r' && n > 1 && p[1] == '\n') return 2;
    int64_t end = first;
    while (end < n) {
        enum lvn_cluster_class b = cluster_class(lvn_utf8_decode(p + end, n - end, &bytes));
        if (!no_break(a, b, pictographic)) break;
        pictographic =
            b == LVN_CLUSTER_PICTURE || (pictographic && (b == LVN_CLUSTER_EXTEND || b == LVN_CLUSTER_JOINER));
        end += bytes;
        a = b;
    }
    return end;
}
