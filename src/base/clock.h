/* clock.h - clocks, and waits with a time limit.
 *
 * Deadlines, and the condition variables that wait for them, use the monotonic clock, which changes of the system's
 * time do not affect. */
#ifndef LVN_CLOCK_H
#define LVN_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* Seconds of the monotonic clock, from an arbitrary start. */
double lvn_seconds(void);
/* Seconds since 1970. Comparable between processes and machines if their clocks agree. */
double lvn_wall_seconds(void);
/* Seconds since the start of this process, with a resolution of 10 ms; 0: unknown. */
double lvn_seconds_since_start(void);

void lvn_condition_init(pthread_cond_t *c);
/* The time `seconds` from now, on the monotonic clock. */
struct timespec lvn_deadline(double seconds);
/* Wait for a signal; false: the deadline has passed. `c` was initialized with lvn_condition_init(). */
bool lvn_condition_wait(pthread_cond_t *c, pthread_mutex_t *lock, const struct timespec *deadline);

#endif
