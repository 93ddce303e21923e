/* aws_roles.c - see aws_roles.h: the security token service, the container's credential endpoint, the instance metadata
 * service. */
#include "stores/s3/aws_roles.h"

#include "base/files.h"
#include "base/getenv.h"
#include "base/text.h"
#include "formats/json.h"
#include "stores/s3/xml.h"
#include "stores/store_request.h"

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

enum lvn_status lvn_aws_web_identity_credentials(struct lvn_aws_credentials *credentials)
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

enum lvn_status lvn_aws_container_credentials(struct lvn_aws_credentials *credentials)
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

enum lvn_status lvn_aws_instance_credentials(struct lvn_aws_credentials *credentials)
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
