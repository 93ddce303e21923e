/* fetch.h - a file that must be on this machine, fetched where it is not, checked against its SHA-256. */
#ifndef LVN_STORE_FETCH_H
#define LVN_STORE_FETCH_H

#include "stores/store.h"

/* url (of any store) to the file path. A file that is there already is only verified, never replaced. sha256: 64
 * hexadecimal digits, or NULL: what the store says about the file is all that is checked. progress may be NULL. For
 * failures see lvn_store_get(); LVN_ARG: not a URL or checksum. */
LVN_CHECKED enum lvn_status lvn_download(const char *url, const char *sha256, const char *path,
                                         lvn_store_progress *progress, void *context);

#endif
