/* fetch.h - data that lie in a store. */
#ifndef LVN_DATA_FETCH_H
#define LVN_DATA_FETCH_H

#include "base/arena.h"

/* A text, a .bin file or a folder of token files as the path of the same on this machine, in the arena; what is no URL
 * is given back. Beside a .bin file comes what else describes it: FILE.bin.json and a tokenizer. */
LVN_CHECKED enum lvn_status lvn_data_fetch(struct lvn_arena *a, const char *path, const char **local);

#endif
