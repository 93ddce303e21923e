/* store_condition.h - writes and removals of a small file only if it has not changed since the caller read it; used by
 * lease_object.c. Private to src/files/stores. */
#ifndef LVN_STORE_CONDITION_H
#define LVN_STORE_CONDITION_H

#include "stores/store_kind.h"

enum lvn_store_written {
    LVN_STORE_WRITTEN,       /* or removed */
    LVN_STORE_CHANGED,       /* the file has another version: nothing was done */
    LVN_STORE_UNCONDITIONAL, /* the store does not support the condition: nothing was done */
};
/* Write a small file if its version is still `version` ("": if it does not exist), and store the new version there
 * ("": unknown). A store may silently ignore the condition. A lost response is retried; the second attempt may then
 * find the version that the first has written: CHANGED. */
enum lvn_status lvn_store_put_if(struct lvn_location *location, struct lvn_http *http, const void *data, int64_t bytes,
                                 char version[LVN_STORE_VERSION], enum lvn_store_written *written) LVN_CHECKED;
/* Remove a file if its version is still `version`. */
enum lvn_status lvn_store_remove_if(struct lvn_location *location, struct lvn_http *http, const char *version,
                                    enum lvn_store_written *written) LVN_CHECKED;

#endif
