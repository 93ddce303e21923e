/* google.h - an access token for Google Cloud from the sources of Google's tools. For gs.c.
 *
 *     1. GOOGLE_OAUTH_ACCESS_TOKEN or CLOUDSDK_AUTH_ACCESS_TOKEN: the token itself
 *     2. GOOGLE_APPLICATION_CREDENTIALS, or the file that `gcloud auth application-default login` writes:
 *        the key of a service account, or a user's refresh token
 *     3. the machine: the metadata service of Compute Engine and Kubernetes Engine, unless NO_GCE_CHECK=true
 *
 * Not supported: accounts of other providers (workload identity federation), impersonation. */
#ifndef LVN_GOOGLE_H
#define LVN_GOOGLE_H

#include <time.h>

#include "base/status.h"

struct lvn_google_token {
    char text[4096];  /* "": none was found, which is not an error, because some buckets are public */
    time_t expires;   /* 0: unknown */
    char source[256]; /* its origin, for messages */
};
enum lvn_status lvn_google_find_token(struct lvn_google_token *token) LVN_CHECKED;

#endif
