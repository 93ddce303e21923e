/* metrics.c - see metrics.h. */
#include "train/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"

static const char csv_header[] = "step,loss,grad_norm,lr,tokens_per_s,val_loss\n";

/* The step of a row; -1: no whole row. */
static int64_t step_of(const char *row, const char *end)
{
    while (row < end && (*row < '0' || *row > '9')) row++;
    return row < end ? strtoll(row, NULL, 10) : -1;
}

/* Rewrite a file without the rows after `last_step` and without a half row at its end. */
static enum lvn_status cut(const char *path, int64_t last_step, const char *header)
{
    char *text = NULL;
    int64_t bytes = 0, kept = (int64_t)strlen(header);
    if (!lvn_path_exists(path) || last_step < 0) return lvn_file_write(path, header, kept);
    LVN_TRY(lvn_file_read(path, 0, &text, &bytes));
    char *out = text;
    if (bytes < kept || memcmp(text, header, (size_t)kept) != 0) kept = 0;
    out += kept;
    for (char *row = out, *next; row < text + bytes; row = next) {
        char *end = memchr(row, '\n', (size_t)(text + bytes - row));
        if (!end) break;
        next = end + 1;
        int64_t step = step_of(row, end);
        if (step < 0 || step > last_step) continue;
        memmove(out, row, (size_t)(next - row));
        out += next - row;
    }
    enum lvn_status status = out == text + bytes ? LVN_OK : lvn_file_write(path, text, out - text);
    free(text);
    return status;
}

static enum lvn_status open_file(const char *path, int64_t last_step, const char *header, int *fd)
{
    LVN_TRY(cut(path, last_step, header));
    *fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    LVN_CHECK(*fd >= 0, IO, "'%s' cannot be written: %s", path, strerror(errno));
    return LVN_OK;
}

enum lvn_status lvn_metrics_open(struct lvn_metrics *m, const struct lvn_run_dir *d, int64_t last_step)
{
    *m = (struct lvn_metrics){.jsonl = -1, .csv = -1};
    enum lvn_status status = open_file(d->metrics_jsonl, last_step, "", &m->jsonl);
    if (status == LVN_OK) status = open_file(d->metrics_csv, last_step, csv_header, &m->csv);
    if (status != LVN_OK) lvn_metrics_close(m);
    return status;
}

void lvn_metrics_close(struct lvn_metrics *m)
{
    if (m->jsonl >= 0) close(m->jsonl);
    if (m->csv >= 0) close(m->csv);
    m->jsonl = m->csv = -1;
}

static void put(struct lvn_metrics *m, int fd, const char *row, int n)
{
    off_t before = lseek(fd, 0, SEEK_END);
    if (write(fd, row, (size_t)n) == n) return;
    m->failed = true;
    if (before >= 0 && ftruncate(fd, before) != 0) return; /* half a row would spoil the next one */
}

/* JSON has no NaN and no infinity: null stands for them. */
static const char *number(char text[32], double x)
{
    if (isfinite(x))
        snprintf(text, 32, "%.9g", x);
    else
        snprintf(text, 32, "null");
    return text;
}

void lvn_metrics_handle(void *context, const struct lvn_event *e)
{
    struct lvn_metrics *m = context;
    char row[512], a[32], b[32], c[32];
    int n;
    if (e->kind == LVN_EVENT_STEP) {
        n = snprintf(row, sizeof row,
                     "{\"step\": %" PRId64 ", \"loss\": %s, \"grad_norm\": %s, \"lr\": %.9g, \"tokens_per_s\": %s}\n",
                     e->step, number(a, e->loss), number(b, e->grad_norm), e->lr, number(c, e->tokens_per_s));
        put(m, m->jsonl, row, n);
        n = snprintf(row, sizeof row, "%" PRId64 ",%.9g,%.9g,%.9g,%.9g,\n", e->step, e->loss, e->grad_norm, e->lr,
                     e->tokens_per_s);
        put(m, m->csv, row, n);
    } else if (e->kind == LVN_EVENT_VALIDATION) {
        n = snprintf(row, sizeof row, "{\"step\": %" PRId64 ", \"val_loss\": %s}\n", e->step, number(a, e->val_loss));
        put(m, m->jsonl, row, n);
        n = snprintf(row, sizeof row, "%" PRId64 ",,,,,%.9g\n", e->step, e->val_loss);
        put(m, m->csv, row, n);
    }
}
