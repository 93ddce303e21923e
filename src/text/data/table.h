/* table.h - reads the rows of a file with named columns. Called by data.kind=labelled, `levin predict` and
 * `levin tokenizer`.
 *
 *   .tsv     cells between tabs. The whole cell is its text, quotes too; if most quotes look like those of a .csv, a
 *            warning says so. The first line names the columns.
 *
 *   .csv     cells between commas. A quoted cell may contain commas, line ends and doubled quotes, and ends with its
 *            closing quote. The first line names the columns.
 *
 *   .jsonl   an object per line. Its members are the columns.
 *
 *   .parquet as .jsonl: the rows become objects with their texts, numbers and booleans.
 *
 *   others   a text per line: one column, `text`.
 *
 * Tables in lines may be compressed: .csv.gz, .jsonl.zst. They are unpacked in memory.
 *
 * A row that is malformed, or lacks a required column, has a message, and reading continues with the next one. */
#ifndef LVN_TABLE_H
#define LVN_TABLE_H

#include <jansson.h>

#include "base/text.h"

struct lvn_parquet;

enum { LVN_TABLE_COLUMNS = 4, LVN_TABLE_BAD = 400 };

struct lvn_table_row {
    int64_t line; /* number of its first line in the file */
    struct {
        const char *p; /* zero-terminated, valid until the next row is read. NULL: an absent optional column */
        int64_t n;
    } cell[LVN_TABLE_COLUMNS]; /* in the order of the calls of lvn_table_column() */
    char bad[LVN_TABLE_BAD];   /* why it cannot be used: "FILE:LINE: what was found, what was expected"; "": it can */
};

struct lvn_table {
    const char *path;            /* borrowed */
    const char *text;            /* of the file */
    char *owned;                 /* the same, if the table owns it; else NULL */
    struct lvn_parquet *parquet; /* the file of which the rows were made, for its schema; NULL: another one */
    const char *column_option; /* options with which a user names columns, for messages; NULL: keys of data; "": none */
    bool keep_empty;           /* an empty line before the last row is a bad row; set by the caller after opening */
    int64_t bytes;             /* of text */
    int64_t at;                /* offset of the next row */
    int64_t line;              /* number of the next line */
    int64_t next_row;          /* for keep_empty: only line ends are between `at` and this offset */
    enum { LVN_TABLE_LINES, LVN_TABLE_TSV, LVN_TABLE_CSV, LVN_TABLE_JSONL } format;
    struct lvn_text names; /* of the header, each zero-terminated */
    struct lvn_text cells; /* of the row, each zero-terminated */
    int n_names;
    int n_columns;
    int column[LVN_TABLE_COLUMNS];    /* index of the cell in a row; -1: none */
    char name[LVN_TABLE_COLUMNS][64]; /* the name that was found */
    bool required[LVN_TABLE_COLUMNS];
    bool reals[LVN_TABLE_COLUMNS];      /* cells may be JSON numbers that are not whole; set by the caller */
    bool booleans[LVN_TABLE_COLUMNS];   /* cells may be JSON's true and false, as text; set by the caller */
    json_t *object;                     /* of the row */
    char number[LVN_TABLE_COLUMNS][32]; /* cells that are JSON numbers, as text */
    const char *fault;                  /* .csv: what is wrong with the quotes of the row; NULL: nothing */
    int64_t fault_line;                 /* where that quote was opened */
    int64_t quoted, doubled;            /* .tsv: cells that begin with a quote; those that look like cells of a .csv */
};

/* Does the name have the extension .csv, a row of which may span lines? */
bool lvn_table_is_csv(const char *path);
/* Does the name have the extension of a file with columns? */
bool lvn_table_is_named(const char *path);
/* Does the first line name columns, separated by tabs, of which one is `label`? Whatever the file's name. */
bool lvn_table_is_disguised(const char *path);
/* lvn_table_close() must follow, after failures too. Borrows the path. FORMAT for an empty file or a malformed header.
 */
enum lvn_status lvn_table_open(struct lvn_table *t, const char *path) LVN_CHECKED;
/* The same over borrowed text; the path gives the format. For a path that ends in .parquet the text is the file, or the
 * lines that were made of it. lvn_table_continue() sets the next text, whole rows without a
 * header, after all rows were read. */
enum lvn_status lvn_table_open_text(struct lvn_table *t, const char *path, const char *text, int64_t bytes) LVN_CHECKED;
void lvn_table_continue(struct lvn_table *t, const char *text, int64_t bytes);
void lvn_table_close(struct lvn_table *t);
/* Select a column: the first of these names ("document|text") that exists; the columns of .jsonl are the members of
 * its first object. Call before the first row is read. FORMAT, with a list of the columns, if a required one is missing
 * or two have the name. */
enum lvn_status lvn_table_column(struct lvn_table *t, const char *names, bool required) LVN_CHECKED;
/* The names of the columns that were not selected, before the first row is read; "": none. FORMAT if no line is an
 * object. */
enum lvn_status lvn_table_unread(const struct lvn_table *t, char *list, size_t capacity) LVN_CHECKED;
/* Does the table have a column of texts and one of labels, with the usual names? */
bool lvn_table_has_labels(struct lvn_table *t);
/* Read the next row. *more false: there is none. Empty lines are skipped, unless keep_empty. LVN_MEMORY leaves open
 * whether the row is a good one. */
enum lvn_status lvn_table_next(struct lvn_table *t, struct lvn_table_row *row, bool *more) LVN_CHECKED;

#endif
