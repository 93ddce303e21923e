/* rows.h - a text file in the run's folder to which a logger appends rows.
 *
 * The loggers csv and jsonl own one each. Rows are written in batches (base/append_file.h), and always before a
 * checkpoint is made, so a killed run has all rows up to the step from which it resumes. If writing fails (a full
 * disk), neither the run nor later rows stop; the failure is reported once. */
#ifndef LVN_ROWS_H
#define LVN_ROWS_H

#include "base/append_file.h"
#include "train/callback.h"

/* The first member of a logger's state, so that its flush and close can be those below. */
struct lvn_rows {
    const char *name; /* "metrics.csv" */
    struct lvn_append_file file;
    struct lvn_text row; /* being written */
    bool failed;         /* rows could not be written, and this was reported */
};

/* Open `name` in the run's folder with `header` as its first line ("": none), which replaces the file's. A resumed run
 * removes rows of later steps, which it will write again, and an incomplete row; a new run starts with an empty file. A
 * row's first number is its step. If a resumed run repeats the validation of the step at which it resumes, the row is
 * not written a second time. */
enum lvn_status lvn_rows_open(struct lvn_rows *r, const struct lvn_callback_context *context, const char *name,
                              const char *header) LVN_CHECKED;
/* Replace the header of an open file; its rows stay. A failure is reported. */
void lvn_rows_set_header(struct lvn_rows *r, struct lvn_callback_context *context, const char *header);
/* Write the pending rows, at events other than steps and before a checkpoint. `rows` is a struct lvn_rows; these are
 * the flush and close of a callback. */
void lvn_rows_flush(void *rows, struct lvn_callback_context *context);
void lvn_rows_close(void *rows);
/* begin: an empty text for the next row; end: write it, with a newline. A failure is reported to m's listeners. */
struct lvn_text *lvn_rows_begin(struct lvn_rows *r);
void lvn_rows_end(struct lvn_rows *r, struct lvn_callback_context *context);
/* Append a number: nine significant digits; for times and bytes all digits before the point, and milliseconds. */
void lvn_rows_number(struct lvn_text *t, double value);

#endif
