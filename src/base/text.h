/* text.h - a growing string, UTF-8, and spelling suggestions.
 *
 * A string buffer remembers that memory ran out: adding never fails, reading the result does. */
#ifndef LVN_TEXT_H
#define LVN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A zeroed struct is an empty buffer. `p` is NULL or ends with a NUL that `n` does not count. */
struct lvn_text {
    char *p;
    int64_t n, capacity;
    bool failed;
};

void lvn_text_release(struct lvn_text *t);
/* An empty buffer, released at the end of its scope, however control leaves that. */
#define LVN_LOCAL_TEXT(name) struct lvn_text name __attribute__((cleanup(lvn_text_release))) = {0}
/* Empty the buffer; its memory stays, and so does a failure. */
void lvn_text_clear(struct lvn_text *t);
void lvn_text_add(struct lvn_text *t, const char *s);
void lvn_text_add_bytes(struct lvn_text *t, const void *bytes, int64_t n);
void lvn_text_printf(struct lvn_text *t, const char *format, ...) LVN_PRINTF(2, 3);
/* The same text as printf's %.*g, in a sixth of its time. */
void lvn_text_number(struct lvn_text *t, double value, int digits);
/* LVN_MEMORY if memory ran out in an earlier call. */
LVN_CHECKED enum lvn_status lvn_text_status(const struct lvn_text *t);
/* The content, "" if empty; NULL (with an error recorded) if memory ran out in an earlier call. The buffer owns it. */
const char *lvn_text_string(struct lvn_text *t);

/* Print into a buffer of fixed size; false, and "" there, if the text does not fit. For texts that are used (paths,
 * names); texts for display may be cut and take snprintf(). */
LVN_CHECKED bool lvn_fit(char *to, size_t capacity, const char *format, ...) LVN_PRINTF(3, 4);
/* Append to the text in a buffer of fixed size, cut if it is full. For lists in messages. */
void lvn_print_append(char *text, size_t capacity, const char *format, ...) LVN_PRINTF(3, 4);
/* Copies n bytes and a NUL; LVN_ARG if they do not fit: `name` has so many, at most so many are taken. The message does
 * not show them: they may be a secret. */
LVN_CHECKED enum lvn_status lvn_copy_bytes(char *to, size_t capacity, const char *name, const char *from, size_t n);

/* Collecting user mistakes to report them in one message. lvn_collect_error() appends the sentence of an LVN_ARG
 * failure and returns LVN_OK; it returns other statuses unchanged. lvn_collected_errors() fails with all sentences in
 * one, and releases them. */
LVN_CHECKED enum lvn_status lvn_collect_error(struct lvn_text *all, enum lvn_status status);
LVN_CHECKED enum lvn_status lvn_collected_errors(struct lvn_text *all, enum lvn_status status);

/* Does the text end in `tail`, as ".bin"? */
bool lvn_ends_with(const char *text, const char *tail);

/* Decodes the code point at p[0..n), n >= 1; *used: its bytes (1 to 4). -1 for a malformed, cut, overlong or surrogate
 * sequence (*used is then 1). */
int32_t lvn_utf8_decode(const void *p, int64_t n, int *used);
/* Writes 1 to 4 bytes and returns their number. The code point must be valid. */
int lvn_utf8_encode(int32_t code, char out[4]);
/* Offset of the first byte that is not UTF-8; -1 if the text is valid. */
int64_t lvn_utf8_check(const void *p, int64_t n);

/* Length of a byte order mark (BOM) at the start: 3, or 0 without one. */
int64_t lvn_utf8_bom(const void *p, int64_t n);

/* Number of insertions, deletions, replacements and swaps of neighbours that turn a into b; words are cut to 64
 * bytes. */
int lvn_edit_distance(const char *a, const char *b);
/* The nearest of n words if it is close enough to be meant (at most a third of the letters wrong, at least one, at most
 * three); NULL if none is. NULL entries are skipped. */
const char *lvn_nearest(const char *word, const char *const *words, int n);

/* "1,234,567" and "2.4 GiB", for messages. Both return text. */
enum { LVN_NUMBER_TEXT = 40 };
char *lvn_count_text(int64_t n, char text[LVN_NUMBER_TEXT]);
char *lvn_bytes_text(int64_t bytes, char text[LVN_NUMBER_TEXT]);
/* The bytes of "5GB", "1.5 GiB" or "4096": powers of 1,000 or, with an i, of 1,024; -1: it is no such text. */
int64_t lvn_bytes_of_text(const char *text);
/* The plural ending of a counted noun: "1 rank", "2 ranks". */
static inline const char *lvn_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}
/* Hexadecimal, two digits a byte, and the NUL: 2 n + 1 characters. */
void lvn_hex_text(const void *bytes, size_t n, char *text);

#endif
