/* sigv4.h - AWS Signature Version 4: signs requests to Amazon's services and compatible servers; used by s3.c.
 *
 * Based on Amazon's "Authenticating Requests (AWS Signature Version 4)". libcurl also has a signer, but older
 * versions neither sort nor encode the query. */
#ifndef LVN_SIGV4_H
#define LVN_SIGV4_H

#include <time.h>

#include "base/text.h"

struct lvn_sigv4 {
    const char *id, *secret;
    const char *token; /* NULL or "": none */
    const char *region, *service;
    const char *method;
    const char *host;    /* with the port, if it is not the default one */
    const char *path;    /* percent-encoded, as sent */
    const char *query;   /* percent-encoded, sorted by name; NULL: none */
    const char *headers; /* additional ones to send and sign: "x-amz-name: value\n", lower case; NULL: none */
    const char *payload; /* hexadecimal SHA-256 of the body, or "UNSIGNED-PAYLOAD" */
    time_t now;
};

/* Add the lines of all headers of the request, including the given ones. */
enum lvn_status lvn_sigv4_sign(const struct lvn_sigv4 *sigv4, struct lvn_text *headers) LVN_CHECKED;

#endif
