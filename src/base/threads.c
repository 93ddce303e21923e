/* threads.c - see threads.h: single threads. The team is in threads_team.c. */
#include "base/threads.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"

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
