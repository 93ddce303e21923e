/* work.h - progress of this process, so that an observer (heartbeat, hang detector) can tell slow from stuck.
 *
 * Long operations count their work in units that suit them: micro-batches, bytes written, sent or verified, partial
 * sums. Only the advance of the count has a meaning: if it stands still for minutes, nothing progresses. Background
 * threads count too; only the main thread sets the current activity. */
#ifndef LVN_WORK_H
#define LVN_WORK_H

#include <stdint.h>

/* Sets the current activity, as "a validation": a text that stays valid. Returns the interrupted activity, for
 * lvn_work_end(). */
const char *lvn_work_begin(const char *activity);
void lvn_work_end(const char *interrupted);
const char *lvn_work_name(void); /* the current activity; NULL: none */
/* Adds n to the count; takes a few nanoseconds, from any thread. */
void lvn_work_done(int64_t n);
int64_t lvn_work_count(void);
/* The rank whose message this process waits for, as far as known; -1: none. */
void lvn_work_set_blocking_rank(int rank);
int lvn_work_blocking_rank(void);
/* Bytes that a loop should process between two calls of lvn_work_done(). */
enum { LVN_WORK_CHUNK = 64 << 20 };

#endif
