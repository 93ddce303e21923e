/* rows.h - a file of a run to which loggers add rows.
 *
 * Rows are written some at a time (base/append_file.h), and always before a checkpoint is made: a killed run has all
 * rows up to the step that it goes on from. Writing that fails (a full disk) stops neither the run nor later rows; it
 * is told once.
 */
#ifndef LVN_ROWS_H
#define LVN_ROWS_H

#include "base/append_file.h"
#include "train/callback.h"

/* The first thing in a logger's own state, so that its flush and close can be those below. */
struct lvn_rows {
    const char *name; /* "metrics.csv" */
    struct lvn_append_file file;
    struct lvn_text row; /* that is being written */
    bool told;           /* that rows could not be written */
};

/* Open `name` in the run's folder, with `header` as its first line ("": none) in place of the one that it has. Of a run
 * that goes on, rows of later steps, which it will write again, are cut, and so is half a row; a new run's file begins
 * anew. A row begins with its step, or has it as its first number. */
enum lvn_status lvn_rows_open(struct lvn_rows *r, const struct lvn_callback_context *m, const char *name,
                              const char *header) LVN_CHECKED;
/* What is not written yet goes into the file: at events other than steps, and before a checkpoint. `rows`: a struct
 * lvn_rows; a callback's flush and close. */
void lvn_rows_flush(void *rows, struct lvn_callback_context *m);
void lvn_rows_close(void *rows);
/* Where the next row is written to, empty; add it, with its line end. A failure is told to the listeners of `m`. */
struct lvn_text *lvn_rows_begin(struct lvn_rows *r);
void lvn_rows_end(struct lvn_rows *r, struct lvn_callback_context *m);
/* A number of a row: nine digits that count; of times and bytes all before the point, and milliseconds. */
void lvn_rows_number(struct lvn_text *t, double value);

#endif
