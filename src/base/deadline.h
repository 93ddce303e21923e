/* deadline.h - waiting no longer than so many seconds, whatever somebody does to the clock meanwhile.
 *
 * Deadlines are on the monotonic clock, and so are conditions that are waited for until one: all come from here. */
#ifndef LVN_DEADLINE_H
#define LVN_DEADLINE_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

void lvn_condition_init(pthread_cond_t *c);
/* `seconds` from now. */
struct timespec lvn_deadline(double seconds);
/* Wait for a signal; false: the deadline has passed. `c` is of lvn_condition_init(). */
bool lvn_condition_wait(pthread_cond_t *c, pthread_mutex_t *lock, const struct timespec *deadline);

#endif
