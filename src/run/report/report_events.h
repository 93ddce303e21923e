/* report_events.h - reads events.jsonl for a report. Private to report.c and report_run.c. */
#ifndef LVN_REPORT_EVENTS_H
#define LVN_REPORT_EVENTS_H

#include <jansson.h>

#include "base/status.h"

/* *out: {"starts": [...], "notes", "samples", "checkpoints", "ends", "resumed", "validation", "best", ...}, at most as
 * many of each kind as a page can show, without those in the middle; *broken: lines that could not be read. Never NULL
 * after LVN_OK.
 */
enum lvn_status lvn_report_events(const char *path, json_t **out, int64_t *broken) LVN_CHECKED;

#endif
