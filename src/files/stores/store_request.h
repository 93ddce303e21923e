/* store_request.h - requests to stores with retries and error messages, and reading byte ranges; used by all network
 * stores. Private to src/files/stores. */
#ifndef LVN_STORE_REQUEST_H
#define LVN_STORE_REQUEST_H

#include <time.h>

#include "stores/store_kind.h"

/* Send, with retries. LVN_OK for codes 200 to 299 and the accepted ones, and for a response that was interrupted after
 * a part was delivered (response->outcome). Otherwise the error record describes the failure. */
enum lvn_status lvn_store_request(struct lvn_location *location, struct lvn_http *http,
                                  const struct lvn_store_request *request,
                                  struct lvn_http_response *response) LVN_CHECKED;
/* For requests with `no_retry`: true if another attempt may succeed. */
bool lvn_store_request_is_transient(const struct lvn_http_response *response);
/* Wait before the next attempt; false if `tries` attempts are the maximum, or the transfer was stopped. */
bool lvn_store_request_pause(const struct lvn_http *http, int tries, const struct lvn_http_response *response);
/* One request to a service that issues credentials. retry: with retries of transient errors. */
enum lvn_status lvn_store_request_credentials(const struct lvn_http_request *request, bool retry,
                                              struct lvn_http_response *response) LVN_CHECKED;
/* Credentials that expire, or that a server may refuse. The store calls these functions with its lock held. */
struct lvn_renewal {
    /* Replace the store's credentials by others, if some are found; *changed: they were. */
    enum lvn_status (*find)(void *store, bool *changed);
    time_t changed_at; /* 0: never */
    time_t tried_at;
};
/* Renew credentials that expire soon. While they are valid, a failed renewal is no error, and is repeated later.
 * expires: 0: never, or unknown. */
enum lvn_status lvn_renewal_before_expiry(struct lvn_renewal *r, void *store, time_t expires) LVN_CHECKED;
/* A server refused the credentials: true if they have changed in the last minute, by this call or another thread. */
bool lvn_renewal_after_refusal(struct lvn_renewal *r, void *store);
/* Records the error of an unsuccessful response; returns LVN_IO. */
enum lvn_status lvn_store_request_failed(const struct lvn_location *location, const struct lvn_store_request *request,
                                         const struct lvn_http_response *response);
/* stat and read by GET with a range, as most stores implement them. */
enum lvn_status lvn_store_request_stat(struct lvn_location *location, struct lvn_http *http,
                                       struct lvn_object *object) LVN_CHECKED;
enum lvn_status lvn_store_request_read(struct lvn_location *location, struct lvn_http *http,
                                       const struct lvn_object *object, int64_t offset, int64_t n,
                                       bool (*on_data)(void *, const void *, int64_t), void *context) LVN_CHECKED;
/* list for stores with pages: GET of `key` with the query and, after the first page, the token that `add` found in the
 * previous page ("": that was the last). */
struct lvn_pages {
    const char *key;
    const char *query; /* additional parameters, "" or ending in '&' */
    const char *token; /* the token's parameter name */
    enum lvn_status (*add)(struct lvn_location *location, const struct lvn_http_response *response, const char *prefix,
                           struct lvn_arena *a, struct lvn_store_entries *out, struct lvn_text *token);
};
enum lvn_status lvn_store_request_list(struct lvn_location *location, struct lvn_http *http, bool deep,
                                       struct lvn_arena *a, struct lvn_store_entries *out,
                                       const struct lvn_pages *pages) LVN_CHECKED;
/* Read a small file in one request: its content, and its version. *text NULL: the file does not exist; free() it.
 * LVN_FORMAT if it has more than `limit` bytes. */
enum lvn_status lvn_store_request_fetch(struct lvn_location *location, struct lvn_http *http, int64_t limit,
                                        char **text, char version[LVN_STORE_VERSION]) LVN_CHECKED;
/* A request whose response is not needed. */
enum lvn_status lvn_store_request_once(struct lvn_location *location, struct lvn_http *http,
                                       const struct lvn_store_request *request) LVN_CHECKED;

#endif
