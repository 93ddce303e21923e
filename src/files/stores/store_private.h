/* store_private.h - parsed paths and lists of files; used by the transfers (store_get.c, store_copy.c, ...) and the
 * stores. Private to src/files/stores. */
#ifndef LVN_STORE_PRIVATE_H
#define LVN_STORE_PRIVATE_H

#include "stores/store_kind.h"

enum lvn_status lvn_location_open(struct lvn_location *location, const char *path) LVN_CHECKED;
void lvn_location_close(struct lvn_location *location);
/* Split "s3://bucket/a/b" into bucket "bucket" and key "a/b"; LVN_ARG without a bucket. */
enum lvn_status lvn_location_split(struct lvn_location *location) LVN_CHECKED;

/* stat, and for large files the best checksum that the store has. */
enum lvn_status lvn_location_stat(struct lvn_location *location, struct lvn_http *http,
                                  struct lvn_object *object) LVN_CHECKED;

/* Add an entry to a list in the arena. */
enum lvn_status lvn_entries_add(struct lvn_arena *a, struct lvn_store_entries *list, const char *name, int64_t length,
                                enum lvn_store_kind kind, int64_t bytes) LVN_CHECKED;

/* True if a sorted list has an entry of that name. */
bool lvn_entries_have(const struct lvn_store_entries *list, const char *name);

/* store_get.c: lvn_store_get() with fsync before the rename, for files that later runs accept because they exist. */
enum lvn_status lvn_store_get_durable(const char *path, const char *local, const char *sha256,
                                      lvn_store_progress *progress, void *context) LVN_CHECKED;

/* store_download.c: removes all but the wanted files from the list. */
void lvn_store_choose(struct lvn_store_entries *all, enum lvn_store_want want);

#endif
