/* loader.h - which samples make up a batch.
 *
 * A batch is a pure function of (seed, step, row): the loader keeps no position, so a resumed run needs nothing but the
 * step number, and any split of the rows over ranks and micro-batches gives the same batch.
 *
 *   permutation   every epoch takes all samples in an order drawn anew, each once; a stream is first cut into
 *                 samples side by side, beginning at an offset drawn anew
 *   random        every row is a sample at a random place, with replacement
 *   sequential    in the order of the list, or side by side from the beginning of the stream
 *
 * Where fields are ragged, a batch is as long as the planned length (base/field.h) of its longest sample, over all
 * ranks, and an order that is drawn puts samples of one planned length together: by length, at random within one,
 * beginning at a place drawn anew; batches are cut from that, and taken in an order drawn anew. Evaluation goes by
 * length, too.
 *
 * An epoch has floor(samples / batch) steps; what does not fill a batch is left out. Where there are fewer samples than
 * rows in a batch, an epoch is one step and samples are used again within it. */
#ifndef LVN_LOADER_H
#define LVN_LOADER_H

#include "data/dataset.h"

/* In the order of the words of data.sampling. */
enum lvn_sampling { LVN_SAMPLING_PERMUTATION, LVN_SAMPLING_RANDOM, LVN_SAMPLING_SEQUENTIAL };

/* All fields are for reading only. */
struct lvn_loader {
    const struct lvn_dataset *data; /* borrowed */
    enum lvn_split_id split;
    enum lvn_sampling sampling;
    int64_t batch_size; /* rows of the global batch */
    uint64_t seed;
    int64_t scale;           /* from one sample to the next: tokens of a stream; 1 in a list */
    int64_t samples;         /* of one epoch */
    int64_t steps_per_epoch; /* at least 1 */
    int64_t eval_samples;    /* side by side from the start: what evaluation sees */
    bool longest;            /* the caller's to set: every batch is as long as the longest sample there may be */
};

/* Fails when the part does not exist or has no sample. */
enum lvn_status lvn_loader_init(struct lvn_loader *l, const struct lvn_dataset *data, enum lvn_split_id split,
                                enum lvn_sampling sampling, int64_t batch_size, uint64_t seed) LVN_CHECKED;

/* For evaluation: every token counts, also those of a last sample that is not full. */
void lvn_loader_take_rest(struct lvn_loader *l);

/* An epoch has no more than so many steps (at least 1): the first ones of its order. */
void lvn_loader_shorten(struct lvn_loader *l, int64_t steps);

/* Rows [first, first + b->rows) of the global batch of step 0, 1, ..., with the fields of the data, cut to the batch's
 * length. */
enum lvn_status lvn_loader_batch(const struct lvn_loader *l, int64_t step, int64_t first,
                                 struct lvn_samples *b) LVN_CHECKED;

/* Batches of an evaluation: all samples, each once, or, with limit > 0, at most so many evenly spaced batches. */
int64_t lvn_loader_eval_batches(const struct lvn_loader *l, int64_t limit);
/* Samples that these batches hold (the last one may be partly empty). */
int64_t lvn_loader_eval_count(const struct lvn_loader *l, int64_t limit);
/* Rows of evaluation batch i; those past the last sample are blank. Row r holds what lvn_loader_eval_sample() calls
 * *number + r. */
enum lvn_status lvn_loader_eval_batch(const struct lvn_loader *l, int64_t limit, int64_t i, int64_t first,
                                      struct lvn_samples *b, int64_t *number) LVN_CHECKED;
/* The number in its part of the sample that evaluation comes to at this place. */
int64_t lvn_loader_eval_sample(const struct lvn_loader *l, int64_t place);

#endif
