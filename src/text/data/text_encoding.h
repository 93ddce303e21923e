/* text_encoding.h - converts text of other encodings to UTF-8, piece by piece. Called by `levin prepare --encoding`.
 *
 * The few encodings that old text files use are built in: the C library's converter needs modules that slim container
 * images lack. */
#ifndef LVN_TEXT_ENCODING_H
#define LVN_TEXT_ENCODING_H

#include "base/text.h"

enum lvn_text_encoding { LVN_TEXT_UTF_8, LVN_TEXT_LATIN_1, LVN_TEXT_WINDOWS_1252, LVN_TEXT_UTF_16 };

/* ARG, with the encodings that are supported, for another name. */
enum lvn_status lvn_text_encoding_find(const char *name, enum lvn_text_encoding *encoding) LVN_CHECKED;

/* State between two pieces of a file; zeroed but for `encoding` at its beginning. */
struct lvn_text_decoder {
    enum lvn_text_encoding encoding;
    int64_t bytes;            /* read from the file */
    bool big_endian;          /* UTF-16, by its byte order mark */
    int n;                    /* bytes of `pending` */
    unsigned char pending[4]; /* of a character of UTF-16 that is incomplete */
};
/* Append the next n bytes of the file as UTF-8; a byte order mark is kept. FORMAT for bytes that do not encode a
 * character, and for the character U+0000. name: of the file, for messages. */
enum lvn_status lvn_text_decode(struct lvn_text_decoder *d, const char *name, const void *p, int64_t n,
                                struct lvn_text *out) LVN_CHECKED;
/* FORMAT if the file ends within a character. */
enum lvn_status lvn_text_decode_end(const struct lvn_text_decoder *d, const char *name) LVN_CHECKED;

#endif
