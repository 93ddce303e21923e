/* threads.h - a thread team that executes one program, like a team of OpenMP; and single background threads.
 *
 * levin runs its team once per step, not once per kernel: every kernel is called by all threads of the team with
 * (thread, n_threads), computes its partition, and the threads synchronize at a barrier. (Small kernels that are
 * independent of each other are called by one thread each, as (0, 1).) Results must not depend on the
 * number of threads: sums are split into chunks that depend only on the shape. */
#ifndef LVN_THREADS_H
#define LVN_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Run task(argument, thread, n_threads) on threads 0..n_threads-1 and wait for all. The caller is thread 0. n_threads
 * is less than requested if the system cannot start more threads, and 1 if the caller is a thread of a team. Any number
 * of callers may do this concurrently; after fork() the child may, too. OMP_WAIT_POLICY (passive, active) determines
 * how threads wait between two runs; default: they spin for a millisecond. */
void lvn_team_run(int n_threads, void (*task)(void *argument, int thread, int n_threads), void *argument);
/* Barrier of all threads of the team. Does nothing outside a team. */
void lvn_team_barrier(void);

/* Start a background thread like pthread_create(): 0, or an errno. It blocks all signals, so that the thread that
 * trains receives them, and has its creator's locale: "C" inside the library (api/api.h). */
int lvn_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* Run the function in a separate thread and wait at most `seconds`, so that calls that may hang (file system, terminal)
 * do not block the caller; it runs in this thread if none can be started. False: it has not finished and continues in
 * the background, so its argument must remain valid. */
bool lvn_thread_with_timeout(double seconds, void (*run)(void *argument), void *argument);

/* The half-open range [*begin, *end) of `count` items that belongs to `thread`; bounds are multiples of `grain`, so
 * that two threads never share a cache line or a tile. */
static inline void lvn_thread_range(int64_t count, int64_t grain, int thread, int n_threads, int64_t *begin,
                                    int64_t *end)
{
    int64_t grains = (count + grain - 1) / grain;
    int64_t lo = grains * thread / n_threads * grain, hi = grains * (thread + 1) / n_threads * grain;
    *begin = lo < count ? lo : count;
    *end = hi < count ? hi : count;
}

#endif
