/* json_line.c - see json_line.h. */
#include "data/json_line.h"

/* Index of the first byte that is not white space; n if there is none. */
static int64_t first_visible(const char *line, int64_t n)
{
    int64_t i = 0;
    while (i < n && (line[i] == ' ' || line[i] == '\t' || line[i] == '\r')) i++;
    return i;
}

bool lvn_json_line_is_blank(const char *line, int64_t n)
{
    return first_visible(line, n) == n;
}

bool lvn_json_line_begins_array(const char *line, int64_t n)
{
    const int64_t i = first_visible(line, n);
    return i < n && line[i] == '[';
}

const char *lvn_json_line_fault(const char *line, int64_t n, const json_t *root, const json_error_t *error)
{
    if (json_is_object(root)) return NULL;
    if (lvn_json_line_begins_array(line, n))
        return "no JSON object, but an array: `jq -c '.[]' FILE > FILE.jsonl` makes lines of it";
    if (!root && lvn_utf8_check(line, n) >= 0) return "it is not UTF-8 text: " LVN_UTF8_ADVICE;
    return root ? "no JSON object" : error->text;
}
