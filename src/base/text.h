/* text.h - a growing string, UTF-8, and spelling suggestions.
 *
 * A buffer records that memory was exhausted: adding never fails, reading the result does. */
#ifndef LVN_TEXT_H
#define LVN_TEXT_H

#include "base/status.h"

/* A zeroed struct is an empty buffer. `p` is NULL or ends with a NUL that `n` does not count. */
struct lvn_text {
    char *p;
    int64_t n, capacity;
    bool failed;
};

void lvn_text_release(struct lvn_text *t);
/* An empty buffer, released at the end of its scope. */
#define LVN_LOCAL_TEXT(name) struct lvn_text name __attribute__((cleanup(lvn_text_release))) = {0}
/* Empty the buffer; its memory is kept, and so is a failure. */
void lvn_text_clear(struct lvn_text *t);
void lvn_text_add(struct lvn_text *t, const char *s);
void lvn_text_add_bytes(struct lvn_text *t, const void *bytes, int64_t n);
void lvn_text_printf(struct lvn_text *t, const char *format, ...) LVN_PRINTF(2, 3);
/* The same text as printf's %.*g, six times as fast. */
void lvn_text_number(struct lvn_text *t, double value, int digits);
/* LVN_MEMORY if memory was exhausted in an earlier call. */
enum lvn_status lvn_text_status(const struct lvn_text *t) LVN_CHECKED;
/* The content, "" if empty; NULL (with an error recorded) if memory was exhausted. The buffer owns it. */
const char *lvn_text_string(struct lvn_text *t);

/* Print into a buffer of fixed size; false, and "" there, if the text does not fit. For texts with a meaning (paths,
 * names); texts for display may be truncated and use snprintf(). */
bool lvn_fit(char *to, size_t capacity, const char *format, ...) LVN_PRINTF(3, 4) LVN_CHECKED;
/* Append to the text in a buffer of fixed size; truncates. For lists in messages. */
void lvn_print_append(char *text, size_t capacity, const char *format, ...) LVN_PRINTF(3, 4);
/* Copy n bytes and a NUL; LVN_ARG if they do not fit, with `name` and both sizes. The message does not contain the
 * bytes, which may be a secret. */
enum lvn_status lvn_copy_bytes(char *to, size_t capacity, const char *name, const char *from, size_t n) LVN_CHECKED;

/* Collecting user errors to report them in one message. lvn_collect_error() appends the message of an LVN_ARG failure
 * and returns LVN_OK; it returns other statuses unchanged. lvn_collected_errors() fails with all messages in one, and
 * releases them. */
enum lvn_status lvn_collect_error(struct lvn_text *all, enum lvn_status status) LVN_CHECKED;
enum lvn_status lvn_collected_errors(struct lvn_text *all, enum lvn_status status) LVN_CHECKED;

/* True if the text ends in `tail`, such as ".bin". */
bool lvn_ends_with(const char *text, const char *tail);

/* Decode the code point at p[0..n), n >= 1; *used: its bytes (1 to 4). -1 for a malformed, truncated, overlong or
 * surrogate sequence (*used is then 1). */
int32_t lvn_utf8_decode(const void *p, int64_t n, int *used);
/* Write 1 to 4 bytes and return their number. The code point must be valid. */
int lvn_utf8_encode(int32_t code, char out[4]);
/* Offset of the first byte that is not UTF-8; -1 if the text is valid. */
int64_t lvn_utf8_check(const void *p, int64_t n);
/* The end of a message about a file that is not UTF-8. */
#define LVN_UTF8_ADVICE                                                                                                \
    "convert the file with iconv -f ENCODING -t UTF-8 (CP949 for Korean, GB18030 for Chinese, SHIFT_JIS for "          \
    "Japanese, "                                                                                                       \
    "CP1252 for Western texts, UTF-16 for those of Windows)"

/* Length of a byte order mark (BOM) at the start: 3, or 0 without one. */
int64_t lvn_utf8_bom(const void *p, int64_t n);
/* Number of line ends CR LF. */
int64_t lvn_count_crlf(const void *p, int64_t n);

/* Number of insertions, deletions, replacements and swaps of adjacent letters that turn a into b; words are truncated
 * to 64 bytes. */
int lvn_edit_distance(const char *a, const char *b);
/* The most similar of n words if it is likely to be meant (at most a third of the letters differ, at least one, at most
 * three); NULL if none is. NULL entries are skipped. */
const char *lvn_nearest(const char *word, const char *const *words, int n);

/* "1,234,567" and "2.4 GiB", for messages. Both return text. */
enum { LVN_NUMBER_TEXT = 40 };
char *lvn_count_text(int64_t n, char text[LVN_NUMBER_TEXT]);
char *lvn_bytes_text(int64_t bytes, char text[LVN_NUMBER_TEXT]);
/* The number with at least `digits` digits, and more if strtod() needs them to restore it exactly; returns text. */
char *lvn_shortest_text(double x, int digits, char text[LVN_NUMBER_TEXT]);
/* The bytes of "5GB", "1.5 GiB" or "4096": powers of 1,000 or, with an i, of 1,024; -1: not such a text. */
int64_t lvn_bytes_of_text(const char *text);
/* Read the next range of a list such as "0-3,8,10-11" and advance *list. False at the end of the list. */
bool lvn_range_next(const char **list, long *first, long *last);
/* The plural ending of a counted noun: "1 rank", "2 ranks". */
static inline const char *lvn_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}
/* Add n bytes in base 64; `url`: the alphabet of URLs, without padding. */
void lvn_text_add_base64(struct lvn_text *t, const void *data, size_t n, bool url);
/* Decode base 64 up to a NUL or "=". Returns the number of bytes; -1: it is malformed, or exceeds the capacity. */
int64_t lvn_base64_bytes(const char *text, void *bytes, int64_t capacity);
/* The value of n hexadecimal digits, at most 8. -1 at the first character that is not one, such as a NUL. */
int64_t lvn_hex_number(const char *text, int n);
/* Hexadecimal, two digits per byte, and the NUL: 2 n + 1 characters. */
void lvn_hex_text(const void *bytes, size_t n, char *text);
/* Read n bytes from 2 n hexadecimal digits. False: a character is not one, and `bytes` is undefined. */
bool lvn_hex_bytes(const char *text, size_t n, void *bytes);

#endif
