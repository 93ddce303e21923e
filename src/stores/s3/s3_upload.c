/* s3_upload.c - uploads to S3: one request for a small file, a multipart upload for a large one. Parts are numbered,
 * may come in any order, and are joined into a file at the end; until then they are invisible. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/s3/s3.h"
#include "stores/s3/xml.h"
#include "stores/store_request.h"

enum { MIN_PART = 5 << 20, MAX_PARTS = 10000 };

static enum lvn_status put_object(struct lvn_location *p, struct lvn_http *h, const void *data, int64_t bytes)
{
    struct lvn_store_request request = {.method = "PUT", .body = data, .bytes = bytes, .action = "write"};
    return lvn_store_request_once(p, h, &request);
}

static enum lvn_status begin(struct lvn_upload *u, struct lvn_http *h)
{
    struct lvn_store_request request = {.method = "POST", .query = "uploads=", .action = "write"};
    struct lvn_http_response a = {0};
    LVN_LOCAL_TEXT(id);
    enum lvn_status status = lvn_store_request(u->location, h, &request, &a);
    if (status == LVN_OK && (!lvn_xml_text(a.body.p, NULL, "UploadId", &id) || id.n >= (int64_t)sizeof u->id))
        status =
            lvn_fail(LVN_IO, "cannot write '%s': the server began an upload and did not name it", u->location->url);
    if (status == LVN_OK) snprintf(u->id, sizeof u->id, "%s", id.p);
    lvn_http_response_release(&a);
    return status;
}

static enum lvn_status query_of(const struct lvn_upload *u, struct lvn_text *t, const char *before)
{
    lvn_text_add(t, before);
    lvn_text_add(t, "uploadId=");
    lvn_http_encode(t, u->id, false);
    return lvn_text_status(t);
}

/* Reads the ETags of one page of parts; returns the part number after which the next page begins, 0: this was the last
 * page. */
static int take_parts(struct lvn_upload *u, const char *xml)
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
        int64_t left = u->bytes - (number - 1) * u->part_bytes;
        if (number < 1 || number > u->n_parts || bytes != (left < u->part_bytes ? left : u->part_bytes)) continue;
        lvn_text_clear(&t);
        if (lvn_xml_text(p, end, "ETag", &t) && t.n && t.n < 80) snprintf(u->etags[number - 1], 80, "%s", t.p);
    }
    lvn_text_clear(&t);
    lvn_xml_text(xml, NULL, "IsTruncated", &t);
    bool more = t.n && strcmp(t.p, "true") == 0;
    lvn_text_clear(&t);
    lvn_xml_text(xml, NULL, "NextPartNumberMarker", &t);
    return more && t.n ? (int)strtol(t.p, NULL, 10) : 0;
}

static enum lvn_status resume(struct lvn_upload *u, struct lvn_http *h, bool *alive)
{
    struct lvn_http_response a = {0};
    LVN_LOCAL_TEXT(query);
    enum lvn_status status = LVN_OK;
    char marker[64] = "";
    int before = 0, next = 0;
    *alive = true;
    do {
        lvn_text_clear(&query);
        before = next;
        if (next) snprintf(marker, sizeof marker, "part-number-marker=%d&", next);
        status = query_of(u, &query, marker);
        struct lvn_store_request request = {.method = "GET", .query = query.p, .action = "write", .accept = {404}};
        if (status == LVN_OK) status = lvn_store_request(u->location, h, &request, &a);
        if (status == LVN_OK && a.code == 404) *alive = false;
        next = status == LVN_OK && *alive ? take_parts(u, a.body.p) : 0;
    } while (next > before);
    lvn_http_response_release(&a);
    return status;
}

static enum lvn_status part(struct lvn_upload *u, struct lvn_http *h, int number, const void *data, int64_t bytes)
{
    struct lvn_http_response a = {0};
    LVN_LOCAL_TEXT(query);
    char before[48];
    snprintf(before, sizeof before, "partNumber=%d&", number);
    enum lvn_status status = query_of(u, &query, before);
    struct lvn_store_request request = {
        .method = "PUT", .query = query.p, .body = data, .bytes = bytes, .action = "write"};
    if (status == LVN_OK) status = lvn_store_request(u->location, h, &request, &a);
    if (status == LVN_OK && !lvn_http_header(&a, "ETag", u->etags[number - 1], sizeof *u->etags))
        status = lvn_fail(LVN_IO, "cannot write '%s': the server did not name part %d", u->location->url, number);
    lvn_http_response_release(&a);
    return status;
}

/* The server may report a failure within a response that has begun with status 200. */
static enum lvn_status check_finish(const struct lvn_upload *u, const struct lvn_http_response *a)
{
    struct lvn_text code = {0}, message = {0};
    const char *end;
    enum lvn_status status = LVN_OK;
    if (lvn_xml_find(a->body.p, NULL, "Error", &end)) {
        lvn_xml_text(a->body.p, NULL, "Code", &code);
        lvn_xml_text(a->body.p, NULL, "Message", &message);
        status = lvn_fail(LVN_IO, "cannot write '%s': the server could not join the parts, %s: %s", u->location->url,
                          code.p ? code.p : "", message.p ? message.p : "");
    }
    lvn_text_release(&code);
    lvn_text_release(&message);
    return status;
}

static enum lvn_status finish(struct lvn_upload *u, struct lvn_http *h)
{
    struct lvn_http_response a = {0};
    struct lvn_text query = {0}, body = {0};
    lvn_text_add(&body, "<CompleteMultipartUpload>");
    for (int i = 0; i < u->n_parts; i++) {
        lvn_text_printf(&body, "<Part><PartNumber>%d</PartNumber><ETag>", i + 1);
        lvn_xml_encode(&body, u->etags[i]);
        lvn_text_add(&body, "</ETag></Part>");
    }
    lvn_text_add(&body, "</CompleteMultipartUpload>");
    enum lvn_status status = query_of(u, &query, "");
    if (status == LVN_OK) status = lvn_text_status(&body);
    struct lvn_store_request request = {.method = "POST",
                                        .query = query.p,
                                        .headers = "Content-Type: application/xml\n",
                                        .body = body.p,
                                        .bytes = body.n,
                                        .action = "write"};
    if (status == LVN_OK) status = lvn_store_request(u->location, h, &request, &a);
    if (status == LVN_OK) status = check_finish(u, &a);
    lvn_text_release(&body);
    lvn_text_release(&query);
    lvn_http_response_release(&a);
    return status;
}

const struct lvn_upload_ops lvn_s3_upload = {.min_part = MIN_PART,
                                             .max_parts = MAX_PARTS,
                                             .put_object = put_object,
                                             .begin = begin,
                                             .resume = resume,
                                             .part = part,
                                             .finish = finish};
