/* series.c - see series.h. */
#include "report/series.h"

#include "base/arena.h"

static bool is_named(const struct lvn_series *s, const char *name, int64_t length)
{
    return !strncmp(s->name, name, (size_t)length) && !s->name[length];
}

/* The series of this name, new if there is none; NULL: full. */
static struct lvn_series *series_of(struct lvn_series_list *l, const char *name, int64_t length)
{
    if (length >= LVN_SERIES_NAME) length = LVN_SERIES_NAME - 1;
    for (int k = 0; k < l->n; k++) { /* rows usually have their names in the same order */
        int i = (l->next + k) % l->n;
        if (!is_named(&l->series[i], name, length)) continue;
        l->next = i + 1;
        return &l->series[i];
    }
    l->full |= l->n == LVN_SERIES;
    if (l->n == LVN_SERIES) return NULL;
    struct lvn_series *s = &l->series[l->n];
    *s = (struct lvn_series){.bucket = lvn_malloc(LVN_BUCKETS * sizeof *s->bucket), .width = 1};
    l->failed |= !s->bucket;
    if (!s->bucket) return NULL;
    memcpy(s->name, name, (size_t)length);
    l->next = ++l->n;
    return s;
}

static void merge(struct lvn_bucket *to, const struct lvn_bucket *b)
{
    to->x = b->x;
    to->sum += b->sum;
    to->low = fmin(to->low, b->low);
    to->high = fmax(to->high, b->high);
    to->n += b->n;
}

static void halve(struct lvn_series *s)
{
    for (int i = 0; i < s->n / 2; i++) {
        struct lvn_bucket one = s->bucket[2 * i];
        merge(&one, &s->bucket[2 * i + 1]);
        s->bucket[i] = one;
    }
    s->n /= 2;
    s->width *= 2;
}

void lvn_series_add(struct lvn_series_list *l, const char *name, int64_t length, double x, double y)
{
    if (!isfinite(y) || !isfinite(x)) return;
    struct lvn_series *s = series_of(l, name, length);
    if (!s) return;
    struct lvn_bucket *last = s->n ? &s->bucket[s->n - 1] : NULL;
    l->disorder += last && x < last->x;
    if (last && x < last->x) return;
    const struct lvn_bucket one = {x, y, y, y, 1};
    s->low = s->count ? fmin(s->low, y) : y;
    s->high = s->count ? fmax(s->high, y) : y;
    s->last = y;
    s->count++;
    if (last && last->n < s->width) {
        merge(last, &one);
        return;
    }
    if (s->n == LVN_BUCKETS) halve(s);
    s->bucket[s->n++] = one;
}

const struct lvn_series *lvn_series_find(const struct lvn_series_list *l, const char *name)
{
    for (int i = 0; i < l->n; i++) {
        if (!strcmp(l->series[i].name, name)) return &l->series[i];
    }
    return NULL;
}

void lvn_series_release(struct lvn_series_list *l)
{
    for (int i = 0; i < l->n; i++) free(l->series[i].bucket);
    *l = (struct lvn_series_list){0};
}

/* --- as JSON --- */

enum column { X, MEAN, LOW, HIGH };

static void add_value(struct lvn_text *t, double value)
{
    lvn_text_number(t, value, fabs(value) >= 1e5 ? 12 : 6);
}

static void add_column(struct lvn_text *t, const struct lvn_series *s, int merged, enum column column, double base)
{
    static const char *const names[] = {"x", "y", "low", "high"};
    lvn_text_printf(t, ", \"%s\": [", names[column]);
    for (int i = 0; i < s->n; i += merged) {
        struct lvn_bucket b = s->bucket[i];
        for (int k = i + 1; k < i + merged && k < s->n; k++) merge(&b, &s->bucket[k]);
        const double mean = b.sum / (double)b.n;
        const double value = column == X ? b.x : (column == MEAN ? mean : column == LOW ? b.low : b.high) - base;
        if (i) lvn_text_add(t, ",");
        if (column == X)
            lvn_text_number(t, value, 12);
        else
            add_value(t, value);
    }
    lvn_text_add(t, "]");
}

void lvn_series_json(struct lvn_text *t, const struct lvn_series *s, int max, double base)
{
    const int merged = s->n > max ? (s->n + max - 1) / max : 1;
    lvn_text_printf(t, "{\"n\": %" PRId64, s->count);
    add_column(t, s, merged, X, base);
    add_column(t, s, merged, MEAN, base);
    if (merged > 1 || s->width > 1) {
        add_column(t, s, merged, LOW, base);
        add_column(t, s, merged, HIGH, base);
        lvn_text_add(t, ", \"last\": ");
        add_value(t, s->last - base);
    }
    lvn_text_add(t, "}");
}
