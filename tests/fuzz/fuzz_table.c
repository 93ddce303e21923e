/* fuzz_table.c - rows of a table: for arbitrary bytes each row has its columns or an error sentence, line
 * numbers rise, and reading ends. The first byte selects the kind of table. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Read all rows. */
static void read_rows(struct lvn_table *t, int64_t bytes)
{
    struct lvn_table_row row;
    int64_t n = 0, line = 0;
    for (bool more;; n++) {
        if (lvn_table_next(t, &row, &more) != LVN_OK) abort();
        if (!more) return;
        if (row.line <= line || n > bytes) abort();
        line = row.line;
        if (*row.bad) continue;
        if (!row.cell[0].p || lvn_utf8_check(row.cell[0].p, row.cell[0].n) >= 0) abort();
        if (row.cell[0].n > bytes || memchr(row.cell[0].p, 0, (size_t)row.cell[0].n)) abort();
        if (row.cell[1].p && row.cell[1].n > bytes + 32) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"x.tsv", "x.csv", "x.jsonl", "x"};
    struct lvn_table t;
    if (!size) return 0;
    const int64_t bytes = (int64_t)size - 1;
    char *text = malloc((size_t)(bytes ? bytes : 1)); /* no further byte may be read */
    if (!text) abort();
    memcpy(text, data + 1, (size_t)bytes);
    if (lvn_table_open_text(&t, names[data[0] % 4], text, bytes) == LVN_OK &&
        lvn_table_column(&t, "document|text", true) == LVN_OK && lvn_table_column(&t, "label", false) == LVN_OK)
        read_rows(&t, bytes);
    lvn_table_close(&t);
    lvn_error_clear();
    free(text);
    return 0;
}
