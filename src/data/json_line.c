/* json_line.c - see json_line.h. */
#include "data/json_line.h"

#include <string.h>

bool lvn_json_line_begins_array(const char *line)
{
    return line[strspn(line, " \t\r")] == '[';
}

const char *lvn_json_line_fault(const char *line, const json_t *root, const json_error_t *error)
{
    if (json_is_object(root)) return NULL;
    if (lvn_json_line_begins_array(line))
        return "no JSON object, but an array: `jq -c '.[]' FILE > FILE.jsonl` makes lines of it";
    return root ? "no JSON object" : error->text;
}
