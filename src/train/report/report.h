/* report.h - the report of one or several runs: a page of curves, settings, samples and events, in one file.
 *
 * The logger report and the commands report and runs call it. It only reads what runs have written: events.jsonl,
 * metrics.jsonl or else metrics.csv, status.json, settings.yaml. What is missing, broken or of another program is left
 * out and named on the page. All texts of runs are data in the page, which its script shows as text; the page's policy
 * permits no script but its own, and no request. Left out: the page's script and style (src/train/report/page). */
#ifndef LVN_REPORT_H
#define LVN_REPORT_H

#include <jansson.h>

#include "base/arena.h"
#include "train/report/metrics_file.h"

enum { LVN_REPORT_RUNS = 32, LVN_REPORT_BYTES = 3000000 };

/* What is known of a run. */
struct lvn_report_run {
    char path[1024];                 /* its folder */
    const char *name;                /* of its folder; in `path` or `events` */
    struct lvn_metrics_file metrics; /* rows are read once */
    bool csv;                        /* they are those of metrics.csv */
    json_t *events;                  /* of report_events.c; NULL: not read */
    json_t *status;                  /* status.json; NULL: none that can be read */
    char *settings;                  /* the text of settings.yaml; NULL: none */
    char state[24];                  /* "running", "done", "stopped", "failed", "fault", "stale"; "unknown" */
    double written;                  /* seconds since 1970 of its last sign of life; 0: not known */
    struct lvn_text problems;        /* a sentence a line, of what could not be read */
};

/* Does the folder hold one of a run's files? */
bool lvn_report_is_run(const char *path);
/* The folders in this one that hold a run, in the arena; hidden ones are left out. */
enum lvn_status lvn_report_find(struct lvn_arena *a, const char *folder, const char *const **runs, int *n) LVN_CHECKED;
/* Begin with a folder; ARG if its path is too long. Release it always. */
enum lvn_status lvn_report_open(struct lvn_report_run *r, const char *path) LVN_CHECKED;
/* Read what the run has written since the last call. Only memory that runs out is a failure. */
enum lvn_status lvn_report_read(struct lvn_report_run *r) LVN_CHECKED;
void lvn_report_release(struct lvn_report_run *r);
/* Set `page` to a page of these runs, of at most LVN_REPORT_BYTES. */
enum lvn_status lvn_report_draw(const struct lvn_report_run *runs, int n, struct lvn_text *page) LVN_CHECKED;

#endif
