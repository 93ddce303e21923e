/* json_line.h - what is wrong with a line of a .jsonl file, of which each line is an object. For readers of such files
 * (corpus.c, table.c); formats/json.h parses the line. */
#ifndef LVN_JSON_LINE_H
#define LVN_JSON_LINE_H

#include <stdbool.h>

#include "formats/json.h"

/* Does an array begin in this line, which is not blank? In a file that is one array, at most the last element stands on
 * a line as an object. */
bool lvn_json_line_begins_array(const char *line);
/* Why the line is no object, after lvn_json_load(); NULL: it is one. */
const char *lvn_json_line_fault(const char *line, const json_t *root, const json_error_t *error);

#endif
