/* prefetch.h - reads the next batch of a run in a thread while the current one is in use (double buffering).
 *
 * Called by the trainer. Batches are those of lvn_loader_batch(), a pure function of the step. Any step may be
 * requested; the one after the last request is prefetched. */
#ifndef LVN_PREFETCH_H
#define LVN_PREFETCH_H

#include "data/loader.h"

struct lvn_prefetch;

/* Memory in bytes for `rows` rows of a step. */
int64_t lvn_prefetch_bytes(const struct lvn_fields *f, int64_t rows);
/* For rows [first, first + rows) of steps below `end`. Borrows the loader. */
enum lvn_status lvn_prefetch_open(struct lvn_prefetch **out, const struct lvn_loader *l, int64_t first, int64_t rows,
                                  int64_t end) LVN_CHECKED;
/* Does nothing if p is NULL. Waits for a batch that is being read. */
void lvn_prefetch_close(struct lvn_prefetch *p);
/* The batch of a step, valid until the next call. Reads it, or waits for the thread, if it is not ready. */
enum lvn_status lvn_prefetch_take(struct lvn_prefetch *p, int64_t step, const struct lvn_samples **out) LVN_CHECKED;

#endif
