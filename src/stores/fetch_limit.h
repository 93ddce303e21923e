/* fetch_limit.h - how many bytes a fetch may write.
 *
 * LEVIN_FETCH_MAX_SIZE (as 50G) bounds each file that is fetched. Without it a file whose size the server says may take
 * what is free on the disk, less a hundredth of the disk; one whose size nobody says (a chunked answer, which may never
 * end) at most 16 GiB and half of what is free. */
#ifndef LVN_FETCH_LIMIT_H
#define LVN_FETCH_LIMIT_H

#include <stdint.h>

#include "base/status.h"

/* A size in an environment variable, "50G" (units of 1,024), in bytes; INT64_MAX: not set, or no size. */
int64_t lvn_size_variable(const char *name);
/* bytes: of the file at `url`, -1: not known; there: of it that lie in the folder `dir` already. LVN_IO where it cannot
 * fit. *most: bytes that may be written. */
LVN_CHECKED enum lvn_status lvn_fetch_limit_find(const char *url, const char *dir, int64_t bytes, int64_t present,
                                                 int64_t *max);
/* Records that `url` has brought more than `most`; returns LVN_IO. */
enum lvn_status lvn_fetch_limit_reached(const char *url, int64_t max);

#endif
