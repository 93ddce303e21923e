/* json_line.h - what is wrong with a line of a .jsonl file, in which each line is an object. For readers of such files
 * (corpus.c, table.c); formats/json.h parses the line. A line has n bytes and is not NUL-terminated: it may be the end
 * of a mapped file. */
#ifndef LVN_JSON_LINE_H
#define LVN_JSON_LINE_H

#include "formats/json.h"

bool lvn_json_line_is_blank(const char *line, int64_t n);
/* True if an array begins in this line. In a file that is one array, at most the last element is an object on a line of
 * its own. */
bool lvn_json_line_begins_array(const char *line, int64_t n);
/* Why the line is not an object, after lvn_json_load(); NULL if it is one. */
const char *lvn_json_line_fault(const char *line, int64_t n, const json_t *root, const json_error_t *error);

#endif
