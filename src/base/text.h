/* text.h - a growing string, UTF-8, and the word a misspelt one was meant to be.
 *
 * A string buffer remembers that memory ran out: adding never fails, asking for the result does. */
#ifndef LVN_TEXT_H
#define LVN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* All zero is an empty buffer. `p` is NULL or ends with a NUL that `n` does not count. */
struct lvn_text {
    char *p;
    int64_t n, capacity;
    bool failed;
};

void lvn_text_release(struct lvn_text *t);
/* An empty one, released where its scope ends, however that is left. */
#define LVN_LOCAL_TEXT(name) struct lvn_text name __attribute__((cleanup(lvn_text_release))) = {0}
/* Forget the content, keep the memory (and the failure, if there was one). */
void lvn_text_clear(struct lvn_text *t);
void lvn_text_add(struct lvn_text *t, const char *s);
void lvn_text_add_bytes(struct lvn_text *t, const void *bytes, int64_t n);
void lvn_text_printf(struct lvn_text *t, const char *format, ...) LVN_PRINTF(2, 3);
/* As printf's %.*g does, in a sixth of its time. */
void lvn_text_number(struct lvn_text *t, double value, int digits);
/* LVN_MEMORY when anything could not be added. */
LVN_CHECKED enum lvn_status lvn_text_status(const struct lvn_text *t);
/* The content, "" when empty; NULL (with an error recorded) when anything could not be added. The buffer owns it. */
const char *lvn_text_string(struct lvn_text *t);

/* Print into a buffer of fixed size; false, and "" there, when not all of it fits. For texts that mean something: what
 * is only shown may be cut, and takes snprintf(). */
LVN_CHECKED bool lvn_fit(char *to, size_t capacity, const char *format, ...) LVN_PRINTF(3, 4);
/* Print behind what such a buffer holds, for lists that are shown: cut where it is full. */
void lvn_print_append(char *text, size_t capacity, const char *format, ...) LVN_PRINTF(3, 4);
/* The n bytes at `from`; ARG when they do not fit: `what` has so many, at most so many are taken. They are not shown:
 * they may be a secret. */
LVN_CHECKED enum lvn_status lvn_copy_bytes(char *to, size_t capacity, const char *name, const char *from, size_t n);

/* Mistakes that are told together. lvn_collect_error() keeps the sentence of a failure that is a mistake of the user
 * (ARG), and is then LVN_OK; other statuses it gives back. lvn_collected_errors() fails with all sentences in one, and
 * releases them.
 */
LVN_CHECKED enum lvn_status lvn_collect_error(struct lvn_text *all, enum lvn_status status);
LVN_CHECKED enum lvn_status lvn_collected_errors(struct lvn_text *all, enum lvn_status status);

/* Does a name end in `tail`, as ".bin"? */
bool lvn_ends_with(const char *text, const char *tail);

/* The code point at p[0..n), n >= 1, and the bytes it takes (1 to 4) into *used; -1 for a malformed, cut, overlong or
 * surrogate sequence (*used is then 1). */
int32_t lvn_utf8_decode(const void *p, int64_t n, int *used);
/* Writes 1 to 4 bytes; returns how many. The code point must be valid. */
int lvn_utf8_encode(int32_t code, char out[4]);
/* Offset of the first byte that is not UTF-8; -1 when all of it is. */
int64_t lvn_utf8_check(const void *p, int64_t n);

/* Bytes of the mark (BOM) that some editors put before a text: 3, or 0 where there is none. */
int64_t lvn_utf8_bom(const void *p, int64_t n);

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b; words beyond 64 bytes are cut. */
int lvn_edit_distance(const char *a, const char *b);
/* The nearest of n words, if it is near enough to be meant (a third of the letters wrong, at least one, at most three);
 * NULL when none is. NULL entries are passed over. */
const char *lvn_nearest(const char *word, const char *const *words, int n);

/* "1,234,567" and "2.4 GiB": for people. Each returns text. */
enum { LVN_NUMBER_TEXT = 40 };
char *lvn_count_text(int64_t n, char text[LVN_NUMBER_TEXT]);
char *lvn_bytes_text(int64_t bytes, char text[LVN_NUMBER_TEXT]);
/* The ending of a noun that is counted: "1 rank", "2 ranks". */
static inline const char *lvn_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}
/* Two hexadecimal digits a byte, and the NUL: 2 n + 1 characters. */
void lvn_hex_text(const void *bytes, size_t n, char *text);

#endif
