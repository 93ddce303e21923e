/* benchmark_rows.h - the objects of a .jsonl file, or of a .json file that is one list, with their lines. For the
 * readers of benchmarks, which need whole objects; data/table.h reads columns. */
#ifndef LVN_BENCHMARK_ROWS_H
#define LVN_BENCHMARK_ROWS_H

#include "base/arena.h"
#include "formats/json.h"

/* Zero is empty. */
struct lvn_rows {
    const char *path; /* of the last file that was read; borrowed */
    json_t *columns;  /* owned; for benchmark_harness.c */
    json_t **row;     /* [n] owned */
    int64_t *line;    /* [n] from 1; of a list the number of the element */
    int64_t n, row_capacity, line_capacity;
};
/* Append the objects of a file. ARG, with file and line, for a row that is not an object, and for a file without any.
 */
enum lvn_status lvn_rows_read(struct lvn_rows *rows, const char *path) LVN_CHECKED;
/* Append one, which becomes the list's even after a failure. */
enum lvn_status lvn_rows_add(struct lvn_rows *rows, json_t *row, int64_t line) LVN_CHECKED;
void lvn_rows_release(struct lvn_rows *rows);

#endif
