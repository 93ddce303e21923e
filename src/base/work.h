/* work.h - how far this process has come, so that whoever watches it from outside can tell slow from stuck.
 *
 * What takes long counts its work in whatever comes in pieces there: micro-batches, bytes that were written, sent or
 * checked, parts of a sum. Only that the count goes on means something, and where it stands still for minutes, nothing
 * moves. Work of threads beside the main one counts too; what the process is at is the main thread's to say. */
#ifndef LVN_WORK_H
#define LVN_WORK_H

#include <stdint.h>

/* `what` begins, as "a validation": a text that stays. Returns what it interrupts, for the end. */
const char *lvn_work_begin(const char *activity);
void lvn_work_end(const char *interrupted);
const char *lvn_work_name(void); /* what it is at; NULL: nothing in particular */
/* So much more is done; a few nanoseconds, from any thread. */
void lvn_work_done(int64_t n);
int64_t lvn_work_count(void);
/* The rank whose message holds this one up, as far as it is known; -1: none. */
void lvn_work_set_blocking_rank(int rank);
int lvn_work_blocking_rank(void);
/* Bytes that a loop should work on between two calls of lvn_work_done(). */
enum { LVN_WORK_CHUNK = 64 << 20 };

#endif
