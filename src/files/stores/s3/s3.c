/* s3.c - the store of s3://BUCKET/KEY: Amazon S3 and compatible servers; credentials come from aws.h.
 *
 * Each bucket at Amazon has its own host (BUCKET.s3.REGION.amazonaws.com). At any other endpoint, and for names with
 * dots, which certificates do not cover, the bucket is the first component of the path. Over https a body is unsigned,
 * since TLS protects it; over http its SHA-256 is signed. Without credentials requests are unsigned, which public
 * buckets accept. */

#include <pthread.h>
#include <time.h>

#include "base/getenv.h"
#include "formats/sha256.h"
#include "stores/digest.h"
#include "stores/s3/aws.h"
#include "stores/s3/sigv4.h"
#include "stores/s3/xml.h"
#include "stores/store_private.h"
#include "stores/store_request.h"

struct s3 {
    struct lvn_aws_location location;
    pthread_mutex_t lock; /* protects the following fields */
    struct lvn_aws_credentials credentials;
    struct lvn_renewal renewal;
    char server_region[64]; /* the region that the server sent; "": none */
    bool sends_md5;         /* the bucket requires the MD5 of what is written (Object Lock) */
};

/* lvn_renewal.find */
static enum lvn_status find_others(void *store, bool *changed)
{
    struct s3 *s3 = store;
    struct lvn_aws_credentials found, *old = &s3->credentials;
    LVN_TRY(lvn_aws_find_credentials(&found));
    *changed = found.id[0] && (strcmp(found.id, old->id) != 0 || strcmp(found.secret, old->secret) != 0 ||
                               strcmp(found.token, old->token) != 0);
    if (*changed) *old = found;
    return LVN_OK;
}

static enum lvn_status open_location(struct lvn_location *location)
{
    struct s3 *s3 = location->private_data = lvn_arena_alloc(&location->arena, sizeof *s3);
    if (!s3) return LVN_MEMORY;
    LVN_TRY(lvn_location_split(location));
    pthread_mutex_init(&s3->lock, NULL);
    s3->renewal.find = find_others;
    LVN_TRY(lvn_aws_find_location(&s3->location));
    return lvn_aws_find_credentials(&s3->credentials);
}

static const char *endpoint(const struct lvn_location *location)
{
    return ((const struct s3 *)location->private_data)->location.endpoint;
}

/* --- requests --- */

/* Scheme, host, and path of the bucket. */
static void locate(const struct lvn_location *location, struct lvn_text *scheme, struct lvn_text *host,
                   struct lvn_text *path)
{
    const struct s3 *s3 = location->private_data;
    const char *at = strstr(s3->location.endpoint, "://"),
               *region = s3->server_region[0] ? s3->server_region : s3->location.region;
    bool in_path = at || strchr(location->bucket, '.');
    lvn_text_printf(scheme, "%.*s", at ? (int)(at + 3 - s3->location.endpoint) : 8,
                    at ? s3->location.endpoint : "https://");
    if (at) {
        size_t n = strcspn(at + 3, "/");
        lvn_text_printf(host, "%.*s", (int)n, at + 3);
        lvn_text_add(path, at + 3 + n);
    } else {
        lvn_text_printf(host, "%s%ss3.%s.%s", in_path ? "" : location->bucket, in_path ? "" : ".", region,
                        lvn_aws_domain(region));
    }
    if (in_path) lvn_text_printf(path, "/%s", location->bucket);
    lvn_text_add(path, "/");
}

/* Separate the lines that begin with "x-amz-", which are signed, from the others. */
static void split_headers(const char *headers, struct lvn_text *amazon, struct lvn_text *other)
{
    for (const char *line = headers, *end; line && *line; line = *end ? end + 1 : end) {
        end = strchrnul(line, '\n');
        lvn_text_printf(strncmp(line, "x-amz-", 6) == 0 ? amazon : other, "%.*s\n", (int)(end - line), line);
    }
}

static void add_md5(const struct lvn_store_request *request, struct lvn_text *headers)
{
    struct lvn_digest digest;
    char text[LVN_DIGEST_TEXT];
    unsigned char bytes[16];
    lvn_digest_init(&digest, "md5:");
    lvn_digest_add(&digest, request->body, request->bytes);
    lvn_digest_finish(&digest, text);
    lvn_text_add(headers, "Content-MD5: ");
    if (lvn_hex_bytes(text + strlen("md5:"), sizeof bytes, bytes))
        lvn_text_add_base64(headers, bytes, sizeof bytes, false);
    lvn_text_add(headers, "\n");
}

struct request_text {
    struct lvn_text scheme, host, path, amazon, headers, url;
};

static enum lvn_status sign_request(struct lvn_location *location, const struct lvn_store_request *request,
                                    struct request_text *t)
{
    struct s3 *s3 = location->private_data;
    char payload[LVN_SHA256_TEXT] = "UNSIGNED-PAYLOAD", region[sizeof s3->server_region];
    pthread_mutex_lock(&s3->lock);
    locate(location, &t->scheme, &t->host, &t->path);
    const enum lvn_status status = lvn_renewal_before_expiry(&s3->renewal, s3, s3->credentials.expires);
    const struct lvn_aws_credentials credentials = s3->credentials;
    const bool sends_md5 = s3->sends_md5;
    snprintf(region, sizeof region, "%s", s3->server_region[0] ? s3->server_region : s3->location.region);
    pthread_mutex_unlock(&s3->lock);
    LVN_TRY(status);
    lvn_http_encode(&t->path, request->key ? request->key : location->key, true);
    split_headers(request->headers, &t->amazon, &t->headers);
    if (sends_md5 && request->bytes) add_md5(request, &t->headers);
    lvn_text_printf(&t->url, "%s%s%s%s%s", t->scheme.p, t->host.p, t->path.p, request->query ? "?" : "",
                    request->query ? request->query : "");
    const struct lvn_text *all[] = {&t->scheme, &t->host, &t->path, &t->amazon, &t->headers, &t->url};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) LVN_TRY(lvn_text_status(all[i]));
    if (!credentials.id[0]) {
        if (t->amazon.p) lvn_text_add(&t->headers, t->amazon.p);
        return lvn_text_status(&t->headers);
    }
    if (strcmp(t->scheme.p, "http://") == 0 || !request->bytes)
        lvn_sha256_text(request->body, (size_t)request->bytes, payload);
    const struct lvn_sigv4 sign = {.id = credentials.id,
                                   .secret = credentials.secret,
                                   .token = credentials.token,
                                   .region = region,
                                   .service = "s3",
                                   .method = request->method,
                                   .host = t->host.p,
                                   .path = t->path.p,
                                   .query = request->query,
                                   .headers = t->amazon.p,
                                   .payload = payload,
                                   .now = time(NULL)};
    return lvn_sigv4_sign(&sign, &t->headers);
}

static enum lvn_status address(struct lvn_location *location, const struct lvn_store_request *request,
                               struct lvn_arena *a, struct lvn_http_request *http_request)
{
    struct request_text t = {0};
    enum lvn_status status = sign_request(location, request, &t);
    http_request->authorities = lvn_getenv("AWS_CA_BUNDLE");
    if (status == LVN_OK) {
        http_request->url = lvn_arena_strdup(a, t.url.p);
        http_request->headers = t.headers.p ? lvn_arena_strdup(a, t.headers.p) : "";
        if (!http_request->url || !http_request->headers) status = LVN_MEMORY;
    }
    struct lvn_text *all[] = {&t.scheme, &t.host, &t.path, &t.amazon, &t.headers, &t.url};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) lvn_text_release(all[i]);
    return status;
}

/* --- refusals --- */

/* Limit the server's text so that the advice after it stays visible. */
static void error_text(const struct lvn_http_response *response, const char *tag, struct lvn_text *t)
{
    LVN_LOCAL_TEXT(message);
    lvn_xml_text(response->body.p, NULL, tag, &message);
    lvn_text_printf(t, "%.300s", message.p ? message.p : "");
}

static bool error_is(const struct lvn_http_response *response, const char *code)
{
    LVN_LOCAL_TEXT(t);
    error_text(response, "Code", &t);
    return t.p && strcmp(t.p, code) == 0;
}

/* Use the region that the server sent, or credentials that have changed, or send the checksum that it requires. */
static bool refresh_credentials(struct lvn_location *location, const struct lvn_http_response *response)
{
    struct s3 *s3 = location->private_data;
    char region[64];
    bool refreshed = false,
         moved = response->code == 301 || response->code == 307 || response->code == 400 || response->code == 403;
    if (response->code == 404) return false;
    pthread_mutex_lock(&s3->lock);
    if (moved && lvn_http_header(response, "x-amz-bucket-region", region, sizeof region) &&
        strcmp(region, s3->server_region[0] ? s3->server_region : s3->location.region) != 0) {
        snprintf(s3->server_region, sizeof s3->server_region, "%s", region);
        refreshed = true;
    } else if (response->code == 400 && response->body.p && strstr(response->body.p, "Content-MD5") &&
               lvn_digest_is_supported("md5:")) {
        refreshed = s3->sends_md5 = true;
    } else if (response->code == 400 || response->code == 401 || response->code == 403) {
        refreshed = lvn_renewal_after_refusal(&s3->renewal, s3);
    }
    pthread_mutex_unlock(&s3->lock);
    return refreshed;
}

static bool is_missing_file(const struct lvn_http_response *response)
{
    return !error_is(response, "NoSuchBucket");
}

static void explain(const struct lvn_location *location, const struct lvn_http_response *response, struct lvn_text *t)
{
    static const struct {
        const char *code, *advice;
    } known[] = {
        {"NoSuchBucket", "check the bucket's name, and AWS_ENDPOINT_URL if the store is not Amazon's"},
        {"InvalidAccessKeyId", "check the access key"},
        {"SignatureDoesNotMatch", "check the secret key"},
        {"AuthorizationHeaderMalformed", "check AWS_REGION"},
        {"PermanentRedirect", "check AWS_REGION"},
        {"RequestTimeTooSkewed", "set this machine's clock"},
        {"ExpiredToken", "get new credentials"},
        {"AccessDenied", "give these credentials read and write access to the bucket"},
    };
    struct s3 *s3 = location->private_data;
    LVN_LOCAL_TEXT(code);
    pthread_mutex_lock(&s3->lock);
    const bool signs = s3->credentials.id[0] != '\0';
    char source[sizeof s3->credentials.source];
    snprintf(source, sizeof source, "%s", s3->credentials.source);
    pthread_mutex_unlock(&s3->lock);
    error_text(response, "Code", &code);
    if (code.n) lvn_text_printf(t, ", %s: ", code.p);
    error_text(response, "Message", t);
    while (t->n > 0 && !t->failed && t->p[t->n - 1] == '.') t->p[--t->n] = '\0'; /* the sentence continues */
    for (size_t i = 0; i < sizeof known / sizeof *known && code.n && signs; i++)
        if (strcmp(known[i].code, code.p) == 0) lvn_text_printf(t, "; %s", known[i].advice);
    if (response->code == 401 || response->code == 403) {
        if (signs)
            lvn_text_printf(t, " (credentials: %s)", source);
        else
            lvn_text_add(
                t, " (no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE)");
    }
}

/* --- metadata and listing --- */

static void parse_headers(const struct lvn_http_response *response, struct lvn_object *object)
{
    char text[80];
    bool encrypted =
        lvn_http_header(response, "x-amz-server-side-encryption", text, sizeof text) && strcmp(text, "AES256");
    const char *sum = object->version[0] == '"' ? object->version + 1 : object->version;
    /* The ETag of a file that was uploaded in one part is its MD5. */
    if (!encrypted && strspn(sum, "0123456789abcdef") == 32 && (sum[32] == '"' || !sum[32]) &&
        lvn_digest_is_supported("md5:"))
        snprintf(object->checksum, sizeof object->checksum, "md5:%.32s", sum);
}

/* Files have a CRC-64 unless they were uploaded with another checksum; only HEAD returns it, also for files uploaded in
 * parts. */
static void fetch_checksum(struct lvn_location *location, struct lvn_http *http, struct lvn_object *object)
{
    struct lvn_store_request request = {.method = "HEAD",
                                        .headers = "x-amz-checksum-mode: ENABLED\n",
                                        .action = "read",
                                        .no_retry = true,
                                        .accept = {400, 403, 404}};
    struct lvn_http_response response = {0};
    char text[160];
    if (lvn_store_request(location, http, &request, &response) != LVN_OK) lvn_error_clear();
    bool same =
        response.code == 200 && lvn_http_header(&response, "ETag", text, sizeof text) && !strcmp(text, object->version);
    bool whole =
        same && lvn_http_header(&response, "x-amz-checksum-type", text, sizeof text) && !strcmp(text, "FULL_OBJECT");
    if (whole && lvn_http_header(&response, "x-amz-checksum-crc64nvme", text, sizeof text))
        (void)lvn_digest_decode("crc64nvme:", text, object->checksum);
    else if (whole && lvn_http_header(&response, "x-amz-checksum-crc32c", text, sizeof text))
        (void)lvn_digest_decode("crc32c:", text, object->checksum);
    lvn_http_response_release(&response);
}

static enum lvn_status add_page(struct lvn_location *location, const struct lvn_http_response *response,
                                const char *prefix, struct lvn_arena *a, struct lvn_store_entries *out,
                                struct lvn_text *token)
{
    const char *xml = response->body.p;
    LVN_CHECK(lvn_xml_find(xml, NULL, "ListBucketResult", &(const char *){0}), IO,
              "cannot list '%s': the server's response is not a list", location->url);
    size_t skip = strlen(prefix);
    struct lvn_text name = {0}, size = {0};
    enum lvn_status status = LVN_OK;
    for (int folders = 0; folders < 2 && status == LVN_OK; folders++) {
        const char *end, *tag = folders ? "CommonPrefixes" : "Contents";
        for (const char *at = xml; (at = lvn_xml_find(at, NULL, tag, &end)) && status == LVN_OK; at = end) {
            lvn_text_clear(&name);
            lvn_text_clear(&size);
            lvn_xml_text(at, end, folders ? "Prefix" : "Key", &name);
            lvn_xml_text(at, end, "Size", &size);
            status = lvn_text_status(&name);
            if (status != LVN_OK || name.n <= (int64_t)skip || strncmp(name.p, prefix, skip) != 0) continue;
            bool marker = name.p[name.n - 1] == '/'; /* an empty file that represents a folder */
            if (marker && !folders) continue;
            status =
                lvn_entries_add(a, out, name.p + skip, name.n - (int64_t)skip - folders,
                                folders ? LVN_STORE_FOLDER : LVN_STORE_FILE, size.n ? strtoll(size.p, NULL, 10) : -1);
        }
    }
    lvn_xml_text(xml, NULL, "NextContinuationToken", token);
    lvn_text_clear(&name);
    lvn_xml_text(xml, NULL, "IsTruncated", &name);
    if (status == LVN_OK && !token->n && name.p && strcmp(name.p, "true") == 0)
        status = lvn_fail(LVN_IO,
                          "cannot list '%s': the server truncated the list and sent no continuation token; it probably "
                          "does not support ListObjectsV2",
                          location->url);
    lvn_text_release(&name);
    lvn_text_release(&size);
    return status;
}

static enum lvn_status list(struct lvn_location *location, struct lvn_http *http, bool deep, struct lvn_arena *a,
                            struct lvn_store_entries *out)
{
    const struct lvn_pages pages = {.key = "", .query = "list-type=2&", .token = "continuation-token", .add = add_page};
    return lvn_store_request_list(location, http, deep, a, out, &pages);
}

static enum lvn_status remove_file(struct lvn_location *location, struct lvn_http *http)
{
    struct lvn_store_request request = {.method = "DELETE", .action = "remove", .accept = {404}};
    return lvn_store_request_once(location, http, &request);
}

/* --- uploads: one request for a small file, a multipart upload for a large one ---
 *
 * Parts are numbered, may be sent in any order, and are joined at the end; until then they are invisible. */

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

static const struct lvn_upload_ops uploads = {.min_part = MIN_PART,
                                              .max_parts = MAX_PARTS,
                                              .put_object = put_object,
                                              .begin = begin,
                                              .resume = resume,
                                              .part = part,
                                              .finish = finish,
                                              .abandon = abandon};

static enum lvn_status request_if(struct lvn_location *location, struct lvn_http *http, const char *method,
                                  const void *data, int64_t bytes, const char *version,
                                  struct lvn_http_response *response)
{
    char header[LVN_STORE_VERSION + 20];
    snprintf(header, sizeof header, *version ? "If-Match: %s\n" : "If-None-Match: *\n", version);
    struct lvn_store_request request = {.method = method,
                                        .headers = header,
                                        .body = data,
                                        .bytes = bytes,
                                        .action = data ? "write" : "remove",
                                        .accept = {404, 409, 412, 501}};
    return lvn_store_request(location, http, &request, response);
}

static enum lvn_status put_if(struct lvn_location *location, struct lvn_http *http, const void *data, int64_t bytes,
                              const char *version, struct lvn_http_response *response)
{
    return request_if(location, http, "PUT", data, bytes, version, response);
}

static enum lvn_status remove_if(struct lvn_location *location, struct lvn_http *http, const char *version,
                                 struct lvn_http_response *response)
{
    return request_if(location, http, "DELETE", NULL, 0, version, response);
}

static void written(const struct lvn_http_response *response, char version[LVN_STORE_VERSION])
{
    if (!lvn_http_header(response, "ETag", version, LVN_STORE_VERSION)) version[0] = '\0';
}

static const struct lvn_condition_ops conditions = {.put = put_if, .remove = remove_if, .written = written};

const struct lvn_store lvn_store_s3 = {.url_format = "s3://BUCKET/KEY",
                                       .network = true,
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
                                       .fetch_checksum = fetch_checksum,
                                       .explain = explain,
                                       .upload = &uploads,
                                       .conditions = &conditions};
