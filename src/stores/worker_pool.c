/* worker_pool.c - see worker_pool.h. */
#include "stores/worker_pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/threads.h"

enum { USUAL_THREADS = 8, MAX_THREADS = 64 };
static const double LOOK_SECONDS = 0.1;

int lvn_worker_pool_size(int64_t pieces)
{
    const char *text = getenv("LEVIN_STORE_THREADS");
    long n = text ? strtol(text, NULL, 10) : 0;
    if (n < 1) n = USUAL_THREADS;
    if (n > MAX_THREADS) n = MAX_THREADS;
    return n < pieces ? (int)n : pieces > 0 ? (int)pieces : 1;
}

static void *run_one(void *argument)
{
    struct lvn_worker_pool *c = argument;
    struct lvn_http *h = NULL;
    enum lvn_status status = c->network ? lvn_http_open(&h) : LVN_OK;
    if (h) lvn_http_stop_on(h, &c->stop);
    if (status == LVN_OK) status = c->work(c, h);
    lvn_http_close(h);
    pthread_mutex_lock(&c->lock);
    if (status != LVN_OK && c->status == LVN_OK) {
        c->status = status;
        lvn_text_printf(&c->text, "%s\n%s", lvn_error_text(), lvn_error_trace());
        __atomic_store_n(&c->stop, 1, __ATOMIC_RELAXED);
    }
    c->running--;
    pthread_cond_signal(&c->ended);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Waits for the end of all; tells how far they are. True: stopped by progress. */
static bool look_after(struct lvn_worker_pool *c)
{
    bool stopped = false;
    pthread_mutex_lock(&c->lock);
    while (c->running > 0) {
        struct timespec until = lvn_deadline(LOOK_SECONDS);
        (void)lvn_condition_wait(&c->ended, &c->lock, &until);
        if (!c->progress || stopped) continue;
        pthread_mutex_unlock(&c->lock);
        stopped = c->progress(c->progress_context, __atomic_load_n(&c->done, __ATOMIC_RELAXED), c->total) != 0;
        pthread_mutex_lock(&c->lock);
        if (stopped) __atomic_store_n(&c->stop, 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&c->lock);
    /* Once at least, also when all took no time. */
    if (c->progress && !stopped && c->status == LVN_OK)
        stopped = c->progress(c->progress_context, c->done, c->total) != 0;
    return stopped;
}

/* The record of the thread that failed, in this one. */
static void record(struct lvn_worker_pool *c)
{
    const char *line = c->text.p ? c->text.p : "";
    int n = (int)strcspn(line, "\n");
    lvn_fail(c->status, "%.*s", n, line);
    for (line += n; *line && *++line; line += n) {
        n = (int)strcspn(line, "\n");
        int skip = strncmp(line, "while ", 6) == 0 ? 6 : 0;
        lvn_while_at(c->status, "%.*s", n - skip, line + skip);
    }
}

enum lvn_status lvn_worker_pool_run(struct lvn_worker_pool *c, int n)
{
    pthread_t thread[MAX_THREADS];
    int started = 0;
    c->status = LVN_OK;
    c->stop = 0;
    c->running = 0;
    pthread_mutex_init(&c->lock, NULL);
    lvn_condition_init(&c->ended);
    for (; started < n; started++) {
        pthread_mutex_lock(&c->lock);
        c->running++;
        pthread_mutex_unlock(&c->lock);
        if (lvn_thread_start(&thread[started], run_one, c) == 0) continue;
        pthread_mutex_lock(&c->lock);
        c->running--;
        pthread_mutex_unlock(&c->lock);
        break;
    }
    bool stopped = look_after(c);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
    pthread_cond_destroy(&c->ended);
    pthread_mutex_destroy(&c->lock);
    enum lvn_status status = c->status;
    if (!started)
        status = lvn_fail(LVN_IO, "no thread could be started for a transfer");
    else if (stopped)
        status = lvn_fail(LVN_STOPPED, "the transfer was stopped");
    else if (status != LVN_OK)
        record(c);
    lvn_text_release(&c->text);
    return status;
}
