/* curl.c - the binding to libcurl by dlopen. The library stays loaded: TLS libraries do not like to be unloaded. */
#include "io/curl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* From libcurl's documented ABI: option numbers are 0 (long), 10000 (pointer), 20000 (function), 30000 (off_t) + n. */
enum {
    OPT_WRITEDATA = 10001,
    OPT_URL = 10002,
    OPT_ERRORBUFFER = 10010,
    OPT_USERAGENT = 10018,
    OPT_XFERINFODATA = 10057,
    OPT_WRITEFUNCTION = 20011,
    OPT_XFERINFOFUNCTION = 20219,
    OPT_RESUME_FROM_LARGE = 30116,
    OPT_LOW_SPEED_LIMIT = 19,
    OPT_LOW_SPEED_TIME = 20,
    OPT_NOPROGRESS = 43,
    OPT_FAILONERROR = 45,
    OPT_FOLLOWLOCATION = 52,
    OPT_MAXREDIRS = 68,
    OPT_CONNECTTIMEOUT = 78,
    OPT_NOSIGNAL = 99,
    OPT_PROTOCOLS = 181,
    OPT_REDIR_PROTOCOLS = 182,
};
enum { HTTP_AND_HTTPS = 3 };
/* Results. */
enum {
    PARTIAL_FILE = 18,
    WRITE_ERROR = 23,
    TIMED_OUT = 28,
    RANGE_ERROR = 33,
    BAD_DOWNLOAD_RESUME = 36,
    ABORTED_BY_CALLBACK = 42,
    GOT_NOTHING = 52,
    RECV_ERROR = 56,
};

static struct {
    void *library;
    void *(*init)(void);
    int (*setopt)(void *, int, ...);
    int (*perform)(void *);
    void (*cleanup)(void *);
    const char *(*strerror)(int);
} curl;

static bool load_symbol(const char *name, void *function)
{
    void *p = dlsym(curl.library, name);
    memcpy(function, &p, sizeof p); /* POSIX: a function pointer is a pointer */
    return p != NULL;
}

static enum lvn_status load(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4", "libcurl.4.dylib"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !curl.library; i++)
        curl.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    bool good = curl.library && load_symbol("curl_easy_init", &curl.init) &&
                load_symbol("curl_easy_setopt", &curl.setopt) && load_symbol("curl_easy_perform", &curl.perform) &&
                load_symbol("curl_easy_cleanup", &curl.cleanup) && load_symbol("curl_easy_strerror", &curl.strerror);
    LVN_CHECK(good, UNSUPPORTED, "downloads need libcurl (libcurl.so.4), which is not on this machine");
    return LVN_OK;
}

struct transfer {
    const struct lvn_curl_request *request;
    bool stopped;
};

static size_t take(char *data, size_t size, size_t count, void *context)
{
    struct transfer *t = context;
    size_t bytes = size * count;
    return t->request->take(t->request->context, data, (int64_t)bytes) ? bytes : bytes + 1;
}

static int info(void *context, int64_t total, int64_t now, int64_t up_total, int64_t up_now)
{
    (void)up_total, (void)up_now;
    struct transfer *t = context;
    int64_t from = t->request->from;
    t->stopped = t->request->progress(t->request->progress_context, from + now, total > 0 ? from + total : 0) != 0;
    return t->stopped;
}

static enum lvn_curl_end end_of(int result, const struct transfer *t)
{
    switch (result) {
    case 0:
        return LVN_CURL_WHOLE;
    case PARTIAL_FILE:
    case TIMED_OUT:
    case GOT_NOTHING:
    case RECV_ERROR:
        return LVN_CURL_CUT;
    case RANGE_ERROR:
    case BAD_DOWNLOAD_RESUME:
        return LVN_CURL_NO_RANGE;
    case WRITE_ERROR:
        return LVN_CURL_REFUSED;
    case ABORTED_BY_CALLBACK:
        return t->stopped ? LVN_CURL_STOPPED : LVN_CURL_FAILED;
    default:
        return LVN_CURL_FAILED;
    }
}

enum lvn_status lvn_curl_get(const struct lvn_curl_request *r, enum lvn_curl_end *end, char text[LVN_CURL_TEXT])
{
    *end = LVN_CURL_FAILED;
    LVN_TRY(load());
    void *handle = curl.init();
    LVN_CHECK(handle, MEMORY, "libcurl could not be started");
    struct transfer t = {.request = r};
    char error[256] = ""; /* libcurl's CURL_ERROR_SIZE */
    curl.setopt(handle, OPT_URL, r->url);
    curl.setopt(handle, OPT_ERRORBUFFER, error);
    curl.setopt(handle, OPT_USERAGENT, "levin/" LVN_VERSION);
    curl.setopt(handle, OPT_WRITEFUNCTION, take);
    curl.setopt(handle, OPT_WRITEDATA, &t);
    curl.setopt(handle, OPT_RESUME_FROM_LARGE, r->from);
    curl.setopt(handle, OPT_FAILONERROR, 1L);
    curl.setopt(handle, OPT_FOLLOWLOCATION, 1L);
    curl.setopt(handle, OPT_MAXREDIRS, 10L);
    curl.setopt(handle, OPT_PROTOCOLS, (long)HTTP_AND_HTTPS);
    curl.setopt(handle, OPT_REDIR_PROTOCOLS, (long)HTTP_AND_HTTPS);
    curl.setopt(handle, OPT_NOSIGNAL, 1L);
    curl.setopt(handle, OPT_CONNECTTIMEOUT, 30L);
    curl.setopt(handle, OPT_LOW_SPEED_LIMIT, 1L); /* a dead connection ends after a minute */
    curl.setopt(handle, OPT_LOW_SPEED_TIME, 60L);
    if (r->progress) {
        curl.setopt(handle, OPT_XFERINFOFUNCTION, info);
        curl.setopt(handle, OPT_XFERINFODATA, &t);
        curl.setopt(handle, OPT_NOPROGRESS, 0L);
    }
    int result = curl.perform(handle);
    *end = end_of(result, &t);
    snprintf(text, LVN_CURL_TEXT, "%s", error[0] ? error : curl.strerror(result));
    curl.cleanup(handle);
    return LVN_OK;
}
