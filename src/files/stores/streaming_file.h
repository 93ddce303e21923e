/* streaming_file.h - random access to a large file of a store while it is being downloaded, or on a network file
 * system; used by the training data reader.
 *
 * A file on a network file system is not mapped, because a failed server would terminate the process with a signal. A
 * failed read reopens the file and retries.
 *
 * A background thread downloads a store's file to the cache like lvn_store_download(). Until that is complete, each
 * read requests its bytes from the store; later reads use the cached file. All bytes belong to one version of the file:
 * if the store's version changes, reads fail. */
#ifndef LVN_STREAMING_FILE_H
#define LVN_STREAMING_FILE_H

#include "stores/store.h"

struct lvn_streaming_file;
/* LVN_UNSUPPORTED if the store does not support range requests or sends no version. */
enum lvn_status lvn_streaming_file_open(struct lvn_streaming_file **out, const char *path) LVN_CHECKED;
/* A file on a network file system (lvn_path_is_local()). */
enum lvn_status lvn_streaming_file_open_path(struct lvn_streaming_file **out, const char *path) LVN_CHECKED;
/* Stop the thread and keep the downloaded part, from which the next download resumes. NULL: does nothing. */
void lvn_streaming_file_close(struct lvn_streaming_file *file);
/* The same for a file that will not be read again soon: it may be evicted from the cache before others. */
void lvn_streaming_file_release(struct lvn_streaming_file *file);
int64_t lvn_streaming_file_bytes(const struct lvn_streaming_file *file);
/* Read `bytes` bytes at `offset`. Thread-safe. */
enum lvn_status lvn_streaming_file_read(struct lvn_streaming_file *file, int64_t offset, int64_t bytes,
                                        void *to) LVN_CHECKED;

#endif
