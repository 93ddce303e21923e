/* gs.c - the store of gs://BUCKET/KEY: Google Cloud Storage through its JSON API, at STORAGE_EMULATOR_HOST if that is
 * set. */
#include <pthread.h>

#include "base/getenv.h"
#include "formats/json.h"
#include "stores/digest.h"
#include "stores/gcs/google.h"
#include "stores/store_private.h"
#include "stores/store_request.h"

struct gs {
    const char *endpoint;
    pthread_mutex_t lock; /* guards the following fields */
    struct lvn_google_token token;
    struct lvn_renewal renewal;
};
static const char default_endpoint[] = "https://storage.googleapis.com";

/* lvn_renewal.find */
static enum lvn_status find_other(void *store, bool *changed)
{
    struct gs *gs = store;
    struct lvn_google_token found;
    LVN_TRY(lvn_google_find_token(&found));
    *changed = found.text[0] && strcmp(found.text, gs->token.text) != 0;
    if (*changed) gs->token = found;
    return LVN_OK;
}

static enum lvn_status open_location(struct lvn_location *location)
{
    struct gs *gs = location->private_data = lvn_arena_alloc(&location->arena, sizeof *gs);
    const char *host = lvn_getenv("STORAGE_EMULATOR_HOST");
    if (!gs) return LVN_MEMORY;
    LVN_TRY(lvn_location_split(location));
    pthread_mutex_init(&gs->lock, NULL);
    gs->renewal.find = find_other;
    gs->endpoint = default_endpoint;
    if (host) {
        size_t n = strlen(host);
        while (n > 0 && host[n - 1] == '/') n--;
        gs->endpoint = lvn_arena_printf(&location->arena, "%s%.*s", strstr(host, "://") ? "" : "http://", (int)n, host);
        if (!gs->endpoint) return LVN_MEMORY;
    }
    return lvn_google_find_token(&gs->token);
}

static const char *endpoint(const struct lvn_location *location)
{
    const char *address = ((const struct gs *)location->private_data)->endpoint;
    return address == default_endpoint ? "" : address;
}

/* The URL of a request: a key that begins with a slash is a path of the service, one with "http" a complete URL, any
 * other a file. */
static void add_address(const struct lvn_location *location, const struct lvn_store_request *request,
                        struct lvn_text *t)
{
    const struct gs *gs = location->private_data;
    if (request->key && strncmp(request->key, "http", 4) == 0) {
        lvn_text_add(t, request->key);
        return;
    }
    lvn_text_add(t, gs->endpoint);
    if (request->key) {
        lvn_text_add(t, request->key);
    } else {
        lvn_text_printf(t, "/storage/v1/b/%s/o/", location->bucket);
        lvn_http_encode(t, location->key, false);
        lvn_text_add(t, "?alt=media");
    }
    if (request->query) lvn_text_printf(t, "?%s", request->query);
}

static enum lvn_status address(struct lvn_location *location, const struct lvn_store_request *request,
                               struct lvn_arena *a, struct lvn_http_request *http_request)
{
    struct gs *gs = location->private_data;
    LVN_LOCAL_TEXT(url);
    add_address(location, request, &url);
    http_request->url = lvn_text_status(&url) == LVN_OK ? lvn_arena_strdup(a, url.p) : NULL;
    pthread_mutex_lock(&gs->lock);
    const enum lvn_status status = lvn_renewal_before_expiry(&gs->renewal, gs, gs->token.expires);
    const char *token = gs->token.text;
    http_request->headers = lvn_arena_printf(a, "%s%s%s%s", *token ? "Authorization: Bearer " : "", token,
                                             *token ? "\n" : "", request->headers ? request->headers : "");
    pthread_mutex_unlock(&gs->lock);
    LVN_TRY(status);
    return http_request->url && http_request->headers ? LVN_OK : LVN_MEMORY;
}

static bool refresh_credentials(struct lvn_location *location, const struct lvn_http_response *response)
{
    struct gs *gs = location->private_data;
    if (response->code != 401) return false;
    pthread_mutex_lock(&gs->lock);
    const bool refreshed = lvn_renewal_after_refusal(&gs->renewal, gs);
    pthread_mutex_unlock(&gs->lock);
    return refreshed;
}

static bool is_missing_file(const struct lvn_http_response *response)
{
    return !response->body.p || !strstr(response->body.p, "bucket does not exist");
}

/* The JSON of a response; NULL: it has none. */
static json_t *body_of(const struct lvn_http_response *response)
{
    json_error_t error;
    json_t *root = NULL;
    if (response->body.p && lvn_json_load(response->body.p, response->body.n, 0, &root, &error) != LVN_OK)
        lvn_error_clear();
    return root;
}

/* {"error": {"message": ...}}, or plain text. */
static void explain(const struct lvn_location *location, const struct lvn_http_response *response, struct lvn_text *t)
{
    struct gs *gs = location->private_data;
    json_t *root = body_of(response);
    const char *message = json_string_value(json_object_get(json_object_get(root, "error"), "message"));
    if (!message && response->body.p && response->body.p[0] != '{' && response->body.p[0] != '<')
        message = response->body.p;
    size_t n = message ? strcspn(message, "\r\n") : 0;
    if (n) lvn_text_printf(t, ": %.*s", (int)(n < 300 ? n : 300), message);
    json_decref(root);
    if (response->code == 404) lvn_text_printf(t, "; check the bucket's name, '%s'", location->bucket);
    if (response->code == 401 || response->code == 403) {
        pthread_mutex_lock(&gs->lock);
        if (gs->token.text[0])
            lvn_text_printf(t, "; %s (credentials: %s)",
                            response->code == 401
                                ? "get new credentials"
                                : "this account lacks the permission: allow it to read and write the bucket",
                            gs->token.source);
        else
            lvn_text_add(t, " (no credentials were found: set GOOGLE_APPLICATION_CREDENTIALS to a key file)");
        pthread_mutex_unlock(&gs->lock);
    }
}

/* "crc32c=n03x6A==,md5=..." (one header line or several). */
static void parse_headers(const struct lvn_http_response *response, struct lvn_object *object)
{
    for (const char *p = response->headers.p; p && (p = strstr(p, "crc32c=")); p += 7)
        (void)lvn_digest_decode("crc32c:", p + 7, object->checksum);
}

/* --- listing --- */

static enum lvn_status add_items(const char *name, const json_t *root, size_t skip, struct lvn_arena *a,
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
        LVN_TRY(lvn_entries_add(a, out, key + skip, (int64_t)(n - skip), LVN_STORE_FILE, bytes));
    }
    for (size_t i = 0; i < json_array_size(prefixes); i++) {
        const char *key = json_string_value(json_array_get(prefixes, i));
        size_t n = key ? strlen(key) : 0;
        if (n > skip + 1) LVN_TRY(lvn_entries_add(a, out, key + skip, (int64_t)(n - skip - 1), LVN_STORE_FOLDER, -1));
    }
    return LVN_OK;
}

static enum lvn_status add_page(struct lvn_location *location, const struct lvn_http_response *response,
                                const char *prefix, struct lvn_arena *a, struct lvn_store_entries *out,
                                struct lvn_text *token)
{
    json_t *root;
    const char *next = NULL;
    LVN_TRY(lvn_json_parse(location->url, response->body.p ? response->body.p : "", response->body.n, &root));
    enum lvn_status status = add_items(location->url, root, strlen(prefix), a, out);
    if (status == LVN_OK) status = lvn_json_string(location->url, root, "nextPageToken", false, &next);
    if (next) lvn_text_add(token, next);
    json_decref(root);
    return status;
}

static enum lvn_status list(struct lvn_location *location, struct lvn_http *http, bool deep, struct lvn_arena *a,
                            struct lvn_store_entries *out)
{
    const struct lvn_pages pages = {.key = lvn_arena_printf(&location->arena, "/storage/v1/b/%s/o", location->bucket),
                                    .query = "",
                                    .token = "pageToken",
                                    .add = add_page};
    return pages.key ? lvn_store_request_list(location, http, deep, a, out, &pages) : LVN_MEMORY;
}

static enum lvn_status make_key(const struct lvn_location *location, struct lvn_text *key)
{
    lvn_text_printf(key, "/storage/v1/b/%s/o/", location->bucket);
    lvn_http_encode(key, location->key, false);
    return lvn_text_status(key);
}

static enum lvn_status remove_file(struct lvn_location *location, struct lvn_http *http)
{
    LVN_LOCAL_TEXT(key);
    LVN_TRY(make_key(location, &key));
    struct lvn_store_request request = {.method = "DELETE", .key = key.p, .action = "remove", .accept = {404}};
    return lvn_store_request_once(location, http, &request);
}

/* --- uploads: one request for a small file, a resumable upload for a large one ---
 *
 * The parts of a resumable upload are sent in order to a separate URL. After each part the service reports how many
 * bytes it has, which may be fewer than were sent; after a failure it is queried, and the missing bytes are sent. Until
 * an upload is complete the service stores multiples of 256 KiB and ignores bytes that it already has
 * (cloud.google.com/storage/docs/performing-resumable-uploads), so the rest is sent from such a multiple. This also
 * covers servers that report more bytes than they have, as gcp-storage-emulator does when it has none. */

static const char binary[] = "Content-Type: application/octet-stream\n";
enum { PART = 256 << 10, RESUME_INCOMPLETE = 308 };

/* parameters: of the query, ending in '&'. */
static enum lvn_status post(struct lvn_location *location, struct lvn_http *http, const char *parameters,
                            struct lvn_store_request *request, struct lvn_http_response *response)
{
    LVN_LOCAL_TEXT(path);
    LVN_LOCAL_TEXT(query);
    lvn_text_printf(&path, "/upload/storage/v1/b/%s/o", location->bucket);
    lvn_text_printf(&query, "%sname=", parameters);
    lvn_http_encode(&query, location->key, false);
    LVN_TRY(lvn_text_status(&path));
    LVN_TRY(lvn_text_status(&query));
    request->method = "POST";
    request->key = path.p;
    request->query = query.p;
    request->action = "write";
    return lvn_store_request(location, http, request, response);
}

static enum lvn_status put_object(struct lvn_location *location, struct lvn_http *http, const void *data, int64_t bytes)
{
    struct lvn_http_response response = {0};
    struct lvn_store_request request = {.headers = binary, .body = data, .bytes = bytes};
    enum lvn_status status = post(location, http, "uploadType=media&", &request, &response);
    lvn_http_response_release(&response);
    return status;
}

static enum lvn_status begin(struct lvn_upload *upload, struct lvn_http *http)
{
    struct lvn_http_response response = {0};
    char headers[128];
    snprintf(headers, sizeof headers, "Content-Type: application/json\nX-Upload-Content-Length: %lld\n",
             (long long)upload->bytes);
    struct lvn_store_request request = {.headers = headers, .body = "{}", .bytes = 2};
    enum lvn_status status = post(upload->location, http, "uploadType=resumable&", &request, &response);
    upload->sent = 0;
    if (status == LVN_OK && !lvn_http_header(&response, "Location", upload->id, sizeof upload->id))
        status = lvn_fail(LVN_IO, "cannot write '%s': the server began an upload without a Location header",
                          upload->location->url);
    lvn_http_response_release(&response);
    return status;
}

/* Read the number of bytes that the service has from its response to a part or a query; *alive false: the upload no
 * longer exists. */
static enum lvn_status read_position(struct lvn_upload *upload, const struct lvn_store_request *request,
                                     const struct lvn_http_response *response, bool *alive)
{
    char range[64];
    *alive = true;
    if (response->code == RESUME_INCOMPLETE) {
        const char *dash = lvn_http_header(response, "Range", range, sizeof range) ? strchr(range, '-') : NULL;
        int64_t has = dash ? strtoll(dash + 1, NULL, 10) : -1; /* -1, from which one is added: none */
        LVN_CHECK(has >= -1 && has < upload->bytes, IO,
                  "cannot write '%s': the server reports that it has byte %lld of %lld", upload->location->url,
                  (long long)has, (long long)upload->bytes);
        upload->sent = (has + 1) / PART * PART;
        return LVN_OK;
    }
    if (response->code == 404 || response->code == 410) {
        *alive = false;
        return LVN_OK;
    }
    if (response->code < 200 || response->code > 299)
        return lvn_store_request_failed(upload->location, request, response);
    /* The upload is complete, unless the service interpreted the query as the end of the upload. */
    json_error_t error;
    json_t *root = NULL;
    if (response->body.p) LVN_TRY(lvn_json_load(response->body.p, response->body.n, 0, &root, &error));
    const json_t *size = json_object_get(root, "size");
    int64_t bytes = json_is_string(size) ? strtoll(json_string_value(size), NULL, 10) : json_integer_value(size);
    json_decref(root);
    *alive = !size || bytes == upload->bytes;
    if (*alive) upload->sent = upload->bytes;
    return LVN_OK;
}

static enum lvn_status query_position(struct lvn_upload *upload, struct lvn_http *http, bool *alive)
{
    struct lvn_http_response response = {0};
    char headers[64];
    snprintf(headers, sizeof headers, "Content-Range: bytes */%lld\n", (long long)upload->bytes);
    struct lvn_store_request request = {.method = "PUT",
                                        .key = upload->id,
                                        .headers = headers,
                                        .action = "write",
                                        .accept = {RESUME_INCOMPLETE, 404, 410}};
    enum lvn_status status = lvn_store_request(upload->location, http, &request, &response);
    if (status == LVN_OK) status = read_position(upload, &request, &response, alive);
    lvn_http_response_release(&response);
    return status;
}

static enum lvn_status resume(struct lvn_upload *upload, struct lvn_http *http, bool *alive)
{
    LVN_TRY(query_position(upload, http, alive));
    for (int i = 0; *alive && i < upload->n_parts; i++) {
        int64_t end = (i + 1) * upload->part_bytes;
        if ((end < upload->bytes ? end : upload->bytes) <= upload->sent)
            snprintf(upload->etags[i], sizeof upload->etags[i], "there");
    }
    return LVN_OK;
}

/* Send the bytes from upload->sent to `end`; `data` begins with byte `start`. The service may accept fewer. */
static enum lvn_status send_rest(struct lvn_upload *upload, struct lvn_http *http, const char *data, int64_t start,
                                 int64_t end, int tries, bool *alive)
{
    struct lvn_http_response response = {0};
    char headers[128];
    const int64_t before = upload->sent;
    snprintf(headers, sizeof headers, "Content-Range: bytes %lld-%lld/%lld\n", (long long)before, (long long)(end - 1),
             (long long)upload->bytes);
    struct lvn_store_request request = {.method = "PUT",
                                        .key = upload->id,
                                        .headers = headers,
                                        .body = data + (before - start),
                                        .bytes = end - before,
                                        .action = "write",
                                        .no_retry = true,
                                        .accept = {RESUME_INCOMPLETE, 404, 410}};
    enum lvn_status status = lvn_store_request(upload->location, http, &request, &response);
    bool transient = status == LVN_OK && lvn_store_request_is_transient(&response);
    /* In rare cases the service omits how many bytes it has. */
    transient |= status == LVN_OK && response.code == RESUME_INCOMPLETE && start > 0 &&
                 !lvn_http_header(&response, "Range", headers, sizeof headers);
    if (status == LVN_OK && !transient) status = read_position(upload, &request, &response, alive);
    if (status == LVN_OK && *alive && upload->sent <= before && !lvn_store_request_pause(http, tries, &response))
        status = transient ? lvn_store_request_failed(upload->location, &request, &response)
                           : lvn_fail(LVN_IO, "cannot write '%s': the server accepted no byte after %lld of %lld",
                                      upload->location->url, (long long)before, (long long)upload->bytes);
    if (status == LVN_OK && transient) status = query_position(upload, http, alive);
    lvn_http_response_release(&response);
    return status;
}

static enum lvn_status part(struct lvn_upload *upload, struct lvn_http *http, int number, const void *data,
                            int64_t bytes)
{
    int64_t start = (number - 1) * upload->part_bytes, end = start + bytes, max_sent = start;
    bool alive = true;
    for (int tries = 1; upload->sent < end && alive; tries++) {
        LVN_CHECK(upload->sent >= start, IO,
                  "cannot write '%s': the server has %lld bytes but had confirmed %lld; send the file again",
                  upload->location->url, (long long)upload->sent, (long long)start);
        if (upload->sent > max_sent) {
            max_sent = upload->sent;
            tries = 1;
        }
        LVN_TRY(send_rest(upload, http, data, start, end, tries, &alive));
    }
    LVN_CHECK(alive, IO, "cannot write '%s': the upload no longer exists on the server; send the file again",
              upload->location->url);
    snprintf(upload->etags[number - 1], sizeof *upload->etags, "there");
    return LVN_OK;
}

/* The last part has completed the upload. */
static enum lvn_status finish(struct lvn_upload *upload, struct lvn_http *http)
{
    (void)http;
    LVN_CHECK(upload->sent == upload->bytes, IO, "cannot write '%s': the server has %lld bytes of %lld",
              upload->location->url, (long long)upload->sent, (long long)upload->bytes);
    return LVN_OK;
}

static enum lvn_status abandon(struct lvn_upload *upload, struct lvn_http *http)
{
    struct lvn_store_request request = {.method = "DELETE",
                                        .key = upload->id,
                                        .action = "write",
                                        .accept = {404, 410, 499}, /* 499: it was canceled */
                                        .no_retry = true};
    return lvn_store_request_once(upload->location, http, &request);
}

static const struct lvn_upload_ops uploads = {.min_part = PART,
                                              .max_parts = INT32_MAX,
                                              .sequential = true,
                                              .put_object = put_object,
                                              .begin = begin,
                                              .resume = resume,
                                              .part = part,
                                              .finish = finish,
                                              .abandon = abandon};

/* --- conditions --- */

/* Generations are numbers. Servers without generations identify a version by other headers. */
static bool is_generation(const char *version)
{
    return !version[strspn(version, "0123456789")];
}

static enum lvn_status put_if(struct lvn_location *location, struct lvn_http *http, const void *data, int64_t bytes,
                              const char *version, struct lvn_http_response *response)
{
    char parameters[LVN_STORE_VERSION + 60];
    response->code = 501;
    if (!is_generation(version)) return LVN_OK;
    snprintf(parameters, sizeof parameters, "ifGenerationMatch=%s&uploadType=media&", *version ? version : "0");
    struct lvn_store_request request = {.headers = binary, .body = data, .bytes = bytes, .accept = {409, 412, 501}};
    return post(location, http, parameters, &request, response);
}

static enum lvn_status remove_if(struct lvn_location *location, struct lvn_http *http, const char *version,
                                 struct lvn_http_response *response)
{
    LVN_LOCAL_TEXT(key);
    char query[LVN_STORE_VERSION + 20];
    response->code = 501;
    if (!is_generation(version)) return LVN_OK;
    LVN_TRY(make_key(location, &key));
    snprintf(query, sizeof query, "ifGenerationMatch=%s", version);
    struct lvn_store_request request = {
        .method = "DELETE", .key = key.p, .query = query, .action = "remove", .accept = {404, 409, 412, 501}};
    return lvn_store_request(location, http, &request, response);
}

static void written(const struct lvn_http_response *response, char version[LVN_STORE_VERSION])
{
    json_t *root = body_of(response);
    version[0] = '\0';
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
                                       .upload = &uploads,
                                       .conditions = &conditions};
