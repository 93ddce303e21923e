/* redact.h - removes from a text what must not be printed or stored.
 *
 * That is secrets in addresses (user and password before the host, the values of parameters such as X-Amz-Signature,
 * sig and token) and control characters, which a terminal would execute. Errors and log lines pass through
 * lvn_redacted() when they are made (status.c, log.c); other output calls the function it needs. */
#ifndef LVN_REDACT_H
#define LVN_REDACT_H

#include <stdbool.h>
#include <stddef.h>

/* Replaces each secret by "***" in place; the text never grows. True if there was a secret. */
bool lvn_secrets_hide(char *text);
/* Has the text a redacted secret, so that the address cannot be used? */
bool lvn_secrets_hidden(const char *text);

/* The next character of *text, which is advanced past it, in printable form: control characters and bytes that are not
 * UTF-8 as "\x1b". Returns `to`, which holds eight bytes and the NUL. */
enum { LVN_REDACTED_ONE = 9 };
const char *lvn_redacted_next(const char **text, char to[LVN_REDACTED_ONE]);
/* The text as one printable line with secrets redacted, cut to capacity. Returns `to`. */
char *lvn_redacted(char *to, size_t capacity, const char *from);

#endif
