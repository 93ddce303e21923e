/* http.c - see http.h: the binding to libcurl. */
#include "stores/http.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/getenv.h"
#include "base/work.h"
#include "host/library.h"

/* Part of libcurl's documented ABI: option numbers are 0 (long), 10000 (pointer), 20000 (function), 30000 (off_t) +
 * n. */
enum {
    OPT_WRITEDATA = 10001,
    OPT_URL = 10002,
    OPT_ERRORBUFFER = 10010,
    OPT_POSTFIELDS = 10015,
    OPT_USERAGENT = 10018,
    OPT_HTTPHEADER = 10023,
    OPT_HEADERDATA = 10029,
    OPT_CUSTOMREQUEST = 10036,
    OPT_XFERINFODATA = 10057,
    OPT_CAINFO = 10065,
    OPT_CAPATH = 10097,
    OPT_WRITEFUNCTION = 20011,
    OPT_HEADERFUNCTION = 20079,
    OPT_XFERINFOFUNCTION = 20219,
    OPT_POSTFIELDSIZE_LARGE = 30120,
    OPT_TIMEOUT = 13,
    OPT_LOW_SPEED_LIMIT = 19,
    OPT_LOW_SPEED_TIME = 20,
    OPT_NOPROGRESS = 43,
    OPT_NOBODY = 44,
    OPT_CONNECTTIMEOUT = 78,
    OPT_HTTPGET = 80,
    OPT_BUFFERSIZE = 98,
    OPT_FRESH_CONNECT = 74,
    OPT_NOSIGNAL = 99,
    OPT_PROTOCOLS = 181,
    OPT_PATH_AS_IS = 234,
    OPT_UPLOAD_BUFFERSIZE = 280,
};
enum { HTTP_AND_HTTPS = 3, INFO_RESPONSE_CODE = 0x200002, INFO_REDIRECT_URL = 0x100000 + 31, GLOBAL_ALL = 3 };
/* Result codes. */
enum {
    NO_PROXY_HOST = 5,
    NO_HOST = 6,
    NO_CONNECTION = 7,
    HTTP2 = 16,
    PARTIAL_FILE = 18,
    WRITE_ERROR = 23,
    TIMED_OUT = 28,
    NO_TLS = 35, /* the handshake failed */
    ABORTED_BY_CALLBACK = 42,
    GOT_NOTHING = 52,
    SEND_ERROR = 55,
    RECV_ERROR = 56,
    HTTP2_STREAM = 92,
};
enum { BUFFER_BYTES = 512 << 10, SILENT_SECONDS = 60, MAX_HOPS = 10 };

#define FUNCTIONS(F)                                                                                                   \
    F(int, global_init, (long), "curl_global_init")                                                                    \
    F(void *, init, (void), "curl_easy_init")                                                                          \
    F(int, setopt, (void *, int, ...), "curl_easy_setopt")                                                             \
    F(int, getinfo, (void *, int, ...), "curl_easy_getinfo")                                                           \
    F(int, perform, (void *), "curl_easy_perform")                                                                     \
    F(void, reset, (void *), "curl_easy_reset")                                                                        \
    F(void, cleanup, (void *), "curl_easy_cleanup")                                                                    \
    F(const char *, strerror, (int), "curl_easy_strerror")                                                             \
    F(void *, slist_append, (void *, const char *), "curl_slist_append")                                               \
    F(void, slist_free, (void *), "curl_slist_free_all")                                                               \
    F(const char *, version, (void), "curl_version")

static struct {
    FUNCTIONS(LVN_LIBRARY_POINTER)
} curl;

static bool start(void)
{
    return curl.global_init(GLOBAL_ALL) == 0;
}

static const char *version(void) /* without the versions of its dependencies */
{
    static char text[64];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(curl.version(), " "), curl.version());
    return text;
}

struct lvn_library lvn_library_curl = {
    .name = "libcurl",
    .files = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4", "libcurl.4.dylib"},
    .use = "reading and writing stores (s3://, gs://, hf://, https://)",
    .hint = "install it (apt install libcurl4), or copy the files yourself",
    .symbols = (const char *const[]){FUNCTIONS(LVN_LIBRARY_SYMBOL) NULL},
    .functions = &curl,
    .start = start,
    .version = version};

struct lvn_http {
    void *handle;
    const int *flag;
    bool (*may_continue)(void *context); /* see lvn_http_stop_unless() */
    void *may_continue_context;
    const struct lvn_http_request *request;
    struct lvn_http_response *response;
    bool stopped, refused;
    int64_t moved; /* bytes transferred by this request, in both directions */
};

enum lvn_status lvn_http_open(struct lvn_http **out)
{
    *out = NULL;
    LVN_TRY(lvn_library_open(&lvn_library_curl));
    struct lvn_http *http = lvn_calloc(1, sizeof *http);
    if (!http) return LVN_MEMORY;
    http->handle = curl.init();
    if (!http->handle) {
        free(http);
        LVN_FAIL(MEMORY, "libcurl could not be initialized");
    }
    *out = http;
    return LVN_OK;
}

void lvn_http_close(struct lvn_http *http)
{
    if (!http) return;
    curl.cleanup(http->handle);
    free(http);
}

void lvn_http_stop_on(struct lvn_http *http, const int *flag)
{
    http->flag = flag;
}

void lvn_http_stop_unless(struct lvn_http *http, bool (*may_continue)(void *context), void *context)
{
    http->may_continue = may_continue;
    http->may_continue_context = context;
}

bool lvn_http_stopped(const struct lvn_http *http)
{
    if ((http->may_continue && !http->may_continue(http->may_continue_context)) || lvn_interrupt_check() != LVN_OK)
        return true;
    return http->flag && __atomic_load_n(http->flag, __ATOMIC_RELAXED) != 0;
}

void lvn_http_response_release(struct lvn_http_response *response)
{
    lvn_text_release(&response->headers);
    lvn_text_release(&response->body);
}

/* --- callbacks of libcurl --- */

static size_t on_header(char *data, size_t size, size_t count, void *context)
{
    struct lvn_http *http = context;
    lvn_text_add_bytes(&http->response->headers, data, (int64_t)(size * count));
    return size * count;
}

static size_t on_body(char *data, size_t size, size_t count, void *context)
{
    struct lvn_http *http = context;
    struct lvn_http_response *response = http->response;
    int64_t bytes = (int64_t)(size * count);
    long code = 0;
    curl.getinfo(http->handle, INFO_RESPONSE_CODE, &code);
    if (http->request->on_data && (code == 200 || code == 206)) {
        http->refused = !http->request->on_data(http->request->context, data, bytes);
        if (!http->refused) response->delivered += bytes;
        return http->refused ? 0 : (size_t)bytes;
    }
    if (response->body.n + bytes > LVN_HTTP_MAX_BODY) return 0;
    lvn_text_add_bytes(&response->body, data, bytes);
    return response->body.failed ? 0 : (size_t)bytes;
}

static int on_progress(void *context, int64_t total, int64_t now, int64_t up_total, int64_t up_now)
{
    (void)total, (void)up_total;
    struct lvn_http *http = context;
    if (now + up_now != http->moved) lvn_work_done(1);
    http->moved = now + up_now;
    http->stopped = lvn_http_stopped(http);
    return http->stopped;
}

/* --- one request --- */

static enum lvn_http_outcome outcome_of(int result, const struct lvn_http *http)
{
    switch (result) {
    case 0:
        return LVN_HTTP_COMPLETE;
    case PARTIAL_FILE:
    case TIMED_OUT:
    case GOT_NOTHING:
    case SEND_ERROR:
    case RECV_ERROR:
    case HTTP2:
    case HTTP2_STREAM:
        return LVN_HTTP_INTERRUPTED;
    case NO_PROXY_HOST:
    case NO_HOST:
    case NO_CONNECTION:
    case NO_TLS:
        return LVN_HTTP_NO_HOST;
    case WRITE_ERROR:
        return http->refused ? LVN_HTTP_REFUSED : LVN_HTTP_FAILED;
    case ABORTED_BY_CALLBACK:
        return http->stopped ? LVN_HTTP_STOPPED : LVN_HTTP_FAILED;
    default:
        return LVN_HTTP_FAILED;
    }
}

/* The header lines as libcurl's list, without credentials for another host than the first. "Expect:" disables its
 * wait for "100 Continue" before each body, "Content-Type:" its default of a form. */
static void *header_list(const char *lines, bool other_origin)
{
    LVN_LOCAL_TEXT(line);
    void *list = curl.slist_append(NULL, "Expect:");
    if (list && !(lines && strcasestr(lines, "content-type:"))) list = curl.slist_append(list, "Content-Type:");
    for (const char *end; list && lines && *lines; lines = *end ? end + 1 : end) {
        end = strchrnul(lines, '\n');
        const bool secret =
            strncasecmp(lines, "authorization:", 14) == 0 || strncasecmp(lines, "x-amz-security-token:", 21) == 0;
        if (other_origin && secret) continue;
        lvn_text_clear(&line);
        lvn_text_add_bytes(&line, lines, end - lines);
        const char *text = lvn_text_string(&line);
        void *longer = text ? curl.slist_append(list, text) : NULL;
        if (!longer) curl.slist_free(list);
        list = longer;
    }
    return list;
}

static void set_method(struct lvn_http *http, const struct lvn_http_request *request)
{
    bool head = strcmp(request->method, "HEAD") == 0, get = strcmp(request->method, "GET") == 0;
    if (head) curl.setopt(http->handle, OPT_NOBODY, 1L);
    if (get) curl.setopt(http->handle, OPT_HTTPGET, 1L);
    if (!head && !request->no_body) {
        curl.setopt(http->handle, OPT_POSTFIELDS, request->body ? request->body : "");
        curl.setopt(http->handle, OPT_POSTFIELDSIZE_LARGE, request->bytes);
    }
    if (!head && !get) curl.setopt(http->handle, OPT_CUSTOMREQUEST, request->method);
}

/* The certificate authorities, from variables that libcurl does not read: curl's own, a file, and that of Python's
 * requests, a file or a folder. */
static void set_authorities(void *handle, const struct lvn_http_request *request)
{
    const char *file = request->authorities, *python = lvn_getenv("REQUESTS_CA_BUNDLE");
    if (!file) file = lvn_getenv("CURL_CA_BUNDLE");
    if (!file) file = lvn_getenv("SSL_CERT_FILE");
    if (!file && python && lvn_path_is_file(python)) file = python;
    if (file)
        curl.setopt(handle, OPT_CAINFO, file);
    else if (python && lvn_path_is_dir(python))
        curl.setopt(handle, OPT_CAPATH, python);
}

static void set_options(struct lvn_http *http, const struct lvn_http_request *request, void *headers, char *error)
{
    void *handle = http->handle;
    curl.reset(handle); /* keeps connections open */
    curl.setopt(handle, OPT_ERRORBUFFER, error);
    curl.setopt(handle, OPT_URL, request->url);
    curl.setopt(handle, OPT_PATH_AS_IS, 1L);
    curl.setopt(handle, OPT_USERAGENT, "levin/" LVN_VERSION);
    curl.setopt(handle, OPT_HTTPHEADER, headers);
    curl.setopt(handle, OPT_HEADERFUNCTION, on_header);
    curl.setopt(handle, OPT_HEADERDATA, http);
    curl.setopt(handle, OPT_WRITEFUNCTION, on_body);
    curl.setopt(handle, OPT_WRITEDATA, http);
    curl.setopt(handle, OPT_XFERINFOFUNCTION, on_progress);
    curl.setopt(handle, OPT_XFERINFODATA, http);
    curl.setopt(handle, OPT_NOPROGRESS, 0L);
    curl.setopt(handle, OPT_PROTOCOLS, (long)HTTP_AND_HTTPS);
    set_authorities(handle, request);
    curl.setopt(handle, OPT_NOSIGNAL, 1L);
    curl.setopt(handle, OPT_FRESH_CONNECT, (long)request->fresh);
    curl.setopt(handle, OPT_CONNECTTIMEOUT, request->connect_seconds ? (long)request->connect_seconds : 30L);
    curl.setopt(handle, OPT_TIMEOUT, (long)request->whole_seconds);
    curl.setopt(handle, OPT_LOW_SPEED_LIMIT, 1L); /* a silent connection ends after a minute */
    curl.setopt(handle, OPT_LOW_SPEED_TIME, (long)SILENT_SECONDS);
    curl.setopt(handle, OPT_BUFFERSIZE, (long)BUFFER_BYTES);
    curl.setopt(handle, OPT_UPLOAD_BUFFERSIZE, (long)BUFFER_BYTES);
    set_method(http, request);
}

/* --- redirects: followed here, because old versions of libcurl send every header to every host --- */

/* Scheme and HOST:PORT of a URL, without a user; returns the length of HOST:PORT. */
static int origin(const char *url, const char **scheme, const char **host)
{
    const char *at = strstr(url, "://"), *user;
    *scheme = url;
    *host = at ? at + 3 : url;
    size_t n = strcspn(*host, "/?#");
    while ((user = memchr(*host, '@', n))) n -= (size_t)(user + 1 - *host), *host = user + 1;
    return (int)n;
}

static bool same_origin(const char *a, const char *b)
{
    const char *scheme[2], *host[2];
    int n = origin(a, &scheme[0], &host[0]), m = origin(b, &scheme[1], &host[1]);
    size_t s = strcspn(scheme[0], ":") + 1;
    return n == m && strncasecmp(host[0], host[1], (size_t)n) == 0 && strncasecmp(scheme[0], scheme[1], s) == 0;
}

/* The URL to which the response redirects, in `next`; NULL: none, or not followed, with the reason in the response. */
static const char *next_hop(struct lvn_http *http, const char *url, struct lvn_text *next, int hops)
{
    struct lvn_http_response *response = http->response;
    const char *to = NULL;
    curl.getinfo(http->handle, INFO_REDIRECT_URL, &to);
    if (!to || response->outcome != LVN_HTTP_COMPLETE || !http->request->follow) return NULL;
    bool safe = strncasecmp(to, "https://", 8) == 0 ||
                (strncasecmp(to, "http://", 7) == 0 && strncasecmp(url, "https://", 8) != 0);
    if (safe && hops < MAX_HOPS) {
        struct lvn_text copy = {0};
        lvn_text_add(&copy, to);
        lvn_text_release(next);
        *next = copy;
        return lvn_text_string(next);
    }
    response->outcome = LVN_HTTP_FAILED;
    if (safe)
        snprintf(response->reason, sizeof response->reason, "it redirects more than %d times", MAX_HOPS);
    else
        snprintf(response->reason, sizeof response->reason,
                 "it redirects to '%.120s', but from https levin follows only https", to);
    return NULL;
}

/* One request to `url`: the original URL or that of a redirect. */
static enum lvn_status hop(struct lvn_http *http, const char *url)
{
    struct lvn_http_response *response = http->response;
    struct lvn_http_request request = *http->request;
    char error[256] = ""; /* libcurl's CURL_ERROR_SIZE */
    void *headers = header_list(request.headers, !same_origin(request.url, url));
    LVN_CHECK(headers, MEMORY, "not enough memory for a request");
    request.url = url;
    lvn_text_clear(&response->body);
    set_options(http, &request, headers, error);
    int result = curl.perform(http->handle);
    long code = 0;
    curl.getinfo(http->handle, INFO_RESPONSE_CODE, &code);
    response->code = (int)code;
    response->outcome = outcome_of(result, http);
    snprintf(response->reason, sizeof response->reason, "%s", error[0] ? error : curl.strerror(result));
    curl.setopt(http->handle, OPT_ERRORBUFFER, NULL);
    curl.slist_free(headers);
    LVN_TRY(lvn_text_status(&response->headers));
    return lvn_text_status(&response->body);
}

enum lvn_status lvn_http_send(struct lvn_http *http, const struct lvn_http_request *request,
                              struct lvn_http_response *response)
{
    LVN_LOCAL_TEXT(next);
    lvn_text_clear(&response->headers);
    response->delivered = 0;
    http->request = request;
    http->response = response;
    http->stopped = http->refused = false;
    enum lvn_status status = LVN_OK;
    const char *url = request->url;
    for (int hops = 0; url && status == LVN_OK; hops++) {
        status = hop(http, url);
        if (status == LVN_OK) url = next_hop(http, url, &next, hops);
    }
    if (status == LVN_OK) status = lvn_text_status(&next);
    return status;
}

/* The last header of that name in the lines. */
static const char *find_header(const char *lines, const char *name, char *value, int capacity)
{
    const char *found = NULL;
    size_t n = strlen(name);
    for (const char *line = lines, *end; line && *line; line = *end ? end + 1 : end) {
        end = strchrnul(line, '\n');
        if (strncasecmp(line, name, n) != 0 || line[n] != ':') continue;
        const char *from = line + n + 1, *to = end;
        while (from < to && (*from == ' ' || *from == '\t')) from++;
        while (to > from && (to[-1] == '\r' || to[-1] == ' ')) to--;
        if (to - from >= capacity) continue;
        found = value;
        snprintf(value, (size_t)capacity, "%.*s", (int)(to - from), from);
    }
    return found;
}

const char *lvn_http_header(const struct lvn_http_response *response, const char *name, char *value, int capacity)
{
    const char *last = response->headers.p; /* a response begins with a line such as "HTTP/1.1 200 OK" */
    for (const char *line = last; line && (line = strchr(line, '\n'));)
        if (strncmp(++line, "HTTP/", 5) == 0) last = line;
    return find_header(last, name, value, capacity);
}

const char *lvn_http_header_of_hops(const struct lvn_http_response *response, const char *name, char *value,
                                    int capacity)
{
    return find_header(response->headers.p, name, value, capacity);
}

void lvn_http_encode(struct lvn_text *t, const char *text, bool slashes)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (letter || strchr("-._~", *p) || (slashes && *p == '/'))
            lvn_text_add_bytes(t, p, 1);
        else
            lvn_text_printf(t, "%%%02X", *p);
    }
}
