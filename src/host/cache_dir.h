/* cache_dir.h - the folder of this user on this machine where levin keeps what it can make or fetch again: LEVIN_CACHE,
 * or levin in XDG_CACHE_HOME, or ~/.cache/levin, or, without a home, /tmp/levin-UID. The folders below it belong to
 * this user and are closed to all others (0700); what another user could have altered is refused. */
#ifndef LVN_CACHE_DIR_H
#define LVN_CACHE_DIR_H

#include "base/arena.h"

/* The path of a folder in it, made; in the arena. */
LVN_CHECKED enum lvn_status lvn_cache_folder(struct lvn_arena *a, const char *name, const char **out);

#endif
