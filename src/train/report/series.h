/* series.h - the scalars of a run over its steps, thinned while they are read: what a screen can show of each.
 *
 * metrics_file.h fills them, report.c and levin runs read them. A series is a list of buckets; each holds the mean, the
 * lowest and the highest of as many values in a row, so no spike is lost. When the list is full, neighbours are merged:
 * memory does not grow with the run. */
#ifndef LVN_SERIES_H
#define LVN_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

enum { LVN_SERIES = 64, LVN_SERIES_NAME = 64, LVN_BUCKETS = 2048 };

struct lvn_bucket {
    double x; /* step of its last value */
    double sum;
    double low;
    double high;
    int64_t n; /* values in it */
};

struct lvn_series {
    char name[LVN_SERIES_NAME];
    struct lvn_bucket *bucket; /* [LVN_BUCKETS] */
    int n;                     /* buckets */
    int64_t width;             /* values of each but the last */
    int64_t count;             /* values */
    double last;
    double low;  /* of all */
    double high; /* of all */
};

/* Zeroed: none. */
struct lvn_series_list {
    struct lvn_series series[LVN_SERIES];
    int n;
    int next;         /* index at which the next name is likely to be found */
    bool failed;      /* memory ran out: values are missing */
    bool full;        /* there were more names than LVN_SERIES */
    int64_t disorder; /* values left out because their step is below one before */
};

/* Add a value; those that are not finite are left out. The name has `length` bytes, and is cut if it is longer than a
 * series can hold. */
void lvn_series_add(struct lvn_series_list *l, const char *name, int64_t length, double x, double y);
/* NULL: there is none. */
const struct lvn_series *lvn_series_find(const struct lvn_series_list *l, const char *name);
void lvn_series_release(struct lvn_series_list *l);
/* Append {"n": values, "x": [...], "y": [means], "low": [...], "high": [...]}, at most `max` buckets, and without low
 * and high where every bucket holds one value. base: subtracted from y, low and high. */
void lvn_series_json(struct lvn_text *t, const struct lvn_series *s, int max, double base);

#endif
