/* worker_pool.h - a pool of threads that transfer the chunks of one file, each over its own connection; used by
 * store_get.c and store_put.c. */
#ifndef LVN_WORKER_POOL_H
#define LVN_WORKER_POOL_H

#include <pthread.h>

#include "stores/http.h"
#include "stores/store.h"

struct lvn_worker_pool {
    /* Set by the caller: */
    enum lvn_status (*work)(struct lvn_worker_pool *pool,
                            struct lvn_http *http); /* runs in each thread until no chunk is left */
    void *context;
    bool network; /* if not, http is NULL */
    lvn_store_progress *progress;
    void *progress_context;
    bool (*may_continue)(void *context); /* requests stop when it is false, in any thread; NULL: never */
    void *may_continue_context;
    int64_t total;
    /* Shared state; done, next and stop are atomic. */
    int64_t done; /* bytes */
    int next;     /* next chunk */
    int stop;     /* non-zero: threads return */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int running;
    enum lvn_status status;  /* of the first thread that failed */
    struct lvn_text message; /* its error record */
};
/* Run n threads, call progress from the calling thread, and return the first failure. LVN_STOPPED if progress
 * returned non-zero. */
enum lvn_status lvn_worker_pool_run(struct lvn_worker_pool *pool, int n) LVN_CHECKED;
/* Number of useful threads for this number of chunks: at most LEVIN_STORE_THREADS (8). */
int lvn_worker_pool_size(int64_t pieces);

#endif
