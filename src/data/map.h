/* map.h - a file as read-only memory. */
#ifndef LVN_MAP_H
#define LVN_MAP_H

#include <stdint.h>

#include "base/status.h"

struct lvn_map {
    const void *data;
    int64_t bytes;
};

/* Map a whole file. Fails with a sentence when it is missing, no ordinary file, unreadable or empty. The file must not
 * shrink while it is mapped. */
enum lvn_status lvn_map_open(struct lvn_map *m, const char *path) LVN_CHECKED;
void lvn_map_close(struct lvn_map *m);

#endif
