/* redact.h - removes from a text everything that must not be printed or stored.
 *
 * This includes secrets in URLs (user and password before the host, the values of parameters such as X-Amz-Signature,
 * sig and token), values of headers such as Authorization and X-Amz-Security-Token, and control characters, which a
 * terminal would execute. Errors and log lines pass through lvn_redacted() when they are recorded (status.c, log.c);
 * other output calls the function it needs. */
#ifndef LVN_REDACT_H
#define LVN_REDACT_H

#include <stdbool.h>
#include <stddef.h>

/* Replace each secret with "***" in place; the text never grows. True if it contained a secret. */
bool lvn_secrets_hide(char *text);
/* True if the text contains a redacted secret, so that the URL cannot be used. */
bool lvn_secrets_hidden(const char *text);

/* The first control character of a text, or the first that changes the direction of the text around it (U+202E), which
 * can disguise a line; NULL: none. */
const char *lvn_control_find(const char *text);
/* The next character of *text, which is advanced past it, in printable form: characters of lvn_control_find() and bytes
 * that are not UTF-8 as "\x1b" or "\u202e". Returns `to`, which has space for eight bytes and the NUL. */
enum { LVN_REDACTED_ONE = 9 };
const char *lvn_redacted_next(const char **text, char to[LVN_REDACTED_ONE]);
/* The text as one printable line with secrets redacted, truncated to capacity. Returns `to`. */
char *lvn_redacted(char *to, size_t capacity, const char *from);

#endif
