/* transfer.h - prints the progress of a download or upload: one live line on a terminal, a line every ten seconds
 * elsewhere. Ctrl-C stops the transfer; the same command continues it. Used by cp and prepare. */
#ifndef LVN_TRANSFER_H
#define LVN_TRANSFER_H

#include "cli/cli.h"

struct lvn_transfer {
    const char *name; /* of the file, for the line */
    bool quiet;       /* print nothing */
    bool live;        /* stderr is a terminal */
    bool displayed;   /* a live line is displayed */
    double began;     /* lvn_seconds() */
    double drawn;     /* lvn_seconds() of the last line */
    int64_t first;    /* bytes that were there when it began; -1: not known yet */
};
/* Begin one file; catches the signals of stop.h. */
void lvn_transfer_begin(struct lvn_transfer *t, const struct lvn_cli *c, const char *name);
/* A lvn_store_progress: bytes so far and in all (0: not known). Not 0: a signal has arrived, stop. context: the
 * struct. */
int lvn_transfer_progress(void *context, int64_t done, int64_t total);
/* Erase the live line. */
void lvn_transfer_end(struct lvn_transfer *t);

#endif
