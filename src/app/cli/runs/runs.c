/* runs.c - levin runs [DIR]: lists the runs in a folder, or one run, with what their files say of them. */
#include <fts.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/redact.h"
#include "cli/cli.h"
#include "cli/humanize.h"
#include "formats/json.h"
#include "model_io/model_find.h"
#include "report/report.h"
#include "stores/store.h"
#include "train/run_dir.h"

struct row {
    char name[80];
    const char *path;
    const char *url; /* of a run in a store, whose files `path` has; NULL: it is on this machine */
    char state[24];
    int64_t step;
    double loss;      /* last; NaN, here and below: none */
    double best_loss; /* lowest */
    double val_loss;  /* last */
    double best_val_loss;
    double age;    /* seconds since its last sign of life */
    int64_t bytes; /* of its files; -1: not known */
};

static double last_of(const struct lvn_series *s)
{
    return s && s->count ? s->last : (double)NAN;
}

static double lowest_of(const struct lvn_series *s)
{
    return s && s->count ? s->low : (double)NAN;
}

/* Bytes of the files in a folder; -1: it cannot be read. Links in it are not followed: best and last lead to
 * checkpoints that are counted. */
static int64_t size_of(const char *path)
{
    char *folder = realpath(path, NULL); /* the run itself may be a link */
    FTS *walk = folder ? fts_open((char *const[]){folder, NULL}, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
    int64_t total = walk ? 0 : -1;
    for (const FTSENT *file; walk && (file = fts_read(walk));)
        if (file->fts_info == FTS_F && S_ISREG(file->fts_statp->st_mode)) total += (int64_t)file->fts_statp->st_size;
    if (walk) fts_close(walk);
    free(folder);
    return total;
}

static enum lvn_status describe(struct lvn_report_run *r, struct row *row)
{
    LVN_TRY(lvn_report_open(r, row->path));
    LVN_TRY(lvn_report_read(r));
    const struct lvn_series *loss = lvn_series_find(&r->metrics.list, "loss"),
                            *val_loss = lvn_series_find(&r->metrics.list, "val_loss");
    char *whole = strcmp(row->path, ".") ? NULL : realpath(row->path, NULL); /* the current folder has a name too */
    snprintf(row->name, sizeof row->name, "%.*s", (int)sizeof row->name - 1, lvn_path_name(whole ? whole : row->path));
    free(whole);
    snprintf(row->state, sizeof row->state, "%s", r->state);
    row->step = r->metrics.last_step;
    row->loss = last_of(loss);
    row->best_loss = lowest_of(loss);
    row->val_loss = last_of(val_loss);
    row->best_val_loss = lowest_of(val_loss);
    row->age = r->written > 0 ? fmax(0, lvn_wall_seconds() - r->written) : (double)NAN;
    row->bytes = row->url ? -1 : size_of(row->path);
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

enum { COLUMNS = 8, CELL = 4 * 80 };
static const char *const titles[COLUMNS] = {"name", "state", "step", "loss", "val_loss", "best", "age", "size"};

/* A cell of the table; NULL for r: its title. */
static const char *cell_text(const struct row *r, int column, char text[CELL])
{
    if (!r) return titles[column];
    switch (column) {
    case 0:
        return lvn_redacted(text, CELL, r->name); /* a newline would begin another row */
    case 1:
        return lvn_redacted(text, CELL, r->state);
    case 2:
        return lvn_count_text(r->step, text);
    case 3:
        return number_text(r->loss, text);
    case 4:
        return number_text(r->val_loss, text);
    case 5:
        return number_text(isnan(r->best_val_loss) ? r->best_loss : r->best_val_loss, text);
    case 6:
        return isnan(r->age) ? "-" : lvn_seconds_text(r->age, text);
    default:
        return r->bytes < 0 ? "-" : lvn_bytes_text(r->bytes, text);
    }
}

/* Print the table. Each column is as wide as its longest cell; where a terminal has no room for the longest names, a
 * long name has a line to itself. */
static void show(struct lvn_cli *c, const struct row *rows, int n)
{
    const int columns = lvn_terminal_columns(STDOUT_FILENO);
    int width[COLUMNS] = {0}, others = 0;
    char text[CELL];
    for (int k = 0; k < COLUMNS; k++) {
        for (int i = -1; i < n; i++) {
            const int cell = lvn_text_columns(cell_text(i < 0 ? NULL : &rows[i], k, text));
            if (cell > width[k]) width[k] = cell;
        }
        others += k ? 2 + width[k] : 0;
    }
    if (columns && width[0] > columns - 1 - others) width[0] = columns - 1 - others > 4 ? columns - 1 - others : 4;
    for (int i = n ? -1 : 0; i < n; i++) {
        for (int k = 0; k < COLUMNS; k++) {
            const char *cell = cell_text(i < 0 ? NULL : &rows[i], k, text);
            int pad = width[k] - lvn_text_columns(cell);
            if (k < 2)
                lvn_cli_print(c, "%s%s%*s", k ? "  " : "", cell, pad > 0 ? pad : 0, "");
            else
                lvn_cli_print(c, "  %*s%s", pad, "", cell);
            if (pad < 0) lvn_cli_print(c, "\n%*s", width[k], "");
        }
        lvn_cli_print(c, "\n");
    }
}

static json_t *json_of(const struct row *rows, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        const struct row *r = &rows[i];
        json_t *one = json_object();
        json_object_set_new(one, "name", lvn_json_text(r->name, sizeof r->name));
        json_object_set_new(one, "path", lvn_json_text(r->url ? r->url : r->path, 1200));
        json_object_set_new(one, "state", json_string(r->state));
        json_object_set_new(one, "step", json_integer(r->step));
        json_object_set_new(one, "loss", lvn_json_number(r->loss));
        json_object_set_new(one, "best_loss", lvn_json_number(r->best_loss));
        json_object_set_new(one, "val_loss", lvn_json_number(r->val_loss));
        json_object_set_new(one, "best_val_loss", lvn_json_number(r->best_val_loss));
        json_object_set_new(one, "age_s", lvn_json_number(r->age));
        json_object_set_new(one, "bytes", r->bytes < 0 ? json_null() : json_integer(r->bytes));
        json_array_append_new(list, one);
    }
    return list;
}

/* `store`: the address of the folder whose files are in `folder`; NULL: it is on this machine. */
static enum lvn_status list(struct lvn_cli *c, struct row *rows, const char *const *paths, int n, const char *folder,
                            const char *store)
{
    struct lvn_report_run run;
    struct lvn_arena *a = &c->settings.arena;
    for (int i = 0; i < n; i++) {
        rows[i].path = paths[i];
        if (store) rows[i].url = paths[i] == folder ? store : lvn_store_join(a, store, lvn_path_name(paths[i]));
        if (store && !rows[i].url) return LVN_MEMORY;
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

/* The runs in this folder; if it has none and is a run, this run. */
static enum lvn_status find(struct lvn_arena *a, const char *folder, const char *const **paths, int *n)
{
    LVN_TRY(lvn_report_find(a, folder, paths, n));
    if (*n || !lvn_report_is_run(folder)) return LVN_OK;
    const char **one = lvn_arena_alloc(a, sizeof *one);
    if (!one) return LVN_MEMORY;
    *one = folder;
    *paths = one;
    *n = 1;
    return LVN_OK;
}

enum lvn_status lvn_command_runs(struct lvn_cli *c)
{
    LVN_LOCAL_ARENA(a);
    const char *const *paths = NULL;
    const bool named = c->n_operands > 0;
    int n = 0;
    const char *folder = lvn_path_plain(&a, named ? c->operand[0] : "runs");
    if (!folder) return LVN_MEMORY;
    LVN_TRY(sort(NULL, 0, c->flag[LVN_FLAG_runs_sort].t));
    const char *store = lvn_store_is_remote(folder) ? folder : NULL;
    if (store) LVN_TRY(lvn_store_download(&a, store, LVN_WANT_RUNS, &folder));
    if (named && !lvn_path_is_dir(folder)) {
        folder = lvn_run_dir_find(&a, folder);
        LVN_CHECK(folder, ARG, "%s", lvn_run_missing(&a, c->operand[0]));
    }
    if (lvn_path_is_dir(folder)) LVN_TRY(find(&a, folder, &paths, &n));
    if (!n && !named) LVN_TRY(find(&a, ".", &paths, &n)); /* levin runs, called in runs/ or in a run */
    if (!n)
        lvn_log(LVN_LOG_INFO, "there are no runs in '%s'%s", store ? store : folder,
                named ? "" : ", nor in the current folder");
    struct row *rows = lvn_calloc((size_t)n + 1, sizeof *rows);
    if (!rows) return LVN_MEMORY;
    enum lvn_status status = list(c, rows, paths, n, folder, store);
    free(rows);
    return status;
}
