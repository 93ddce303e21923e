/* curl.h - one GET request through libcurl, loaded when it is first needed; private to download.c.
 *
 * libcurl's interface has been stable since 7.16 (soname 4): the few numbers used here are part of it, so that not even
 * its header is needed to build. */
#ifndef LVN_CURL_H
#define LVN_CURL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "io/download.h"

struct lvn_curl_request {
    const char *url;
    int64_t from; /* the first byte wanted */
    /* Takes what comes; false stops the transfer. */
    bool (*take)(void *context, const void *data, int64_t bytes);
    void *context;
    lvn_download_progress *progress; /* may be NULL */
    void *progress_context;
};

enum lvn_curl_end {
    LVN_CURL_WHOLE,
    LVN_CURL_CUT,      /* the connection broke: worth another try from where it ended */
    LVN_CURL_NO_RANGE, /* the server cannot begin at `from` */
    LVN_CURL_STOPPED,  /* by progress */
    LVN_CURL_REFUSED,  /* take() said no */
    LVN_CURL_FAILED,
};

/* Does it; the reason for an end that is not whole goes to text. LVN_UNSUPPORTED: there is no libcurl. */
enum { LVN_CURL_TEXT = 256 };
LVN_CHECKED enum lvn_status lvn_curl_get(const struct lvn_curl_request *r, enum lvn_curl_end *end,
                                         char text[LVN_CURL_TEXT]);

#endif
