/* gs_upload.c - uploads to Google Cloud Storage: one request for a small file, a resumable upload for a large one.
 *
 * The parts of a resumable upload are sent in order to a URL of their own. After each the service reports how many
 * bytes it has, which may be fewer than were sent; after a failure it is asked, and the missing bytes are sent. Until
 * an upload is complete the service keeps multiples of 256 KiB and ignores bytes that it has already
 * (cloud.google.com/storage/docs/performing-resumable-uploads), so the rest is sent from such a multiple: a server that
 * reports some bytes more than it has, as gcp-storage-emulator does where it has none, gets them too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "stores/gcs/gs.h"
#include "stores/store_request.h"

enum { PART = 256 << 10, RESUME_INCOMPLETE = 308 };

static enum lvn_status make_path(const struct lvn_location *p, const char *kind, struct lvn_text *path,
                                 struct lvn_text *query)
{
    lvn_text_printf(path, "/upload/storage/v1/b/%s/o", p->bucket);
    lvn_text_printf(query, "uploadType=%s&name=", kind);
    lvn_http_encode(query, p->key, false);
    LVN_TRY(lvn_text_status(path));
    return lvn_text_status(query);
}

static enum lvn_status post(struct lvn_location *p, struct lvn_http *h, const char *kind, const char *headers,
                            const void *data, int64_t bytes, struct lvn_http_response *a)
{
    struct lvn_text path = {0}, query = {0};
    enum lvn_status status = make_path(p, kind, &path, &query);
    struct lvn_store_request request = {.method = "POST",
                                        .key = path.p,
                                        .query = query.p,
                                        .headers = headers,
                                        .body = data,
                                        .bytes = bytes,
                                        .action = "write"};
    if (status == LVN_OK) status = lvn_store_request(p, h, &request, a);
    lvn_text_release(&path);
    lvn_text_release(&query);
    return status;
}

static enum lvn_status put_object(struct lvn_location *p, struct lvn_http *h, const void *data, int64_t bytes)
{
    struct lvn_http_response a = {0};
    enum lvn_status status = post(p, h, "media", "Content-Type: application/octet-stream\n", data, bytes, &a);
    lvn_http_response_release(&a);
    return status;
}

static enum lvn_status begin(struct lvn_upload *u, struct lvn_http *h)
{
    struct lvn_http_response a = {0};
    char headers[128];
    snprintf(headers, sizeof headers, "Content-Type: application/json\nX-Upload-Content-Length: %lld\n",
             (long long)u->bytes);
    enum lvn_status status = post(u->location, h, "resumable", headers, "{}", 2, &a);
    u->sent = 0;
    if (status == LVN_OK && !lvn_http_header(&a, "Location", u->id, sizeof u->id))
        status =
            lvn_fail(LVN_IO, "cannot write '%s': the server began an upload and did not name it", u->location->url);
    lvn_http_response_release(&a);
    return status;
}

/* Reads the number of bytes that the service has from its response to a part or a query; *alive false: the upload does
 * not exist any more. */
static enum lvn_status take_position(struct lvn_upload *u, const struct lvn_store_request *request,
                                     const struct lvn_http_response *a, bool *alive)
{
    char range[64];
    *alive = true;
    if (a->code == RESUME_INCOMPLETE) {
        const char *dash = lvn_http_header(a, "Range", range, sizeof range) ? strchr(range, '-') : NULL;
        int64_t has = dash ? strtoll(dash + 1, NULL, 10) : -1; /* -1, from which one is added: none */
        LVN_CHECK(has >= -1 && has < u->bytes, IO, "cannot write '%s': the server says that it has byte %lld of %lld",
                  u->location->url, (long long)has, (long long)u->bytes);
        u->sent = (has + 1) / PART * PART;
        return LVN_OK;
    }
    if (a->code == 404 || a->code == 410) {
        *alive = false;
        return LVN_OK;
    }
    if (a->code < 200 || a->code > 299) return lvn_store_request_failed(u->location, request, a);
    /* The upload is complete, unless the service took the query for the end of the upload. */
    json_error_t error;
    json_t *root = NULL;
    if (a->body.p) LVN_TRY(lvn_json_load(a->body.p, a->body.n, 0, &root, &error));
    const json_t *size = json_object_get(root, "size");
    int64_t bytes = json_is_string(size) ? strtoll(json_string_value(size), NULL, 10) : json_integer_value(size);
    json_decref(root);
    *alive = !size || bytes == u->bytes;
    if (*alive) u->sent = u->bytes;
    return LVN_OK;
}

static enum lvn_status query_position(struct lvn_upload *u, struct lvn_http *h, bool *alive)
{
    struct lvn_http_response a = {0};
    char headers[64];
    snprintf(headers, sizeof headers, "Content-Range: bytes */%lld\n", (long long)u->bytes);
    struct lvn_store_request request = {
        .method = "PUT", .key = u->id, .headers = headers, .action = "write", .accept = {RESUME_INCOMPLETE, 404, 410}};
    enum lvn_status status = lvn_store_request(u->location, h, &request, &a);
    if (status == LVN_OK) status = take_position(u, &request, &a, alive);
    lvn_http_response_release(&a);
    return status;
}

static enum lvn_status resume(struct lvn_upload *u, struct lvn_http *h, bool *alive)
{
    LVN_TRY(query_position(u, h, alive));
    for (int i = 0; *alive && i < u->n_parts; i++) {
        int64_t end = (i + 1) * u->part_bytes;
        if ((end < u->bytes ? end : u->bytes) <= u->sent) snprintf(u->etags[i], sizeof u->etags[i], "there");
    }
    return LVN_OK;
}

/* Sends the bytes from u->sent to `end`, of which `data` holds those from `start`. The service may take fewer. */
static enum lvn_status send_rest(struct lvn_upload *u, struct lvn_http *h, const char *data, int64_t start, int64_t end,
                                 int tries, bool *alive)
{
    struct lvn_http_response a = {0};
    char headers[128];
    const int64_t before = u->sent;
    snprintf(headers, sizeof headers, "Content-Range: bytes %lld-%lld/%lld\n", (long long)before, (long long)(end - 1),
             (long long)u->bytes);
    struct lvn_store_request request = {.method = "PUT",
                                        .key = u->id,
                                        .headers = headers,
                                        .body = data + (before - start),
                                        .bytes = end - before,
                                        .action = "write",
                                        .no_retry = true,
                                        .accept = {RESUME_INCOMPLETE, 404, 410}};
    enum lvn_status status = lvn_store_request(u->location, h, &request, &a);
    bool transient = status == LVN_OK && lvn_store_request_is_transient(&a);
    if (status == LVN_OK && !transient) status = take_position(u, &request, &a, alive);
    if (status == LVN_OK && *alive && u->sent <= before && !lvn_store_request_pause(h, tries, &a))
        status = transient ? lvn_store_request_failed(u->location, &request, &a)
                           : lvn_fail(LVN_IO, "cannot write '%s': the server takes no byte after %lld of %lld",
                                      u->location->url, (long long)before, (long long)u->bytes);
    if (status == LVN_OK && transient) status = query_position(u, h, alive);
    lvn_http_response_release(&a);
    return status;
}

static enum lvn_status part(struct lvn_upload *u, struct lvn_http *h, int number, const void *data, int64_t bytes)
{
    int64_t start = (number - 1) * u->part_bytes, end = start + bytes, max_sent = start;
    bool alive = true;
    for (int tries = 1; u->sent < end && alive; tries++) {
        LVN_CHECK(u->sent >= start, IO,
                  "cannot write '%s': the server has %lld bytes and had confirmed %lld; send the file again",
                  u->location->url, (long long)u->sent, (long long)start);
        if (u->sent > max_sent) {
            max_sent = u->sent;
            tries = 1;
        }
        LVN_TRY(send_rest(u, h, data, start, end, tries, &alive));
    }
    LVN_CHECK(alive, IO, "cannot write '%s': the server has forgotten the upload; send the file again",
              u->location->url);
    snprintf(u->etags[number - 1], sizeof *u->etags, "there");
    return LVN_OK;
}

/* The last part has completed the upload. */
static enum lvn_status finish(struct lvn_upload *u, struct lvn_http *h)
{
    (void)h;
    LVN_CHECK(u->sent == u->bytes, IO, "cannot write '%s': the server has %lld bytes of %lld", u->location->url,
              (long long)u->sent, (long long)u->bytes);
    return LVN_OK;
}

const struct lvn_upload_ops lvn_gs_upload = {.min_part = PART,
                                             .max_parts = INT32_MAX,
                                             .sequential = true,
                                             .put_object = put_object,
                                             .begin = begin,
                                             .resume = resume,
                                             .part = part,
                                             .finish = finish};
