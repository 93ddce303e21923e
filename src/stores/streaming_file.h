/* streaming_file.h - random access to a large file of a store while it is being downloaded, or on a network file
 * system; the training data reader uses it.
 *
 * A file that is not on a file system of this machine is read window by window, for behind a memory map a server that
 * fails would end the process by a signal. A read that fails is tried again, with the file opened anew.
 *
 * Of a store's file:
 * A background thread downloads the file into the cache, as lvn_store_download() does. Until that is complete, each
 * read requests its bytes from the store; later reads are served from this machine. All bytes are of one version of the
 * file: if the store's version changes meanwhile, reads fail. */
#ifndef LVN_STREAMING_FILE_H
#define LVN_STREAMING_FILE_H

#include "stores/store.h"

struct lvn_streaming_file;
/* LVN_UNSUPPORTED if the store does not support range requests or does not state a version. */
LVN_CHECKED enum lvn_status lvn_streaming_file_open(struct lvn_streaming_file **out, const char *path);
/* A file at a path of this machine; for network file systems (lvn_path_is_local()). */
LVN_CHECKED enum lvn_status lvn_streaming_file_open_path(struct lvn_streaming_file **out, const char *path);
/* Stops the thread; the part that is downloaded stays, and the next download resumes from it. NULL: nothing. */
void lvn_streaming_file_close(struct lvn_streaming_file *s);
int64_t lvn_streaming_file_bytes(const struct lvn_streaming_file *s);
/* Reads `bytes` bytes at `offset`. Thread-safe. */
LVN_CHECKED enum lvn_status lvn_streaming_file_read(struct lvn_streaming_file *s, int64_t offset, int64_t bytes,
                                                    void *to);

#endif
