/* streaming_file.h - a large file of a store that is read before it is here.
 *
 * A thread brings the file into the cache, as lvn_store_download() does. Until it is there, each reading asks the store
 * for just its bytes; from then on it is served from this machine. Either way the bytes are those of one version of the
 * file: when the store's changes on the way, reading fails. */
#ifndef LVN_STREAMING_FILE_H
#define LVN_STREAMING_FILE_H

#include "stores/store.h"

struct lvn_streaming_file;
/* LVN_UNSUPPORTED where the store cannot send pieces of a file, or does not say which version it is. */
LVN_CHECKED enum lvn_status lvn_streaming_file_open(struct lvn_streaming_file **out, const char *path);
/* Stops the thread; what it has brought is kept, and the next one goes on from there. NULL: nothing. */
void lvn_streaming_file_close(struct lvn_streaming_file *s);
int64_t lvn_streaming_file_bytes(const struct lvn_streaming_file *s);
/* Any threads may read. */
LVN_CHECKED enum lvn_status lvn_streaming_file_read(struct lvn_streaming_file *s, int64_t offset, int64_t bytes,
                                                    void *to);

#endif
