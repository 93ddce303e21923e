/* redact.c - see redact.h. */
#include "base/redact.h"

#include "base/text.h"

/* --- secrets --- */

/* A parameter is secret if its name ends with one of these. */
static const char *const secret_names[] = {"signature", "token", "credential", "credentials", "secret", "password",
                                           "passwd",    "pwd",   "key",        "keyid",       "sig",    "accessid"};

static bool is_secret(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof secret_names / sizeof *secret_names; i++) {
        size_t k = strlen(secret_names[i]);
        if (n >= k && strncasecmp(name + n - k, secret_names[i], k) == 0) return true;
    }
    return false;
}

/* The next secret in `text`, *n: its length; NULL: none. */
static const char *next_secret(const char *text, size_t *n)
{
    for (const char *p = text; *p; p++) {
        if (strncmp(p, "://", 3) == 0) { /* user and password: everything before the last @ of the host */
            const char *from = p + 3, *at = NULL;
            for (const char *q = from, *end = from + strcspn(from, "/?# \t\r\n"); q < end; q++)
                if (*q == '@') at = q;
            *n = at ? (size_t)(at - from) : 0;
            if (*n) return from;
        } else if (*p == '?' || *p == '&') { /* NAME=VALUE */
            size_t name = strcspn(p + 1, "=?&#/ \t\r\n'\"<>");
            const char *value = p + 1 + name + 1;
            if (p[1 + name] != '=' || !is_secret(p + 1, name)) continue;
            *n = strcspn(value, "&# \t\r\n'\"<>");
            if (*n) return value;
        }
    }
    return NULL;
}

bool lvn_secrets_hide(char *text)
{
    bool found = false;
    const char *at;
    for (size_t n; (at = next_secret(text, &n));) {
        size_t stars = n < 3 ? n : 3;
        text += at - text;
        memset(text, '*', stars);
        memmove(text + stars, text + n, strlen(text + n) + 1);
        text += stars;
        found = true;
    }
    return found;
}

bool lvn_secrets_hidden(const char *text)
{
    size_t n;
    for (const char *at = text; (at = next_secret(at, &n)); at += n)
        if (strspn(at, "*") >= n) return true;
    return false;
}

/* --- control characters --- */

static bool is_control(int32_t code)
{
    const bool direction = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    return (code >= 0 && code < ' ') || (code >= 0x7f && code < 0xa0) || direction;
}

const char *lvn_control_find(const char *text)
{
    for (int n; *text; text += n)
        if (is_control(lvn_utf8_decode(text, (int64_t)strnlen(text, 4), &n))) return text;
    return NULL;
}

const char *lvn_redacted_next(const char **text, char to[LVN_REDACTED_ONE])
{
    int n;
    const char *from = *text;
    int32_t code = lvn_utf8_decode(from, (int64_t)strnlen(from, 4), &n);
    if (code < 0 || is_control(code))
        snprintf(to, LVN_REDACTED_ONE, code > 0xff ? "\\u%04x" : "\\x%02x",
                 code < 0 ? (unsigned char)*from : (unsigned)code);
    else
        snprintf(to, LVN_REDACTED_ONE, "%.*s", n, from);
    *text += n;
    return to;
}

/* The length of a header's name at `p` whose value is a secret; 0: no such header. */
static size_t secret_header(const char *p)
{
    static const char *const names[] = {"authorization", "proxy-authorization", "cookie", "set-cookie"};
    const size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
    if (n > 2 && !strncasecmp(p, "x-", 2) && is_secret(p, n)) return n;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && !strncasecmp(p, names[i], n)) return n;
    return 0;
}

/* Replace the values of secret headers, which some servers repeat in their responses (as lines, JSON or XML), with
 * "***" up to the quote, the tag or the end. Values of settings may look the same, so lvn_secrets_hide() does not do
 * this. */
static void hide_headers(char *text)
{
    for (char *p = text; *p; p++) {
        const size_t n = p == text || !(isalnum((unsigned char)p[-1]) || strchr("-_", p[-1])) ? secret_header(p) : 0;
        char *value = p + n + strspn(p + n, "\"' ");
        if (!n || !*value || !strchr(":=>", *value)) continue;
        value += 1 + strspn(value + 1, "\"'[ ");
        const size_t bytes = strcspn(value, "\"'<"), stars = bytes < 3 ? bytes : 3;
        memset(value, '*', stars);
        memmove(value + stars, value + bytes, strlen(value + bytes) + 1);
        p = value + stars - 1;
    }
}

char *lvn_redacted(char *to, size_t capacity, const char *from)
{
    char one[LVN_REDACTED_ONE];
    to[0] = '\0';
    for (size_t used = 0, n; *from; used += n) {
        const char *next = strchr("\n\r\t", *from) ? from++, " " : lvn_redacted_next(&from, one);
        n = strlen(next);
        if (used + n + 1 > capacity) break;
        memcpy(to + used, next, n + 1);
    }
    (void)lvn_secrets_hide(to);
    hide_headers(to);
    return to;
}
