/* threads.h - a team of threads that walk through the same code together; and single threads for work beside it.
 *
 * levin starts its threads once per step, not once per kernel: every kernel is called by all threads of the team with
 * (thread, n_threads), does its share, and meets the others at a barrier. Which share a thread takes must never change
 * the result: sums are cut into pieces fixed by the shape, not by the number of threads. */
#ifndef LVN_THREADS_H
#define LVN_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Run task(argument, thread, n_threads) on threads 0..n_threads-1 and wait for all. The caller is thread 0. */
void lvn_team_run(int n_threads, void (*task)(void *argument, int thread, int n_threads), void *argument);
/* All threads of the team wait here for each other. Outside a team: nothing. */
void lvn_team_barrier(void);

/* A thread beside the others, as pthread_create(): 0, or an errno. Signals are for the thread that trains: this one has
 * all of them blocked. It has its maker's locale: "C" inside the library (train/c_api.c). */
int lvn_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* Run it in a thread of its own and wait so long at most: what may stand still (a file system, a terminal) does not
 * hold up the caller. False: it is not over; it goes on beside, with an argument that has to stay. */
bool lvn_thread_with_timeout(double seconds, void (*run)(void *argument), void *argument);

/* The half-open range [*begin, *end) of `count` items that `thread` takes; ranges are multiples of `grain`, so that
 * two threads never share a cache line or a tile. */
static inline void lvn_thread_range(int64_t count, int64_t grain, int thread, int n_threads, int64_t *begin,
                                    int64_t *end)
{
    int64_t grains = (count + grain - 1) / grain;
    int64_t lo = grains * thread / n_threads * grain, hi = grains * (thread + 1) / n_threads * grain;
    *begin = lo < count ? lo : count;
    *end = hi < count ? hi : count;
}

#endif
