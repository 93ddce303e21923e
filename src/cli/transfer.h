/* transfer.h - what fetching and sending looks like: one live line on a terminal, a line now and then elsewhere. Ctrl-C
 * stops the transfer; the same command goes on. */
#ifndef LVN_TRANSFER_H
#define LVN_TRANSFER_H

#include "cli/cli.h"

struct lvn_transfer {
    const char *name; /* what is moved, for the line */
    bool quiet, live, shown;
    double began, drawn;
    int64_t first; /* bytes that were there when it began; -1: not known yet */
};
/* For one file; catches signals. */
void lvn_transfer_begin(struct lvn_transfer *t, const struct lvn_cli *c, const char *name);
/* A lvn_store_progress; context: the struct. */
int lvn_transfer_progress(void *context, int64_t done, int64_t total);
void lvn_transfer_end(struct lvn_transfer *t);

#endif
