/* deadline.c - see deadline.h. */
#include "base/deadline.h"

void lvn_condition_init(pthread_cond_t *c)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(c, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

struct timespec lvn_deadline(double seconds)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)seconds;
    at.tv_nsec += (long)(1e9 * (seconds - (double)(time_t)seconds));
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

bool lvn_condition_wait(pthread_cond_t *c, pthread_mutex_t *lock, const struct timespec *deadline)
{
    return pthread_cond_timedwait(c, lock, deadline) == 0;
}
