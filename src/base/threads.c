/* threads.c - see threads.h: the thread team on OpenMP, with a barrier of its own.
 *
 * A kernel of a small model takes a few microseconds, so threads must synchronize without a system call; but if other
 * processes compete for the cores, a spinning thread takes time from the thread that it waits for. So a waiting thread
 * spins briefly, then sleeps in the kernel (futex). Without futexes it yields. */
#include "base/threads.h"

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <omp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#include "base/arena.h"
#include "base/clock.h"

enum { SPINS = 2000 }; /* some tens of microseconds */

struct team {
    _Alignas(64) atomic_int arrived;
    _Alignas(64) atomic_int generation; /* number of completed barriers */
    atomic_int sleepers;
    void (*task)(void *argument, int thread, int n_threads);
    void *argument;
};

static _Thread_local struct team *my_team; /* NULL outside of a team, and in a team of one */
static _Thread_local int my_team_size;

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sleep_until_changed(atomic_int *word, int seen)
{
#if defined(__linux__)
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
#else
    (void)word, (void)seen;
    sched_yield();
#endif
}

static void wake_all(atomic_int *word)
{
#if defined(__linux__)
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#else
    (void)word;
#endif
}

void lvn_team_barrier(void)
{
    struct team *t = my_team;
    if (!t) return;
    int generation = atomic_load_explicit(&t->generation, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&t->arrived, 1, memory_order_acq_rel) + 1 == my_team_size) {
        atomic_store_explicit(&t->arrived, 0, memory_order_relaxed);
        atomic_store(&t->generation, generation + 1);
        if (atomic_load(&t->sleepers)) wake_all(&t->generation);
        return;
    }
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&t->generation, memory_order_acquire) != generation) return;
        pause_briefly();
    }
    atomic_fetch_add(&t->sleepers, 1);
    while (atomic_load(&t->generation) == generation) sleep_until_changed(&t->generation, generation);
    atomic_fetch_sub(&t->sleepers, 1);
}

static void run_member(struct team *t, int thread, int n_threads)
{
    my_team = t;
    my_team_size = n_threads;
    t->task(t->argument, thread, n_threads);
    my_team = NULL;
}

void lvn_team_run(int n_threads, void (*task)(void *argument, int thread, int n_threads), void *argument)
{
    struct team team = {.task = task, .argument = argument};
    if (n_threads <= 1) {
        task(argument, 0, 1);
        return;
    }
#pragma omp parallel num_threads(n_threads)
    run_member(&team, omp_get_thread_num(), omp_get_num_threads()); /* which may be fewer than requested */
}

struct start {
    void *(*run)(void *);
    void *argument;
    locale_t locale;
};

static void *begin(void *argument)
{
    struct start s = *(struct start *)argument;
    free(argument);
    uselocale(s.locale);
    return s.run(s.argument);
}

int lvn_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    struct start *s = lvn_malloc(sizeof *s);
    sigset_t all, before;
    if (!s) return ENOMEM;
    *s = (struct start){run, argument, uselocale((locale_t)0)};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int bad = pthread_create(thread, NULL, begin, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (bad) free(s);
    return bad;
}

struct timed_task {
    void (*run)(void *);
    void *argument;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool finished;  /* run() has returned */
    bool abandoned; /* the caller no longer waits */
};

static void *run_timed(void *argument)
{
    struct timed_task *w = argument;
    w->run(w->argument);
    pthread_mutex_lock(&w->lock);
    w->finished = true;
    bool abandoned = w->abandoned;
    pthread_cond_broadcast(&w->change);
    pthread_mutex_unlock(&w->lock);
    if (abandoned) free(w);
    return NULL;
}

bool lvn_thread_with_timeout(double seconds, void (*run)(void *argument), void *argument)
{
    struct timed_task *w = lvn_calloc(1, sizeof *w);
    struct timespec deadline = lvn_deadline(seconds);
    pthread_t thread;
    bool in_time = true;
    if (!w) return false;
    *w = (struct timed_task){.run = run, .argument = argument};
    pthread_mutex_init(&w->lock, NULL);
    lvn_condition_init(&w->change);
    if (lvn_thread_start(&thread, run_timed, w) != 0) {
        free(w);
        return false;
    }
    pthread_mutex_lock(&w->lock);
    while (!w->finished && in_time) in_time = lvn_condition_wait(&w->change, &w->lock, &deadline);
    bool finished = w->finished;
    w->abandoned = !finished;
    pthread_mutex_unlock(&w->lock);
    if (!finished) {
        pthread_detach(thread);
        return false;
    }
    pthread_join(thread, NULL);
    free(w);
    return true;
}
