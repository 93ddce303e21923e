/* report.h - the report of one or several runs: a page of curves, settings, samples and events, in one file.
 *
 * The logger report and the commands report and runs call it. It only reads the files of runs: events.jsonl,
 * metrics.jsonl or else metrics.csv, status.json, settings.yaml. Files that are missing, broken or from another program
 * are omitted and named on the page. All texts of runs are data in the page, which its script shows as text; the page's
 * policy permits only its own script, and no requests. See src/run/report/page for the page's script and style. */
#ifndef LVN_REPORT_H
#define LVN_REPORT_H

#include <jansson.h>

#include "base/arena.h"
#include "report/metrics_file.h"

enum { LVN_REPORT_RUNS = 32, LVN_REPORT_BYTES = 3000000 };

/* The data of a run. */
struct lvn_report_run {
    char path[1024];                 /* its folder */
    const char *name;                /* of its folder; points into `path` or `events` */
    struct lvn_metrics_file metrics; /* rows are read once */
    bool csv;                        /* the rows are from metrics.csv */
    json_t *events;                  /* from report_events.c; NULL: never read */
    json_t *status;                  /* status.json, its last readable state; NULL: none */
    char *settings;                  /* the text of settings.yaml; NULL: none */
    char state[24];                  /* "running", "done", "stopped", "failed", "fault", "stale"; "unknown" */
    double written;                  /* time of its last sign of life, in seconds since 1970; 0: unknown */
    struct lvn_text problems;        /* one sentence per line about files that could not be read */
};

/* Does the folder contain a file of a run? */
bool lvn_report_is_run(const char *path);
/* The folders in this one that contain a run, in the arena, without hidden ones. */
enum lvn_status lvn_report_find(struct lvn_arena *a, const char *folder, const char *const **runs, int *n) LVN_CHECKED;
/* Open a folder. ARG: its path is too long. Always release it. */
enum lvn_status lvn_report_open(struct lvn_report_run *r, const char *path) LVN_CHECKED;
/* Read everything that the run has written since the last call. Fails only when out of memory. */
enum lvn_status lvn_report_read(struct lvn_report_run *r) LVN_CHECKED;
void lvn_report_release(struct lvn_report_run *r);
/* Set `page` to a page of these runs, of at most LVN_REPORT_BYTES. notes: text for its top; NULL: none. */
enum lvn_status lvn_report_draw(const struct lvn_report_run *runs, int n, const char *notes,
                                struct lvn_text *page) LVN_CHECKED;

#endif
