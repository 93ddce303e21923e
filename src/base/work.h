/* work.h - progress of this process, so that an observer (heartbeat, hang detector) can distinguish slow from stuck.
 *
 * Long operations count their work in any unit: micro-batches, bytes written, sent or verified, partial sums. Only the
 * change of the count has a meaning: if it does not change for minutes, nothing progresses. Background threads count
 * too; only the main thread sets the current activity. */
#ifndef LVN_WORK_H
#define LVN_WORK_H

#include "base/status.h"

/* Set the current activity, such as "a validation"; the text must remain valid. Returns the interrupted activity, for
 * lvn_work_end(). */
const char *lvn_work_begin(const char *activity);
void lvn_work_end(const char *interrupted);
const char *lvn_work_name(void); /* the current activity; NULL: none */
/* Parts of the current activity that are done, and all of them; all 0: not known. lvn_work_begin() and lvn_work_end()
 * set 0. */
void lvn_work_set_parts(int64_t done, int64_t all);
void lvn_work_parts(int64_t *done, int64_t *all);
/* Add n to the count; costs a few nanoseconds; any thread may call it. */
void lvn_work_done(int64_t n);
int64_t lvn_work_count(void);
/* The rank whose message this process waits for, if known; -1: none. */
void lvn_work_set_blocking_rank(int rank);
int lvn_work_blocking_rank(void);
/* Bytes that a loop should process between two calls of lvn_work_done(). */
enum { LVN_WORK_CHUNK = 64 << 20 };

/* Long operations of one rank call lvn_interrupt_check() between their units (batches, tokens, files): STOPPED if the
 * program that uses the library requests that they end. `ask` belongs to this thread; NULL: never. */
void lvn_interrupt_set(int (*ask)(void *context), void *context);
enum lvn_status lvn_interrupt_check(void) LVN_CHECKED;

#endif
