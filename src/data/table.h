/* table.h - files whose lines are rows of columns with names.
 *
 *   .tsv     cells between tabs. The whole cell is its text, quotes too. The first line names the columns.
 *
 *   .csv     cells between commas. A quoted cell may hold commas, line ends and doubled quotes. The first line names
 *            the columns.
 *
 *   .jsonl   an object a line. Its members are the columns.
 *
 *   others   a text a line: one column, `text`.
 *
 * A row that is no row, or lacks what is asked for, says what is wrong with it, and the next one can be read. */
#ifndef LVN_TABLE_H
#define LVN_TABLE_H

#include <jansson.h>

#include "base/text.h"

enum { LVN_TABLE_COLUMNS = 4, LVN_TABLE_BAD = 400 };

struct lvn_table_row {
    int64_t line; /* of the file, at which it begins */
    struct {
        const char *p; /* not ended; until the next row is read. NULL: an optional column that is not there */
        int64_t n;
    } cell[LVN_TABLE_COLUMNS]; /* in the order in which the columns were asked for */
    char bad[LVN_TABLE_BAD];   /* "FILE:LINE: what was found, what was wanted"; "": nothing */
};

struct lvn_table {
    const char *path; /* the caller's */
    const char *text; /* of the file */
    char *owned;      /* the same; NULL: it is the caller's */
    const char *ask;  /* how a user says which column is meant */
    bool keep_empty;  /* the caller's, after opening: an empty line before the last row is a bad row */
    int64_t bytes, at, line;
    int64_t next_row; /* of keep_empty: nothing but line ends stands between `at` and here */
    enum { LVN_TABLE_LINES, LVN_TABLE_TSV, LVN_TABLE_CSV, LVN_TABLE_JSONL } form;
    struct lvn_text names, cells; /* of the header, of the row: each ended by a zero */
    int n_names, n_columns;
    int column[LVN_TABLE_COLUMNS];    /* cell of the row; -1: there is none */
    char name[LVN_TABLE_COLUMNS][64]; /* that was found */
    bool required[LVN_TABLE_COLUMNS];
    json_t *object; /* of the row */
    char number[LVN_TABLE_COLUMNS][32];
};

/* Is it a file of columns, by its name? */
bool lvn_table_is_named(const char *path);
/* Close it always. The path stays the caller's. */
enum lvn_status lvn_table_open(struct lvn_table *t, const char *path) LVN_CHECKED;
/* The same over text of the caller's; the path only says what it is. More of it, whole rows, may follow when all was
 * read. */
enum lvn_status lvn_table_over(struct lvn_table *t, const char *path, const char *text, int64_t bytes) LVN_CHECKED;
void lvn_table_more(struct lvn_table *t, const char *text, int64_t bytes);
void lvn_table_close(struct lvn_table *t);
/* Ask for a column: the first of these names ("document|text") that there is; in .jsonl, the first object has them.
 * FORMAT, with those that there are, when a required one is missing or two have the name. Before the first row is read.
 */
enum lvn_status lvn_table_column(struct lvn_table *t, const char *names, bool required) LVN_CHECKED;
/* *more false: there are no more rows. Empty lines are passed over, unless keep_empty says otherwise. LVN_MEMORY: the
 * row could not be read for lack of memory, which says nothing of the row. */
enum lvn_status lvn_table_next(struct lvn_table *t, struct lvn_table_row *row, bool *more) LVN_CHECKED;

#endif
