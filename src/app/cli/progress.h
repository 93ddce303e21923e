/* progress.h - prints the events of a training on stderr: one live line on a terminal, plain lines elsewhere. A
 * listener of lvn_train(), installed by train.c.
 *
 * Under levin launch stderr is a pipe. LEVIN_TERMINAL=COLUMNS then says that the pipe leads to a terminal: the live
 * line is sent as a carriage return, the text and a newline, and levin launch draws it. */
#ifndef LVN_PROGRESS_H
#define LVN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "train/events.h"

/* Used by one thread, except for lvn_progress_clear(): whoever writes to `out` holds its lock (flockfile()). */
struct lvn_progress {
    FILE *out;
    bool live;      /* `out` is a terminal: rewrite one line */
    bool piped;     /* the terminal is at the other end of levin launch */
    bool quiet;     /* print warnings only */
    bool displayed; /* a live line is on the terminal, with the cursor after it */
    bool rewraps;   /* the terminal wraps lines again when its width changes, as tmux does */
    int columns;    /* of the terminal; 0: query it each time */
    int length;     /* columns of the live line */
    int64_t every;  /* steps between plain lines; 0: none; LVN_LOG_BY_TIME: by time */
    double drawn;   /* when the live line was last drawn, seconds of the run; -1: never */
    double printed; /* when the last plain line was printed, seconds of the run */
    double rate;    /* tokens (samples) a second, smoothed; NaN: not known */
    int64_t total;  /* steps of the run; 0: not known */
};

/* Write to `out` (stderr), live if it is a terminal that can overwrite lines, or leads to one. */
void lvn_progress_init(struct lvn_progress *p, FILE *out, bool quiet, int64_t log_every_n_steps);
/* A listener; context: the struct. */
void lvn_progress_handle(void *context, const struct lvn_event *e);
/* Erase the live line before something else is printed. */
void lvn_progress_clear(struct lvn_progress *p);
/* The status line of the event, at most `columns` wide (0: no limit), into text; returns its length. For the live line
 * and tests. */
enum { LVN_PROGRESS_TEXT = 256 };
int lvn_progress_line(const struct lvn_progress *p, const struct lvn_event *e, int columns,
                      char text[LVN_PROGRESS_TEXT]);

#endif
