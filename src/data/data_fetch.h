/* data_fetch.h - data that lie in a store. */
#ifndef LVN_DATA_FETCH_H
#define LVN_DATA_FETCH_H

#include "base/arena.h"

/* A text, a .bin file or a folder of token files as the path of the same on this machine, in the arena; what is no URL
 * is given back. Beside a .bin file comes what else describes it: FILE.bin.json and a tokenizer. */
LVN_CHECKED enum lvn_status lvn_data_fetch(struct lvn_arena *a, const char *path, const char **local);

struct lvn_streaming_file;
/* The same for token files whose training part shall be read before it is here: everything else comes; *local is where
 * that part will be, and *stream reads it. *stream is NULL where it does not pay: a small file, one on this machine. */
LVN_CHECKED enum lvn_status lvn_data_stream(struct lvn_arena *a, const char *path, const char **local,
                                            struct lvn_streaming_file **stream);

#endif
