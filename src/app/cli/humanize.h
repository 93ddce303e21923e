/* humanize.h - formats numbers for people, and escapes untrusted text. Commands that print call it. */
#ifndef LVN_HUMANIZE_H
#define LVN_HUMANIZE_H

#include "base/status.h"
#include "base/text.h"

/* Print untrusted text: control characters other than newline and tab are escaped, as "\x1b". */
void lvn_cli_put(FILE *out, const char *text);
/* The same for printf-like arguments; false: no memory for a long text, and nothing was printed. */
bool lvn_cli_vput(FILE *out, const char *format, va_list arguments) LVN_CHECKED;

/* Columns of the terminal of a descriptor; 0: it is not a terminal. */
int lvn_terminal_columns(int fd);
/* Columns that a text occupies in a terminal; wide characters count as one. */
int lvn_text_columns(const char *text);

/* "1 h 02 min". Returns text. */
char *lvn_seconds_text(double seconds, char text[LVN_NUMBER_TEXT]);
/* "12 sequences of 64 tokens", or "64 samples"; if fill < 1 (the rest is padding), also the mean number of tokens that
 * are not padding. */
enum { LVN_BATCH_TEXT = 160 };
char *lvn_batch_text(const char *unit, int64_t samples, int64_t length, double fill, char text[LVN_BATCH_TEXT]);

#endif
