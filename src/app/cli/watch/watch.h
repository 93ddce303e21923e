/* watch.h - what levin watch has read of a run; for src/app/cli/watch alone. watch.c shows it, watch_read.c reads it.
 */
#ifndef LVN_WATCH_H
#define LVN_WATCH_H

#include <jansson.h>

#include "base/status.h"

struct lvn_cli;

struct lvn_watch {
    struct lvn_cli *c;
    char run[1024];
    bool stored; /* the run is in a store */
    char status_path[1100];
    char metrics_path[1100];
    json_t *status;         /* status.json as last read; NULL: not written yet */
    double changed;         /* lvn_seconds() when its time was last seen to change */
    double age;             /* seconds since it was written, by the wall clock */
    double written;         /* its time */
    int64_t step;           /* of the run */
    int64_t max_steps;      /* 0: no such limit */
    int64_t max_epochs;     /* 0: no such limit */
    double loss;            /* of the last row of metrics.jsonl that has one; NaN, here and below: not known */
    double val_loss;        /* the same */
    double best;            /* lowest val_loss of the rows read */
    double lr;              /* of the last row */
    double rate;            /* tokens/s of the whole run */
    double steps_per_s;     /* over the rows read */
    double steps_per_epoch; /* from the last row that has an epoch */
    double losses[5];       /* the last ones, newest last */
    int n_losses;
};

/* Find the run of this name or path, and read its limits. ARG if there is none on this machine; a run in a store may
 * still begin. */
enum lvn_status lvn_watch_find(struct lvn_watch *w, const char *name) LVN_CHECKED;
/* LVN_OK also if the file does not exist yet. */
enum lvn_status lvn_watch_read_status(struct lvn_watch *w) LVN_CHECKED;
enum lvn_status lvn_watch_read_metrics(struct lvn_watch *w) LVN_CHECKED;
/* A member of an object; "" and 0: it has none. */
const char *lvn_watch_text(const json_t *object, const char *key);
double lvn_watch_number(const json_t *object, const char *key);

#endif
