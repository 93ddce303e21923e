/* store_request.c - requests to stores with retries and error messages; see store_request.h.
 *
 * Transient errors are retried: a broken connection, 408, 429, 500, 502, 503, 504, and RequestTimeout of S3. The pauses
 * double from 0.2 s to 10 s, with random jitter so that many ranks do not return at the same time; the server's
 * Retry-After is respected up to a minute. A refusal is retried at most twice, if new credentials were found. A read
 * that made progress does not count as a failed attempt. */
#include "stores/store_request.h"

#include <time.h>
#include <unistd.h>

enum { DEFAULT_TRIES = 8, TRIES_WITHOUT_HOST = 3, CREDENTIALS_TRIES = 3, MAX_REFRESHES = 2, MAX_WAIT = 60 };

static int max_tries(void)
{
    const char *text = getenv("LEVIN_STORE_TRIES");
    long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < 1000 ? (int)n : DEFAULT_TRIES;
}

bool lvn_store_request_pause(const struct lvn_http *http, int tries, const struct lvn_http_response *response)
{
    if (tries >= max_tries()) return false;
    if (response->outcome == LVN_HTTP_NO_HOST && tries >= TRIES_WITHOUT_HOST) return false;
    double seconds = 0.2 * (double)(1 << (tries < 7 ? tries - 1 : 6));
    char after[16];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned chance = ((unsigned)now.tv_nsec >> 8 ^ (unsigned)getpid()) & 1023;
    seconds = (seconds < 10 ? seconds : 10) * (0.5 + chance / 2048.);
    if (lvn_http_header(response, "Retry-After", after, sizeof after)) {
        double requested = strtod(after, NULL);
        if (requested > seconds) seconds = requested < MAX_WAIT ? requested : MAX_WAIT;
    }
    for (; seconds > 0; seconds -= 0.05) {
        if (lvn_http_stopped(http)) return false;
        const struct timespec slice = {.tv_nsec = 50000000};
        nanosleep(&slice, NULL);
    }
    return !lvn_http_stopped(http);
}

bool lvn_store_request_is_transient(const struct lvn_http_response *response)
{
    if (response->outcome == LVN_HTTP_INTERRUPTED || response->outcome == LVN_HTTP_NO_HOST) return true;
    if (response->outcome == LVN_HTTP_COMPLETE && response->code == 400 && response->body.p &&
        strstr(response->body.p, "<Code>RequestTimeout</Code>"))
        return true; /* S3, after an upload stalled */
    return response->outcome == LVN_HTTP_COMPLETE &&
           (response->code == 408 || response->code == 429 || response->code == 500 || response->code == 502 ||
            response->code == 503 || response->code == 504);
}

enum lvn_status lvn_store_request_credentials(const struct lvn_http_request *request, bool retry,
                                              struct lvn_http_response *response)
{
    struct lvn_http *http;
    LVN_TRY(lvn_http_open(&http));
    enum lvn_status status = lvn_http_send(http, request, response);
    for (int tries = 1; status == LVN_OK && retry && tries < CREDENTIALS_TRIES &&
                        lvn_store_request_is_transient(response) && lvn_store_request_pause(http, tries, response);
         tries++)
        status = lvn_http_send(http, request, response);
    lvn_http_close(http);
    return status;
}

static bool is_good(const struct lvn_location *location, const struct lvn_store_request *request,
                    const struct lvn_http_response *response)
{
    if (response->code >= 200 && response->code < 300) return true;
    for (int i = 0; i < LVN_STORE_ACCEPTS; i++) {
        if (!response->code || request->accept[i] != response->code) continue;
        return response->code != 404 || !location->store->is_missing_file || location->store->is_missing_file(response);
    }
    return false;
}

static const char *code_text(int code)
{
    if (code / 100 == 3) return "redirected";
    static const struct {
        int code;
        const char *text;
    } known[] = {{400, "bad request"},    {401, "sign-in required"}, {403, "forbidden"},     {404, "not found"},
                 {405, "not allowed"},    {408, "timeout"},          {409, "conflict"},      {411, "length required"},
                 {412, "changed"},        {413, "too large"},        {416, "no such range"}, {429, "too many requests"},
                 {500, "server error"},   {501, "not implemented"},  {502, "bad gateway"},   {503, "overloaded"},
                 {504, "gateway timeout"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code) return known[i].text;
    return "unexpected";
}

static enum lvn_status find_credentials(struct lvn_renewal *r, void *store)
{
    bool changed = false;
    r->tried_at = time(NULL);
    LVN_TRY(r->find(store, &changed));
    if (changed) r->changed_at = time(NULL);
    return LVN_OK;
}

enum lvn_status lvn_renewal_before_expiry(struct lvn_renewal *r, void *store, time_t expires)
{
    enum { SOON = 120, RETRY_AFTER = 10 }; /* seconds */
    const time_t now = time(NULL);
    if (!expires || now <= expires - SOON || (now < expires && now - r->tried_at < RETRY_AFTER)) return LVN_OK;
    const enum lvn_status status = find_credentials(r, store);
    if (status == LVN_OK || time(NULL) >= expires) return status;
    lvn_error_clear();
    return LVN_OK;
}

bool lvn_renewal_after_refusal(struct lvn_renewal *r, void *store)
{
    if (find_credentials(r, store) != LVN_OK) lvn_error_clear();
    return r->changed_at && time(NULL) - r->changed_at < 60;
}

enum lvn_status lvn_store_request_failed(const struct lvn_location *location, const struct lvn_store_request *request,
                                         const struct lvn_http_response *response)
{
    LVN_LOCAL_TEXT(t);
    if (response->outcome != LVN_HTTP_COMPLETE)
        lvn_text_printf(&t, "%s%s", response->reason,
                        response->outcome == LVN_HTTP_NO_HOST ? "; check the address, and this machine's network" : "");
    else
        lvn_text_printf(&t, "the server responded with %d (%s)", response->code, code_text(response->code));
    char to[512];
    if (response->outcome == LVN_HTTP_COMPLETE && response->code / 100 == 3 &&
        lvn_http_header(response, "Location", to, sizeof to))
        lvn_text_printf(&t, ", to '%.200s'; signed requests do not follow redirections", to);
    if (response->outcome == LVN_HTTP_COMPLETE && location->store->explain)
        location->store->explain(location, response, &t);
    const char *text = lvn_text_string(&t);
    lvn_fail(LVN_IO, "cannot %s '%s': %s", request->action, location->url, text ? text : "");
    return LVN_IO;
}

static enum lvn_status stopped(const struct lvn_location *location)
{
    LVN_FAIL(STOPPED, "the transfer of '%s' was stopped", location->url);
}

static enum lvn_status send_once(struct lvn_location *location, struct lvn_http *http,
                                 const struct lvn_store_request *request, struct lvn_http_response *response)
{
    LVN_LOCAL_ARENA(arena);
    struct lvn_http_request http_request = {.method = request->method,
                                            .body = request->body,
                                            .bytes = request->bytes,
                                            .no_body = !request->body && strcmp(request->method, "PUT") &&
                                                       strcmp(request->method, "POST"),
                                            .fresh = request->fresh,
                                            .follow = location->store->follows,
                                            .on_data = request->on_data,
                                            .context = request->context};
    enum lvn_status status = location->store->address(location, request, &arena, &http_request);
    if (status == LVN_OK) status = lvn_http_send(http, &http_request, response);
    return status;
}

enum lvn_status lvn_store_request(struct lvn_location *location, struct lvn_http *http,
                                  const struct lvn_store_request *request, struct lvn_http_response *response)
{
    int refreshes = 0;
    for (int tries = 1;; tries++) {
        LVN_TRY(send_once(location, http, request, response));
        if (response->outcome == LVN_HTTP_STOPPED) return stopped(location);
        if (response->outcome == LVN_HTTP_REFUSED ||
            (response->outcome == LVN_HTTP_INTERRUPTED && response->delivered > 0))
            return LVN_OK;
        if (response->outcome == LVN_HTTP_COMPLETE && is_good(location, request, response)) return LVN_OK;
        if (response->outcome == LVN_HTTP_COMPLETE && refreshes < MAX_REFRESHES &&
            location->store->refresh_credentials && location->store->refresh_credentials(location, response)) {
            refreshes++;
            tries--;
            continue;
        }
        bool transient = lvn_store_request_is_transient(response);
        if (transient && request->no_retry) return LVN_OK;
        if (transient && lvn_store_request_pause(http, tries, response)) continue;
        if (lvn_http_stopped(http)) return stopped(location);
        lvn_store_request_failed(location, request, response);
        return transient && tries > 1 ? lvn_while_at(LVN_IO, "trying %d times", tries) : LVN_IO;
    }
}

/* --- metadata of a file --- */

/* Stop after one byte: servers without range support would send the whole file. */
static bool on_one_byte(void *context, const void *data, int64_t bytes)
{
    (void)data;
    *(int64_t *)context += bytes;
    return bytes == 1;
}

static int64_t number_after(const char *text, char separator)
{
    const char *at = text ? strchr(text, separator) : NULL;
    char *end;
    if (!at || at[1] < '0' || at[1] > '9') return -1;
    long long n = strtoll(at + 1, &end, 10);
    return *end ? -1 : n;
}

static void find_version(const struct lvn_location *location, const struct lvn_http_response *response,
                         char version[LVN_STORE_VERSION])
{
    if (location->store->version_header &&
        lvn_http_header_of_hops(response, location->store->version_header, version, LVN_STORE_VERSION))
        return;
    if (lvn_http_header(response, "ETag", version, LVN_STORE_VERSION)) return;
    if (!lvn_http_header(response, "Last-Modified", version, LVN_STORE_VERSION)) version[0] = '\0';
}

enum lvn_status lvn_store_request_stat(struct lvn_location *location, struct lvn_http *http, struct lvn_object *object)
{
    *object = (struct lvn_object){.bytes = -1};
    int64_t received = 0;
    struct lvn_store_request request = {.method = "GET",
                                        .headers = "Range: bytes=0-0\n",
                                        .on_data = on_one_byte,
                                        .context = &received,
                                        .action = "read",
                                        .accept = {404, 416}};
    struct lvn_http_response response = {0};
    char text[64] = ":", type[80];
    enum lvn_status status = lvn_store_request(location, http, &request, &response);
    if (status == LVN_OK && response.code != 404) {
        object->kind = LVN_STORE_FILE;
        object->ranges = response.code == 206;
        find_version(location, &response, object->version);
        if (response.code == 416)
            object->bytes = 0;
        else if (response.code == 206)
            object->bytes = number_after(lvn_http_header(&response, "Content-Range", text, sizeof text), '/');
        else
            object->bytes = number_after(
                lvn_http_header(&response, "Content-Length", text + 1, sizeof text - 1) ? text : NULL, ':');
        if (object->bytes < 0) object->ranges = false;
        const char *content = lvn_http_header(&response, "Content-Type", type, sizeof type);
        object->is_page = content && strncmp(content, "text/html", 9) == 0;
        if (location->store->parse_headers) location->store->parse_headers(&response, object);
    }
    object->unreached = status != LVN_OK && (!response.code || lvn_store_request_is_transient(&response));
    object->forbidden = status != LVN_OK && !object->unreached &&
                        (response.code == 403 || (!location->store->list && response.code / 100 == 4));
    lvn_http_response_release(&response);
    return status;
}

enum lvn_status lvn_store_request_fetch(struct lvn_location *location, struct lvn_http *http, int64_t limit,
                                        char **text, char version[LVN_STORE_VERSION])
{
    struct lvn_store_request request = {.method = "GET", .action = "read", .accept = {404}};
    struct lvn_http_response response = {0};
    *text = NULL;
    enum lvn_status status = lvn_store_request(location, http, &request, &response);
    if (status == LVN_OK && response.code != 404) {
        find_version(location, &response, version);
        status = lvn_text_status(&response.body);
        if (status == LVN_OK && response.body.n > limit)
            status = lvn_fail(LVN_FORMAT, "'%s' has %lld bytes, more than the %lld allowed for this kind of file",
                              location->url, (long long)response.body.n, (long long)limit);
        if (status == LVN_OK && !(*text = lvn_strdup(response.body.p ? response.body.p : ""))) status = LVN_MEMORY;
    }
    lvn_http_response_release(&response);
    return status;
}

/* --- a range of bytes --- */

struct piece {
    const struct lvn_location *location;
    const struct lvn_object *object;
    const struct lvn_http_response *response;
    bool (*on_data)(void *, const void *, int64_t);
    void *context;
    int64_t offset;    /* of the next byte to read */
    int64_t left;      /* bytes that remain to be read */
    int64_t skip;      /* bytes of this response that were delivered before */
    bool checked;      /* check_response() was called for this response */
    bool refused;      /* on_data() returned false */
    const char *error; /* why this response cannot be used; NULL: it can */
};

/* Check that the response is the requested range; called when its first bytes arrive. */
static void check_response(struct piece *p)
{
    char text[160];
    p->checked = true;
    find_version(p->location, p->response, text);
    if (p->object->version[0] && strcmp(text, p->object->version) != 0)
        p->error = "the file changed while it was read; try again";
    else if (p->object->ranges && !lvn_http_header(p->response, "Content-Range", text, sizeof text))
        p->error = "the server sent the whole file instead of the requested range";
    else if (p->object->ranges && strtoll(text + strcspn(text, "0123456789"), NULL, 10) != p->offset)
        p->error = "the server did not send the requested range";
}

static bool on_piece(void *context, const void *data, int64_t bytes)
{
    struct piece *p = context;
    const char *next = data;
    if (!p->checked) check_response(p);
    if (p->error) return false;
    if (p->skip > 0) {
        int64_t n = p->skip < bytes ? p->skip : bytes;
        next += n;
        bytes -= n;
        p->skip -= n;
    }
    int64_t n = bytes < p->left ? bytes : p->left;
    if (n > 0) {
        p->refused = !p->on_data(p->context, next, n);
        if (p->refused) return false;
        p->offset += n;
        p->left -= n;
    }
    return n == bytes; /* servers that ignore the end of the range send more */
}

enum lvn_status lvn_store_request_read(struct lvn_location *location, struct lvn_http *http,
                                       const struct lvn_object *object, int64_t offset, int64_t n,
                                       bool (*on_data)(void *, const void *, int64_t), void *context)
{
    struct lvn_http_response response = {0};
    struct piece piece = {.location = location,
                          .object = object,
                          .response = &response,
                          .on_data = on_data,
                          .context = context,
                          .offset = offset,
                          .left = n < 0 ? INT64_MAX : n};
    struct lvn_store_request request = {.method = "GET", .on_data = on_piece, .context = &piece, .action = "read"};
    enum lvn_status status = LVN_OK;
    char range[80];
    for (int tries = 1; piece.left > 0 && status == LVN_OK;) {
        int64_t before = piece.offset;
        piece.checked = false;
        piece.skip = object->ranges ? 0 : piece.offset;
        snprintf(range, sizeof range, "Range: bytes=%lld-%lld\n", (long long)piece.offset,
                 (long long)(piece.offset + piece.left - 1));
        request.headers = object->ranges ? range : NULL;
        status = lvn_store_request(location, http, &request, &response);
        if (status != LVN_OK || piece.left == 0) break;
        if (piece.error) status = lvn_fail(LVN_IO, "cannot read '%s': %s", location->url, piece.error);
        if (piece.refused) status = lvn_fail(LVN_STOPPED, "reading '%s' was stopped", location->url);
        if (response.outcome == LVN_HTTP_COMPLETE && n < 0) break;
        if (status != LVN_OK) break;
        tries = piece.offset > before ? 1 : tries + 1;
        if (lvn_store_request_pause(http, tries, &response)) continue;
        status =
            lvn_http_stopped(http)
                ? stopped(location)
                : lvn_fail(LVN_IO, "cannot read '%s': the server repeatedly closed the connection at byte %lld of %lld",
                           location->url, (long long)piece.offset, (long long)object->bytes);
    }
    lvn_http_response_release(&response);
    return status;
}

enum lvn_status lvn_store_request_once(struct lvn_location *location, struct lvn_http *http,
                                       const struct lvn_store_request *request)
{
    struct lvn_http_response response = {0};
    enum lvn_status status = lvn_store_request(location, http, request, &response);
    lvn_http_response_release(&response);
    return status;
}

enum lvn_status lvn_store_request_list(struct lvn_location *location, struct lvn_http *http, bool deep,
                                       struct lvn_arena *a, struct lvn_store_entries *out,
                                       const struct lvn_pages *pages)
{
    size_t n = strlen(location->key);
    const char *prefix =
        !n || location->key[n - 1] == '/' ? location->key : lvn_arena_printf(&location->arena, "%s/", location->key);
    struct lvn_text query = {0}, token = {0}, before = {0};
    struct lvn_http_response response = {0};
    enum lvn_status status = prefix ? LVN_OK : LVN_MEMORY;
    int64_t page = 1;
    do {
        lvn_text_clear(&query);
        if (token.n) lvn_text_printf(&query, "%s=", pages->token);
        if (token.n) lvn_http_encode(&query, token.p, false);
        lvn_text_printf(&query, "%s%s%sprefix=", token.n ? "&" : "", deep ? "" : "delimiter=%2F&", pages->query);
        if (prefix) lvn_http_encode(&query, prefix, false);
        if (status == LVN_OK) status = lvn_text_status(&query);
        struct lvn_store_request request = {.method = "GET", .key = pages->key, .query = query.p, .action = "list"};
        if (status == LVN_OK) status = lvn_store_request(location, http, &request, &response);
        const bool kept = !(page & (page - 1)); /* of pages 1, 2, 4, ...: so pages that repeat in any order are found */
        page++;
        lvn_text_release(kept ? &before : &token);
        if (kept) before = token;
        token = (struct lvn_text){0};
        if (status == LVN_OK) status = pages->add(location, &response, prefix, a, out, &token);
        if (status == LVN_OK && token.n && before.n && strcmp(token.p, before.p) == 0)
            status = lvn_fail(LVN_IO, "cannot list '%s': the server sends the same page again", location->url);
    } while (status == LVN_OK && token.n);
    lvn_http_response_release(&response);
    lvn_text_release(&before);
    lvn_text_release(&token);
    lvn_text_release(&query);
    return status;
}
