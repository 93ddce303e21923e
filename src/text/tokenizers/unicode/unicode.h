/* unicode.h - properties of characters that tokenizers need (letter, number, white space, category), and Unicode's
 * normalization forms.
 *
 * The tables are those of the reference implementations (see tools/make_unicode.py). A byte that is not UTF-8 counts as
 * one character of class OTHER, so that every text has a tokenization. */
#ifndef LVN_UNICODE_H
#define LVN_UNICODE_H

#include "base/text.h"

enum lvn_char_class { LVN_CHAR_OTHER, LVN_CHAR_LETTER, LVN_CHAR_NUMBER, LVN_CHAR_SPACE };

/* The class of a character in BERT's pre-tokenizer and normalizer. */
enum lvn_word_class {
    LVN_WORD_LETTER,
    LVN_WORD_SPACE,       /* white space */
    LVN_WORD_PUNCTUATION, /* a word by itself */
    LVN_WORD_CONTROL,     /* control characters and unassigned code points */
    LVN_WORD_ACCENT,      /* nonspacing marks */
};
/* The lower case of a character. Returns the number of code points, 1 or 2; 0: the character itself. */
int lvn_unicode_lower(uint32_t code, uint32_t low[2]);
/* The full canonical decomposition of a character. Returns the number of code points. */
enum { LVN_NFD_MAX = 8 };
int lvn_unicode_nfd(uint32_t code, uint32_t parts[LVN_NFD_MAX]);

/* General categories, with the names of expressions (\p{Lu}); OTHER: unassigned. A set of them is a bit mask. */
enum lvn_category {
    LVN_CATEGORY_OTHER,
    LVN_CATEGORY_Lu,
    LVN_CATEGORY_Ll,
    LVN_CATEGORY_Lt,
    LVN_CATEGORY_Lm,
    LVN_CATEGORY_Lo,
    LVN_CATEGORY_Mn,
    LVN_CATEGORY_Mc,
    LVN_CATEGORY_Me,
    LVN_CATEGORY_Nd,
    LVN_CATEGORY_Nl,
    LVN_CATEGORY_No,
    LVN_CATEGORY_Pc,
    LVN_CATEGORY_Pd,
    LVN_CATEGORY_Ps,
    LVN_CATEGORY_Pe,
    LVN_CATEGORY_Pi,
    LVN_CATEGORY_Pf,
    LVN_CATEGORY_Po,
    LVN_CATEGORY_Sm,
    LVN_CATEGORY_Sc,
    LVN_CATEGORY_Sk,
    LVN_CATEGORY_So,
    LVN_CATEGORY_Zs,
    LVN_CATEGORY_Zl,
    LVN_CATEGORY_Zp,
    LVN_CATEGORY_Cc,
    LVN_CATEGORY_Cf,
    LVN_CATEGORY_Co,
    LVN_CATEGORY_COUNT
};
/* The set with this name: Lu, or L for all that begin with L; 0: none. */
uint32_t lvn_category_set(const char *name, int64_t bytes);

/* What divides a text into grapheme clusters: the properties Grapheme_Cluster_Break and Extended_Pictographic. HANGUL_S
 * is a syllable, LV or LVT. */
enum lvn_cluster_class {
    LVN_CLUSTER_OTHER,
    LVN_CLUSTER_CONTROL,
    LVN_CLUSTER_EXTEND,
    LVN_CLUSTER_PREPEND,
    LVN_CLUSTER_SPACING,
    LVN_CLUSTER_PICTURE,
    LVN_CLUSTER_JOINER,
    LVN_CLUSTER_HANGUL_L,
    LVN_CLUSTER_HANGUL_V,
    LVN_CLUSTER_HANGUL_T,
    LVN_CLUSTER_HANGUL_S,
    LVN_CLUSTER_HANGUL_LV,
};

/* The properties of a character. */
struct lvn_char {
    uint8_t char_class;    /* enum lvn_char_class */
    uint8_t word_class;    /* enum lvn_word_class */
    uint8_t category;      /* enum lvn_category */
    uint8_t cluster_class; /* enum lvn_cluster_class */
    uint8_t combining;     /* canonical combining class */
    bool is_word_char;     /* \w: letters, marks, digits, connector punctuation */
    bool is_accent;        /* StripAccents removes it */
    bool changes;          /* NFC may change it or compose it with the character before it */
};

/* Fill the tables that lvn_char() reads. Idempotent and thread-safe; whoever opens a tokenizer calls it. */
void lvn_unicode_init(void);

/* Characters have few different properties, and most blocks of 128 characters have one: a block is stored once. */
extern const struct lvn_char lvn_chars[];
extern uint8_t lvn_char_blocks[][128];          /* index into lvn_chars */
extern uint16_t lvn_char_block[0x110000 / 128]; /* index into lvn_char_blocks */

/* code < 0x110000 */
static inline const struct lvn_char *lvn_char(uint32_t code)
{
    return &lvn_chars[lvn_char_blocks[lvn_char_block[code / 128]][code % 128]];
}

/* Bytes of the grapheme cluster at p[0, n), n > 0. Rules GB9c and GB12, which only extend clusters of six bytes and
 * more, are not applied. (Unicode Standard Annex 29.) */
int64_t lvn_grapheme(const uint8_t *p, int64_t n);

/* The class of the character at p < end; *bytes: its length. */
static inline enum lvn_char_class lvn_char_class(const uint8_t *p, const uint8_t *end, int *bytes)
{
    *bytes = 1;
    if (*p < 0x80) return (enum lvn_char_class)lvn_char(*p)->char_class;
    if (end - p > 2) { /* fast path: well-formed characters of two or three bytes */
        uint32_t two = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu),
                 three = (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
        bool tail = (p[1] & 0xc0) == 0x80;
        if ((p[0] & 0xe0) == 0xc0 && tail && two >= 0x80) {
            *bytes = 2;
            return (enum lvn_char_class)lvn_char(two)->char_class;
        }
        if ((p[0] & 0xf0) == 0xe0 && tail && (p[2] & 0xc0) == 0x80 && three >= 0x800 && three >> 11 != 0x1b) {
            *bytes = 3;
            return (enum lvn_char_class)lvn_char(three)->char_class;
        }
    }
    int32_t code = lvn_utf8_decode(p, end - p, bytes);
    return code < 0 ? LVN_CHAR_OTHER : (enum lvn_char_class)lvn_char((uint32_t)code)->char_class;
}

/* Unicode's normalization forms, as bits. */
enum lvn_unicode_form {
    LVN_NFD,
    LVN_COMPOSED,
    LVN_COMPATIBLE,
    LVN_NFC = LVN_COMPOSED,
    LVN_NFKD = LVN_COMPATIBLE,
    LVN_NFKC
};
/* Quick check: true if the text is certainly in this form; false if it may not be. */
bool lvn_unicode_is_normalized(enum lvn_unicode_form form, const uint8_t *p, int64_t n);
/* Append the text in this form; bytes that are not UTF-8 are copied. */
void lvn_unicode_normalize(enum lvn_unicode_form form, const uint8_t *p, int64_t n, struct lvn_text *out);

#endif
