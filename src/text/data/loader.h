/* loader.h - chooses and reads the samples of a batch.
 *
 * A batch is a pure function of (seed, step, row): the loader keeps no position, so a resumed run needs the step number
 * alone, and any split of the rows over ranks and micro-batches gives the same batch. Called by train, inference and
 * prefetch.h, which reads ahead.
 *
 *   permutation   every epoch uses each sample once, in a new random order; a stream is first cut into adjacent
 *                 windows, beginning at a new random offset
 *   random        every row is a sample at a random position, with replacement
 *   sequential    in the order of the list, or adjacent windows from the beginning of the stream
 *   shards        as permutation, but shard by shard (data/sources/shard_list.h): adjacent windows form groups with the
 *                 number of windows of the largest shard, so a group is in two or three shards. In each epoch the
 *                 groups have a new random order, with the smaller last group at the end, and so have the windows of
 *                 each group. Few shards are needed at a time, and those of the next group are prefetched
 *
 * With ragged fields a batch has the planned length (base/field.h) of its longest sample, over all ranks. The random
 * order of an epoch then groups samples by length: sorted by planned length, shuffled within each length, rotated by a
 * random offset, cut into batches, and these shuffled. Evaluation is in order of length, too.
 *
 * An epoch has floor(samples / batch_size) steps; samples that do not fill a batch are dropped. With fewer samples than
 * rows in a batch, an epoch is one step that repeats samples.
 *
 * With data.mix (data/sources/mix.h) the rows of the run are numbered; a row's number determines its source and how
 * many rows that source has supplied before. Each source has its own epochs, in the order above with batches of one
 * row. An epoch of the mix has as many rows as its sources have samples, but need not contain each of them. Evaluation
 * reads the sources one after the other. */
#ifndef LVN_LOADER_H
#define LVN_LOADER_H

#include "data/dataset.h"

/* In the order of the words of data.sampling. */
enum lvn_sampling { LVN_SAMPLING_PERMUTATION, LVN_SAMPLING_RANDOM, LVN_SAMPLING_SEQUENTIAL, LVN_SAMPLING_SHARDS };

/* Callers only read the fields, unless a comment says otherwise. */
struct lvn_loader {
    const struct lvn_dataset *data; /* borrowed */
    enum lvn_split_id split;
    enum lvn_sampling sampling;
    int64_t batch_size; /* rows of the global batch */
    uint64_t seed;
    int64_t stride;          /* from one sample to the next: block_size tokens in a stream, 1 in a list */
    int64_t samples;         /* of one epoch */
    int64_t steps_per_epoch; /* at least 1 */
    int64_t eval_samples;    /* adjacent samples from the start, for evaluation */
    int64_t group;           /* LVN_SAMPLING_SHARDS: windows of a group; else 0 */
    bool limited;            /* an epoch has fewer steps than it could */
    bool keeps_last;         /* lvn_loader_keep_last() was called */
    bool pad_to_max_length;  /* set by the caller: every batch has the largest planned length */
};

/* ARG if the split does not exist, FORMAT if it has no sample. */
enum lvn_status lvn_loader_init(struct lvn_loader *l, const struct lvn_dataset *data, enum lvn_split_id split,
                                enum lvn_sampling sampling, int64_t batch_size, uint64_t seed) LVN_CHECKED;

/* For evaluation: includes the tokens of an incomplete last window. */
void lvn_loader_keep_last(struct lvn_loader *l);

/* Limit an epoch to its first `steps` steps (at least 1). */
void lvn_loader_limit_steps(struct lvn_loader *l, int64_t steps);

/* Read rows [first, first + b->rows) of the global batch of step 0, 1, ...; ragged fields get the batch's length. */
enum lvn_status lvn_loader_batch(const struct lvn_loader *l, int64_t step, int64_t first,
                                 struct lvn_samples *b) LVN_CHECKED;

/* "'a' 120 rows (1.20 epochs), 'b' 40 rows (0.10 epochs)": what each source of a mix supplies in the first steps; "" if
 * there is no mix. */
enum lvn_status lvn_loader_describe_mix(const struct lvn_loader *l, int64_t steps, struct lvn_text *t) LVN_CHECKED;

/* Tokens of the global batch of a step without padding; 0: the samples are not packed (data/packing/packing.h). */
int64_t lvn_loader_tokens(const struct lvn_loader *l, int64_t step);

/* Number of batches of an evaluation: of all samples, each once, or, with limit > 0, at most `limit` evenly spaced
 * batches. */
int64_t lvn_loader_eval_batches(const struct lvn_loader *l, int64_t limit);
/* Number of samples in these batches (the last one may be incomplete). */
int64_t lvn_loader_eval_count(const struct lvn_loader *l, int64_t limit);
/* Read rows [first, first + b->rows) of evaluation batch i; rows past the last sample are blank. Row r is the
 * evaluated sample *number + r (see lvn_loader_eval_sample()). */
enum lvn_status lvn_loader_eval_batch(const struct lvn_loader *l, int64_t limit, int64_t i, int64_t first,
                                      struct lvn_samples *b, int64_t *number) LVN_CHECKED;
/* Index within the split of the place-th evaluated sample. */
int64_t lvn_loader_eval_sample(const struct lvn_loader *l, int64_t place);

#endif
