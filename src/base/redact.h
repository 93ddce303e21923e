/* redact.h - what may be shown and written down of a text from anywhere.
 *
 * Two things may not: secrets in addresses (a user and password before the host, the values of parameters such as
 * X-Amz-Signature, sig and token), and control characters, which a terminal obeys. Errors and log lines go through
 * lvn_redacted() where they are made (status.c, log.c); what else is printed or stored calls what it needs. */
#ifndef LVN_REDACT_H
#define LVN_REDACT_H

#include <stdbool.h>
#include <stddef.h>

/* Put stars, "***", in the place of each secret, in place: a text only becomes shorter. True when there was one. */
bool lvn_secrets_hide(char *text);
/* Is a secret missing here, so that the address leads nowhere? */
bool lvn_secrets_hidden(const char *text);

/* The next character of a text, *text goes past it, as it may be shown: control characters and bytes that are no UTF-8
 * as "\x1b". Returns `to`, which has room for eight bytes and the end. */
enum { LVN_REDACTED_ONE = 9 };
const char *lvn_redacted_next(const char **text, char to[LVN_REDACTED_ONE]);
/* A text as one line, secrets as stars, into `to`; what does not fit is cut. Returns `to`. */
char *lvn_redacted(char *to, size_t capacity, const char *from);

#endif
