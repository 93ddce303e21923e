/* gs.c - the store of gs://BUCKET/KEY: Google Cloud Storage through its JSON API, at STORAGE_EMULATOR_HOST if that is
 * set. */
#include "stores/gcs/gs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/getenv.h"
#include "formats/json.h"
#include "stores/digest.h"
#include "stores/gcs/google.h"
#include "stores/store_private.h"
#include "stores/store_request.h"

struct gs {
    const char *endpoint;
    pthread_mutex_t lock; /* protects the following fields */
    struct lvn_google_token token;
    time_t refreshed_at; /* when a change of the token was last seen */
};
enum { EXPIRES_SOON = 120, JUST_CHANGED = 60 };
static const char default_endpoint[] = "https://storage.googleapis.com";

static enum lvn_status open_location(struct lvn_location *p)
{
    struct gs *s = p->private_data = lvn_arena_alloc(&p->arena, sizeof *s);
    const char *host = lvn_getenv("STORAGE_EMULATOR_HOST");
    if (!s) return LVN_MEMORY;
    LVN_TRY(lvn_location_split(p));
    pthread_mutex_init(&s->lock, NULL);
    s->endpoint = default_endpoint;
    if (host) {
        size_t n = strlen(host);
        while (n > 0 && host[n - 1] == '/') n--;
        s->endpoint = lvn_arena_printf(&p->arena, "%s%.*s", strstr(host, "://") ? "" : "http://", (int)n, host);
        if (!s->endpoint) return LVN_MEMORY;
    }
    return lvn_google_find_token(&s->token);
}

static const char *endpoint(const struct lvn_location *p)
{
    const char *address = ((const struct gs *)p->private_data)->endpoint;
    return address == default_endpoint ? "" : address;
}

/* The URL of a request: a key that begins with a slash is a path of the service, one with "http" a complete URL, any
 * other a file. */
static void add_address(const struct lvn_location *p, const struct lvn_store_request *request, struct lvn_text *t)
{
    const struct gs *s = p->private_data;
    if (request->key && strncmp(request->key, "http", 4) == 0) {
        lvn_text_add(t, request->key);
        return;
    }
    lvn_text_add(t, s->endpoint);
    if (request->key) {
        lvn_text_add(t, request->key);
    } else {
        lvn_text_printf(t, "/storage/v1/b/%s/o/", p->bucket);
        lvn_http_encode(t, p->key, false);
        lvn_text_add(t, "?alt=media");
    }
    if (request->query) lvn_text_printf(t, "?%s", request->query);
}

static enum lvn_status address(struct lvn_location *p, const struct lvn_store_request *request, struct lvn_arena *a,
                               struct lvn_http_request *r)
{
    struct gs *s = p->private_data;
    LVN_LOCAL_TEXT(url);
    enum lvn_status status = LVN_OK;
    add_address(p, request, &url);
    r->url = lvn_text_status(&url) == LVN_OK ? lvn_arena_strdup(a, url.p) : NULL;
    pthread_mutex_lock(&s->lock);
    if (s->token.expires && time(NULL) > s->token.expires - EXPIRES_SOON) status = lvn_google_find_token(&s->token);
    const char *token = s->token.text;
    r->headers = lvn_arena_printf(a, "%s%s%s%s", *token ? "Authorization: Bearer " : "", token, *token ? "\n" : "",
                                  request->headers ? request->headers : "");
    pthread_mutex_unlock(&s->lock);
    LVN_TRY(status);
    return r->url && r->headers ? LVN_OK : LVN_MEMORY;
}

static bool refresh_credentials(struct lvn_location *p, const struct lvn_http_response *a)
{
    struct gs *s = p->private_data;
    struct lvn_google_token token;
    if (a->code != 401) return false;
    pthread_mutex_lock(&s->lock);
    time_t now = time(NULL);
    if (lvn_google_find_token(&token) != LVN_OK)
        lvn_error_clear();
    else if (strcmp(token.text, s->token.text) != 0) {
        s->token = token;
        s->refreshed_at = now;
    }
    bool refreshed = s->refreshed_at && now - s->refreshed_at < JUST_CHANGED; /* another thread may have refreshed it */
    pthread_mutex_unlock(&s->lock);
    return refreshed;
}

static bool is_missing_file(const struct lvn_http_response *a)
{
    return !a->body.p || !strstr(a->body.p, "bucket does not exist");
}

/* {"error": {"message": ...}}, or plain text. */
static void explain(const struct lvn_location *p, const struct lvn_http_response *a, struct lvn_text *t)
{
    const struct gs *s = p->private_data;
    json_error_t error;
    json_t *root = NULL;
    if (a->body.p && lvn_json_load(a->body.p, a->body.n, 0, &root, &error) != LVN_OK) lvn_error_clear();
    const char *message = json_string_value(json_object_get(json_object_get(root, "error"), "message"));
    if (!message && a->body.p && a->body.p[0] != '{' && a->body.p[0] != '<') message = a->body.p;
    size_t n = message ? strcspn(message, "\r\n") : 0;
    if (n) lvn_text_printf(t, ": %.*s", (int)(n < 300 ? n : 300), message);
    json_decref(root);
    if (a->code == 404) lvn_text_printf(t, "; check the bucket's name, '%s'", p->bucket);
    if (a->code == 401 || a->code == 403) {
        if (s->token.text[0])
            lvn_text_printf(t, "; %s (credentials: %s)",
                            a->code == 401 ? "get new credentials"
                                           : "this account may not do that: let it read and write the bucket",
                            s->token.source);
        else
            lvn_text_add(t, " (no credentials were found: set GOOGLE_APPLICATION_CREDENTIALS to the file of a key)");
    }
}

/* "crc32c=n03x6A==,md5=..." (one header line or several). */
static void parse_headers(const struct lvn_http_response *a, struct lvn_object *o)
{
    for (const char *p = a->headers.p; p && (p = strstr(p, "crc32c=")); p += 7)
        (void)lvn_digest_decode("crc32c:", p + 7, o->checksum);
}

/* --- listing --- */

static enum lvn_status add_items(const char *name, const json_t *root, size_t skip, struct lvn_arena *a, int *capacity,
                                 struct lvn_store_entries *out)
{
    const json_t *items = json_object_get(root, "items"), *prefixes = json_object_get(root, "prefixes");
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i), *size = json_object_get(item, "size");
        const char *key = NULL;
        LVN_TRY(lvn_json_string(name, item, "name", true, &key));
        size_t n = strlen(key);
        if (n <= skip || key[n - 1] == '/') continue; /* an empty file that represents a folder */
        int64_t bytes = json_is_string(size) ? strtoll(json_string_value(size), NULL, 10) : json_integer_value(size);
        LVN_TRY(lvn_entries_add(a, out, capacity, key + skip, (int64_t)(n - skip), LVN_STORE_FILE, bytes));
    }
    for (size_t i = 0; i < json_array_size(prefixes); i++) {
        const char *key = json_string_value(json_array_get(prefixes, i));
        size_t n = key ? strlen(key) : 0;
        if (n > skip + 1)
            LVN_TRY(lvn_entries_add(a, out, capacity, key + skip, (int64_t)(n - skip - 1), LVN_STORE_FOLDER, -1));
    }
    return LVN_OK;
}

static enum lvn_status add_page(struct lvn_location *p, const struct lvn_http_response *response, const char *prefix,
                                struct lvn_arena *a, int *capacity, struct lvn_store_entries *out,
                                struct lvn_text *token)
{
    json_t *root;
    const char *next = NULL;
    LVN_TRY(lvn_json_parse(p->url, response->body.p ? response->body.p : "", response->body.n, &root));
    enum lvn_status status = add_items(p->url, root, strlen(prefix), a, capacity, out);
    if (status == LVN_OK) status = lvn_json_string(p->url, root, "nextPageToken", false, &next);
    if (next) lvn_text_add(token, next);
    json_decref(root);
    return status;
}

static enum lvn_status list(struct lvn_location *p, struct lvn_http *h, bool deep, struct lvn_arena *a,
                            struct lvn_store_entries *out)
{
    const struct lvn_pages pages = {.key = lvn_arena_printf(&p->arena, "/storage/v1/b/%s/o", p->bucket),
                                    .query = "",
                                    .token = "pageToken",
                                    .add = add_page};
    return pages.key ? lvn_store_request_list(p, h, deep, a, out, &pages) : LVN_MEMORY;
}

static enum lvn_status make_key(const struct lvn_location *p, struct lvn_text *key)
{
    lvn_text_printf(key, "/storage/v1/b/%s/o/", p->bucket);
    lvn_http_encode(key, p->key, false);
    return lvn_text_status(key);
}

static enum lvn_status remove_file(struct lvn_location *p, struct lvn_http *h)
{
    LVN_LOCAL_TEXT(key);
    LVN_TRY(make_key(p, &key));
    struct lvn_store_request request = {.method = "DELETE", .key = key.p, .action = "remove", .accept = {404}};
    return lvn_store_request_once(p, h, &request);
}

/* --- conditions --- */

/* Generations are numbers. Servers that have none identify a version by other headers. */
static bool is_generation(const char *version)
{
    return !version[strspn(version, "0123456789")];
}

static enum lvn_status put_if(struct lvn_location *p, struct lvn_http *h, const void *data, int64_t bytes,
                              const char *version, struct lvn_http_response *a)
{
    LVN_LOCAL_TEXT(path);
    LVN_LOCAL_TEXT(query);
    a->code = 501;
    if (!is_generation(version)) return LVN_OK;
    lvn_text_printf(&path, "/upload/storage/v1/b/%s/o", p->bucket);
    lvn_text_printf(&query, "ifGenerationMatch=%s&uploadType=media&name=", *version ? version : "0");
    lvn_http_encode(&query, p->key, false);
    LVN_TRY(lvn_text_status(&path));
    LVN_TRY(lvn_text_status(&query));
    struct lvn_store_request request = {.method = "POST",
                                        .key = path.p,
                                        .query = query.p,
                                        .headers = "Content-Type: application/octet-stream\n",
                                        .body = data,
                                        .bytes = bytes,
                                        .action = "write",
                                        .accept = {409, 412, 501}};
    return lvn_store_request(p, h, &request, a);
}

static enum lvn_status remove_if(struct lvn_location *p, struct lvn_http *h, const char *version,
                                 struct lvn_http_response *a)
{
    LVN_LOCAL_TEXT(key);
    char query[LVN_STORE_VERSION + 20];
    a->code = 501;
    if (!is_generation(version)) return LVN_OK;
    LVN_TRY(make_key(p, &key));
    snprintf(query, sizeof query, "ifGenerationMatch=%s", version);
    struct lvn_store_request request = {
        .method = "DELETE", .key = key.p, .query = query, .action = "remove", .accept = {404, 409, 412, 501}};
    return lvn_store_request(p, h, &request, a);
}

static void written(const struct lvn_http_response *a, char version[LVN_STORE_VERSION])
{
    json_error_t error;
    json_t *root = NULL;
    version[0] = '\0';
    if (a->body.p && lvn_json_load(a->body.p, a->body.n, 0, &root, &error) != LVN_OK) lvn_error_clear();
    const char *generation = json_string_value(json_object_get(root, "generation"));
    if (generation && !lvn_fit(version, LVN_STORE_VERSION, "%s", generation)) version[0] = '\0';
    json_decref(root);
}

static const struct lvn_condition_ops conditions = {.put = put_if, .remove = remove_if, .written = written};

const struct lvn_store lvn_store_gs = {.url_format = "gs://BUCKET/KEY",
                                       .network = true,
                                       .version_header = "X-Goog-Generation",
                                       .open = open_location,
                                       .stat = lvn_store_request_stat,
                                       .read = lvn_store_request_read,
                                       .list = list,
                                       .remove = remove_file,
                                       .endpoint = endpoint,
                                       .address = address,
                                       .refresh_credentials = refresh_credentials,
                                       .is_missing_file = is_missing_file,
                                       .parse_headers = parse_headers,
                                       .explain = explain,
                                       .upload = &lvn_gs_upload,
                                       .conditions = &conditions};
