/* gs_upload.c - uploads to Google Cloud Storage: one request for a small file, a resumable upload for a large one.
 *
 * The parts of a resumable upload are sent in order to a separate URL. After each part the service reports how many
 * bytes it has, which may be fewer than were sent; after a failure it is queried, and the missing bytes are sent. Until
 * an upload is complete the service stores multiples of 256 KiB and ignores bytes that it already has
 * (cloud.google.com/storage/docs/performing-resumable-uploads), so the rest is sent from such a multiple. This also
 * covers servers that report more bytes than they have, as gcp-storage-emulator does when it has none. */

#include "formats/json.h"
#include "stores/gcs/gs.h"
#include "stores/store_request.h"

enum { PART = 256 << 10, RESUME_INCOMPLETE = 308 };

static enum lvn_status make_path(const struct lvn_location *location, const char *kind, struct lvn_text *path,
                                 struct lvn_text *query)
{
    lvn_text_printf(path, "/upload/storage/v1/b/%s/o", location->bucket);
    lvn_text_printf(query, "uploadType=%s&name=", kind);
    lvn_http_encode(query, location->key, false);
    LVN_TRY(lvn_text_status(path));
    return lvn_text_status(query);
}

static enum lvn_status post(struct lvn_location *location, struct lvn_http *http, const char *kind, const char *headers,
                            const void *data, int64_t bytes, struct lvn_http_response *response)
{
    struct lvn_text path = {0}, query = {0};
    enum lvn_status status = make_path(location, kind, &path, &query);
    struct lvn_store_request request = {.method = "POST",
                                        .key = path.p,
                                        .query = query.p,
                                        .headers = headers,
                                        .body = data,
                                        .bytes = bytes,
                                        .action = "write"};
    if (status == LVN_OK) status = lvn_store_request(location, http, &request, response);
    lvn_text_release(&path);
    lvn_text_release(&query);
    return status;
}

static enum lvn_status put_object(struct lvn_location *location, struct lvn_http *http, const void *data, int64_t bytes)
{
    struct lvn_http_response response = {0};
    enum lvn_status status =
        post(location, http, "media", "Content-Type: application/octet-stream\n", data, bytes, &response);
    lvn_http_response_release(&response);
    return status;
}

static enum lvn_status begin(struct lvn_upload *upload, struct lvn_http *http)
{
    struct lvn_http_response response = {0};
    char headers[128];
    snprintf(headers, sizeof headers, "Content-Type: application/json\nX-Upload-Content-Length: %lld\n",
             (long long)upload->bytes);
    enum lvn_status status = post(upload->location, http, "resumable", headers, "{}", 2, &response);
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

const struct lvn_upload_ops lvn_gs_upload = {.min_part = PART,
                                             .max_parts = INT32_MAX,
                                             .sequential = true,
                                             .put_object = put_object,
                                             .begin = begin,
                                             .resume = resume,
                                             .part = part,
                                             .finish = finish,
                                             .abandon = abandon};
