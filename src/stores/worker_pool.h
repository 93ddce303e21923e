/* worker_pool.h - threads that move the pieces of one file, each over a connection of its own. */
#ifndef LVN_WORKER_POOL_H
#define LVN_WORKER_POOL_H

#include <pthread.h>
#include <stdint.h>

#include "stores/http.h"
#include "stores/store.h"

struct lvn_worker_pool {
    /* The caller's: */
    enum lvn_status (*work)(struct lvn_worker_pool *pool,
                            struct lvn_http *h); /* until nothing is left to do; in every thread */
    void *context;
    bool network; /* otherwise h is NULL */
    lvn_store_progress *progress;
    void *progress_context;
    int64_t total;
    /* Theirs together; done, next and stop are atomic. */
    int64_t done; /* bytes */
    int next;     /* piece to take */
    int stop;     /* not 0: leave off */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int running;
    enum lvn_status status;  /* of the first that failed */
    struct lvn_text message; /* and its words */
};
/* Runs `n` threads, calls progress from this one, and returns the first failure. LVN_STOPPED when progress said so. */
LVN_CHECKED enum lvn_status lvn_worker_pool_run(struct lvn_worker_pool *pool, int n);
/* How many threads are of use for so many pieces: LEVIN_STORE_THREADS (8) at most. */
int lvn_worker_pool_size(int64_t pieces);

#endif
