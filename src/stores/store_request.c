/* store_request.c - requests to stores with retries and error messages; see store_request.h.
 *
 * Transient errors are retried: a broken connection, 408, 429, 500, 502, 503, 504. The pauses double from 0.2 s to 10
 * s, with random jitter so that many ranks do not return at the same time; the server's Retry-After is obeyed up to a
 * minute. A refusal is retried, at most twice, if the store has got better credentials since. A read that made progress
 * does not count as a failed attempt. */
#include "stores/store_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEFAULT_TRIES = 8, TRIES_WITHOUT_HOST = 3, MAX_REFRESHES = 2, MAX_WAIT = 60 };

static int max_tries(void)
{
    const char *text = getenv("LEVIN_STORE_TRIES");
    long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < 1000 ? (int)n : DEFAULT_TRIES;
}

bool lvn_store_request_pause(const struct lvn_http *h, int tries, const struct lvn_http_response *a)
{
    if (tries >= max_tries()) return false;
    if (a->outcome == LVN_HTTP_NO_HOST && tries >= TRIES_WITHOUT_HOST) return false;
    double seconds = 0.2 * (double)(1 << (tries < 7 ? tries - 1 : 6));
    char after[16];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned chance = ((unsigned)now.tv_nsec >> 8 ^ (unsigned)getpid()) & 1023;
    seconds = (seconds < 10 ? seconds : 10) * (0.5 + chance / 2048.);
    if (lvn_http_header(a, "Retry-After", after, sizeof after)) {
        double wanted = strtod(after, NULL);
        if (wanted > seconds) seconds = wanted < MAX_WAIT ? wanted : MAX_WAIT;
    }
    for (; seconds > 0; seconds -= 0.05) {
        if (lvn_http_stopped(h)) return false;
        const struct timespec slice = {.tv_nsec = 50000000};
        nanosleep(&slice, NULL);
    }
    return !lvn_http_stopped(h);
}

bool lvn_store_request_is_transient(const struct lvn_http_response *a)
{
    if (a->outcome == LVN_HTTP_INTERRUPTED || a->outcome == LVN_HTTP_NO_HOST) return true;
    return a->outcome == LVN_HTTP_COMPLETE &&
           (a->code == 408 || a->code == 429 || a->code == 500 || a->code == 502 || a->code == 503 || a->code == 504);
}

static bool is_good(const struct lvn_location *p, const struct lvn_store_request *request,
                    const struct lvn_http_response *a)
{
    if (a->code >= 200 && a->code < 300) return true;
    for (int i = 0; i < LVN_STORE_ACCEPTS; i++) {
        if (!a->code || request->accept[i] != a->code) continue;
        return a->code != 404 || !p->store->is_missing_file || p->store->is_missing_file(a);
    }
    return false;
}

static const char *code_text(int code)
{
    if (code / 100 == 3) return "it is elsewhere";
    static const struct {
        int code;
        const char *text;
    } known[] = {{400, "bad request"},     {401, "sign-in needed"}, {403, "forbidden"},     {404, "not found"},
                 {405, "not allowed"},     {408, "too slow"},       {409, "conflict"},      {411, "length needed"},
                 {412, "changed"},         {413, "too large"},      {416, "no such range"}, {429, "too many requests"},
                 {500, "server error"},    {501, "not offered"},    {502, "bad gateway"},   {503, "overloaded"},
                 {504, "gateway too slow"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code) return known[i].text;
    return "unexpected";
}

enum lvn_status lvn_store_request_failed(const struct lvn_location *p, const struct lvn_store_request *request,
                                         const struct lvn_http_response *a)
{
    LVN_LOCAL_TEXT(t);
    if (a->outcome != LVN_HTTP_COMPLETE)
        lvn_text_printf(&t, "%s%s", a->reason,
                        a->outcome == LVN_HTTP_NO_HOST ? "; check the address, and this machine's network" : "");
    else
        lvn_text_printf(&t, "the server answered %d (%s)", a->code, code_text(a->code));
    char to[512];
    if (a->outcome == LVN_HTTP_COMPLETE && a->code / 100 == 3 && lvn_http_header(a, "Location", to, sizeof to))
        lvn_text_printf(&t, ", at '%.200s', where signed requests are not sent on to", to);
    if (a->outcome == LVN_HTTP_COMPLETE && p->store->explain) p->store->explain(p, a, &t);
    const char *text = lvn_text_string(&t);
    lvn_fail(LVN_IO, "cannot %s '%s': %s", request->action, p->url, text ? text : "");
    return LVN_IO;
}

static enum lvn_status stopped(const struct lvn_location *p)
{
    LVN_FAIL(STOPPED, "the transfer of '%s' was stopped", p->url);
}

static enum lvn_status send_once(struct lvn_location *p, struct lvn_http *h, const struct lvn_store_request *request,
                                 struct lvn_http_response *a)
{
    LVN_LOCAL_ARENA(arena);
    struct lvn_http_request r = {.method = request->method,
                                 .body = request->body,
                                 .bytes = request->bytes,
                                 .no_body = !request->body && strcmp(request->method, "PUT") &&
                                            strcmp(request->method, "POST"),
                                 .follow = p->store->follows,
                                 .on_data = request->on_data,
                                 .context = request->context};
    enum lvn_status status = p->store->address(p, request, &arena, &r);
    if (status == LVN_OK) status = lvn_http_send(h, &r, a);
    return status;
}

enum lvn_status lvn_store_request(struct lvn_location *p, struct lvn_http *h, const struct lvn_store_request *request,
                                  struct lvn_http_response *a)
{
    int refreshes = 0;
    for (int tries = 1;; tries++) {
        LVN_TRY(send_once(p, h, request, a));
        if (a->outcome == LVN_HTTP_STOPPED) return stopped(p);
        if (a->outcome == LVN_HTTP_REFUSED || (a->outcome == LVN_HTTP_INTERRUPTED && a->delivered > 0)) return LVN_OK;
        if (a->outcome == LVN_HTTP_COMPLETE && is_good(p, request, a)) return LVN_OK;
        if (a->outcome == LVN_HTTP_COMPLETE && refreshes < MAX_REFRESHES && p->store->refresh_credentials &&
            p->store->refresh_credentials(p, a)) {
            refreshes++;
            tries--;
            continue;
        }
        bool may_pass = lvn_store_request_is_transient(a);
        if (may_pass && request->no_retry) return LVN_OK;
        if (may_pass && lvn_store_request_pause(h, tries, a)) continue;
        if (lvn_http_stopped(h)) return stopped(p);
        lvn_store_request_failed(p, request, a);
        return may_pass && tries > 1 ? lvn_while_at(LVN_IO, "trying %d times", tries) : LVN_IO;
    }
}

/* --- metadata of a file --- */

/* Stops after one byte: servers without range support would send the whole file. */
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

static void find_version(const struct lvn_location *p, const struct lvn_http_response *a,
                         char version[LVN_STORE_VERSION])
{
    if (p->store->version_header && lvn_http_header(a, p->store->version_header, version, LVN_STORE_VERSION)) return;
    if (lvn_http_header(a, "ETag", version, LVN_STORE_VERSION)) return;
    if (!lvn_http_header(a, "Last-Modified", version, LVN_STORE_VERSION)) version[0] = '\0';
}

enum lvn_status lvn_store_request_stat(struct lvn_location *p, struct lvn_http *h, struct lvn_object *o)
{
    *o = (struct lvn_object){.bytes = -1};
    int64_t taken = 0;
    struct lvn_store_request request = {.method = "GET",
                                        .headers = "Range: bytes=0-0\n",
                                        .on_data = on_one_byte,
                                        .context = &taken,
                                        .action = "read",
                                        .accept = {404, 416}};
    struct lvn_http_response a = {0};
    char text[64] = ":";
    enum lvn_status status = lvn_store_request(p, h, &request, &a);
    if (status == LVN_OK && a.code != 404) {
        o->kind = LVN_STORE_FILE;
        o->ranges = a.code == 206;
        find_version(p, &a, o->version);
        if (a.code == 416)
            o->bytes = 0;
        else if (a.code == 206)
            o->bytes = number_after(lvn_http_header(&a, "Content-Range", text, sizeof text), '/');
        else
            o->bytes =
                number_after(lvn_http_header(&a, "Content-Length", text + 1, sizeof text - 1) ? text : NULL, ':');
        if (o->bytes < 0) o->ranges = false;
        if (p->store->parse_headers) p->store->parse_headers(&a, o);
    }
    lvn_http_response_release(&a);
    return status;
}

enum lvn_status lvn_store_request_fetch(struct lvn_location *p, struct lvn_http *h, int64_t limit, char **text,
                                        char version[LVN_STORE_VERSION])
{
    struct lvn_store_request request = {.method = "GET", .action = "read", .accept = {404}};
    struct lvn_http_response a = {0};
    *text = NULL;
    enum lvn_status status = lvn_store_request(p, h, &request, &a);
    if (status == LVN_OK && a.code != 404) {
        find_version(p, &a, version);
        status = lvn_text_status(&a.body);
        if (status == LVN_OK && a.body.n > limit)
            status = lvn_fail(LVN_FORMAT, "'%s' has %lld bytes, too many for what it should be", p->url,
                              (long long)a.body.n);
        if (status == LVN_OK && !(*text = lvn_strdup(a.body.p ? a.body.p : ""))) status = LVN_MEMORY;
    }
    lvn_http_response_release(&a);
    return status;
}

/* --- a range of bytes --- */

struct piece {
    const struct lvn_location *location;
    const struct lvn_object *o;
    const struct lvn_http_response *response;
    bool (*on_data)(void *, const void *, int64_t);
    void *context;
    int64_t offset;    /* of the next byte to read */
    int64_t left;      /* bytes that remain to be read */
    int64_t skip;      /* bytes of this response that were delivered before */
    bool checked;      /* check_response() was called for this response */
    bool refused;      /* on_data() returned false */
    const char *wrong; /* reason why this response is not usable; NULL: it is */
};

/* Is this response the requested range? Checked when its first bytes arrive. */
static void check_response(struct piece *p)
{
    char text[160];
    p->checked = true;
    find_version(p->location, p->response, text);
    if (p->o->version[0] && strcmp(text, p->o->version) != 0)
        p->wrong = "the file changed while it was read; try again";
    else if (p->o->ranges && !lvn_http_header(p->response, "Content-Range", text, sizeof text))
        p->wrong = "the server sent all of the file instead of the part that was requested";
    else if (p->o->ranges && strtoll(text + strcspn(text, "0123456789"), NULL, 10) != p->offset)
        p->wrong = "the server sent another part than was requested";
}

static bool on_piece(void *context, const void *data, int64_t bytes)
{
    struct piece *p = context;
    const char *next = data;
    if (!p->checked) check_response(p);
    if (p->wrong) return false;
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

enum lvn_status lvn_store_request_read(struct lvn_location *p, struct lvn_http *h, const struct lvn_object *o,
                                       int64_t offset, int64_t n, bool (*on_data)(void *, const void *, int64_t),
                                       void *context)
{
    struct lvn_http_response a = {0};
    struct piece piece = {.location = p,
                          .o = o,
                          .response = &a,
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
        piece.skip = o->ranges ? 0 : piece.offset;
        snprintf(range, sizeof range, "Range: bytes=%lld-%lld\n", (long long)piece.offset,
                 (long long)(piece.offset + piece.left - 1));
        request.headers = o->ranges ? range : NULL;
        status = lvn_store_request(p, h, &request, &a);
        if (status != LVN_OK || piece.left == 0) break;
        if (piece.wrong) status = lvn_fail(LVN_IO, "cannot read '%s': %s", p->url, piece.wrong);
        if (piece.refused) status = lvn_fail(LVN_STOPPED, "the reading of '%s' was stopped", p->url);
        if (a.outcome == LVN_HTTP_COMPLETE && n < 0) break;
        if (status != LVN_OK) break;
        tries = piece.offset > before ? 1 : tries + 1;
        if (lvn_store_request_pause(h, tries, &a)) continue;
        status = lvn_http_stopped(h)
                     ? stopped(p)
                     : lvn_fail(LVN_IO, "cannot read '%s': the server ended at byte %lld of %lld, again and again",
                                p->url, (long long)piece.offset, (long long)o->bytes);
    }
    lvn_http_response_release(&a);
    return status;
}

enum lvn_status lvn_store_request_once(struct lvn_location *p, struct lvn_http *h,
                                       const struct lvn_store_request *request)
{
    struct lvn_http_response a = {0};
    enum lvn_status status = lvn_store_request(p, h, request, &a);
    lvn_http_response_release(&a);
    return status;
}

enum lvn_status lvn_store_request_list(struct lvn_location *p, struct lvn_http *h, bool deep, struct lvn_arena *a,
                                       struct lvn_store_entries *out, const struct lvn_pages *pages)
{
    size_t n = strlen(p->key);
    const char *prefix = !n || p->key[n - 1] == '/' ? p->key : lvn_arena_printf(&p->arena, "%s/", p->key);
    struct lvn_text query = {0}, token = {0};
    struct lvn_http_response response = {0};
    enum lvn_status status = prefix ? LVN_OK : LVN_MEMORY;
    int capacity = 0;
    do {
        lvn_text_clear(&query);
        if (token.n) lvn_text_printf(&query, "%s=", pages->token);
        if (token.n) lvn_http_encode(&query, token.p, false);
        lvn_text_printf(&query, "%s%s%sprefix=", token.n ? "&" : "", deep ? "" : "delimiter=%2F&", pages->query);
        if (prefix) lvn_http_encode(&query, prefix, false);
        if (status == LVN_OK) status = lvn_text_status(&query);
        struct lvn_store_request request = {.method = "GET", .key = pages->key, .query = query.p, .action = "list"};
        if (status == LVN_OK) status = lvn_store_request(p, h, &request, &response);
        lvn_text_clear(&token);
        if (status == LVN_OK) status = pages->add(p, &response, prefix, a, &capacity, out, &token);
    } while (status == LVN_OK && token.n);
    lvn_http_response_release(&response);
    lvn_text_release(&token);
    lvn_text_release(&query);
    return status;
}
