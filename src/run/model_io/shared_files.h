/* shared_files.h - whether all ranks see the same files, so that each can read its part of them.
 *
 * snapshot.c and pretrained_weights.c ask before they load. Hosts may have different files at one path, or copies of
 * which one is damaged: so it is compared what the system says about each file (name, inode, size, time of the last
 * change), not what is in it. */
#ifndef LVN_SHARED_FILES_H
#define LVN_SHARED_FILES_H

#include "engine/ranks.h"

/* All ranks: *path is the absolute path of rank 0's folder `dir`, in the arena, if all ranks see the same files in it
 * and in its folders, or in their own folders `dir`; else NULL. dir: NULL on another rank: that of rank 0. */
enum lvn_status lvn_ranks_share_files(struct lvn_ranks *r, struct lvn_arena *a, const char *dir,
                                      const char **path) LVN_CHECKED;

#endif
