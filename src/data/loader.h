/* loader.h - which windows make up a batch.
 *
 * A batch is a pure function of (seed, step, row): the loader keeps no position, so a resumed run needs nothing but the
 * step number, and any split of the rows over ranks and micro-batches gives the same batch.
 *
 *   permutation   every epoch cuts the stream into windows of block_size tokens, beginning at an offset drawn anew, and
 *                 takes them in an order drawn anew, each once
 *   random        every row is a window at a random place, with replacement (nanoGPT's way)
 *   sequential    window i is tokens [i*T, i*T+T), in order
 *
 * An epoch has floor(windows / batch) steps; what does not fill a batch is left out. Where there are fewer windows than
 * rows in a batch, an epoch is one step and windows are used again within it. */
#ifndef LVN_LOADER_H
#define LVN_LOADER_H

#include "data/dataset.h"

/* X(name in C, value of data.sampling) */
#define LVN_SAMPLING_MAP(X) X(PERMUTATION, "permutation") X(RANDOM, "random") X(SEQUENTIAL, "sequential")

enum lvn_sampling {
#define LVN_X(name, text) LVN_SAMPLING_##name,
    LVN_SAMPLING_MAP(LVN_X)
#undef LVN_X
};
enum lvn_status lvn_sampling_find(const char *name, enum lvn_sampling *out) LVN_CHECKED;

/* All fields are for reading only. */
struct lvn_loader {
    const struct lvn_dataset *data; /* borrowed */
    enum lvn_split_id split;
    enum lvn_sampling sampling;
    int64_t block_size; /* T */
    int64_t batch_size; /* rows of the global batch */
    uint64_t seed;
    int64_t windows;         /* of one epoch */
    int64_t steps_per_epoch; /* at least 1 */
    int64_t eval_windows;    /* windows side by side from the start: what evaluation sees */
};

/* Fails when the part does not exist or has no window. */
enum lvn_status lvn_loader_init(struct lvn_loader *l, const struct lvn_dataset *data, enum lvn_split_id split,
                                enum lvn_sampling sampling, int64_t block_size, int64_t batch_size,
                                uint64_t seed) LVN_CHECKED;

/* Rows [first, first + n) of the global batch of step 0, 1, ...: ids and labels (I32, (n,T), row-major). */
enum lvn_status lvn_loader_batch(const struct lvn_loader *l, int64_t step, int64_t first, int64_t n, int32_t *ids,
                                 int32_t *labels) LVN_CHECKED;

/* Batches of an evaluation: all windows, each once, or, with limit > 0, at most so many evenly spaced batches. */
int64_t lvn_loader_eval_batches(const struct lvn_loader *l, int64_t limit);
/* Windows that these batches hold (the last one may be partly empty). */
int64_t lvn_loader_eval_count(const struct lvn_loader *l, int64_t limit);
/* Rows of evaluation batch i. Rows past the last window get id 0 and label -1. `window`, when not NULL, receives the
 * number of each row's window, or -1. */
enum lvn_status lvn_loader_eval_batch(const struct lvn_loader *l, int64_t limit, int64_t i, int64_t first, int64_t n,
                                      int32_t *ids, int32_t *labels, int64_t *window) LVN_CHECKED;

#endif
