/* metrics.h - metrics.jsonl and metrics.csv: a row for every step and every validation.
 *
 * Each row is handed to the system at once, so a killed run keeps all it wrote. Writing that fails (a full disk) stops
 * neither the run nor later rows; it is reported once. */
#ifndef LVN_METRICS_H
#define LVN_METRICS_H

#include "train/events.h"
#include "train/run_dir.h"

struct lvn_metrics {
    int jsonl, csv; /* file descriptors */
    bool failed;    /* a row could not be written */
};

/* Open both files, and cut the rows after `last_step`, which a resumed run will write again. -1 cuts all. */
enum lvn_status lvn_metrics_open(struct lvn_metrics *m, const struct lvn_run_dir *d, int64_t last_step) LVN_CHECKED;
void lvn_metrics_close(struct lvn_metrics *m);
/* A listener (context: the struct): writes LVN_EVENT_STEP and LVN_EVENT_VALIDATION. */
void lvn_metrics_handle(void *context, const struct lvn_event *e);

#endif
