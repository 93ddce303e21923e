/* sigv4.h - signatures of requests to Amazon's services and to what speaks their language: AWS Signature Version 4.
 *
 * Written from Amazon's "Authenticating Requests (AWS Signature Version 4)". libcurl has a signer too, but older ones
 * neither sort nor encode the query. */
#ifndef LVN_SIGV4_H
#define LVN_SIGV4_H

#include <time.h>

#include "base/text.h"

struct lvn_sigv4 {
    const char *id, *secret, *token; /* token NULL or "": none */
    const char *region, *service;
    const char *method;
    const char *host;    /* with a port, where it is not the usual one */
    const char *path;    /* encoded, as it is sent */
    const char *query;   /* encoded, names in order; NULL: none */
    const char *headers; /* to be sent and signed too: "x-amz-name: value\n", lower case; NULL: none */
    const char *payload; /* SHA-256 of the body as digits, or "UNSIGNED-PAYLOAD" */
    time_t now;
};

/* Adds the lines of all headers that the request must carry, the given ones too. */
LVN_CHECKED enum lvn_status lvn_sigv4_sign(const struct lvn_sigv4 *s, struct lvn_text *headers);

#endif
