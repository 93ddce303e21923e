/* metrics_file.h - reads metrics.jsonl or metrics.csv, of levin or of another program, into series.
 *
 * report.c calls it repeatedly while a run continues: each call reads the rows added since the previous one. Rows
 * without a step or that cannot be read are counted and skipped. Values that are not numbers are ignored. */
#ifndef LVN_METRICS_FILE_H
#define LVN_METRICS_FILE_H

#include "report/series.h"

/* Zeroed: nothing is read yet. */
struct lvn_metrics_file {
    struct lvn_series_list list;
    int64_t offset;          /* bytes read */
    int64_t rows;            /* rows read */
    int64_t broken;          /* rows skipped */
    int64_t last_step;       /* highest step; 0: none */
    struct lvn_text columns; /* of a CSV file: its first line */
};

/* Read the complete rows. csv: the file is CSV; otherwise JSON Lines. If the file is shorter than
 * the part already read, it is read again from its start. IO: it cannot be read. */
enum lvn_status lvn_metrics_file_read(struct lvn_metrics_file *m, const char *path, bool csv) LVN_CHECKED;
void lvn_metrics_file_release(struct lvn_metrics_file *m);

#endif
