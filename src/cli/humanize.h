/* humanize.h - numbers and untrusted texts as people read them. Commands that print call it. */
#ifndef LVN_HUMANIZE_H
#define LVN_HUMANIZE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "base/text.h"

/* Print untrusted text: control characters other than newline and tab are escaped, as "\x1b". */
void lvn_cli_put(FILE *out, const char *text);
/* The same for printf-like arguments; false: no memory for a long text, and nothing was printed. */
bool lvn_cli_vput(FILE *out, const char *format, va_list arguments) LVN_CHECKED;

/* "1 h 02 min". Returns text. */
char *lvn_seconds_text(double seconds, char text[LVN_NUMBER_TEXT]);
/* "12 sequences of 64 tokens", or "64 samples". */
enum { LVN_BATCH_TEXT = 100 };
char *lvn_batch_text(const char *unit, int64_t samples, int64_t length, char text[LVN_BATCH_TEXT]);

#endif
