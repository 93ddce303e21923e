/* series.h - the scalars of a run over its steps, reduced to screen resolution while they are read.
 *
 * metrics_file.h fills them, report.c and levin runs read them. A series is a list of buckets; each has the mean, the
 * lowest and the highest of the same number of consecutive values, so no spike is lost. When the list is full, adjacent
 * buckets are merged, so memory does not grow with the run. */
#ifndef LVN_SERIES_H
#define LVN_SERIES_H

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
    int64_t width;             /* values in each bucket but the last */
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
    bool failed;      /* out of memory: values are missing */
    bool full;        /* more names than LVN_SERIES */
    int64_t disorder; /* values skipped because their step is below an earlier one */
};

/* Add a value; non-finite ones are ignored. The name has `length` bytes, and is cut if it is longer than a
 * series can hold. */
void lvn_series_add(struct lvn_series_list *l, const char *name, int64_t length, double x, double y);
/* NULL: no such series. */
const struct lvn_series *lvn_series_find(const struct lvn_series_list *l, const char *name);
void lvn_series_release(struct lvn_series_list *l);
/* Append {"n": values, "x": [...], "y": [means], "low": [...], "high": [...], "last": value}, at most `max` buckets,
 * and without low, high and last if every bucket has one value. base: subtracted from all values but x. */
void lvn_series_json(struct lvn_text *t, const struct lvn_series *s, int max, double base);

#endif
