/* progress.h - what a training run looks like while it runs: one live line on a terminal, plain lines elsewhere.
 *
 * Below levin launch stderr is a pipe. LEVIN_TERMINAL=COLUMNS then says that a terminal is at its end: the live line is
 * a carriage return, the text and a newline, which levin launch draws. */
#ifndef LVN_PROGRESS_H
#define LVN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "train/events.h"

/* One thread's, but for lvn_progress_clear(): whoever writes to `out` holds its lock (flockfile()). */
struct lvn_progress {
    FILE *out;
    bool live;     /* a terminal: rewrite one line */
    bool piped;    /* the terminal is that of levin launch */
    bool quiet;    /* only what must be said */
    bool shown;    /* a live line stands on the screen, the cursor behind it */
    int columns;   /* of the terminal; 0: ask */
    int64_t every; /* steps between plain lines; 0: none; LVN_LOG_BY_TIME: by time */
    double drawn;  /* when the live line was last drawn, elapsed seconds */
    double said;   /* when the last plain line was printed, elapsed seconds */
    double rate;   /* tokens (samples) a second, smoothed for reading */
    int64_t total; /* steps of the run; 0: not known */
};

/* Write to `out` (stderr), live when that is a terminal that can do it, or leads to one. */
void lvn_progress_init(struct lvn_progress *p, FILE *out, bool quiet, int64_t log_every_n_steps);
/* A listener (context: the struct). */
void lvn_progress_handle(void *context, const struct lvn_event *e);
/* Take the live line away before something else is printed. */
void lvn_progress_clear(struct lvn_progress *p);
/* One status line for this event, at most `columns` wide (0: as long as it is), into text; for the live line and tests.
 */
enum { LVN_PROGRESS_TEXT = 256 };
int lvn_progress_line(const struct lvn_progress *p, const struct lvn_event *e, int columns,
                      char text[LVN_PROGRESS_TEXT]);

#endif
