/* report.c - levin report RUN [RUN ...]: draws a page of runs from their files, once or until they end. run/report
 * defines the contents of the page. */
#include <unistd.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/input.h"
#include "base/target.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "formats/json.h"
#include "model_io/model_find.h"
#include "report/report.h"
#include "stores/store.h"
#include "train/run_dir.h"

enum { LONGEST_TEXT = 1200, MAX_NOTES = 100000 };

struct runs {
    const char *path[LVN_REPORT_RUNS];
    const char *url[LVN_REPORT_RUNS]; /* of a run in a store, whose files `path` has; NULL: it is on this machine */
    int n;
    struct lvn_report_run *run; /* [n] */
};

static enum lvn_status add(struct runs *r, const char *path, const char *url)
{
    LVN_CHECK(r->n < LVN_REPORT_RUNS, ARG,
              "these are more than %d runs; name those to compare (`levin report runs/a runs/b`)", LVN_REPORT_RUNS);
    for (int i = 0; i < r->n; i++) {
        if (!strcmp(r->path[i], path)) return LVN_OK;
    }
    r->url[r->n] = url;
    r->path[r->n++] = path;
    return LVN_OK;
}

/* A run by its path or its name below runs/, or all runs in a folder. */
static enum lvn_status find(struct lvn_arena *a, struct runs *r, const char *name)
{
    const bool stored = lvn_store_is_remote(name);
    const char *folder = stored ? NULL : lvn_run_dir_find(a, name), *url = NULL, *const * found;
    int n;
    if (stored) LVN_TRY(lvn_store_download(a, name, LVN_WANT_RUNS, &folder));
    LVN_CHECK(folder, ARG, "%s", lvn_run_missing(a, name));
    if (lvn_report_is_run(folder)) return add(r, folder, stored ? name : NULL);
    LVN_TRY(lvn_report_find(a, folder, &found, &n));
    LVN_CHECK(n, ARG,
              "'%.300s' is not a run and contains none: there is no metrics.jsonl, metrics.csv or settings.yaml",
              folder);
    for (int i = 0; i < n; i++) {
        if (stored && !(url = lvn_store_join(a, name, lvn_path_name(found[i])))) return LVN_MEMORY;
        LVN_TRY(add(r, found[i], url));
    }
    return LVN_OK;
}

/* Of a run in a store, which has been read: show its address, not the path of its files in the cache. */
static void show_address(struct lvn_report_run *run, const char *url)
{
    if (!url) return;
    const bool named = run->name < run->path || run->name >= run->path + sizeof run->path; /* by its events */
    snprintf(run->path, sizeof run->path, "%s", url);
    if (!named) run->name = lvn_path_name(run->path);
}

/* notes: a file with text for the top of the page; "": none. */
static enum lvn_status draw(struct runs *r, const char *notes, const char *out)
{
    LVN_LOCAL_TEXT(page);
    char *text = NULL;
    int64_t bytes = 0;
    for (int i = 0; i < r->n; i++) LVN_TRY(lvn_report_read(&r->run[i]));
    for (int i = 0; i < r->n; i++) show_address(&r->run[i], r->url[i]);
    if (*notes) LVN_TRY(lvn_file_read(notes, MAX_NOTES, &text, &bytes));
    enum lvn_status status = lvn_report_draw(r->run, r->n, text, &page);
    free(text);
    LVN_TRY(status);
    return lvn_target_write(out, page.p, page.n);
}

static bool any_running(const struct runs *r)
{
    for (int i = 0; i < r->n; i++) {
        if (!strcmp(r->run[i].state, "running")) return true;
    }
    return false;
}

static json_t *problems_of(const struct lvn_report_run *run)
{
    json_t *all = json_array();
    for (const char *p = run->problems.p; p && *p;) {
        const size_t n = strcspn(p, "\n");
        char *line = strndup(p, n);
        json_array_append_new(all, line ? lvn_json_text(line, LONGEST_TEXT) : NULL);
        free(line);
        p += n + (p[n] != '\0');
    }
    return all;
}

static void print_report(struct lvn_cli *c, const struct runs *r, const char *out)
{
    json_t *list = c->json ? json_array() : NULL;
    for (int i = 0; i < r->n; i++) {
        const struct lvn_report_run *run = &r->run[i];
        json_t *problems = problems_of(run), *one = list ? json_object() : NULL;
        for (size_t k = 0; k < json_array_size(problems); k++)
            lvn_log(LVN_LOG_WARN, "%s", json_string_value(json_array_get(problems, k)));
        json_object_set_new(one, "name", lvn_json_text(run->name, LONGEST_TEXT));
        json_object_set_new(one, "path", lvn_json_text(run->path, LONGEST_TEXT));
        json_object_set_new(one, "state", json_string(run->state));
        json_object_set(one, "problems", problems);
        json_array_append_new(list, one);
        json_decref(problems);
    }
    lvn_cli_add(c, "runs", list);
    lvn_cli_add(c, "report", c->json ? lvn_json_text(out, LONGEST_TEXT) : NULL);
    lvn_cli_print(c, "report of %d run%s: %s\n", r->n, lvn_plural(r->n), out);
}

static enum lvn_status follow(struct lvn_cli *c, struct runs *r, const char *out)
{
    bool reported = false;
    for (int i = 0; i < r->n; i++) LVN_TRY(lvn_report_open(&r->run[i], r->path[i]));
    for (;;) {
        LVN_TRY(draw(r, c->flag[LVN_FLAG_report_notes].t, out));
        const bool again = lvn_cli_on(c, LVN_FLAG_report_watch) && any_running(r);
        if (!reported) print_report(c, r, out); /* at once, so that the page can be opened */
        reported = true;
        if (!again) return LVN_OK;
        usleep((useconds_t)(1e6 * c->flag[LVN_FLAG_report_every].r));
    }
}

/* Refuse to replace a file that levin did not draw: its pages have a mark in their head. */
static enum lvn_status check_replaced(const struct lvn_target *t, const char *out)
{
    char head[2048];
    if (t->stream || !lvn_path_is_file(t->path)) return LVN_OK;
    int fd;
    LVN_TRY(lvn_input_open(t->path, LVN_INPUT_REGULAR, &fd));
    const ssize_t n = read(fd, head, sizeof head - 1);
    close(fd);
    head[n > 0 ? n : 0] = '\0';
    LVN_CHECK(n == 0 || strstr(head, "<meta name=\"generator\" content=\"levin "), ARG,
              "'%s' exists, and is not a report of levin: give another name with --out, or replace it with --overwrite",
              out);
    return LVN_OK;
}

enum lvn_status lvn_command_report(struct lvn_cli *c)
{
    LVN_LOCAL_ARENA(a);
    struct runs r = {0};
    struct lvn_target target;
    const char *out = c->flag[LVN_FLAG_report_out].t;
    static const enum lvn_flag_id repeats[] = {LVN_FLAG_report_every};
    if (!lvn_cli_on(c, LVN_FLAG_report_watch))
        LVN_TRY(lvn_cli_refuse(c, repeats, 1, "has no effect without --watch: add --watch, or leave it out"));
    for (int i = 0; i < c->n_operands; i++) LVN_TRY(find(&a, &r, c->operand[i]));
    LVN_CHECK(*out && !lvn_path_is_dir(out), ARG, "--out '%s' is not the name of a file; give one, as report.html",
              out);
    LVN_CHECK(
        !lvn_store_is_remote(out), ARG,
        "--out '%.300s' is in a store, and levin report writes to this machine: name a file here, and copy it there "
        "with `levin cp`",
        out);
    for (int i = 0; i < r.n; i++)
        LVN_CHECK(!r.url[i] || !lvn_cli_on(c, LVN_FLAG_report_watch), ARG,
                  "--watch draws runs of this machine, and '%.300s' is in a store: use `levin watch`, or leave it out",
                  r.url[i]);
    LVN_TRY(lvn_cli_check_output(c, out));
    LVN_TRY(lvn_target_find(&a, out, &target));
    LVN_CHECK(
        !target.stream || !lvn_cli_on(c, LVN_FLAG_report_watch), ARG,
        "--watch draws the report again and again, and --out '%s' is not a file that can be replaced: name a file",
        out);
    if (!lvn_cli_on(c, LVN_FLAG_report_overwrite)) LVN_TRY(check_replaced(&target, out));
    r.run = lvn_calloc((size_t)r.n, sizeof *r.run);
    if (!r.run) return LVN_MEMORY;
    enum lvn_status status = follow(c, &r, out);
    for (int i = 0; i < r.n; i++) lvn_report_release(&r.run[i]);
    free(r.run);
    return status;
}
