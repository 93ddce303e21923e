/* unicode.h - what tokenizers ask about characters: is it a letter, a number, white space; and NFC.
 *
 * Classes are those of the reference (see tools/make_unicode.py). Bytes that are not UTF-8 count as characters of their
 * own that are none of the three, so that every text has a tokenization. */
#ifndef LVN_UNICODE_H
#define LVN_UNICODE_H

#include <stdint.h>

#include "base/text.h"

enum lvn_char_class { LVN_CHAR_OTHER, LVN_CHAR_LETTER, LVN_CHAR_NUMBER, LVN_CHAR_SPACE };

extern uint8_t lvn_char_classes[0x110000];

/* What a character is for BERT's words. */
enum lvn_word_class {
    LVN_WORD_LETTER,
    LVN_WORD_SPACE,   /* white space */
    LVN_WORD_MARKER,  /* punctuation: a word of its own */
    LVN_WORD_NOTHING, /* control characters, and what is not assigned */
    LVN_WORD_ACCENT,  /* marks that stand above or below a letter */
};
enum lvn_word_class lvn_word_class(uint32_t code);
/* The small letters of a character: 1 or 2; 0: it has no others. */
int lvn_unicode_lower(uint32_t code, uint32_t low[2]);
/* The canonical decomposition of a character, in full; how many there are. */
enum { LVN_NFD_MOST = 8 };
int lvn_unicode_nfd(uint32_t code, uint32_t parts[LVN_NFD_MOST]);

/* Fill the tables; once is enough, again does no harm, any thread may. */
void lvn_unicode_init(void);

/* The class of the character at p < end, and its bytes. */
static inline enum lvn_char_class lvn_char_class(const uint8_t *p, const uint8_t *end, int *bytes)
{
    *bytes = 1;
    if (*p < 0x80) return (enum lvn_char_class)lvn_char_classes[*p];
    if (end - p > 2) { /* most of what is not ASCII: two or three bytes, and nothing odd */
        uint32_t two = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu),
                 three = (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
        bool tail = (p[1] & 0xc0) == 0x80;
        if ((p[0] & 0xe0) == 0xc0 && tail && two >= 0x80) {
            *bytes = 2;
            return (enum lvn_char_class)lvn_char_classes[two];
        }
        if ((p[0] & 0xf0) == 0xe0 && tail && (p[2] & 0xc0) == 0x80 && three >= 0x800 && three >> 11 != 0x1b) {
            *bytes = 3;
            return (enum lvn_char_class)lvn_char_classes[three];
        }
    }
    int32_t code = lvn_utf8_decode(p, end - p, bytes);
    return code < 0 ? LVN_CHAR_OTHER : (enum lvn_char_class)lvn_char_classes[code];
}

/* True when the text is surely in NFC already (a quick look); false when it may not be. */
bool lvn_nfc_quick(const uint8_t *p, int64_t n);
/* Append the text in Unicode's normal form C; bytes that are not UTF-8 stay as they are. */
void lvn_nfc(const uint8_t *p, int64_t n, struct lvn_text *out);

#endif
