/* aws.c - see aws.h: credentials from the environment and profiles; aws_roles.c requests temporary ones. */
#include "stores/s3/aws.h"

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
              "HOME has %zu bytes, too many for the path of .aws/%s", strlen(home), fallback);
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
    while (from < to && strchr(" \t\r\n", *from)) from++;
    while (to > from && strchr(" \t\r\n", to[-1])) to--;
    return (struct span){from, (size_t)(to - from)};
}

static bool is(const struct span *s, const char *word)
{
    return s->n == strlen(word) && memcmp(s->text, word, s->n) == 0;
}

/* The next "name = value"; false at the end. */
static bool next(struct lines *lines)
{
    while (*lines->cursor) {
        const char *line = lines->cursor, *end = strchrnul(line, '\n'),
                   *equals = memchr(line, '=', (size_t)(end - line));
        lines->cursor = *end ? end + 1 : end;
        if (*line == '[') {
            const char *close = memchr(line, ']', (size_t)(end - line));
            line += strncmp(line, "[profile ", 9) == 0 ? 9 : 1;
            if (close && close > line) lines->section = trim(line, close);
        } else if (equals && !strchr("#; \t", *line)) { /* indented lines belong to nested settings */
            lines->name = trim(line, equals);
            lines->value = trim(equals + 1, end);
            return true;
        }
    }
    return false;
}

/* Copy the value of the current line if it has this name. */
static enum lvn_status copy_value(const struct lines *lines, const char *name, char *to, size_t capacity)
{
    return is(&lines->name, name) ? lvn_copy_bytes(to, capacity, name, lines->value.text, lines->value.n) : LVN_OK;
}

static enum lvn_status open_lines(const char *path, char **text, struct lines *lines)
{
    int64_t bytes;
    *text = NULL;
    *lines = (struct lines){.cursor = "", .section.text = ""};
    if (!lvn_path_is_file(path)) return LVN_OK;
    LVN_TRY_WHILE(lvn_file_read(path, MAX_FILE, text, &bytes), "looking for AWS credentials");
    lines->cursor = *text;
    return LVN_OK;
}

static enum lvn_status read_credentials(struct lvn_aws_credentials *credentials, struct lines *lines,
                                        const char **indirect, bool *found)
{
    static const char *const ways[] = {"sso_session", "sso_start_url", "role_arn", "credential_process",
                                       "login_session"};
    while (next(lines)) {
        if (!is(&lines->section, profile_name())) continue;
        *found = true;
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            if (is(&lines->name, ways[i])) *indirect = ways[i];
        LVN_TRY(copy_value(lines, "aws_access_key_id", credentials->id, sizeof credentials->id));
        LVN_TRY(copy_value(lines, "aws_secret_access_key", credentials->secret, sizeof credentials->secret));
        LVN_TRY(copy_value(lines, "aws_session_token", credentials->token, sizeof credentials->token));
    }
    return LVN_OK;
}

/* *found: the file has the profile. Keys that cannot be read from the profile that AWS_PROFILE selects are an error:
 * otherwise those of the machine would be used. */
static enum lvn_status file_credentials(struct lvn_aws_credentials *credentials, const char *path, bool *found)
{
    char *text;
    struct lines lines;
    const char *profile = profile_name(), *indirect = NULL;
    LVN_TRY(open_lines(path, &text, &lines));
    enum lvn_status status = read_credentials(credentials, &lines, &indirect, found);
    free(text);
    LVN_TRY_WHILE(status, "reading profile '%s' of '%s'", profile, path);
    if (credentials->id[0])
        snprintf(credentials->source, sizeof credentials->source, "profile '%.60s' of '%.150s'", profile, path);
    LVN_CHECK(!credentials->id[0] || credentials->secret[0], FORMAT,
              "profile '%s' of '%s' has aws_access_key_id but no aws_secret_access_key", profile, path);
    LVN_CHECK(credentials->id[0] || !indirect || !lvn_getenv("AWS_PROFILE"), UNSUPPORTED,
              "profile '%s' of '%s' has no keys but %s, which levin does not support; run: eval \"$(aws configure "
              "export-credentials --profile %s --format env)\"",
              profile, path, indirect, profile);
    return LVN_OK;
}

static enum lvn_status profile_credentials(struct lvn_aws_credentials *credentials)
{
    char path[PATH_MAX];
    bool found = strcmp(profile_name(), "default") == 0;
    LVN_TRY(file_path("AWS_SHARED_CREDENTIALS_FILE", "credentials", path, sizeof path));
    LVN_TRY(file_credentials(credentials, path, &found));
    if (credentials->id[0]) return LVN_OK;
    LVN_TRY(file_path("AWS_CONFIG_FILE", "config", path, sizeof path));
    LVN_TRY(file_credentials(credentials, path, &found));
    LVN_CHECK(found, ARG, "AWS_PROFILE is '%s', but neither '%s' nor the file of credentials has this profile",
              profile_name(), path);
    return LVN_OK;
}

/* Copy a variable, if it is set, without the line end of a secret's file. */
static enum lvn_status copy_trimmed(const char *name, char *to, size_t capacity)
{
    const char *value = lvn_getenv(name);
    const struct span span = value ? trim(value, value + strlen(value)) : (struct span){.text = ""};
    return lvn_copy_bytes(to, capacity, name, span.text, span.n);
}

static enum lvn_status environment_credentials(struct lvn_aws_credentials *credentials)
{
    if (!lvn_getenv("AWS_ACCESS_KEY_ID")) return LVN_OK;
    LVN_CHECK(lvn_getenv("AWS_SECRET_ACCESS_KEY"), ARG,
              "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not: set both or neither");
    LVN_TRY(copy_trimmed("AWS_ACCESS_KEY_ID", credentials->id, sizeof credentials->id));
    LVN_TRY(copy_trimmed("AWS_SECRET_ACCESS_KEY", credentials->secret, sizeof credentials->secret));
    LVN_TRY(copy_trimmed("AWS_SESSION_TOKEN", credentials->token, sizeof credentials->token));
    snprintf(credentials->source, sizeof credentials->source, "AWS_ACCESS_KEY_ID");
    return LVN_OK;
}

enum lvn_status lvn_aws_find_credentials(struct lvn_aws_credentials *credentials)
{
    static enum lvn_status (*const sources[])(struct lvn_aws_credentials *) = {
        environment_credentials, lvn_aws_web_identity_credentials, profile_credentials, lvn_aws_container_credentials,
        lvn_aws_instance_credentials};
    *credentials = (struct lvn_aws_credentials){0};
    for (size_t i = 0; i < sizeof sources / sizeof *sources && !credentials->id[0]; i++)
        LVN_TRY(sources[i](credentials));
    return LVN_OK;
}

static enum lvn_status read_location(struct lvn_aws_location *location, struct lines *lines)
{
    while (next(lines)) {
        if (!is(&lines->section, profile_name())) continue;
        LVN_TRY(copy_value(lines, "region", location->region, sizeof location->region));
        LVN_TRY(copy_value(lines, "endpoint_url", location->endpoint, sizeof location->endpoint));
    }
    return LVN_OK;
}

/* The value of the first of two variables that is set, if any. */
static enum lvn_status copy_variable(const char *first, const char *second, char *to, size_t capacity)
{
    const char *name = lvn_getenv(first) ? first : second, *value = lvn_getenv(name);
    return value ? lvn_copy_bytes(to, capacity, name, value, strlen(value)) : LVN_OK;
}

enum lvn_status lvn_aws_find_location(struct lvn_aws_location *location)
{
    char path[PATH_MAX], *text;
    struct lines lines;
    *location = (struct lvn_aws_location){.region = "us-east-1"};
    LVN_TRY(file_path("AWS_CONFIG_FILE", "config", path, sizeof path));
    LVN_TRY(open_lines(path, &text, &lines));
    enum lvn_status status = read_location(location, &lines);
    free(text);
    LVN_TRY_WHILE(status, "reading profile '%s' of '%s'", profile_name(), path);
    LVN_TRY(copy_variable("AWS_REGION", "AWS_DEFAULT_REGION", location->region, sizeof location->region));
    LVN_TRY(copy_variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", location->endpoint, sizeof location->endpoint));
    size_t n = strlen(location->endpoint);
    while (n > 0 && location->endpoint[n - 1] == '/') location->endpoint[--n] = '\0';
    bool http = strncmp(location->endpoint, "http://", 7) == 0 || strncmp(location->endpoint, "https://", 8) == 0;
    LVN_CHECK(
        !n || http, ARG,
        "the S3 endpoint '%s' (AWS_ENDPOINT_URL) is not a valid address: expected https://HOST or http://HOST:PORT",
        location->endpoint);
    return LVN_OK;
}
