/* chat_rows.h - encodes the conversations of files: rows of .jsonl and .parquet files, elements of .json files that are
 * one list. Called by data.kind=chat and `levin tokenize --chat`.
 *
 * Rows are encoded in groups, by all threads, and delivered in their order, so the result is the same for every number
 * of threads. A row that cannot be used is delivered with its error: "FILE:LINE: ...". The rows of a file have one form
 * (chat/chat_row.h). The whole text of a .jsonl file is never in memory. The callers open all files but Parquet. */
#ifndef LVN_CHAT_ROWS_H
#define LVN_CHAT_ROWS_H

#include "chat/chat_encode.h"

struct lvn_chat_rows_options {
    const struct lvn_chat *chat; /* borrowed */
    int n_threads;
    void *context; /* for each() */
    /* Write an encoded row; in any thread. */
    enum lvn_status (*write)(struct lvn_text *out, int64_t line, const struct lvn_chat_samples *samples);
    /* Receive each row in order: what write() wrote, or the error, and NULL. */
    enum lvn_status (*each)(void *context, int64_t line, const struct lvn_text *written, const char *error);
};

struct lvn_chat_rows;
enum lvn_status lvn_chat_rows_new(struct lvn_chat_rows **out, const struct lvn_chat_rows_options *o) LVN_CHECKED;
void lvn_chat_rows_free(struct lvn_chat_rows *r); /* NULL: nothing */
/* A file: its name (borrowed until the end), its bytes in parts, its end. Errors are those of each(), of a list that is
 * no JSON, or of a row that needs a chat template, if there is none. */
void lvn_chat_rows_begin(struct lvn_chat_rows *r, const char *name);
enum lvn_status lvn_chat_rows_data(struct lvn_chat_rows *r, const void *p, int64_t n) LVN_CHECKED;
/* Refuse a Parquet file whose tools, tool calls or variables of the template have columns that are not read; warn of
 * such columns elsewhere in messages. Once for each file. */
enum lvn_status lvn_chat_rows_check(const char *path) LVN_CHECKED;
/* The rows of a Parquet file, as lines of JSON, between lvn_chat_rows_begin() and lvn_chat_rows_end(). */
enum lvn_status lvn_chat_rows_parquet(struct lvn_chat_rows *r, const char *path) LVN_CHECKED;
enum lvn_status lvn_chat_rows_end(struct lvn_chat_rows *r) LVN_CHECKED;

#endif
