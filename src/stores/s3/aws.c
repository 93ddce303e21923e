/* aws.c - see aws.h: credentials from environment and profiles; aws_roles.c requests the temporary ones. */
#include "stores/s3/aws.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/getenv.h"
#include "base/text.h"
#include "stores/s3/aws_roles.h"

enum { MAX_FILE = 1 << 20 };

static const char *profile_name(void)
{
    const char *name = lvn_getenv("AWS_PROFILE");
    return name ? name : "default";
}

static enum lvn_status file_path(const char *name, const char *fallback, char *path, size_t capacity)
{
    const char *given = lvn_getenv(name), *home = lvn_getenv("HOME");
    if (given) return lvn_copy_bytes(path, capacity, name, given, strlen(given));
    LVN_CHECK(lvn_fit(path, capacity, "%s/.aws/%s", home ? home : "", fallback), ARG,
              "HOME has %zu bytes; too many for the path of .aws/%s", strlen(home), fallback);
    return LVN_OK;
}

/* --- the two files: "[section]", "name = value" --- */

struct span {
    const char *text;
    size_t n;
};

struct lines {
    const char *cursor;
    struct span name, value;
    struct span section; /* "profile x" as "x" */
};

static struct span trim(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t')) from++;
    while (to > from && strchr(" \t\r", to[-1])) to--;
    return (struct span){from, (size_t)(to - from)};
}

static bool is(const struct span *s, const char *word)
{
    return s->n == strlen(word) && memcmp(s->text, word, s->n) == 0;
}

/* The next "name = value"; false at the end. */
static bool next(struct lines *l)
{
    while (*l->cursor) {
        const char *line = l->cursor, *end = strchrnul(line, '\n'), *equals = memchr(line, '=', (size_t)(end - line));
        l->cursor = *end ? end + 1 : end;
        if (*line == '[') {
            const char *close = memchr(line, ']', (size_t)(end - line));
            line += strncmp(line, "[profile ", 9) == 0 ? 9 : 1;
            if (close && close > line) l->section = trim(line, close);
        } else if (equals && !strchr("#; \t", *line)) { /* indented lines belong to nested settings */
            l->name = trim(line, equals);
            l->value = trim(equals + 1, end);
            return true;
        }
    }
    return false;
}

/* Copies the value of the current line if it has this name. */
static enum lvn_status copy_value(const struct lines *l, const char *name, char *to, size_t capacity)
{
    return is(&l->name, name) ? lvn_copy_bytes(to, capacity, name, l->value.text, l->value.n) : LVN_OK;
}

static enum lvn_status open_lines(const char *path, char **text, struct lines *l)
{
    int64_t bytes;
    *text = NULL;
    *l = (struct lines){.cursor = "", .section.text = ""};
    if (!lvn_path_is_file(path)) return LVN_OK;
    LVN_TRY_WHILE(lvn_file_read(path, MAX_FILE, text, &bytes), "looking for credentials of AWS");
    l->cursor = *text;
    return LVN_OK;
}

static enum lvn_status read_credentials(struct lvn_aws_credentials *k, struct lines *l)
{
    while (next(l)) {
        if (!is(&l->section, profile_name())) continue;
        LVN_TRY(copy_value(l, "aws_access_key_id", k->id, sizeof k->id));
        LVN_TRY(copy_value(l, "aws_secret_access_key", k->secret, sizeof k->secret));
        LVN_TRY(copy_value(l, "aws_session_token", k->token, sizeof k->token));
    }
    return LVN_OK;
}

static enum lvn_status file_credentials(struct lvn_aws_credentials *k, const char *path)
{
    char *text;
    struct lines l;
    const char *profile = profile_name();
    LVN_TRY(open_lines(path, &text, &l));
    enum lvn_status status = read_credentials(k, &l);
    free(text);
    LVN_TRY_WHILE(status, "reading profile '%s' of '%s'", profile, path);
    if (k->id[0]) snprintf(k->source, sizeof k->source, "profile '%.60s' of '%.150s'", profile, path);
    LVN_CHECK(!k->id[0] || k->secret[0], FORMAT,
              "profile '%s' of '%s' has aws_access_key_id but no aws_secret_access_key", profile, path);
    return LVN_OK;
}

static enum lvn_status profile_credentials(struct lvn_aws_credentials *k)
{
    char path[PATH_MAX];
    LVN_TRY(file_path("AWS_SHARED_CREDENTIALS_FILE", "credentials", path, sizeof path));
    LVN_TRY(file_credentials(k, path));
    if (k->id[0]) return LVN_OK;
    LVN_TRY(file_path("AWS_CONFIG_FILE", "config", path, sizeof path));
    return file_credentials(k, path);
}

static enum lvn_status environment_credentials(struct lvn_aws_credentials *k)
{
    const char *id = lvn_getenv("AWS_ACCESS_KEY_ID"), *secret = lvn_getenv("AWS_SECRET_ACCESS_KEY");
    const char *token = lvn_getenv("AWS_SESSION_TOKEN");
    if (!id) return LVN_OK;
    LVN_CHECK(secret, ARG, "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not: set both or neither");
    LVN_TRY(lvn_copy_bytes(k->id, sizeof k->id, "AWS_ACCESS_KEY_ID", id, strlen(id)));
    LVN_TRY(lvn_copy_bytes(k->secret, sizeof k->secret, "AWS_SECRET_ACCESS_KEY", secret, strlen(secret)));
    LVN_TRY(
        lvn_copy_bytes(k->token, sizeof k->token, "AWS_SESSION_TOKEN", token ? token : "", token ? strlen(token) : 0));
    snprintf(k->source, sizeof k->source, "AWS_ACCESS_KEY_ID");
    return LVN_OK;
}

enum lvn_status lvn_aws_find_credentials(struct lvn_aws_credentials *k)
{
    static enum lvn_status (*const sources[])(struct lvn_aws_credentials *) = {
        environment_credentials, lvn_aws_web_identity_credentials, profile_credentials, lvn_aws_container_credentials,
        lvn_aws_instance_credentials};
    *k = (struct lvn_aws_credentials){0};
    for (size_t i = 0; i < sizeof sources / sizeof *sources && !k->id[0]; i++) LVN_TRY(sources[i](k));
    return LVN_OK;
}

static enum lvn_status read_location(struct lvn_aws_location *p, struct lines *l)
{
    while (next(l)) {
        if (!is(&l->section, profile_name())) continue;
        LVN_TRY(copy_value(l, "region", p->region, sizeof p->region));
        LVN_TRY(copy_value(l, "endpoint_url", p->endpoint, sizeof p->endpoint));
    }
    return LVN_OK;
}

/* The value of the first of two variables that is set, if any. */
static enum lvn_status take_variable(const char *first, const char *second, char *to, size_t capacity)
{
    const char *name = lvn_getenv(first) ? first : second, *value = lvn_getenv(name);
    return value ? lvn_copy_bytes(to, capacity, name, value, strlen(value)) : LVN_OK;
}

enum lvn_status lvn_aws_find_location(struct lvn_aws_location *p)
{
    char path[PATH_MAX], *text;
    struct lines l;
    *p = (struct lvn_aws_location){.region = "us-east-1"};
    LVN_TRY(file_path("AWS_CONFIG_FILE", "config", path, sizeof path));
    LVN_TRY(open_lines(path, &text, &l));
    enum lvn_status status = read_location(p, &l);
    free(text);
    LVN_TRY_WHILE(status, "reading profile '%s' of '%s'", profile_name(), path);
    LVN_TRY(take_variable("AWS_REGION", "AWS_DEFAULT_REGION", p->region, sizeof p->region));
    LVN_TRY(take_variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", p->endpoint, sizeof p->endpoint));
    size_t n = strlen(p->endpoint);
    while (n > 0 && p->endpoint[n - 1] == '/') p->endpoint[--n] = '\0';
    bool http = strncmp(p->endpoint, "http://", 7) == 0 || strncmp(p->endpoint, "https://", 8) == 0;
    LVN_CHECK(!n || http, ARG,
              "the S3 endpoint '%s' (AWS_ENDPOINT_URL) is no address: expected https://HOST or http://HOST:PORT",
              p->endpoint);
    return LVN_OK;
}
