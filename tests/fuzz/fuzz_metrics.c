/* fuzz_metrics.c - the files that a report reads: arbitrary bytes as metrics.jsonl, metrics.csv or events.jsonl are
 * read to their end or refused with a sentence; what was read is a list of JSON objects. The first byte selects the
 * file. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/files.h"
#include "report/metrics_file.h"
#include "report/report_events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each series is finite, in the order of steps, with as many values as its buckets hold, and valid JSON. */
static void check_series(const struct lvn_series *s)
{
    LVN_LOCAL_TEXT(text);
    int64_t count = 0;
    for (int i = 0; i < s->n; i++) {
        const struct lvn_bucket *b = &s->bucket[i];
        if (!isfinite(b->x) || !(b->low <= b->high) || b->n < 1 || (i && b->x < b[-1].x)) abort();
        count += b->n;
    }
    if (count != s->count || s->n > LVN_BUCKETS || strlen(s->name) >= LVN_SERIES_NAME) abort();
    lvn_series_json(&text, s, 16, 0);
    json_t *json = json_loads(text.p, 0, NULL);
    if (!json || json_array_size(json_object_get(json, "x")) > 16) abort();
    json_decref(json);
}

static void read_metrics(const char *path, bool csv)
{
    struct lvn_metrics_file m = {0};
    if (lvn_metrics_file_read(&m, path, csv) != LVN_OK) abort(); /* damaged rows are counted, and no failure */
    if (m.rows < 0 || m.broken < 0) abort();
    for (int i = 0; i < m.list.n; i++) check_series(&m.list.series[i]);
    lvn_metrics_file_release(&m);
}

static void read_events(const char *path)
{
    json_t *events;
    int64_t broken;
    if (lvn_report_events(path, &events, &broken) != LVN_OK) return;
    if (!json_is_object(events) || broken < 0) abort();
    json_decref(events);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/levin-fuzz-metrics.XXXXXX";
    if (!size) return 0;
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, data + 1, size - 1) != (ssize_t)(size - 1)) abort();
    close(fd);
    if (data[0] % 3 == 2)
        read_events(path);
    else
        read_metrics(path, data[0] % 3 == 1);
    unlink(path);
    lvn_error_clear();
    return 0;
}
