/* store_condition.h - writes and removals of a small file that happen only if the file is still what the caller has
 * read; lease_object.c calls them. Private to src/stores. */
#ifndef LVN_STORE_CONDITION_H
#define LVN_STORE_CONDITION_H

#include "stores/store_kind.h"

enum lvn_store_written {
    LVN_STORE_WRITTEN,       /* or removed */
    LVN_STORE_CHANGED,       /* the file has another version: nothing was done */
    LVN_STORE_UNCONDITIONAL, /* the store says that it knows no such condition: nothing was done */
};
/* Writes a small file if its version is still `version` ("": if there is none), which then is the new one ("": not
 * known). A store may ignore the condition without a word. A lost response is retried, and the second attempt may then
 * find what the first has written: CHANGED. */
LVN_CHECKED enum lvn_status lvn_store_put_if(struct lvn_location *p, struct lvn_http *h, const void *data,
                                             int64_t bytes, char version[LVN_STORE_VERSION],
                                             enum lvn_store_written *written);
/* Removes a file if its version is still `version`. */
LVN_CHECKED enum lvn_status lvn_store_remove_if(struct lvn_location *p, struct lvn_http *h, const char *version,
                                                enum lvn_store_written *written);

#endif
