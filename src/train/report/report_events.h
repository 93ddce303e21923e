/* report_events.h - reads events.jsonl for a report. Private to report.c and report_run.c. */
#ifndef LVN_REPORT_EVENTS_H
#define LVN_REPORT_EVENTS_H

#include <jansson.h>

#include "base/status.h"

/* *out: {"starts": [...], "notes", "samples", "checkpoints", "ends", "resumed", "validation", "best", ...}, of each
 * kind at most so many that a page can show, those in the middle left out; *broken: lines that could not be read. Never
 * NULL after LVN_OK. */
enum lvn_status lvn_report_events(const char *path, json_t **out, int64_t *broken) LVN_CHECKED;

#endif
