/* download.h - a file from a URL, checked against its SHA-256.
 *
 * file:// is copied by levin itself; http:// and https:// go through libcurl, loaded at run time (libcurl.so.4):
 * nothing of it is needed to build or to start. What was fetched lies in PATH.part until it is whole; a second try goes
 * on from there. Left out: sign-in, object stores. */
#ifndef LVN_DOWNLOAD_H
#define LVN_DOWNLOAD_H

#include <stdint.h>

#include "base/status.h"

/* Called now and then; total is 0 while unknown. Return non-zero to stop: the download ends with LVN_STOPPED. */
typedef int lvn_download_progress(void *context, int64_t done, int64_t total);

/* url to the file path (its directory is made), verified before it gets its name. A file that is there already is only
 * verified, never replaced. sha256: 64 hexadecimal digits, or NULL: not checked, and a cut download starts anew.
 * progress may be NULL. LVN_IO: could not be fetched; LVN_FORMAT: it is another file than the checksum says;
 * LVN_UNSUPPORTED: no libcurl here; LVN_ARG: not a URL or checksum. Two processes may ask for the same file: one waits
 * for the other. */
LVN_CHECKED enum lvn_status lvn_download(const char *url, const char *sha256, const char *path,
                                         lvn_download_progress *progress, void *context);
/* LVN_FORMAT when the file's checksum is another one. sha256 as above. */
LVN_CHECKED enum lvn_status lvn_download_verify(const char *path, const char *sha256);

#endif
