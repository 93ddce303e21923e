/* metrics_file.h - reads metrics.jsonl or metrics.csv, of levin or of another program, into series.
 *
 * report.c calls it, again and again while a run goes on: each call reads what was added since the one before. A row
 * without a step, and one that cannot be read, is counted and left out. Left out: values that are no numbers. */
#ifndef LVN_METRICS_FILE_H
#define LVN_METRICS_FILE_H

#include "train/report/series.h"

/* Zeroed: nothing is read yet. */
struct lvn_metrics_file {
    struct lvn_series_list list;
    int64_t offset;          /* bytes that were read */
    int64_t rows;            /* that were read */
    int64_t broken;          /* rows that were left out */
    int64_t last_step;       /* highest; 0: none */
    struct lvn_text columns; /* of a CSV file: its first line */
};

/* Read the rows that are complete. csv: the file has columns, else a JSON object a line. If the file is shorter than
 * what was read of it, it is read from its start. IO: it cannot be read. */
enum lvn_status lvn_metrics_file_read(struct lvn_metrics_file *m, const char *path, bool csv) LVN_CHECKED;
void lvn_metrics_file_release(struct lvn_metrics_file *m);

#endif
