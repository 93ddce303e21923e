/* prefetch.h - the batches of a run, one read ahead by a thread while the other is computed with.
 *
 * What it gives is what lvn_loader_batch() gives, a pure function of the step: the thread only has it sooner. Any step
 * may be asked for; the one that follows the last is the one that is there. */
#ifndef LVN_PREFETCH_H
#define LVN_PREFETCH_H

#include "data/loader.h"

struct lvn_prefetch;

/* Bytes that reading `rows` rows of a step ahead takes. */
int64_t lvn_prefetch_bytes(const struct lvn_fields *f, int64_t rows);
/* Rows [first, first + rows) of steps below `end`; the loader stays. */
enum lvn_status lvn_prefetch_open(struct lvn_prefetch **out, const struct lvn_loader *l, int64_t first, int64_t rows,
                                  int64_t end) LVN_CHECKED;
void lvn_prefetch_close(struct lvn_prefetch *p); /* NULL: nothing; waits for what is being read */
/* The batch of a step, which stays as it is until the next call; waits for it where it is not there yet. */
enum lvn_status lvn_prefetch_take(struct lvn_prefetch *p, int64_t step, const struct lvn_samples **out) LVN_CHECKED;

#endif
