/* fetch_limit.h - a limit on the bytes of a download, for store_get.c.
 *
 * LEVIN_FETCH_MAX_SIZE (such as 50G) limits each file. Without it, a file of known size may use the free space of the
 * disk less 1 % of the disk; a file of unknown size (a chunked response, which may never end) at most 16 GiB and half
 * of the free space. */
#ifndef LVN_FETCH_LIMIT_H
#define LVN_FETCH_LIMIT_H

#include "base/status.h"

/* *bytes: the size in an environment variable, "50G" (units of 1,024); INT64_MAX: not set. LVN_ARG if it is no size. */
enum lvn_status lvn_size_variable(const char *name, int64_t *bytes) LVN_CHECKED;
/* bytes: size of the file at `url`, -1: unknown; present: how many of them the folder `dir` already has. LVN_IO if the
 * file cannot fit, LVN_ARG if the variable is no size. *max: bytes that may be written. */
enum lvn_status lvn_fetch_limit_find(const char *url, const char *dir, int64_t bytes, int64_t present,
                                     int64_t *max) LVN_CHECKED;
/* Records that `url` sent more than `max` bytes; returns LVN_IO. */
enum lvn_status lvn_fetch_limit_reached(const char *url, int64_t max);

#endif
