/* cache_dir.h - the user's cache directory on this machine, for data that levin can compute or fetch again. Stores,
 * device kernels and `levin plan` store files there.
 *
 * It is LEVIN_CACHE, or levin in XDG_CACHE_HOME, or ~/.cache/levin, or, without a home, /tmp/levin-UID. Its
 * subdirectories belong to this user and have mode 0700; a directory that another user could have modified is refused.
 */
#ifndef LVN_CACHE_DIR_H
#define LVN_CACHE_DIR_H

#include "base/arena.h"

/* Create the subdirectory `name` and return its path, in the arena. LVN_IO if it cannot be created or belongs to
 * another user. */
enum lvn_status lvn_cache_folder(struct lvn_arena *a, const char *name, const char **out) LVN_CHECKED;

#endif
