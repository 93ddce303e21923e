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

/* Fill the tables; once is enough, again does no harm, any thread may. */
void lvn_unicode_init(void);

/* The class of the character at p < end, and its bytes. */
static inline enum lvn_char_class lvn_char_class(const uint8_t *p, const uint8_t *end, int *bytes)
{
    *bytes = 1;
    if (*p < 0x80) return (enum lvn_char_class)lvn_char_classes[*p];
    int32_t code = lvn_utf8_decode(p, end - p, bytes);
    return code < 0 ? LVN_CHAR_OTHER : (enum lvn_char_class)lvn_char_classes[code];
}

/* True when the text is surely in NFC already (a quick look); false when it may not be. */
bool lvn_nfc_quick(const uint8_t *p, int64_t n);
/* Append the text in Unicode's normal form C; bytes that are not UTF-8 stay as they are. */
void lvn_nfc(const uint8_t *p, int64_t n, struct lvn_text *out);

#endif
