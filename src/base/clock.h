/* clock.h - clocks, and waiting with a time limit.
 *
 * Deadlines and the condition variables that wait for one use the monotonic clock, so setting the system's time changes
 * neither. */
#ifndef LVN_CLOCK_H
#define LVN_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* Seconds of a clock that never jumps. */
double lvn_seconds(void);
/* Seconds since 1970, which processes and machines share as well as their clocks are set. */
double lvn_wall_seconds(void);
/* Since this process was started, to a hundredth; 0: not known. */
double lvn_seconds_since_start(void);

void lvn_condition_init(pthread_cond_t *c);
/* `seconds` from now. */
struct timespec lvn_deadline(double seconds);
/* Wait for a signal; false: the deadline has passed. `c` is of lvn_condition_init(). */
bool lvn_condition_wait(pthread_cond_t *c, pthread_mutex_t *lock, const struct timespec *deadline);

#endif
