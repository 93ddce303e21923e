/* loader.c - see loader.h: positions of rows as pure functions of (seed, step, row), then batches. */
#include "data/loader.h"

#include "base/random.h"
#include "base/text.h"
#include "data/sources/shard_list.h"

/* Windows begin at an offset of 0 .. T-1 tokens. If n windows fit at offset 0, n - 1 fit at every offset, so all epochs
 * have the same length. */
static int64_t shifted_samples(int64_t n_tokens, int64_t T)
{
    int64_t samples = n_tokens / T - 1;
    return samples > 1 ? samples : 1;
}

static int64_t shift_of_epoch(const struct lvn_loader *l, int64_t epoch)
{
    int64_t capacity = l->data->split[l->split].n_tokens - l->samples * l->stride; /* shifts that fit */
    if (capacity > l->stride) capacity = l->stride;
    if (capacity < 1) capacity = 1; /* a validation part shorter than a sample */
    return lvn_random_below(l->seed ^ lvn_name_hash("data.cut"), (uint64_t)epoch, 0, capacity);
}

/* Set l->group; ARG if the order does not suit the files. */
static enum lvn_status set_group(struct lvn_loader *l, const struct lvn_split *p)
{
    const bool by_shards = l->sampling == LVN_SAMPLING_SHARDS, streams = p->shards && lvn_shard_list_streams(p->shards);
    LVN_CHECK(!by_shards || (p->shards && !p->pack), ARG,
              "data.sampling=shards is for token files in shards, without data.pack, and '%s' %s: leave it out",
              p->path, p->shards ? "is packed" : "has none");
    LVN_CHECK(!streams || by_shards || l->sampling == LVN_SAMPLING_SEQUENTIAL, ARG,
              "data.stream of shards reads them one after the other, and data.sampling=%s needs all of them at a time: "
              "set data.sampling to shards or sequential, or leave data.stream out",
              l->sampling == LVN_SAMPLING_RANDOM ? "random" : "permutation");
    if (by_shards) l->group = (lvn_shard_list_largest(p->shards) + l->stride - 1) / l->stride;
    return LVN_OK;
}

/* The loader of one data set. */
static enum lvn_status init_one(struct lvn_loader *l, const struct lvn_dataset *data, enum lvn_split_id split,
                                enum lvn_sampling sampling, int64_t batch_size, uint64_t seed)
{
    const struct lvn_split *p = &data->split[split];
    int64_t T = p->n_samples ? 1 : data->fields.field[0].dim[0];
    LVN_CHECK(T >= 1, ARG, "model.block_size is %lld; it must be at least 1", (long long)T);
    *l = (struct lvn_loader){.data = data,
                             .split = split,
                             .sampling = sampling,
                             .batch_size = batch_size,
                             .seed = seed,
                             .stride = T,
                             .eval_samples = lvn_dataset_samples(data, split)};
    LVN_CHECK(l->eval_samples, FORMAT,
              "'%s' has %lld tokens, but one window of model.block_size=%lld needs %lld: give more data or a smaller "
              "model.block_size",
              p->path, (long long)p->n_tokens, (long long)T, (long long)T + 1);
    LVN_TRY(set_group(l, p));
    const bool permuted = sampling == LVN_SAMPLING_PERMUTATION || sampling == LVN_SAMPLING_SHARDS;
    bool shifted = permuted && !p->n_samples && p->n_tokens > T;
    l->samples = shifted ? shifted_samples(p->n_tokens, T) : l->eval_samples;
    l->steps_per_epoch = l->samples / batch_size > 1 ? l->samples / batch_size : 1;
    return LVN_OK;
}

static void keep_last_of_one(struct lvn_loader *l)
{
    const struct lvn_split *p = &l->data->split[l->split];
    int64_t labels = p->n_tokens - 1;
    if (labels > 0 && !p->n_samples) l->eval_samples = (labels + l->stride - 1) / l->stride;
}

static bool has_split(const struct lvn_dataset *one, enum lvn_split_id split)
{
    return one->split[split].n_tokens > 1 || one->split[split].n_samples > 0;
}

/* The loader of a source of a mix, which draws row by row. False: the source has no such split. */
static bool of_source(const struct lvn_loader *l, int k, struct lvn_loader *one)
{
    const struct lvn_dataset *data = l->data->mix->data[k];
    const uint64_t seed = k ? l->seed ^ lvn_name_hash("data.mix") * (uint64_t)k : l->seed;
    if (!has_split(data, l->split)) return false;
    if (init_one(one, data, l->split, l->sampling, 1, seed) != LVN_OK) lvn_error_clear(); /* checked at the beginning */
    if (l->keeps_last) keep_last_of_one(one);
    return true;
}

static void count_mix(struct lvn_loader *l)
{
    struct lvn_loader one;
    l->samples = l->eval_samples = 0;
    for (int k = 0; k < l->data->mix->n; k++) {
        if (!of_source(l, k, &one)) continue;
        l->samples += one.samples;
        l->eval_samples += one.eval_samples;
    }
}

enum lvn_status lvn_loader_init(struct lvn_loader *l, const struct lvn_dataset *data, enum lvn_split_id split,
                                enum lvn_sampling sampling, int64_t batch_size, uint64_t seed)
{
    LVN_CHECK(batch_size >= 1, ARG, "trainer.batch_size is %lld; it must be at least 1", (long long)batch_size);
    LVN_CHECK(lvn_dataset_has(data, split), ARG, "there is no %s data%s",
              split == LVN_SPLIT_VAL ? "validation" : "training", split == LVN_SPLIT_VAL ? ": give data.val_path" : "");
    if (!data->mix) return init_one(l, data, split, sampling, batch_size, seed);
    for (int k = 0; k < data->mix->n; k++)
        if (has_split(data->mix->data[k], split)) LVN_TRY(init_one(l, data->mix->data[k], split, sampling, 1, seed));
    *l = (struct lvn_loader){.data = data,
                             .split = split,
                             .sampling = sampling,
                             .batch_size = batch_size,
                             .seed = seed,
                             .stride = l->stride};
    count_mix(l);
    l->steps_per_epoch = l->samples / batch_size > 1 ? l->samples / batch_size : 1;
    return LVN_OK;
}

void lvn_loader_keep_last(struct lvn_loader *l)
{
    l->keeps_last = true;
    if (l->data->mix)
        count_mix(l);
    else
        keep_last_of_one(l);
}

void lvn_loader_limit_steps(struct lvn_loader *l, int64_t steps)
{
    if (steps >= l->steps_per_epoch) return;
    l->steps_per_epoch = steps;
    l->limited = true;
}

/* Sample number `at` of an order that groups samples by length. */
static int64_t sample_by_length(const struct lvn_loader *l, uint64_t order, int64_t at)
{
    const struct lvn_split *p = &l->data->split[l->split];
    const uint64_t seed = l->seed ^ lvn_name_hash("data.lengths");
    at = (at + lvn_random_below(seed, order, 0, l->samples)) % l->samples;
    int k = 0;
    while (p->length_start[k + 1] <= at) k++;
    const int64_t first = p->length_start[k], n = p->length_start[k + 1] - first;
    return p->by_length[first + lvn_random_permute(seed + (uint64_t)k, order, n, at - first)];
}

/* First window and number of windows of the group that is number `at` in an order. */
static int64_t group_of(const struct lvn_loader *l, uint64_t order, int64_t at, int64_t *n)
{
    const int64_t whole = l->samples / l->group;
    const int64_t group = at < whole ? lvn_random_permute(l->seed, order, whole, at) : whole;
    *n = at < whole ? l->group : l->samples - whole * l->group;
    return group * l->group;
}

/* Sample number `at` of an order that goes through the stream shard by shard. */
static int64_t sample_by_group(const struct lvn_loader *l, uint64_t order, int64_t at)
{
    int64_t n;
    const int64_t first = group_of(l, order, at / l->group, &n);
    const uint64_t seed = l->seed ^ (lvn_name_hash("data.shards") + (uint64_t)first);
    return first + lvn_random_permute(seed, order, n, at % l->group);
}

struct position {
    const struct lvn_dataset *data; /* the loader's, or a source of its mix */
    int64_t at;                     /* a token of a stream, or the number of a sample */
    uint64_t order;                 /* see struct lvn_draw */
};

/* The position of row `row` of step `step`, without a mix. */
static struct position position_of_one(const struct lvn_loader *l, int64_t step, int64_t row)
{
    const struct lvn_split *p = &l->data->split[l->split];
    if (l->sampling == LVN_SAMPLING_RANDOM) {
        int64_t positions = p->n_samples ? p->n_samples : p->n_tokens - l->stride;
        uint64_t seed = l->seed ^ lvn_name_hash("data.random");
        int64_t at = lvn_random_below(seed, (uint64_t)step, (uint64_t)row, positions > 1 ? positions : 1);
        return (struct position){l->data, at, (uint64_t)step * (uint64_t)l->batch_size + (uint64_t)row};
    }
    int64_t epoch = step / l->steps_per_epoch, batch = step % l->steps_per_epoch;
    if (p->by_length && l->sampling == LVN_SAMPLING_PERMUTATION && l->samples > l->batch_size)
        batch = lvn_random_permute(l->seed, (uint64_t)epoch, l->samples / l->batch_size, batch);
    /* A batch larger than an epoch uses several orders. */
    int64_t index = batch * l->batch_size + row;
    int64_t orders = (l->batch_size + l->samples - 1) / l->samples, which_order = index / l->samples;
    uint64_t order = (uint64_t)(epoch * orders + which_order);
    if (l->sampling == LVN_SAMPLING_SEQUENTIAL)
        return (struct position){l->data, index % l->samples * l->stride, order};
    if (p->by_length) return (struct position){l->data, sample_by_length(l, order, index % l->samples), order};
    int64_t sample = l->group ? sample_by_group(l, order, index % l->samples)
                              : lvn_random_permute(l->seed, order, l->samples, index % l->samples);
    return (struct position){l->data, p->n_samples ? sample : shift_of_epoch(l, (int64_t)order) + sample * l->stride,
                             order};
}

static struct position row_position(const struct lvn_loader *l, int64_t step, int64_t row)
{
    struct lvn_loader one;
    int64_t before;
    int k;
    if (!l->data->mix) return position_of_one(l, step, row);
    /* trainer.overfit_batches repeats the same rows */
    if (l->limited && l->sampling == LVN_SAMPLING_SEQUENTIAL) step %= l->steps_per_epoch;
    lvn_mix_row(l->data->mix, step * l->batch_size + row, &k, &before);
    if (!of_source(l, k, &one)) return (struct position){l->data, 0, 0}; /* each source has training data */
    return position_of_one(&one, before, 0);
}

enum lvn_status lvn_loader_describe_mix(const struct lvn_loader *l, int64_t steps, struct lvn_text *t)
{
    const struct lvn_mix *m = l->data->mix;
    char rows[LVN_NUMBER_TEXT];
    for (int k = 0; m && k < m->n; k++) {
        struct lvn_loader one;
        const int64_t n = lvn_mix_rows(m, k, steps * l->batch_size);
        if (!of_source(l, k, &one)) continue;
        lvn_text_printf(t, "%s'%s' %s row%s (%.2f epochs)", k ? ", " : "", m->path[k], lvn_count_text(n, rows),
                        lvn_plural(n), (double)n / (double)one.samples);
    }
    return lvn_text_status(t);
}

/* Read row `row` of a batch. */
static enum lvn_status fill_row(const struct lvn_loader *l, struct position start, struct lvn_samples *b, int64_t row)
{
    void *out[LVN_MAX_FIELDS];
    struct lvn_draw draw = {.length = lvn_fields_length(&b->fields), .order = start.order};
    for (int k = 0; k < b->fields.n; k++) out[k] = lvn_samples_at(b, k, row);
    return lvn_dataset_sample(start.data, l->split, start.at, draw, out);
}

/* Set the length of ragged fields to the planned length of the longest of n samples; position_of(l, batch, i): of
 * sample i. */
static void fit_length(const struct lvn_loader *l, struct lvn_samples *b, int64_t n,
                       struct position (*position_of)(const struct lvn_loader *l, int64_t batch, int64_t i),
                       int64_t batch)
{
    const struct lvn_dataset *d = l->data;
    int longest = l->pad_to_max_length ? d->n_lengths - 1 : 0;
    if (!d->n_lengths) return;
    for (int64_t i = 0; i < n && longest < d->n_lengths - 1; i++) {
        const struct position sample = position_of(l, batch, i);
        int k = lvn_dataset_length(sample.data, l->split, sample.at);
        if (k > longest) longest = k;
    }
    lvn_fields_set_length(&b->fields, d->length[longest]);
}

/* Shards of a store that the next steps need are opened now, so that their downloads begin. */
static void prefetch_shards(const struct lvn_loader *l, int64_t step)
{
    struct lvn_shard_list *shards = l->data->split[l->split].shards;
    if (!shards || !lvn_shard_list_streams(shards)) return;
    const struct position last = row_position(l, step, l->batch_size - 1);
    if (!l->group) {
        lvn_shard_list_prefetch(shards, last.at, lvn_shard_list_largest(shards) + 1);
        return;
    }
    const int64_t index = step % l->steps_per_epoch * l->batch_size + l->batch_size - 1, at = index / l->group + 1;
    int64_t n;
    if (at * l->group >= l->samples) return;
    const int64_t window = group_of(l, last.order, at, &n);
    lvn_shard_list_prefetch(shards, shift_of_epoch(l, (int64_t)last.order) + window * l->stride, n * l->stride + 1);
}

/* With data.skip_bad_shards: replaces a window that a damaged shard has. */
static enum lvn_status replace_bad(const struct lvn_loader *l, struct position *p)
{
    struct lvn_shard_list *shards = p->data->split[l->split].shards;
    const int64_t left = p->data->split[l->split].n_tokens - p->at, n = l->stride + 1;
    if (!shards || !lvn_shard_list_skips(shards)) return LVN_OK;
    return lvn_shard_list_window(shards, p->at, left < n ? left : n, &p->at);
}

enum lvn_status lvn_loader_batch(const struct lvn_loader *l, int64_t step, int64_t first, struct lvn_samples *b)
{
    /* a rank also examines the shards of other ranks' rows, so that all find the same ones in the same step */
    const bool all = l->split == LVN_SPLIT_TRAIN && lvn_dataset_skips_shards(l->data);
    fit_length(l, b, l->batch_size, row_position, step);
    b->n_valid = b->rows;
    for (int64_t r = all ? 0 : first; r < (all ? l->batch_size : first + b->rows); r++) {
        struct position at = row_position(l, step, r);
        if (all) LVN_TRY(replace_bad(l, &at));
        if (r >= first && r < first + b->rows) LVN_TRY(fill_row(l, at, b, r - first));
    }
    prefetch_shards(l, step);
    return LVN_OK;
}

int64_t lvn_loader_tokens(const struct lvn_loader *l, int64_t step)
{
    int64_t tokens = 0;
    for (int64_t r = 0; l->data->split[l->split].pack && r < l->batch_size; r++) {
        const struct position row = row_position(l, step, r);
        tokens += lvn_pack_tokens(row.data->split[l->split].pack, row.at);
    }
    return tokens;
}

int64_t lvn_loader_eval_batches(const struct lvn_loader *l, int64_t limit)
{
    int64_t all = (l->eval_samples + l->batch_size - 1) / l->batch_size;
    return limit > 0 && limit < all ? limit : all;
}

/* Index among all batches of the i-th evaluated one: evenly spaced from the first. */
static int64_t eval_index(const struct lvn_loader *l, int64_t limit, int64_t i)
{
    return (int64_t)((__int128)i * lvn_loader_eval_batches(l, 0) / lvn_loader_eval_batches(l, limit));
}

int64_t lvn_loader_eval_count(const struct lvn_loader *l, int64_t limit)
{
    int64_t n = lvn_loader_eval_batches(l, limit), count = n * l->batch_size;
    int64_t end = (eval_index(l, limit, n - 1) + 1) * l->batch_size;
    return end > l->eval_samples ? count - (end - l->eval_samples) : count;
}

static int64_t eval_sample_of_one(const struct lvn_loader *l, int64_t place)
{
    const int64_t *by_length = l->data->split[l->split].by_length;
    return by_length ? by_length[place] : place;
}

/* The loader of the source that has the place-th evaluated sample. *before: evaluated samples of earlier sources. */
static struct lvn_loader eval_source(const struct lvn_loader *l, int64_t place, int64_t *before)
{
    struct lvn_loader one = *l;
    *before = 0;
    for (int k = 0; l->data->mix && k < l->data->mix->n; k++) {
        if (!of_source(l, k, &one)) continue;
        if (place - *before < one.eval_samples) break;
        *before += one.eval_samples;
    }
    return one;
}

int64_t lvn_loader_eval_sample(const struct lvn_loader *l, int64_t place)
{
    int64_t before;
    const struct lvn_loader one = eval_source(l, place, &before);
    return before + eval_sample_of_one(&one, place - before);
}

static struct position eval_position(const struct lvn_loader *l, int64_t base, int64_t row)
{
    int64_t before;
    const struct lvn_loader one = eval_source(l, base + row, &before);
    return (struct position){one.data, eval_sample_of_one(&one, base + row - before) * one.stride, 0};
}

enum lvn_status lvn_loader_eval_batch(const struct lvn_loader *l, int64_t limit, int64_t i, int64_t first,
                                      struct lvn_samples *b, int64_t *number)
{
    int64_t batch = eval_index(l, limit, i) * l->batch_size, all = l->eval_samples - batch;
    int64_t base = batch + first, left = l->eval_samples - base;
    *number = base;
    b->n_valid = left < 0 ? 0 : left < b->rows ? left : b->rows;
    fit_length(l, b, all < l->batch_size ? all : l->batch_size, eval_position, batch);
    for (int64_t r = 0; r < b->n_valid; r++) LVN_TRY(fill_row(l, eval_position(l, base, r), b, r));
    for (int64_t r = b->n_valid; r < b->rows; r++) lvn_samples_pad(b, r);
    return LVN_OK;
}
