/* aws.c - see aws.h: credentials from the environment, profiles and services. */
#include "stores/s3/aws.h"

#include <unistd.h>

#include "base/files.h"
#include "base/getenv.h"
#include "base/text.h"
#include "formats/json.h"
#include "stores/s3/xml.h"
#include "stores/store_request.h"

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

/* --- temporary credentials that a service issues: the security token service, the container's credential endpoint, the
 * instance metadata service. Each function leaves *credentials unchanged if its source is not configured. --- */

enum { LOCAL_SECONDS = 2, REMOTE_SECONDS = 30, MAX_TOKEN = 1 << 16 };

/* One request with short timeouts. The instance's service is asked once: most machines have none. */
static enum lvn_status send_request(const char *method, const char *url, const char *headers, int seconds, bool retry,
                                    struct lvn_http_response *response)
{
    const struct lvn_http_request request = {.method = method,
                                             .url = url,
                                             .headers = headers,
                                             .authorities = lvn_getenv("AWS_CA_BUNDLE"),
                                             .no_body = strcmp(method, "GET") == 0,
                                             .connect_seconds = seconds,
                                             .whole_seconds = 5 * seconds};
    return lvn_store_request_credentials(&request, retry, response);
}

static bool has_body(const struct lvn_http_response *response)
{
    return response->outcome == LVN_HTTP_COMPLETE && response->code == 200 && response->body.n > 0;
}

/* "2026-01-31T12:00:00Z"; 0 if it is malformed. */
static time_t parse_time(const char *text)
{
    struct tm tm = {0};
    return text && strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) ? timegm(&tm) : 0;
}

static enum lvn_status refused(const char *source, const struct lvn_http_response *response)
{
    LVN_FAIL(IO, "no credentials from %s: %s %d %.200s", source,
             response->outcome == LVN_HTTP_COMPLETE ? "the response was" : response->reason, response->code,
             response->body.p ? response->body.p : "");
}

/* {"AccessKeyId", "SecretAccessKey", "Token", "Expiration"} */
static enum lvn_status parse_json(struct lvn_aws_credentials *credentials, const struct lvn_http_response *response,
                                  const char *source)
{
    json_t *root;
    const char *id = NULL, *secret = NULL, *token = "", *expires = NULL;
    LVN_TRY(lvn_json_parse(source, response->body.p, response->body.n, &root));
    enum lvn_status status = lvn_json_string(source, root, "AccessKeyId", true, &id);
    if (status == LVN_OK) status = lvn_json_string(source, root, "SecretAccessKey", true, &secret);
    if (status == LVN_OK) status = lvn_json_string(source, root, "Token", false, &token);
    if (status == LVN_OK) status = lvn_json_string(source, root, "Expiration", false, &expires);
    if (status == LVN_OK) {
        status = lvn_copy_bytes(credentials->id, sizeof credentials->id, "AccessKeyId", id, strlen(id));
        if (status == LVN_OK)
            status = lvn_copy_bytes(credentials->secret, sizeof credentials->secret, "SecretAccessKey", secret,
                                    strlen(secret));
        if (status == LVN_OK)
            status = lvn_copy_bytes(credentials->token, sizeof credentials->token, "Token", token, strlen(token));
        if (status != LVN_OK) (void)lvn_while_at(status, "reading %s", source);
        credentials->expires = parse_time(expires);
        snprintf(credentials->source, sizeof credentials->source, "%s", source);
    }
    json_decref(root);
    return status;
}

/* --- web identity --- */

static enum lvn_status parse_xml(struct lvn_aws_credentials *credentials, const struct lvn_http_response *response)
{
    static const char *const tags[] = {"AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"};
    char expires[40] = "", *const to[] = {credentials->id, credentials->secret, credentials->token, expires};
    const size_t capacity[] = {sizeof credentials->id, sizeof credentials->secret, sizeof credentials->token,
                               sizeof expires};
    LVN_LOCAL_TEXT(t);
    enum lvn_status status = LVN_OK;
    for (int i = 0; i < 4 && status == LVN_OK; i++) {
        lvn_text_clear(&t);
        if (lvn_xml_text(response->body.p, NULL, tags[i], &t) && t.p)
            status = lvn_copy_bytes(to[i], capacity[i], tags[i], t.p, strlen(t.p));
    }
    LVN_TRY_WHILE(status, "reading the response of the AWS security token service");
    LVN_CHECK(credentials->id[0] && credentials->secret[0], IO,
              "the response of the AWS security token service contains no credentials");
    credentials->expires = parse_time(expires);
    snprintf(credentials->source, sizeof credentials->source,
             "AWS_ROLE_ARN with the token of AWS_WEB_IDENTITY_TOKEN_FILE");
    return LVN_OK;
}

static enum lvn_status web_identity_credentials(struct lvn_aws_credentials *credentials)
{
    const char *file = lvn_getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), *role = lvn_getenv("AWS_ROLE_ARN");
    const char *session = lvn_getenv("AWS_ROLE_SESSION_NAME"), *endpoint = lvn_getenv("AWS_ENDPOINT_URL_STS");
    const char *region = lvn_getenv("AWS_REGION");
    if (!region) region = lvn_getenv("AWS_DEFAULT_REGION");
    char *token;
    int64_t bytes;
    if (!file || !role) return LVN_OK;
    LVN_TRY_WHILE(lvn_file_read(file, MAX_TOKEN, &token, &bytes), "reading AWS_WEB_IDENTITY_TOKEN_FILE");
    token[strcspn(token, "\r\n")] = '\0';
    LVN_LOCAL_TEXT(url);
    struct lvn_http_response response = {0};
    if (endpoint)
        lvn_text_add(&url, endpoint);
    else
        lvn_text_printf(&url, "https://sts.%s%s%s", region ? region : "", region ? "." : "",
                        lvn_aws_domain(region ? region : ""));
    lvn_text_add(&url, "/?Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName=");
    lvn_http_encode(&url, session ? session : "levin", false);
    lvn_text_add(&url, "&RoleArn=");
    lvn_http_encode(&url, role, false);
    lvn_text_add(&url, "&WebIdentityToken=");
    lvn_http_encode(&url, token, false);
    free(token);
    const char *address = lvn_text_string(&url);
    enum lvn_status status = address ? send_request("GET", address, NULL, REMOTE_SECONDS, true, &response) : LVN_MEMORY;
    if (status == LVN_OK)
        status = has_body(&response) ? parse_xml(credentials, &response)
                                     : refused("the AWS security token service", &response);
    lvn_http_response_release(&response);
    return status;
}

/* --- the container --- */

static enum lvn_status container_credentials(struct lvn_aws_credentials *credentials)
{
    const char *relative = lvn_getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = lvn_getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *token = lvn_getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    const char *file = lvn_getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    char *read_token = NULL;
    int64_t bytes;
    if (!relative && !full) return LVN_OK;
    if (file) {
        LVN_TRY_WHILE(lvn_file_read(file, MAX_TOKEN, &read_token, &bytes),
                      "reading AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
        read_token[strcspn(read_token, "\r\n")] = '\0';
        token = read_token;
    }
    struct lvn_text url = {0}, headers = {0};
    struct lvn_http_response response = {0};
    lvn_text_printf(&url, "%s%s", relative ? "http://169.254.170.2" : "", relative ? relative : full);
    if (token) lvn_text_printf(&headers, "Authorization: %s\n", token);
    free(read_token);
    enum lvn_status status = lvn_text_status(&url);
    if (status == LVN_OK) status = lvn_text_status(&headers);
    if (status == LVN_OK) status = send_request("GET", url.p, headers.p, LOCAL_SECONDS, true, &response);
    if (status == LVN_OK)
        status = has_body(&response) ? parse_json(credentials, &response, "the container's credentials")
                                     : refused("the container's agent", &response);
    lvn_http_response_release(&response);
    lvn_text_release(&headers);
    lvn_text_release(&url);
    return status;
}

/* --- the instance --- */

/* Requests endpoint/path; *found false if it does not exist. */
static enum lvn_status metadata(const char *method, const char *endpoint, const char *path, const char *headers,
                                struct lvn_http_response *response, bool *found)
{
    LVN_LOCAL_TEXT(url);
    lvn_text_printf(&url, "%s/latest/%s", endpoint, path);
    *found = false;
    enum lvn_status status = lvn_text_status(&url);
    if (status == LVN_OK && send_request(method, url.p, headers, LOCAL_SECONDS, false, response) == LVN_OK)
        *found = has_body(response);
    if (status == LVN_OK) lvn_error_clear();
    return status;
}

/* The credentials of the instance's role, with the session token in `headers`. */
static enum lvn_status role_credentials(struct lvn_aws_credentials *credentials, const char *endpoint,
                                        const char *headers, struct lvn_http_response *response)
{
    static const char roles[] = "meta-data/iam/security-credentials/";
    LVN_LOCAL_TEXT(path);
    bool found;
    LVN_TRY(metadata("GET", endpoint, roles, headers, response, &found));
    if (!found) return LVN_OK; /* no role: no credentials, but no error */
    lvn_text_printf(&path, "%s%.*s", roles, (int)strcspn(response->body.p, "\r\n"), response->body.p);
    enum lvn_status status = lvn_text_status(&path);
    if (status == LVN_OK) status = metadata("GET", endpoint, path.p, headers, response, &found);
    if (status == LVN_OK)
        status = found ? parse_json(credentials, response, "the instance's role")
                       : refused("the instance's metadata", response);
    return status;
}

static enum lvn_status instance_credentials(struct lvn_aws_credentials *credentials)
{
    const char *endpoint = lvn_getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
               *off = lvn_getenv("AWS_EC2_METADATA_DISABLED");
    struct lvn_http_response response = {0};
    LVN_LOCAL_TEXT(headers);
    bool found = false;
    if (off && strcasecmp(off, "true") == 0) return LVN_OK;
    if (!endpoint) endpoint = "http://169.254.169.254";
    /* Without an instance metadata service: no credentials, but no error. */
    enum lvn_status status =
        metadata("PUT", endpoint, "api/token", "X-aws-ec2-metadata-token-ttl-seconds: 21600\n", &response, &found);
    if (found)
        lvn_text_printf(&headers, "X-aws-ec2-metadata-token: %.*s\n", (int)strcspn(response.body.p, "\r\n"),
                        response.body.p);
    if (status == LVN_OK) status = lvn_text_status(&headers);
    if (status == LVN_OK && found) status = role_credentials(credentials, endpoint, headers.p, &response);
    lvn_http_response_release(&response);
    return status;
}

enum lvn_status lvn_aws_find_credentials(struct lvn_aws_credentials *credentials)
{
    static enum lvn_status (*const sources[])(struct lvn_aws_credentials *) = {
        environment_credentials, web_identity_credentials, profile_credentials, container_credentials,
        instance_credentials};
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
