/* unicode_kinds.c - see unicode.h: general categories, word characters, accents, grapheme clusters. */
#include <pthread.h>
#include <string.h>

#include "tokenizers/unicode/unicode.h"

enum break_class {
    OTHER,
    CONTROL,
    EXTEND,
    PREPEND,
    SPACING,
    PICTURE,
    JOINER,
    HANGUL_L,
    HANGUL_V,
    HANGUL_T,
    HANGUL_LV,
    HANGUL_LVT
};

static uint8_t categories[0x110000], word_chars[0x110000 / 8], accents[0x110000 / 8], breaks[0x110000];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct {
    uint32_t first, last;
    uint8_t value;
} category_rows[] =
    {
#define G(first, last, name) {first, last, LVN_CATEGORY_##name},
#define W(...)
#define A(...)
#include "tokenizers/unicode/unicode_categories.def"
#undef G
#undef W
#undef A
},
  bit_rows[] =
      {
#define G(...)
#define W(first, last) {first, last, 0},
#define A(first, last) {first, last, 1},
#include "tokenizers/unicode/unicode_categories.def"
#undef G
#undef W
#undef A
},
  break_rows[] = {
#define B(first, last, class) {first, last, class},
#include "tokenizers/unicode/unicode_graphemes.def"
#undef B
      {0x200d, 0x200d, JOINER},   {0x1100, 0x115f, HANGUL_L}, {0xa960, 0xa97c, HANGUL_L}, {0x1160, 0x11a7, HANGUL_V},
      {0xd7b0, 0xd7c6, HANGUL_V}, {0x11a8, 0x11ff, HANGUL_T}, {0xd7cb, 0xd7fb, HANGUL_T}, {0xac00, 0xd7a3, HANGUL_LVT},
};

static void fill(void)
{
    for (size_t i = 0; i < sizeof category_rows / sizeof category_rows[0]; i++)
        memset(categories + category_rows[i].first, category_rows[i].value,
               category_rows[i].last - category_rows[i].first + 1);
    for (size_t i = 0; i < sizeof bit_rows / sizeof bit_rows[0]; i++)
        for (uint32_t c = bit_rows[i].first; c <= bit_rows[i].last; c++)
            (bit_rows[i].value ? accents : word_chars)[c / 8] |= (uint8_t)(1 << c % 8);
    for (size_t i = 0; i < sizeof break_rows / sizeof break_rows[0]; i++)
        memset(breaks + break_rows[i].first, break_rows[i].value, break_rows[i].last - break_rows[i].first + 1);
    for (uint32_t c = 0xac00; c < 0xd7a4; c += 28) breaks[c] = HANGUL_LV;
}

enum lvn_category lvn_category(uint32_t code)
{
    pthread_once(&once, fill);
    return (enum lvn_category)categories[code];
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

bool lvn_is_word_char(uint32_t code)
{
    pthread_once(&once, fill);
    return word_chars[code / 8] >> code % 8 & 1;
}

bool lvn_is_accent(uint32_t code)
{
    pthread_once(&once, fill);
    return accents[code / 8] >> code % 8 & 1;
}

/* Is there no cluster boundary between two neighbours? pictographic: `a` ends, or follows, a pictograph and its
 * extenders. */
static bool no_break(enum break_class a, enum break_class b, bool pictographic)
{
    if (b == EXTEND || b == JOINER || b == SPACING) return a != CONTROL;
    if (a == CONTROL || b == CONTROL) return false;
    if (a == PREPEND) return true;
    if (a == HANGUL_L) return b == HANGUL_L || b == HANGUL_V || b == HANGUL_LV || b == HANGUL_LVT;
    if (a == HANGUL_LV || a == HANGUL_V) return b == HANGUL_V || b == HANGUL_T;
    if (a == HANGUL_LVT || a == HANGUL_T) return b == HANGUL_T;
    return a == JOINER && b == PICTURE && pictographic;
}

int64_t lvn_grapheme(const uint8_t *p, int64_t n)
{
    int bytes, first;
    pthread_once(&once, fill);
    int32_t code = lvn_utf8_decode(p, n, &first);
    enum break_class a = code < 0 || code == '\n' || code == '\r' ? CONTROL : (enum break_class)breaks[code];
    bool pictographic = a == PICTURE;
    if (code == '\r' && n > 1 && p[1] == '\n') return 2;
    int64_t end = first;
    while (end < n) {
        code = lvn_utf8_decode(p + end, n - end, &bytes);
        enum break_class b = code < 0 || code == '\n' || code == '\r' ? CONTROL : (enum break_class)breaks[code];
        if (!no_break(a, b, pictographic)) break;
        pictographic = b == PICTURE || (pictographic && (b == EXTEND || b == JOINER));
        end += bytes;
        a = b;
    }
    return end;
}
