/* rows.h - a file of a run to which loggers add rows.
 *
 * Rows are written some at a time (base/append.h), and always before a checkpoint is made: a killed run has all rows up
 * to the step that it goes on from. Writing that fails (a full disk) stops neither the run nor later rows; it is told
 * once.
 */
#ifndef LVN_ROWS_H
#define LVN_ROWS_H

#include "base/append.h"
#include "train/callbacks/callback.h"

struct lvn_rows {
    const char *name; /* "metrics.csv" */
    struct lvn_append file;
    bool told; /* that rows could not be written */
};

/* Open `name` in the run's folder, with `header` as its first line ("": none) in place of the one that it has. Of a run
 * that goes on, rows of later steps, which it will write again, are cut, and so is half a row; a new run's file begins
 * anew. A row begins with its step, or has it as its first number. */
enum lvn_status lvn_rows_open(struct lvn_rows *r, const struct lvn_moment *m, const char *name,
                              const char *header) LVN_CHECKED;
/* What is not written yet goes into the file: at events other than steps, and before a checkpoint. */
void lvn_rows_flush(struct lvn_rows *r, struct lvn_moment *m);
void lvn_rows_close(struct lvn_rows *r);
/* Add a row; a failure is told to the listeners of `m`. */
void lvn_rows_put(struct lvn_rows *r, struct lvn_moment *m, const char *row, int64_t n);
/* A number of a row: nine digits that count; of times and bytes all before the point, and milliseconds. */
void lvn_rows_number(struct lvn_text *t, double value);

#endif
