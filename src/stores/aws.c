/* aws.c - environment and profiles; aws_roles.c has what must be asked for. */
#include "stores/aws.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/files.h"
#include "stores/aws_roles.h"

enum { MOST_FILE = 1 << 20 };

static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

const char *lvn_aws_profile(void)
{
    const char *name = variable("AWS_PROFILE");
    return name ? name : "default";
}

static void file_path(const char *name, const char *fallback, char *path, size_t room)
{
    const char *given = variable(name), *home = variable("HOME");
    if (given)
        snprintf(path, room, "%s", given);
    else
        snprintf(path, room, "%s/.aws/%s", home ? home : "", fallback);
}

/* --- the two files: "[section]", "name = value" --- */

struct lines {
    const char *at;
    char name[128], value[4096];
    char section[160]; /* "profile x" as "x" */
};

static void trim(const char *from, const char *to, char *out, size_t room)
{
    while (from < to && (*from == ' ' || *from == '\t')) from++;
    while (to > from && strchr(" \t\r", to[-1])) to--;
    snprintf(out, room, "%.*s", (int)(to - from), from);
}

/* The next "name = value"; false at the end. */
static bool next(struct lines *l)
{
    while (*l->at) {
        const char *line = l->at, *end = strchrnul(line, '\n'), *equals = memchr(line, '=', (size_t)(end - line));
        l->at = *end ? end + 1 : end;
        if (*line == '[') {
            const char *close = memchr(line, ']', (size_t)(end - line));
            line += strncmp(line, "[profile ", 9) == 0 ? 9 : 1;
            if (close && close > line) trim(line, close, l->section, sizeof l->section);
        } else if (equals && !strchr("#; \t", *line)) { /* indented lines belong to nested settings */
            trim(line, equals, l->name, sizeof l->name);
            trim(equals + 1, end, l->value, sizeof l->value);
            return true;
        }
    }
    return false;
}

static enum lvn_status open_lines(const char *path, char **text, struct lines *l)
{
    int64_t bytes;
    *text = NULL;
    *l = (struct lines){.at = ""};
    if (!lvn_path_is_file(path)) return LVN_OK;
    LVN_TRY_WHILE(lvn_file_read(path, MOST_FILE, text, &bytes), "looking for credentials of AWS");
    l->at = *text;
    return LVN_OK;
}

static enum lvn_status keys_of_file(struct lvn_aws_keys *k, const char *path)
{
    char *text;
    struct lines l;
    const char *profile = lvn_aws_profile();
    LVN_TRY(open_lines(path, &text, &l));
    while (next(&l)) {
        if (strcmp(l.section, profile) != 0) continue;
        if (!strcmp(l.name, "aws_access_key_id")) snprintf(k->id, sizeof k->id, "%.*s", (int)sizeof k->id - 1, l.value);
        if (!strcmp(l.name, "aws_secret_access_key"))
            snprintf(k->secret, sizeof k->secret, "%.*s", (int)sizeof k->secret - 1, l.value);
        if (!strcmp(l.name, "aws_session_token")) snprintf(k->token, sizeof k->token, "%s", l.value);
    }
    free(text);
    if (k->id[0]) snprintf(k->from, sizeof k->from, "profile '%.60s' of '%.150s'", profile, path);
    LVN_CHECK(!k->id[0] || k->secret[0], FORMAT,
              "profile '%s' of '%s' has aws_access_key_id but no aws_secret_access_key", profile, path);
    return LVN_OK;
}

static enum lvn_status keys_of_files(struct lvn_aws_keys *k)
{
    char path[1024];
    file_path("AWS_SHARED_CREDENTIALS_FILE", "credentials", path, sizeof path);
    LVN_TRY(keys_of_file(k, path));
    if (k->id[0]) return LVN_OK;
    file_path("AWS_CONFIG_FILE", "config", path, sizeof path);
    return keys_of_file(k, path);
}

static enum lvn_status keys_of_environment(struct lvn_aws_keys *k)
{
    const char *id = variable("AWS_ACCESS_KEY_ID"), *secret = variable("AWS_SECRET_ACCESS_KEY");
    const char *token = variable("AWS_SESSION_TOKEN");
    if (!id) return LVN_OK;
    LVN_CHECK(secret, ARG, "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not: set both or neither");
    snprintf(k->id, sizeof k->id, "%s", id);
    snprintf(k->secret, sizeof k->secret, "%s", secret);
    snprintf(k->token, sizeof k->token, "%s", token ? token : "");
    snprintf(k->from, sizeof k->from, "AWS_ACCESS_KEY_ID");
    return LVN_OK;
}

enum lvn_status lvn_aws_find_keys(struct lvn_aws_keys *k)
{
    static enum lvn_status (*const sources[])(struct lvn_aws_keys *) = {
        keys_of_environment, lvn_aws_keys_of_web_identity, keys_of_files, lvn_aws_keys_of_container,
        lvn_aws_keys_of_instance};
    *k = (struct lvn_aws_keys){0};
    for (size_t i = 0; i < sizeof sources / sizeof *sources && !k->id[0]; i++) LVN_TRY(sources[i](k));
    return LVN_OK;
}

enum lvn_status lvn_aws_find_place(struct lvn_aws_place *p)
{
    const char *region = variable("AWS_REGION"), *endpoint = variable("AWS_ENDPOINT_URL_S3");
    char path[1024], *text;
    struct lines l;
    if (!region) region = variable("AWS_DEFAULT_REGION");
    if (!endpoint) endpoint = variable("AWS_ENDPOINT_URL");
    *p = (struct lvn_aws_place){.region = "us-east-1"};
    file_path("AWS_CONFIG_FILE", "config", path, sizeof path);
    LVN_TRY(open_lines(path, &text, &l));
    while (next(&l)) {
        if (strcmp(l.section, lvn_aws_profile()) != 0) continue;
        if (!strcmp(l.name, "region")) snprintf(p->region, sizeof p->region, "%.63s", l.value);
        if (!strcmp(l.name, "endpoint_url")) snprintf(p->endpoint, sizeof p->endpoint, "%.255s", l.value);
    }
    free(text);
    if (region) snprintf(p->region, sizeof p->region, "%s", region);
    if (endpoint) snprintf(p->endpoint, sizeof p->endpoint, "%s", endpoint);
    size_t n = strlen(p->endpoint);
    while (n > 0 && p->endpoint[n - 1] == '/') p->endpoint[--n] = '\0';
    bool http = strncmp(p->endpoint, "http://", 7) == 0 || strncmp(p->endpoint, "https://", 8) == 0;
    LVN_CHECK(!n || http, ARG,
              "the S3 endpoint '%s' (AWS_ENDPOINT_URL) is no address: wanted is https://HOST or http://HOST:PORT",
              p->endpoint);
    return LVN_OK;
}
