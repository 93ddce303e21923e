/* parquet.h - reads texts from Parquet files: a column of texts, or rows as lines of JSON. Called by
 * data/parquet_texts.h, data/table.h and data.kind=chat.
 *
 * A file is read row group by row group, and each column page by page, so memory holds one page of each column that is
 * read, and its dictionary. Supported are columns of texts (BYTE_ARRAY), numbers and booleans, which may be in lists
 * and structs; the encodings PLAIN, RLE, dictionaries and DELTA_*; data pages of both versions; and the codecs snappy,
 * LZ4_RAW, gzip and zstd, the last two with libraries that are loaded at run time. Checksums of pages are verified if
 * the file has them. Nothing in a file is trusted: a message names the file, the row group and the column. Left out,
 * and refused by name: encryption, columns in other files, other encodings and codecs. */
#ifndef LVN_PARQUET_H
#define LVN_PARQUET_H

#include "base/text.h"

struct lvn_parquet;

/* FORMAT if it is no Parquet file, or damaged. */
enum lvn_status lvn_parquet_open(struct lvn_parquet **out, const char *path) LVN_CHECKED;
/* The same of bytes in memory, which the caller keeps. */
enum lvn_status lvn_parquet_open_memory(struct lvn_parquet **out, const char *name, const void *p,
                                        int64_t n) LVN_CHECKED;
void lvn_parquet_close(struct lvn_parquet *p); /* NULL: nothing */

int64_t lvn_parquet_groups(const struct lvn_parquet *p);
/* Offset of the end of a row group in the file, for progress. */
int64_t lvn_parquet_group_end(const struct lvn_parquet *p, int64_t group);
/* Is there a column with this name? */
bool lvn_parquet_has(const struct lvn_parquet *p, const char *name);
/* The type of that column, for messages; NULL: there is none. */
const char *lvn_parquet_type(const struct lvn_parquet *p, const char *name);
/* The JSON that the package `datasets` adds to the schema, for example with the names of classes; NULL: none. */
const char *lvn_parquet_features(const struct lvn_parquet *p);
/* The column of texts with this name, or dotted path in structs. FORMAT, with the columns of the file, if there is
 * none, or it is not text. */
enum lvn_status lvn_parquet_column(const struct lvn_parquet *p, const char *name, int *column) LVN_CHECKED;

/* Receive the text of a row, counted from 0 in its group. text NULL: the row has none. */
typedef enum lvn_status lvn_parquet_text(void *context, int64_t row, const void *text, int64_t bytes);
/* Read a column of a row group. The text may be any bytes. */
enum lvn_status lvn_parquet_read(struct lvn_parquet *p, int64_t group, int column, lvn_parquet_text *each,
                                 void *context) LVN_CHECKED;
/* Read the rows of a group as lines of JSON: an object with a member for each column that contains texts, numbers or
 * booleans. Lists become arrays, structs become objects; maps, dates, times and decimals are left out. If `lists` is
 * true, numbers and booleans in lists are read too, null members of structs are left out, and texts of JSON columns are
 * inserted as JSON. If it is false, FORMAT for a file without a column of texts. */
enum lvn_status lvn_parquet_read_lines(struct lvn_parquet *p, int64_t group, bool lists,
                                       enum lvn_status (*each)(void *context, const char *line, int64_t bytes),
                                       void *context) LVN_CHECKED;
/* The path of the next column, from *column on, that lvn_parquet_read_lines() with lists leaves out; NULL: none. */
const char *lvn_parquet_unread(const struct lvn_parquet *p, int *column);

#endif
