/* runs.c - levin runs [DIR]: lists the runs in a folder, with what their files say of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/files.h"
#include "cli/cli.h"
#include "cli/humanize.h"
#include "formats/json.h"
#include "stores/store.h"
#include "train/report/report.h"

struct row {
    char name[80];
    const char *path;
    char state[24];
    int64_t step;
    double loss;      /* last; NaN, here and below: none */
    double best_loss; /* lowest */
    double val_loss;  /* last */
    double best_val_loss;
    double age; /* seconds since its last sign of life */
    int64_t bytes;
};

static double last_of(const struct lvn_series *s)
{
    return s && s->count ? s->last : (double)NAN;
}

static double lowest_of(const struct lvn_series *s)
{
    return s && s->count ? s->low : (double)NAN;
}

static enum lvn_status size_of(const char *path, int64_t *bytes)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_store_entries all;
    LVN_TRY(lvn_store_list(&a, path, true, &all));
    *bytes = 0;
    for (int i = 0; i < all.n; i++) *bytes += all.entry[i].bytes > 0 ? all.entry[i].bytes : 0;
    return LVN_OK;
}

static enum lvn_status describe(struct lvn_report_run *r, struct row *row)
{
    LVN_TRY(lvn_report_open(r, row->path));
    LVN_TRY(lvn_report_read(r));
    const struct lvn_series *loss = lvn_series_find(&r->metrics.list, "loss"),
                            *val_loss = lvn_series_find(&r->metrics.list, "val_loss");
    const char *const name = lvn_path_name(row->path);
    snprintf(row->name, sizeof row->name, "%.*s", (int)sizeof row->name - 1, name);
    snprintf(row->state, sizeof row->state, "%s", r->state);
    row->step = r->metrics.last_step;
    row->loss = last_of(loss);
    row->best_loss = lowest_of(loss);
    row->val_loss = last_of(val_loss);
    row->best_val_loss = lowest_of(val_loss);
    row->age = r->written > 0 ? fmax(0, lvn_wall_seconds() - r->written) : (double)NAN;
    if (size_of(row->path, &row->bytes)) { /* a file vanished while it was listed */
        lvn_error_clear();
        row->bytes = -1;
    }
    return LVN_OK;
}

/* --- order --- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static int by_number(double a, double b, const void *x, const void *y)
{
    if (isnan(a) != isnan(b)) return isnan(a) ? 1 : -1; /* what is not known comes last */
    return a < b ? -1 : a > b ? 1 : by_name(x, y);
}

static int by_state(const void *a, const void *b)
{
    const int order = strcmp(((const struct row *)a)->state, ((const struct row *)b)->state);
    return order ? order : by_name(a, b);
}

static int by_step(const void *a, const void *b)
{
    return by_number(-(double)((const struct row *)a)->step, -(double)((const struct row *)b)->step, a, b);
}

static int by_loss(const void *a, const void *b)
{
    return by_number(((const struct row *)a)->best_loss, ((const struct row *)b)->best_loss, a, b);
}

static int by_val_loss(const void *a, const void *b)
{
    return by_number(((const struct row *)a)->best_val_loss, ((const struct row *)b)->best_val_loss, a, b);
}

static int by_age(const void *a, const void *b)
{
    return by_number(((const struct row *)a)->age, ((const struct row *)b)->age, a, b);
}

static int by_size(const void *a, const void *b)
{
    return by_number(-(double)((const struct row *)a)->bytes, -(double)((const struct row *)b)->bytes, a, b);
}

static const struct {
    const char *name;
    int (*compare)(const void *a, const void *b);
} orders[] = {{"age", by_age},   {"name", by_name},         {"state", by_state}, {"step", by_step},
              {"loss", by_loss}, {"val_loss", by_val_loss}, {"size", by_size}};

static enum lvn_status sort(struct row *rows, int n, const char *word)
{
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        if (strcmp(orders[i].name, word) != 0) continue;
        if (n) qsort(rows, (size_t)n, sizeof *rows, orders[i].compare);
        return LVN_OK;
    }
    LVN_FAIL(ARG, "--sort is '%.40s'; it is age, name, state, step, loss, val_loss or size", word);
}

/* --- showing --- */

static const char *number_text(double x, char text[LVN_NUMBER_TEXT])
{
    snprintf(text, LVN_NUMBER_TEXT, isnan(x) ? "-" : "%.4f", x);
    return text;
}

static void show(struct lvn_cli *c, const struct row *rows, int n)
{
    char text[6][LVN_NUMBER_TEXT];
    if (n)
        lvn_cli_print(c, "%-28s %-8s %10s %9s %9s %9s %13s %10s\n", "name", "state", "step", "loss", "val_loss", "best",
                      "age", "size");
    for (int i = 0; i < n; i++) {
        const struct row *r = &rows[i];
        lvn_cli_print(c, "%-28s %-8s %10s %9s %9s %9s %13s %10s\n", r->name, r->state, lvn_count_text(r->step, text[0]),
                      number_text(r->loss, text[1]), number_text(r->val_loss, text[2]),
                      number_text(isnan(r->best_val_loss) ? r->best_loss : r->best_val_loss, text[3]),
                      isnan(r->age) ? "-" : lvn_seconds_text(r->age, text[4]),
                      r->bytes < 0 ? "-" : lvn_bytes_text(r->bytes, text[5]));
    }
}

static json_t *json_of(const struct row *rows, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        const struct row *r = &rows[i];
        json_t *one = json_object();
        json_object_set_new(one, "name", lvn_json_text(r->name, sizeof r->name));
        json_object_set_new(one, "path", lvn_json_text(r->path, 1200));
        json_object_set_new(one, "state", json_string(r->state));
        json_object_set_new(one, "step", json_integer(r->step));
        json_object_set_new(one, "loss", lvn_cli_number(r->loss));
        json_object_set_new(one, "best_loss", lvn_cli_number(r->best_loss));
        json_object_set_new(one, "val_loss", lvn_cli_number(r->val_loss));
        json_object_set_new(one, "best_val_loss", lvn_cli_number(r->best_val_loss));
        json_object_set_new(one, "age_s", lvn_cli_number(r->age));
        json_object_set_new(one, "bytes", r->bytes < 0 ? json_null() : json_integer(r->bytes));
        json_array_append_new(list, one);
    }
    return list;
}

static enum lvn_status list(struct lvn_cli *c, struct row *rows, const char *const *paths, int n)
{
    struct lvn_report_run run;
    for (int i = 0; i < n; i++) {
        rows[i].path = paths[i];
        enum lvn_status status = describe(&run, &rows[i]);
        lvn_report_release(&run);
        LVN_TRY(status);
    }
    LVN_TRY(sort(rows, n, c->flag[LVN_FLAG_runs_sort].t));
    if (c->json)
        lvn_cli_add(c, "runs", json_of(rows, n));
    else
        show(c, rows, n);
    return LVN_OK;
}

enum lvn_status lvn_command_runs(struct lvn_cli *c)
{
    LVN_LOCAL_ARENA(a);
    const char *const *paths = NULL;
    int n = 0;
    const char *folder = lvn_path_plain(&a, c->n_operands ? c->operand[0] : "runs");
    if (!folder) return LVN_MEMORY;
    LVN_TRY(sort(NULL, 0, c->flag[LVN_FLAG_runs_sort].t));
    LVN_CHECK(lvn_path_is_dir(folder) || !c->n_operands, ARG, "there is no folder '%.300s'; give one with runs in it",
              folder);
    if (lvn_path_is_dir(folder)) LVN_TRY(lvn_report_find(&a, folder, &paths, &n));
    if (!n) lvn_log(LVN_LOG_INFO, "there are no runs in '%s'", folder);
    struct row *rows = lvn_calloc((size_t)n + 1, sizeof *rows);
    if (!rows) return LVN_MEMORY;
    enum lvn_status status = list(c, rows, paths, n);
    free(rows);
    return status;
}
