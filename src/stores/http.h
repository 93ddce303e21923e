/* http.h - requests over HTTP and HTTPS, through libcurl, which is loaded when it is first needed.
 *
 * libcurl's interface has been stable since 7.16 (soname 4): the few numbers that http.c uses are part of it, so that
 * not even its header is needed to build. A client keeps its connection open from one request to the next; one thread
 * uses it at a time. Any answer of a server is a success here: what a code means is the caller's business. Certificates
 * are held against the system's authorities, or those in the file that CURL_CA_BUNDLE or SSL_CERT_FILE names. */
#ifndef LVN_HTTP_H
#define LVN_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

struct lvn_http;
/* LVN_UNSUPPORTED: there is no libcurl. */
LVN_CHECKED enum lvn_status lvn_http_open(struct lvn_http **out);
void lvn_http_close(struct lvn_http *h);
/* A request under way ends with LVN_HTTP_STOPPED soon after *flag is not 0 any more (atomic). NULL: never. */
void lvn_http_stop_on(struct lvn_http *h, const int *flag);
bool lvn_http_stopped(const struct lvn_http *h);

struct lvn_http_request {
    const char *method, *url;
    const char *headers; /* each "Name: value\n"; NULL: none */
    const void *body;
    int64_t bytes;       /* of the body */
    bool no_body;        /* neither sent nor expected (GET, HEAD, DELETE) */
    bool follow;         /* redirections, but none from https to http, and Authorization to no other host */
    int connect_seconds; /* 0: 30 */
    int whole_seconds;   /* for everything; 0: as long as bytes come */
    /* Takes the body of an answer 200 or 206 as it comes; false ends the request. NULL: all bodies go to the answer. */
    bool (*on_data)(void *context, const void *data, int64_t bytes);
    void *context;
};

enum lvn_http_outcome {
    LVN_HTTP_COMPLETE,
    LVN_HTTP_INTERRUPTED, /* the connection broke or fell silent, before or within the answer */
    LVN_HTTP_NO_HOST,     /* nobody answers there */
    LVN_HTTP_STOPPED,     /* by the flag */
    LVN_HTTP_REFUSED,     /* take() said no */
    LVN_HTTP_FAILED,
};

/* All zero before its first use; the memory is kept from one request to the next. */
struct lvn_http_response {
    enum lvn_http_outcome outcome;
    int code;                /* 200, 404; 0: none came */
    int64_t delivered;       /* bytes that went to take() */
    struct lvn_text headers; /* lines of all answers, redirections too, in their order */
    struct lvn_text body;    /* at most LVN_HTTP_MOST_BODY bytes */
    char reason[256];        /* of an end that is not whole */
};
enum { LVN_HTTP_MAX_BODY = 256 << 20 };
void lvn_http_response_release(struct lvn_http_response *a);
/* The last header of that name; NULL when there is none, or none that fits into `room`. Returns value. */
const char *lvn_http_header(const struct lvn_http_response *a, const char *name, char *value, int capacity);

LVN_CHECKED enum lvn_status lvn_http_send(struct lvn_http *h, const struct lvn_http_request *r,
                                          struct lvn_http_response *a);

/* Text as a part of an address, %XX for all but letters, digits and "-._~" (and '/' where `slashes`). */
void lvn_http_encode(struct lvn_text *t, const char *text, bool slashes);

#endif
