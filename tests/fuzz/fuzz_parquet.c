/* fuzz_parquet.c - Parquet files with arbitrary contents: every text of a file that the reader accepts is readable, and
 * every row is a line. */
#include <stdint.h>
#include <stdlib.h>

#include "formats/parquet/parquet_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum lvn_status each_text(void *context, int64_t row, const void *text, int64_t bytes)
{
    int64_t letters = 0;
    for (int64_t i = 0; i < bytes; i++) letters += ((const char *)text)[i] != 0;
    *(int64_t *)context += letters;
    if (row < 0 || bytes < 0) abort();
    return LVN_OK;
}

static enum lvn_status each_line(void *context, const char *line, int64_t bytes)
{
    *(int64_t *)context += bytes;
    if (bytes < 3 || line[0] != '{' || line[bytes - 1] != '\n') abort();
    return LVN_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lvn_parquet *p;
    int64_t letters = 0;
    if (lvn_parquet_open_memory(&p, "input", data, (int64_t)size) != LVN_OK) return 0;
    for (int64_t i = 0; i < lvn_parquet_groups(p) && i < 4; i++) {
        if (lvn_parquet_group_end(p, i) > (int64_t)size) abort();
        for (int k = 0; k < p->n_leaves && k < 8; k++) {
            int column;
            if (lvn_parquet_column(p, p->leaf[k]->path, &column) == LVN_OK &&
                lvn_parquet_read(p, i, column, each_text, &letters) != LVN_OK && !*levin_error_text())
                abort();
        }
        if (lvn_parquet_read_lines(p, i, true, each_line, &letters) != LVN_OK && !*levin_error_text()) abort();
    }
    lvn_parquet_close(p);
    return 0;
}
