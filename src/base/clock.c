/* clock.c - see clock.h. */
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += (time_t)seconds;
    deadline.tv_nsec += (long)(1e9 * (seconds - (double)(time_t)seconds));
    deadline.tv_sec += deadline.tv_nsec / 1000000000;
    deadline.tv_nsec %= 1000000000;
    return deadline;
}

bool lvn_condition_wait(pthread_cond_t *c, pthread_mutex_t *lock, const struct timespec *deadline)
{
    return pthread_cond_timedwait(c, lock, deadline) == 0;
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double lvn_seconds(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double lvn_wall_seconds(void)
{
    return seconds_of(CLOCK_REALTIME);
}

/* Field 22 of /proc/self/stat is the start time in ticks since boot; field 2 may contain spaces. */
double lvn_seconds_since_start(void)
{
    char text[1024];
    struct timespec now;
    FILE *f = fopen("/proc/self/stat", "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = '\0';
    char *field_text = strrchr(text, ')');
    for (int field = 2; field_text && field < 22; field++) field_text = strchr(field_text + 1, ' ');
    if (!field_text || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0.0;
    double started = strtod(field_text, NULL) / (double)sysconf(_SC_CLK_TCK);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - started;
}
