/* samples.c - see samples.h. */
#include "train/samples.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"

enum lvn_status lvn_samples_keep(const char *path, int64_t step, const char *text)
{
    FILE *f = fopen(path, "a");
    LVN_CHECK(f, IO, "cannot open '%s': %s", path, strerror(errno));
    fprintf(f, "--- step %lld ---\n%s\n", (long long)step, text);
    bool bad = ferror(f) != 0;
    LVN_CHECK(fclose(f) == 0 && !bad, IO, "cannot write '%s'", path);
    return LVN_OK;
}

/* The step of a line `--- step N ---`; -1: it is no such line. */
static int64_t step_of(const char *line)
{
    long long step;
    int n = 0;
    return sscanf(line, "--- step %lld ---%n", &step, &n) == 1 && n && (line[n] == '\n' || !line[n]) ? step : -1;
}

enum lvn_status lvn_samples_cut(const char *path, int64_t last_step)
{
    char *text;
    int64_t bytes;
    if (!lvn_path_exists(path)) return LVN_OK;
    LVN_TRY(lvn_file_read(path, 0, &text, &bytes));
    const char *at = text;
    while (at && *at && step_of(at) <= last_step) {
        at = strchr(at, '\n');
        if (at) at++;
    }
    enum lvn_status status = at && *at ? lvn_file_write(path, text, at - text) : LVN_OK;
    free(text);
    return status;
}
