/* http.h - HTTP and HTTPS requests through libcurl, which is loaded on first use. All stores on a network use it.
 *
 * libcurl's interface has been stable since 7.16 (soname 4), and the few constants that http.c uses are part of its
 * ABI, so not even its header is needed to build. A client keeps its connection open between requests; one thread uses
 * it at a time. Any response of a server is a success here; the caller interprets the status code. Certificates are
 * verified against the system's authorities, or against the file in CURL_CA_BUNDLE, SSL_CERT_FILE or
 * REQUESTS_CA_BUNDLE. */
#ifndef LVN_HTTP_H
#define LVN_HTTP_H

#include "base/text.h"

struct lvn_http;
/* LVN_UNSUPPORTED if libcurl is missing. */
enum lvn_status lvn_http_open(struct lvn_http **out) LVN_CHECKED;
void lvn_http_close(struct lvn_http *http);
/* A running request ends with LVN_HTTP_STOPPED soon after *flag (atomic) becomes non-zero. NULL: never. */
void lvn_http_stop_on(struct lvn_http *http, const int *flag);
/* The same as soon as may_continue(context), which any thread may call, is false. */
void lvn_http_stop_unless(struct lvn_http *http, bool (*may_continue)(void *context), void *context);
bool lvn_http_stopped(const struct lvn_http *http);

struct lvn_http_request {
    const char *method, *url;
    const char *headers;     /* lines "Name: value\n"; NULL: none */
    const char *authorities; /* file of certificate authorities that replaces the others; NULL: none */
    const void *body;
    int64_t bytes; /* length of the body */
    bool no_body;  /* no body is sent (GET, HEAD, DELETE) */
    bool fresh;    /* use a new connection: libcurl sends a request again if an old one turns out to be closed */
    bool follow;   /* follow redirects, but not from https to http; Authorization is sent to the first host only */
    int connect_seconds; /* 0: 30 */
    int whole_seconds;   /* limit for the whole request; 0: none while data arrives */
    /* Receive the body of a 200 or 206 response as it arrives; false ends the request. NULL, and for other codes: the
     * body goes to the response. */
    bool (*on_data)(void *context, const void *data, int64_t bytes);
    void *context;
};

enum lvn_http_outcome {
    LVN_HTTP_COMPLETE,
    LVN_HTTP_INTERRUPTED, /* the connection broke or fell silent before the end of the response */
    LVN_HTTP_NO_HOST,     /* no such host, or no connection to it */
    LVN_HTTP_STOPPED,     /* see lvn_http_stop_on() */
    LVN_HTTP_REFUSED,     /* on_data() returned false */
    LVN_HTTP_FAILED,
};

/* Zeroed before its first use; its memory is reused by the next request. */
struct lvn_http_response {
    enum lvn_http_outcome outcome;
    int code;                /* status code: 200, 404; 0: no response */
    int64_t delivered;       /* bytes that on_data() accepted */
    struct lvn_text headers; /* lines of all responses in order, including redirects */
    struct lvn_text body;    /* at most LVN_HTTP_MAX_BODY bytes */
    char reason[256];        /* explanation of an outcome other than COMPLETE */
};
enum { LVN_HTTP_MAX_BODY = 256 << 20 };
void lvn_http_response_release(struct lvn_http_response *response);
/* The value of the last header of that name that fits into `capacity`; NULL: none. Returns value. Headers of a redirect
 * describe the redirect and do not count. */
const char *lvn_http_header(const struct lvn_http_response *response, const char *name, char *value, int capacity);
/* The same of the response and all redirects before it: for headers by which a redirect describes its target. */
const char *lvn_http_header_of_hops(const struct lvn_http_response *response, const char *name, char *value,
                                    int capacity);

enum lvn_status lvn_http_send(struct lvn_http *http, const struct lvn_http_request *request,
                              struct lvn_http_response *response) LVN_CHECKED;

/* Add the text percent-encoded: %XX except for letters, digits and "-._~" (and '/' if `slashes`). */
void lvn_http_encode(struct lvn_text *t, const char *text, bool slashes);

#endif
