/* split.c - see split.h. Every function follows its expression from left to right: alternatives in their order, each as
 * long as possible. */
#include "tokenizers/split.h"

#include "tokenizers/unicode/unicode.h"

#define SYMBOLS " ?[^\\s\\p{L}\\p{N}]+"
/* cl100k_base of tiktoken, whose possessive quantifiers match the same text. `\\s*[\\r\\n]` ends at the last line end
 * of a run of white space, as `\\s*[\\r\\n]+` does. */
#define TIKTOKEN(digits)                                                                                               \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}" digits                                               \
    "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"

static const struct {
    const char *expression;
    enum lvn_split_kind kind;
} expressions[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" SYMBOLS "|\\s+(?!\\S)|\\s+", LVN_SPLIT_BYTE_LEVEL},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+|" SYMBOLS "|\\s+(?!\\S)|\\s+", LVN_SPLIT_BYTE_LEVEL},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" SYMBOLS
     "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     LVN_SPLIT_LLAMA3},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|" SYMBOLS
     "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     LVN_SPLIT_QWEN2},
    {TIKTOKEN("{1,3}"), LVN_SPLIT_LLAMA3},
    {TIKTOKEN("{1,2}"), LVN_SPLIT_NANOCHAT},
};

int lvn_split_find(const char *expression)
{
    for (size_t i = 0; i < sizeof expressions / sizeof expressions[0]; i++)
        if (!strcmp(expressions[i].expression, expression)) return (int)expressions[i].kind;
    return -1;
}

/* The end of the run of characters of one class at p. */
static inline const uint8_t *run(const uint8_t *p, const uint8_t *end, enum lvn_char_class class)
{
    for (;;) {
        int bytes;
        while (p < end && *p < 0x80 && lvn_char(*p)->char_class == class) p++;
        if (p == end || *p < 0x80 || lvn_char_class(p, end, &bytes) != class) return p;
        p += bytes;
    }
}

/* The end of a run of white space at p, without its last character if another character follows: \s+(?!\S)|\s+ */
static const uint8_t *spaces(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *stop = run(p, end, LVN_CHAR_SPACE), *last = stop - 1;
    if (stop == end) return stop;
    while (last > p && (*last & 0xc0) == 0x80) last--;
    return last > p ? last : stop;
}

/* Length of 's, 't, 'm, 'd, 're, 've, 'll at the apostrophe p; 0: none. */
static inline int contraction(const uint8_t *p, const uint8_t *end)
{
    if (end - p < 2) return 0;
    uint8_t a = p[1], b = end - p > 2 ? p[2] : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

static const uint8_t *next_gpt2(const uint8_t *p, const uint8_t *end)
{
    int bytes;
    if (*p == '\'' && (bytes = contraction(p, end))) return p + bytes;
    const uint8_t *q = *p == ' ' && end - p > 1 ? p + 1 : p;
    enum lvn_char_class class = lvn_char_class(q, end, &bytes);
    return class == LVN_CHAR_SPACE ? spaces(p, end) : run(q + bytes, end, class);
}

/* The same in any case; the long s (U+017F) counts as an s. */
static int contraction_any(const uint8_t *p, const uint8_t *end)
{
    uint8_t low[3] = {'\''};
    for (int i = 1; i < 3 && i < end - p; i++) low[i] = p[i] >= 'A' && p[i] <= 'Z' ? p[i] | 32 : p[i];
    if (end - p > 2 && p[1] == 0xc5 && p[2] == 0xbf) return 3;
    return contraction(low, low + (end - p < 3 ? end - p : 3));
}

static bool is_line_end(uint8_t c)
{
    return c == '\r' || c == '\n';
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ */
static const uint8_t *lines_or_spaces(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *stop = run(p, end, LVN_CHAR_SPACE);
    for (const uint8_t *q = stop; q > p; q--)
        if (is_line_end(q[-1])) return q;
    return spaces(p, end);
}

static const uint8_t *next_llama3(const uint8_t *p, const uint8_t *end, int numbers)
{
    int bytes, more;
    if (*p == '\'' && (bytes = contraction_any(p, end))) return p + bytes;
    enum lvn_char_class class = lvn_char_class(p, end, &bytes);
    if (class == LVN_CHAR_LETTER) return run(p + bytes, end, LVN_CHAR_LETTER);
    if (class == LVN_CHAR_NUMBER) {
        const uint8_t *q = p + bytes;
        for (int i = 1; i < numbers && q < end && lvn_char_class(q, end, &more) == LVN_CHAR_NUMBER; i++) q += more;
        return q;
    }
    const uint8_t *q = p + bytes;
    if (!is_line_end(*p) && q < end && lvn_char_class(q, end, &more) == LVN_CHAR_LETTER)
        return run(q + more, end, LVN_CHAR_LETTER);
    if (*p == ' ' && q < end && lvn_char_class(q, end, &more) == LVN_CHAR_OTHER) {
        q += more;
        class = LVN_CHAR_OTHER;
    }
    if (class != LVN_CHAR_OTHER) return lines_or_spaces(p, end);
    q = run(q, end, LVN_CHAR_OTHER);
    while (q < end && is_line_end(*q)) q++;
    return q;
}

static const uint8_t *next_metaspace(const uint8_t *p, const uint8_t *end)
{
    static const uint8_t metaspace[3] = {0xe2, 0x96, 0x81};
    while (end - p >= 3 && !memcmp(p, metaspace, 3)) p += 3;
    const uint8_t *next = memmem(p, (size_t)(end - p), metaspace, 3);
    return next ? next : end;
}

int64_t lvn_split_next(enum lvn_split_kind kind, const uint8_t *p, int64_t n)
{
    switch (kind) {
    case LVN_SPLIT_BYTE_LEVEL:
        return next_gpt2(p, p + n) - p;
    case LVN_SPLIT_LLAMA3:
        return next_llama3(p, p + n, 3) - p;
    case LVN_SPLIT_QWEN2:
        return next_llama3(p, p + n, 1) - p;
    case LVN_SPLIT_NANOCHAT:
        return next_llama3(p, p + n, 2) - p;
    case LVN_SPLIT_METASPACE:
        return next_metaspace(p, p + n) - p;
    case LVN_SPLIT_NONE:
        break;
    }
    return n;
}

static bool is_safe(const uint8_t *p, int64_t i)
{
    uint8_t a = p[i - 1] | 32;
    bool word = (a >= 'a' && a <= 'z') || (p[i - 1] >= '0' && p[i - 1] <= '9');
    return word && (p[i] == ' ' || p[i] == '\n' || p[i] == '\t' || p[i] == '\r');
}

int64_t lvn_split_safe(const uint8_t *p, int64_t n, int64_t from)
{
    int64_t i = from > 0 ? from : 1;
    while (i < n && !is_safe(p, i)) i++;
    return i < n ? i : n;
}

int64_t lvn_split_safe_last(const uint8_t *p, int64_t n)
{
    int64_t i = n - 1;
    while (i > 0 && !is_safe(p, i)) i--;
    return i > 0 ? i : 0;
}
