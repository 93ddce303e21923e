/* report_run.c - reads struct lvn_report_run (report.h) from the files of a run's folder. */
#include <sys/stat.h>

#include "base/clock.h"
#include "base/files.h"
#include "formats/json.h"
#include "report/report.h"
#include "report/report_events.h"
#include "train/run_status.h"

enum { PATH_TEXT = 1100, LONGEST_SETTINGS = 1 << 20, LONGEST_STATUS = 1 << 26 };

static const char *const files[] = {"metrics.jsonl", "metrics.csv", "events.jsonl", "settings.yaml", "status.json"};

static const char *path_of(const char *run, const char *name, char path[PATH_TEXT])
{
    snprintf(path, PATH_TEXT, "%s/%s", run, name);
    return path;
}

bool lvn_report_is_run(const char *folder)
{
    char path[PATH_TEXT];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (lvn_path_is_file(path_of(folder, files[i], path))) return true;
    }
    return false;
}

enum lvn_status lvn_report_find(struct lvn_arena *a, const char *folder, const char *const **runs, int *n)
{
    const char *const *names;
    int all;
    LVN_TRY(lvn_dir_list(a, folder, &names, &all));
    const char **found = lvn_arena_alloc(a, ((size_t)all + 1) * sizeof *found);
    if (!found) return LVN_MEMORY;
    *n = 0;
    for (int i = 0; i < all; i++) {
        const char *path = lvn_path_join(a, folder, names[i]);
        if (!path) return LVN_MEMORY;
        if (names[i][0] != '.' && lvn_report_is_run(path)) found[(*n)++] = path;
    }
    *runs = found;
    return LVN_OK;
}

enum lvn_status lvn_report_open(struct lvn_report_run *r, const char *path)
{
    *r = (struct lvn_report_run){.name = ""};
    return lvn_copy_bytes(r->path, sizeof r->path - 100, "the path of the run", path, strlen(path));
}

void lvn_report_release(struct lvn_report_run *r)
{
    lvn_metrics_file_release(&r->metrics);
    json_decref(r->events);
    json_decref(r->status);
    free(r->settings);
    lvn_text_release(&r->problems);
    *r = (struct lvn_report_run){.name = ""};
}

/* A file that cannot be read is a problem shown on the page, and is not a failure. Out of memory is a failure. */
static enum lvn_status note_failure(struct lvn_report_run *r, enum lvn_status status)
{
    if (status == LVN_OK || status == LVN_MEMORY) return status;
    lvn_text_printf(&r->problems, "%s\n", levin_error_text());
    lvn_error_clear();
    return LVN_OK;
}

static enum lvn_status read_metrics(struct lvn_report_run *r)
{
    char path[PATH_TEXT];
    struct lvn_metrics_file *m = &r->metrics;
    const bool there[] = {lvn_path_is_file(path_of(r->path, files[0], path)),
                          lvn_path_is_file(path_of(r->path, files[1], path))};
    if (!r->csv && there[0])
        LVN_TRY(note_failure(r, lvn_metrics_file_read(m, path_of(r->path, files[0], path), false)));
    if (!r->csv && m->broken)
        lvn_text_printf(&r->problems, "%s: %lld lines are not objects of numbers with a step and were skipped\n", path,
                        (long long)m->broken);
    if (!m->rows && there[1]) {
        lvn_metrics_file_release(m);
        r->csv = true;
    }
    if (r->csv) LVN_TRY(note_failure(r, lvn_metrics_file_read(m, path_of(r->path, files[1], path), true)));
    if (r->csv && m->broken)
        lvn_text_printf(&r->problems, "%s: %lld rows have no step and were skipped\n", path, (long long)m->broken);
    if (!there[0] && !there[1])
        lvn_text_add(&r->problems, "neither metrics.jsonl nor metrics.csv exists, so no curves can be drawn\n");
    if (m->list.disorder)
        lvn_text_printf(&r->problems,
                        "%s: %lld values belong to an earlier step than the previous row and were skipped\n", path,
                        (long long)m->list.disorder);
    if (m->list.full)
        lvn_text_printf(&r->problems, "%s: more than %d scalars; the first ones are shown\n", path, LVN_SERIES);
    return LVN_OK;
}

static enum lvn_status read_events(struct lvn_report_run *r)
{
    char path[PATH_TEXT];
    json_t *fresh;
    int64_t broken;
    LVN_TRY(note_failure(r, lvn_report_events(path_of(r->path, "events.jsonl", path), &fresh, &broken)));
    if (!fresh) return LVN_OK; /* the page keeps the earlier events */
    if (broken)
        lvn_text_printf(&r->problems, "%s: %lld lines are not events and were skipped\n", path, (long long)broken);
    json_decref(r->events);
    r->events = fresh;
    return LVN_OK;
}

/* The file may be replaced while it is read, but each version is one complete state. */
static enum lvn_status read_status(struct lvn_report_run *r)
{
    char path[PATH_TEXT], *text = NULL;
    int64_t bytes;
    json_t *fresh = NULL;
    if (!lvn_path_is_file(path_of(r->path, "status.json", path))) return LVN_OK;
    enum lvn_status status = lvn_file_read(path, LONGEST_STATUS, &text, &bytes);
    if (status == LVN_OK) status = lvn_json_parse(path, text, bytes, &fresh);
    free(text);
    if (!fresh) return note_failure(r, status); /* the page keeps the earlier state */
    json_decref(r->status);
    r->status = fresh;
    return LVN_OK;
}

static enum lvn_status read_settings(struct lvn_report_run *r)
{
    char path[PATH_TEXT], *fresh = NULL;
    int64_t bytes;
    if (!lvn_path_is_file(path_of(r->path, "settings.yaml", path))) return LVN_OK;
    LVN_TRY(note_failure(r, lvn_file_read(path, LONGEST_SETTINGS, &fresh, &bytes)));
    if (!fresh) return LVN_OK;
    free(r->settings);
    r->settings = fresh;
    return LVN_OK;
}

/* --- derived data --- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static const json_t *last_of(const json_t *events, const char *list)
{
    const json_t *all = json_object_get(events, list);
    return json_array_get(all, json_array_size(all) - 1);
}

static void find_state(struct lvn_report_run *r)
{
    char path[PATH_TEXT];
    struct stat file;
    const json_t *start = last_of(r->events, "starts"), *end = last_of(r->events, "ends");
    const double started = json_number_value(json_object_get(start, "time")),
                 ended = json_number_value(json_object_get(end, "time"));
    const char *state = text_of(r->status, "state");
    r->written = json_number_value(json_object_get(r->status, "time"));
    for (int i = 0; i < 4 && r->written <= 0; i++) {
        if (!stat(path_of(r->path, files[i], path), &file)) r->written = (double)file.st_mtime;
    }
    if (ended > 0 && ended >= started && (!*state || !strcmp(state, "running")))
        state = strncmp(text_of(end, "text"), "stopped on request", 18) ? "done" : "stopped";
    else if (lvn_run_staleness(r->status, lvn_wall_seconds() - r->written))
        state = "stale";
    snprintf(r->state, sizeof r->state, "%s", *state ? state : "unknown");
}

static void find_name(struct lvn_report_run *r)
{
    const char *dir = text_of(last_of(r->events, "starts"), "run_dir");
    r->name = lvn_path_name(strstr(dir, "://") ? dir : r->path); /* for a run in a store this folder is a copy */
    if (!*r->name) r->name = r->path;
}

enum lvn_status lvn_report_read(struct lvn_report_run *r)
{
    lvn_text_clear(&r->problems);
    LVN_TRY(read_metrics(r));
    LVN_TRY(read_events(r));
    LVN_TRY(read_status(r));
    LVN_TRY(read_settings(r));
    find_state(r);
    find_name(r);
    return lvn_text_status(&r->problems);
}
