/* sigv4.c - see sigv4.h: the canonical request, the string to sign with its hash, the key from date, region and
 * service. */
#include "stores/s3/sigv4.h"

#include "base/list.h"
#include "formats/sha256.h"

enum { MAX_HEADERS = 24 };

static size_t name_length(const char *line)
{
    return strcspn(line, ":");
}

/* The headers to sign as lines "name:value", sorted; the text owns them. */
static enum lvn_status collect(const struct lvn_sigv4 *sigv4, const char *date, struct lvn_text *text,
                               char *line[MAX_HEADERS], int *n)
{
    lvn_text_printf(text, "host:%s\nx-amz-content-sha256:%s\nx-amz-date:%s\n", sigv4->host, sigv4->payload, date);
    if (sigv4->token && *sigv4->token) lvn_text_printf(text, "x-amz-security-token:%s\n", sigv4->token);
    for (const char *p = sigv4->headers; p && *p; p = strchrnul(p, '\n') + 1) {
        size_t name = name_length(p), skip = strspn(p + name + 1, " ");
        const char *value = p + name + 1 + skip;
        lvn_text_printf(text, "%.*s:%.*s\n", (int)name, p, (int)(strchrnul(value, '\n') - value), value);
        if (!*strchrnul(p, '\n')) break;
    }
    LVN_TRY(lvn_text_status(text));
    char *rest = text->p;
    for (*n = 0; *rest && *n < MAX_HEADERS; ++*n) {
        line[*n] = rest;
        rest += strcspn(rest, "\n");
        *rest++ = '\0';
    }
    qsort(line, (size_t)*n, sizeof *line, lvn_by_text);
    return LVN_OK;
}

static void sign(const struct lvn_sigv4 *sigv4, const char *date, const char *scope, const struct lvn_text *canonical,
                 struct lvn_text *out)
{
    char hash[LVN_SHA256_TEXT];
    unsigned char key[LVN_SHA256_BYTES] = {0};
    LVN_LOCAL_TEXT(text);
    lvn_sha256_text(canonical->p, (size_t)canonical->n, hash);
    lvn_text_printf(&text, "AWS4%s", sigv4->secret);
    if (text.p) lvn_sha256_hmac(text.p, (size_t)text.n, date, 8, key);
    lvn_sha256_hmac(key, sizeof key, sigv4->region, strlen(sigv4->region), key);
    lvn_sha256_hmac(key, sizeof key, sigv4->service, strlen(sigv4->service), key);
    lvn_sha256_hmac(key, sizeof key, "aws4_request", 12, key);
    lvn_text_clear(&text);
    lvn_text_printf(&text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope, hash);
    if (text.p) lvn_sha256_hmac(key, sizeof key, text.p, (size_t)text.n, key);
    lvn_hex_text(key, sizeof key, hash);
    lvn_text_add(out, hash);
    out->failed |= text.failed;
}

enum lvn_status lvn_sigv4_sign(const struct lvn_sigv4 *sigv4, struct lvn_text *headers)
{
    struct lvn_text lines = {0}, canonical = {0}, names = {0};
    char date[20], scope[160], *line[MAX_HEADERS];
    struct tm tm;
    int n = 0;
    gmtime_r(&sigv4->now, &tm);
    strftime(date, sizeof date, "%Y%m%dT%H%M%SZ", &tm);
    snprintf(scope, sizeof scope, "%.8s/%s/%s/aws4_request", date, sigv4->region, sigv4->service);
    enum lvn_status status = collect(sigv4, date, &lines, line, &n);
    lvn_text_printf(&canonical, "%s\n%s\n%s\n", sigv4->method, sigv4->path, sigv4->query ? sigv4->query : "");
    for (int i = 0; i < n && status == LVN_OK; i++) {
        size_t name = name_length(line[i]);
        lvn_text_printf(&canonical, "%s\n", line[i]);
        lvn_text_printf(&names, "%s%.*s", i ? ";" : "", (int)name, line[i]);
        if (strncmp(line[i], "host:", 5) != 0)
            lvn_text_printf(headers, "%.*s: %s\n", (int)name, line[i], line[i] + name + 1);
    }
    lvn_text_printf(&canonical, "\n%s\n%s", names.p ? names.p : "", sigv4->payload);
    if (status == LVN_OK) status = lvn_text_status(&canonical);
    if (status == LVN_OK) status = lvn_text_status(&names);
    if (status == LVN_OK) {
        lvn_text_printf(headers,
                        "Authorization: AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=", sigv4->id,
                        scope, names.p);
        sign(sigv4, date, scope, &canonical, headers);
        lvn_text_add(headers, "\n");
        status = lvn_text_status(headers);
    }
    lvn_text_release(&lines);
    lvn_text_release(&canonical);
    lvn_text_release(&names);
    return status;
}
