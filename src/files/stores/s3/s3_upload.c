/* s3_upload.c - uploads to S3: one request for a small file, a multipart upload for a large one. Parts are numbered,
 * may be sent in any order, and are joined at the end; until then they are invisible. */

#include "stores/s3/s3.h"
#include "stores/s3/xml.h"
#include "stores/store_request.h"

enum { MIN_PART = 5 << 20, MAX_PARTS = 10000 };

static enum lvn_status put_object(struct lvn_location *location, struct lvn_http *http, const void *data, int64_t bytes)
{
    struct lvn_store_request request = {.method = "PUT", .body = data, .bytes = bytes, .action = "write"};
    return lvn_store_request_once(location, http, &request);
}

static enum lvn_status begin(struct lvn_upload *upload, struct lvn_http *http)
{
    struct lvn_store_request request = {.method = "POST", .query = "uploads=", .action = "write"};
    struct lvn_http_response response = {0};
    LVN_LOCAL_TEXT(id);
    enum lvn_status status = lvn_store_request(upload->location, http, &request, &response);
    if (status == LVN_OK &&
        (!lvn_xml_text(response.body.p, NULL, "UploadId", &id) || id.n >= (int64_t)sizeof upload->id))
        status = lvn_fail(
            LVN_IO, "cannot write '%s': the server's response to the start of the upload contains no valid upload ID",
            upload->location->url);
    if (status == LVN_OK) snprintf(upload->id, sizeof upload->id, "%s", id.p);
    lvn_http_response_release(&response);
    return status;
}

static enum lvn_status query_of(const struct lvn_upload *upload, struct lvn_text *t, const char *before)
{
    lvn_text_add(t, before);
    lvn_text_add(t, "uploadId=");
    lvn_http_encode(t, upload->id, false);
    return lvn_text_status(t);
}

/* Read the ETags of one page of parts; returns the part number after which the next page begins, 0: last page. */
static int read_parts(struct lvn_upload *upload, const char *xml)
{
    const char *end;
    LVN_LOCAL_TEXT(t);
    for (const char *p = xml; (p = lvn_xml_find(p, NULL, "Part", &end)); p = end) {
        lvn_text_clear(&t);
        lvn_xml_text(p, end, "PartNumber", &t);
        long number = t.n ? strtol(t.p, NULL, 10) : 0;
        lvn_text_clear(&t);
        lvn_xml_text(p, end, "Size", &t);
        int64_t bytes = t.n ? strtoll(t.p, NULL, 10) : -1;
        int64_t left = upload->bytes - (number - 1) * upload->part_bytes;
        if (number < 1 || number > upload->n_parts || bytes != (left < upload->part_bytes ? left : upload->part_bytes))
            continue;
        lvn_text_clear(&t);
        if (lvn_xml_text(p, end, "ETag", &t) && t.n && t.n < 80) snprintf(upload->etags[number - 1], 80, "%s", t.p);
    }
    lvn_text_clear(&t);
    lvn_xml_text(xml, NULL, "IsTruncated", &t);
    bool more = t.n && strcmp(t.p, "true") == 0;
    lvn_text_clear(&t);
    lvn_xml_text(xml, NULL, "NextPartNumberMarker", &t);
    return more && t.n ? (int)strtol(t.p, NULL, 10) : 0;
}

static enum lvn_status resume(struct lvn_upload *upload, struct lvn_http *http, bool *alive)
{
    struct lvn_http_response response = {0};
    LVN_LOCAL_TEXT(query);
    enum lvn_status status = LVN_OK;
    char marker[64] = "";
    int before = 0, next = 0;
    *alive = true;
    do {
        lvn_text_clear(&query);
        before = next;
        if (next) snprintf(marker, sizeof marker, "part-number-marker=%d&", next);
        status = query_of(upload, &query, marker);
        struct lvn_store_request request = {.method = "GET", .query = query.p, .action = "write", .accept = {404}};
        if (status == LVN_OK) status = lvn_store_request(upload->location, http, &request, &response);
        if (status == LVN_OK && response.code == 404) *alive = false;
        next = status == LVN_OK && *alive ? read_parts(upload, response.body.p) : 0;
    } while (next > before);
    lvn_http_response_release(&response);
    return status;
}

static enum lvn_status part(struct lvn_upload *upload, struct lvn_http *http, int number, const void *data,
                            int64_t bytes)
{
    struct lvn_http_response response = {0};
    LVN_LOCAL_TEXT(query);
    char before[48];
    snprintf(before, sizeof before, "partNumber=%d&", number);
    enum lvn_status status = query_of(upload, &query, before);
    struct lvn_store_request request = {
        .method = "PUT", .query = query.p, .body = data, .bytes = bytes, .action = "write"};
    if (status == LVN_OK) status = lvn_store_request(upload->location, http, &request, &response);
    if (status == LVN_OK && !lvn_http_header(&response, "ETag", upload->etags[number - 1], sizeof *upload->etags))
        status = lvn_fail(LVN_IO, "cannot write '%s': the server's response for part %d has no ETag",
                          upload->location->url, number);
    lvn_http_response_release(&response);
    return status;
}

/* The server may report a failure in a response with status 200. */
static enum lvn_status check_finish(const struct lvn_upload *upload, const struct lvn_http_response *response)
{
    struct lvn_text code = {0}, message = {0};
    const char *end;
    enum lvn_status status = LVN_OK;
    if (lvn_xml_find(response->body.p, NULL, "Error", &end)) {
        lvn_xml_text(response->body.p, NULL, "Code", &code);
        lvn_xml_text(response->body.p, NULL, "Message", &message);
        status = lvn_fail(LVN_IO, "cannot write '%s': the server could not join the parts, %s: %s",
                          upload->location->url, code.p ? code.p : "", message.p ? message.p : "");
    }
    lvn_text_release(&code);
    lvn_text_release(&message);
    return status;
}

/* True if the request that joins the parts failed and may be repeated. S3 reports some failures with status 200. */
static bool may_repeat(const struct lvn_http_response *response)
{
    LVN_LOCAL_TEXT(code);
    lvn_xml_text(response->body.p, NULL, "Code", &code);
    return lvn_store_request_is_transient(response) ||
           (code.p && (!strcmp(code.p, "InternalError") || !strcmp(code.p, "SlowDown")));
}

static enum lvn_status finish(struct lvn_upload *upload, struct lvn_http *http)
{
    struct lvn_http_response response = {0};
    struct lvn_text query = {0}, body = {0};
    lvn_text_add(&body, "<CompleteMultipartUpload>");
    for (int i = 0; i < upload->n_parts; i++) {
        lvn_text_printf(&body, "<Part><PartNumber>%d</PartNumber><ETag>", i + 1);
        lvn_xml_encode(&body, upload->etags[i]);
        lvn_text_add(&body, "</ETag></Part>");
    }
    lvn_text_add(&body, "</CompleteMultipartUpload>");
    enum lvn_status status = query_of(upload, &query, "");
    if (status == LVN_OK) status = lvn_text_status(&body);
    struct lvn_store_request request = {.method = "POST",
                                        .query = query.p,
                                        .headers = "Content-Type: application/xml\n",
                                        .body = body.p,
                                        .bytes = body.n,
                                        .action = "write",
                                        .no_retry = true,
                                        .fresh = true};
    bool again = status == LVN_OK;
    for (int tries = 1; again; tries++) {
        status = lvn_store_request(upload->location, http, &request, &response);
        again = status == LVN_OK && may_repeat(&response) && lvn_store_request_pause(http, tries, &response);
        request.accept[0] = 404; /* an attempt whose response was lost may have joined the parts; verify() compares */
    }
    if (status == LVN_OK && lvn_store_request_is_transient(&response))
        status = lvn_store_request_failed(upload->location, &request, &response);
    if (status == LVN_OK && response.code != 404) status = check_finish(upload, &response);
    lvn_text_release(&body);
    lvn_text_release(&query);
    lvn_http_response_release(&response);
    return status;
}

static enum lvn_status abandon(struct lvn_upload *upload, struct lvn_http *http)
{
    LVN_LOCAL_TEXT(query);
    LVN_TRY(query_of(upload, &query, ""));
    struct lvn_store_request request = {
        .method = "DELETE", .query = query.p, .action = "write", .accept = {404}, .no_retry = true};
    return lvn_store_request_once(upload->location, http, &request);
}

const struct lvn_upload_ops lvn_s3_upload = {.min_part = MIN_PART,
                                             .max_parts = MAX_PARTS,
                                             .put_object = put_object,
                                             .begin = begin,
                                             .resume = resume,
                                             .part = part,
                                             .finish = finish,
                                             .abandon = abandon};
