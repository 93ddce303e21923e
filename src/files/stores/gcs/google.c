/* google.c - see google.h. */
#include "stores/gcs/google.h"

#include "base/files.h"
#include "base/getenv.h"
#include "base/text.h"
#include "formats/json.h"
#include "stores/crypto.h"
#include "stores/store_request.h"

enum { MAX_KEY = 1 << 20, NEAR_SECONDS = 2, FAR_SECONDS = 30, HOUR = 3600 };

/* Read a response {"access_token", "expires_in"}. */
static enum lvn_status read_token(struct lvn_google_token *token, const struct lvn_http_response *response,
                                  const char *source)
{
    json_t *root;
    const char *text = NULL;
    int64_t seconds = HOUR;
    LVN_TRY(lvn_json_parse(source, response->body.p ? response->body.p : "", response->body.n, &root));
    enum lvn_status status = lvn_json_string(source, root, "access_token", true, &text);
    if (status == LVN_OK) status = lvn_json_int(source, root, "expires_in", false, 0, INT32_MAX, &seconds);
    if (status == LVN_OK) {
        status = lvn_copy_bytes(token->text, sizeof token->text, "access_token", text, strlen(text));
        if (status != LVN_OK) (void)lvn_while_at(status, "reading %s", source);
        snprintf(token->source, sizeof token->source, "%s", source);
        token->expires = time(NULL) + seconds;
    }
    json_decref(root);
    return status;
}

/* --- a key file --- */

/* A signed assertion (RFC 7523) with which the account requests a token. */
static enum lvn_status make_assertion(const char *mail, const char *pem, const char *audience, struct lvn_text *out)
{
    static const char head[] = "{\"alg\":\"RS256\",\"typ\":\"JWT\"}";
    LVN_LOCAL_TEXT(claim);
    unsigned char signature[LVN_SIGNATURE_BYTES];
    size_t bytes;
    long long now = (long long)time(NULL);
    lvn_text_printf(
        &claim,
        "{\"iss\":\"%s\",\"scope\":\"https://www.googleapis.com/auth/devstorage.read_write\",\"aud\":\"%s\","
        "\"iat\":%lld,\"exp\":%lld}",
        mail, audience, now, now + HOUR);
    enum lvn_status status = lvn_text_status(&claim);
    lvn_text_add_base64(out, head, sizeof head - 1, true);
    lvn_text_add(out, ".");
    if (status == LVN_OK) lvn_text_add_base64(out, claim.p, (size_t)claim.n, true);
    if (status == LVN_OK) status = lvn_text_status(out);
    if (status == LVN_OK) status = lvn_rsa_sign(pem, out->p, signature, &bytes);
    if (status != LVN_OK) return status;
    lvn_text_add(out, ".");
    lvn_text_add_base64(out, signature, bytes, true);
    return lvn_text_status(out);
}

static void add_field(struct lvn_text *t, const char *name, const char *value)
{
    lvn_text_printf(t, "%s%s=", t->n ? "&" : "", name);
    lvn_http_encode(t, value, false);
}

/* The body of the token request, which depends on the type of the key. */
static enum lvn_status token_request(const char *path, const json_t *root, const char **uri, struct lvn_text *body)
{
    const char *kind = NULL, *mail = NULL, *pem = NULL, *id = NULL, *secret = NULL, *refresh = NULL;
    LVN_TRY(lvn_json_string(path, root, "type", true, &kind));
    LVN_TRY(lvn_json_string(path, root, "token_uri", false, uri));
    if (!strcmp(kind, "service_account")) {
        LVN_TRY(lvn_json_string(path, root, "client_email", true, &mail));
        LVN_TRY(lvn_json_string(path, root, "private_key", true, &pem));
        struct lvn_text assertion = {0};
        enum lvn_status status = make_assertion(mail, pem, *uri, &assertion);
        add_field(body, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
        if (status == LVN_OK) add_field(body, "assertion", assertion.p);
        lvn_text_release(&assertion);
        LVN_TRY_WHILE(status, "using the key '%s'", path);
        return lvn_text_status(body);
    }
    LVN_CHECK(!strcmp(kind, "authorized_user"), UNSUPPORTED,
              "'%s' is a key of type '%.60s'; levin supports service_account and authorized_user (or give an access "
              "token in GOOGLE_OAUTH_ACCESS_TOKEN)",
              path, kind);
    LVN_TRY(lvn_json_string(path, root, "client_id", true, &id));
    LVN_TRY(lvn_json_string(path, root, "client_secret", true, &secret));
    LVN_TRY(lvn_json_string(path, root, "refresh_token", true, &refresh));
    add_field(body, "grant_type", "refresh_token");
    add_field(body, "client_id", id);
    add_field(body, "client_secret", secret);
    add_field(body, "refresh_token", refresh);
    return lvn_text_status(body);
}

static enum lvn_status key_token(struct lvn_google_token *token, const char *path)
{
    json_t *root;
    const char *uri = "https://oauth2.googleapis.com/token";
    LVN_LOCAL_TEXT(body);
    struct lvn_http_response response = {0};
    LVN_TRY(lvn_json_read(path, &root));
    enum lvn_status status = token_request(path, root, &uri, &body);
    if (status == LVN_OK) {
        struct lvn_http_request request = {.method = "POST",
                                           .url = uri,
                                           .headers = "Content-Type: application/x-www-form-urlencoded\n",
                                           .body = body.p,
                                           .bytes = body.n,
                                           .whole_seconds = FAR_SECONDS};
        status = lvn_store_request_credentials(&request, true, &response);
    }
    if (status == LVN_OK && (response.outcome != LVN_HTTP_COMPLETE || response.code != 200))
        status =
            lvn_fail(LVN_IO,
                     "no token for the key '%s': '%s' %s %d: %.200s; if the key was removed, create a new one; if this "
                     "machine's clock is wrong, set it",
                     path, uri, response.outcome == LVN_HTTP_COMPLETE ? "responded with" : response.reason,
                     response.code, response.body.p ? response.body.p : "");
    if (status == LVN_OK) status = read_token(token, &response, path);
    lvn_http_response_release(&response);
    json_decref(root);
    return status;
}

/* --- the machine --- */

static enum lvn_status metadata_token(struct lvn_google_token *token)
{
    const char *host = lvn_getenv("GCE_METADATA_HOST"), *off = lvn_getenv("NO_GCE_CHECK");
    char url[512];
    struct lvn_http_response response = {0};
    if (off && strcasecmp(off, "true") == 0) return LVN_OK;
    LVN_CHECK(lvn_fit(url, sizeof url, "http://%s/computeMetadata/v1/instance/service-accounts/default/token",
                      host ? host : "169.254.169.254"),
              ARG, "GCE_METADATA_HOST has %zu bytes; no host name is that long", strlen(host));
    struct lvn_http_request request = {.method = "GET",
                                       .url = url,
                                       .headers = "Metadata-Flavor: Google\n",
                                       .no_body = true,
                                       .connect_seconds = NEAR_SECONDS,
                                       .whole_seconds = 5 * NEAR_SECONDS};
    enum lvn_status status = lvn_store_request_credentials(&request, false, &response);
    if (status == LVN_OK && response.outcome == LVN_HTTP_COMPLETE && response.code == 200)
        status = read_token(token, &response, "the machine's service account");
    lvn_http_response_release(&response);
    return status;
}

enum lvn_status lvn_google_find_token(struct lvn_google_token *token)
{
    const char *const names[] = {"GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN"};
    const char *key = lvn_getenv("GOOGLE_APPLICATION_CREDENTIALS"), *home = lvn_getenv("HOME");
    const char *folder = lvn_getenv("CLOUDSDK_CONFIG");
    char path[PATH_MAX];
    *token = (struct lvn_google_token){0};
    for (int i = 0; i < 2; i++) {
        const char *given = lvn_getenv(names[i]);
        if (!given) continue;
        LVN_TRY(lvn_copy_bytes(token->text, sizeof token->text, names[i], given, strlen(given)));
        snprintf(token->source, sizeof token->source, "%s", names[i]);
        return LVN_OK;
    }
    if (key) {
        LVN_CHECK(
            lvn_path_is_file(key), IO,
            "GOOGLE_APPLICATION_CREDENTIALS is '%s', but this file does not exist: set it to a key file, or unset it",
            key);
        LVN_TRY_WHILE(key_token(token, key), "using the key of GOOGLE_APPLICATION_CREDENTIALS, a file from Google");
        return LVN_OK;
    }
    const char *where = folder ? folder : home ? home : "";
    LVN_CHECK(
        lvn_fit(path, sizeof path, "%s%s/application_default_credentials.json", where, folder ? "" : "/.config/gcloud"),
        ARG, "%s has %zu bytes; too many for a path", folder ? "CLOUDSDK_CONFIG" : "HOME", strlen(where));
    if (!lvn_path_is_file(path)) return metadata_token(token);
    LVN_TRY_WHILE(key_token(token, path), "using the credentials of gcloud");
    return LVN_OK;
}
