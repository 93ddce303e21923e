/* fetch.h - downloads a file that must exist on this machine and verifies its SHA-256. */
#ifndef LVN_STORE_FETCH_H
#define LVN_STORE_FETCH_H

#include "stores/store.h"

/* Download url (of any store) to `path`. An existing file is only verified, never replaced. sha256: 64 hexadecimal
 * digits; NULL: only the store's own checksum is verified. progress may be NULL. LVN_ARG: not a URL or checksum;
 * otherwise see lvn_store_get(). */
enum lvn_status lvn_download(const char *url, const char *sha256, const char *path, lvn_store_progress *progress,
                             void *context) LVN_CHECKED;

#endif
