/* worker_pool.c - see worker_pool.h. */
#include "stores/worker_pool.h"

#include "base/clock.h"
#include "base/threads.h"
#include "base/work.h"

enum { DEFAULT_THREADS = 8, MAX_THREADS = 64 };
static const double PROGRESS_SECONDS = 0.1;

int lvn_worker_pool_size(int64_t pieces)
{
    const char *text = getenv("LEVIN_STORE_THREADS");
    long n = text ? strtol(text, NULL, 10) : 0;
    if (n < 1) n = DEFAULT_THREADS;
    if (n > MAX_THREADS) n = MAX_THREADS;
    return n < pieces ? (int)n : pieces > 0 ? (int)pieces : 1;
}

static void *run_one(void *argument)
{
    struct lvn_worker_pool *pool = argument;
    struct lvn_http *http = NULL;
    enum lvn_status status = pool->network ? lvn_http_open(&http) : LVN_OK;
    if (http) lvn_http_stop_on(http, &pool->stop);
    if (http) lvn_http_stop_unless(http, pool->may_continue, pool->may_continue_context);
    if (status == LVN_OK) status = pool->work(pool, http);
    lvn_http_close(http);
    pthread_mutex_lock(&pool->lock);
    if (status != LVN_OK && pool->status == LVN_OK) {
        pool->status = status;
        lvn_text_printf(&pool->message, "%s\n%s", levin_error_text(), levin_error_trace());
        __atomic_store_n(&pool->stop, 1, __ATOMIC_RELAXED);
    }
    pool->running--;
    pthread_cond_signal(&pool->ended);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Wait for all threads and report progress. True: progress stopped the transfer. */
static bool wait_for_all(struct lvn_worker_pool *pool)
{
    bool stopped = false;
    pthread_mutex_lock(&pool->lock);
    while (pool->running > 0) {
        struct timespec until = lvn_deadline(PROGRESS_SECONDS);
        (void)lvn_condition_wait(&pool->ended, &pool->lock, &until);
        if (stopped) continue;
        pthread_mutex_unlock(&pool->lock);
        const int64_t done = __atomic_load_n(&pool->done, __ATOMIC_RELAXED);
        stopped = pool->progress && pool->progress(pool->progress_context, done, pool->total) != 0;
        stopped |= lvn_interrupt_check() != LVN_OK;
        pthread_mutex_lock(&pool->lock);
        if (stopped) __atomic_store_n(&pool->stop, 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&pool->lock);
    /* At least one call, even for a very short transfer. */
    if (pool->progress && !stopped && pool->status == LVN_OK)
        stopped = pool->progress(pool->progress_context, pool->done, pool->total) != 0;
    return stopped;
}

/* Copy the error record of the failed thread to this thread. */
static void copy_error(struct lvn_worker_pool *pool)
{
    const char *line = pool->message.p ? pool->message.p : "";
    int n = (int)strcspn(line, "\n");
    lvn_fail(pool->status, "%.*s", n, line);
    for (line += n; *line && *++line; line += n) {
        n = (int)strcspn(line, "\n");
        int skip = strncmp(line, "while ", 6) == 0 ? 6 : 0;
        lvn_while_at(pool->status, "%.*s", n - skip, line + skip);
    }
}

enum lvn_status lvn_worker_pool_run(struct lvn_worker_pool *pool, int n)
{
    pthread_t thread[MAX_THREADS];
    int started = 0;
    pool->status = LVN_OK;
    pool->stop = 0;
    pool->running = 0;
    pthread_mutex_init(&pool->lock, NULL);
    lvn_condition_init(&pool->ended);
    for (; started < n; started++) {
        pthread_mutex_lock(&pool->lock);
        pool->running++;
        pthread_mutex_unlock(&pool->lock);
        if (lvn_thread_start(&thread[started], run_one, pool) == 0) continue;
        pthread_mutex_lock(&pool->lock);
        pool->running--;
        pthread_mutex_unlock(&pool->lock);
        break;
    }
    bool stopped = wait_for_all(pool);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
    pthread_cond_destroy(&pool->ended);
    pthread_mutex_destroy(&pool->lock);
    enum lvn_status status = pool->status;
    if (!started)
        status = lvn_fail(LVN_IO, "cannot start a thread for the transfer");
    else if (stopped)
        status = lvn_fail(LVN_STOPPED, "the transfer was stopped");
    else if (status != LVN_OK)
        copy_error(pool);
    lvn_text_release(&pool->message);
    return status;
}
