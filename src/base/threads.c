/* threads.c - the team of threads.h on OpenMP, the same runtime that oneDNN uses. */
#include "base/threads.h"

#include <omp.h>

#include "base/machine.h"

void lvn_team_run(int n_threads, void (*task)(void *argument, int thread, int n_threads), void *argument)
{
    if (n_threads <= 1) {
        task(argument, 0, 1);
        return;
    }
#pragma omp parallel num_threads(n_threads)
    task(argument, omp_get_thread_num(), omp_get_num_threads());
}

void lvn_team_barrier(void)
{
#pragma omp barrier
}

int lvn_threads_default(void)
{
    struct lvn_machine m;
    lvn_machine_read(&m);
    return m.threads;
}
