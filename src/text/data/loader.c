/* loader.c - see loader.h: positions of rows as pure functions of (seed, step, row), then batches. */
#include "data/loader.h"

#include "base/random.h"

/* Windows begin at an offset of 0 .. T-1 tokens. One window less than fits at offset 0 fits at every offset, so all
 * epochs have the same length. */
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

enum lvn_status lvn_loader_init(struct lvn_loader *l, const struct lvn_dataset *data, enum lvn_split_id split,
                                enum lvn_sampling sampling, int64_t batch_size, uint64_t seed)
{
    const struct lvn_split *p = &data->split[split];
    int64_t T = p->n_samples ? 1 : data->fields.field[0].dim[0];
    LVN_CHECK(T >= 1, ARG, "model.block_size is %lld; it must be at least 1", (long long)T);
    LVN_CHECK(batch_size >= 1, ARG, "trainer.batch_size is %lld; it must be at least 1", (long long)batch_size);
    LVN_CHECK(lvn_dataset_has(data, split), ARG, "there is no %s data%s",
              split == LVN_SPLIT_VAL ? "validation" : "training", split == LVN_SPLIT_VAL ? ": give data.val_path" : "");
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
    bool shifted = sampling == LVN_SAMPLING_PERMUTATION && !p->n_samples && p->n_tokens > T;
    l->samples = shifted ? shifted_samples(p->n_tokens, T) : l->eval_samples;
    l->steps_per_epoch = l->samples / batch_size > 1 ? l->samples / batch_size : 1;
    return LVN_OK;
}

void lvn_loader_keep_last(struct lvn_loader *l)
{
    const struct lvn_split *p = &l->data->split[l->split];
    int64_t labels = p->n_tokens - 1;
    if (labels > 0 && !p->n_samples) l->eval_samples = (labels + l->stride - 1) / l->stride;
}

void lvn_loader_limit_steps(struct lvn_loader *l, int64_t steps)
{
    if (steps < l->steps_per_epoch) l->steps_per_epoch = steps;
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

struct position {
    int64_t at;     /* a token of a stream, or the number of a sample */
    uint64_t order; /* see struct lvn_draw */
};

/* The position of row `row` of step `step`. */
static struct position row_position(const struct lvn_loader *l, int64_t step, int64_t row)
{
    const struct lvn_split *p = &l->data->split[l->split];
    if (l->sampling == LVN_SAMPLING_RANDOM) {
        int64_t positions = p->n_samples ? p->n_samples : p->n_tokens - l->stride;
        uint64_t seed = l->seed ^ lvn_name_hash("data.random");
        int64_t at = lvn_random_below(seed, (uint64_t)step, (uint64_t)row, positions > 1 ? positions : 1);
        return (struct position){at, (uint64_t)step * (uint64_t)l->batch_size + (uint64_t)row};
    }
    int64_t epoch = step / l->steps_per_epoch, batch = step % l->steps_per_epoch;
    if (p->by_length && l->sampling == LVN_SAMPLING_PERMUTATION && l->samples > l->batch_size)
        batch = lvn_random_permute(l->seed, (uint64_t)epoch, l->samples / l->batch_size, batch);
    /* A batch larger than an epoch uses several orders. */
    int64_t index = batch * l->batch_size + row;
    int64_t orders = (l->batch_size + l->samples - 1) / l->samples, which_order = index / l->samples;
    uint64_t order = (uint64_t)(epoch * orders + which_order);
    if (l->sampling == LVN_SAMPLING_SEQUENTIAL) return (struct position){index % l->samples * l->stride, order};
    if (p->by_length) return (struct position){sample_by_length(l, order, index % l->samples), order};
    int64_t sample = lvn_random_permute(l->seed, order, l->samples, index % l->samples);
    return (struct position){p->n_samples ? sample : shift_of_epoch(l, (int64_t)order) + sample * l->stride, order};
}

/* Reads row `row` of a batch. */
static enum lvn_status fill_row(const struct lvn_loader *l, struct position start, struct lvn_samples *b, int64_t row)
{
    void *out[LVN_MAX_FIELDS];
    struct lvn_draw draw = {.length = lvn_fields_length(&b->fields), .order = start.order};
    for (int k = 0; k < b->fields.n; k++) out[k] = lvn_samples_at(b, k, row);
    return lvn_dataset_sample(l->data, l->split, start.at, draw, out);
}

/* Sets the length of ragged fields to the planned length of the longest of n samples; sample_of(l, batch, i): the
 * number of sample i. */
static void fit_length(const struct lvn_loader *l, struct lvn_samples *b, int64_t n,
                       int64_t (*sample_of)(const struct lvn_loader *l, int64_t batch, int64_t i), int64_t batch)
{
    const struct lvn_dataset *d = l->data;
    int longest = l->pad_to_max_length ? d->n_lengths - 1 : 0;
    if (!d->n_lengths) return;
    for (int64_t i = 0; i < n && longest < d->n_lengths - 1; i++) {
        int k = lvn_dataset_length(d, l->split, sample_of(l, batch, i));
        if (k > longest) longest = k;
    }
    lvn_fields_set_length(&b->fields, d->length[longest]);
}

static int64_t row_sample(const struct lvn_loader *l, int64_t step, int64_t row)
{
    return row_position(l, step, row).at;
}

enum lvn_status lvn_loader_batch(const struct lvn_loader *l, int64_t step, int64_t first, struct lvn_samples *b)
{
    fit_length(l, b, l->batch_size, row_sample, step);
    b->n_valid = b->rows;
    for (int64_t r = 0; r < b->rows; r++) LVN_TRY(fill_row(l, row_position(l, step, first + r), b, r));
    return LVN_OK;
}

int64_t lvn_loader_tokens(const struct lvn_loader *l, int64_t step)
{
    const struct lvn_pack *pack = l->data->split[l->split].pack;
    int64_t tokens = 0;
    for (int64_t r = 0; pack && r < l->batch_size; r++) tokens += lvn_pack_tokens(pack, row_sample(l, step, r));
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

int64_t lvn_loader_eval_sample(const struct lvn_loader *l, int64_t place)
{
    const int64_t *by_length = l->data->split[l->split].by_length;
    return by_length ? by_length[place] : place;
}

static int64_t eval_row_sample(const struct lvn_loader *l, int64_t base, int64_t row)
{
    return lvn_loader_eval_sample(l, base + row);
}

enum lvn_status lvn_loader_eval_batch(const struct lvn_loader *l, int64_t limit, int64_t i, int64_t first,
                                      struct lvn_samples *b, int64_t *number)
{
    int64_t batch = eval_index(l, limit, i) * l->batch_size, all = l->eval_samples - batch;
    int64_t base = batch + first, left = l->eval_samples - base;
    *number = base;
    b->n_valid = left < 0 ? 0 : left < b->rows ? left : b->rows;
    fit_length(l, b, all < l->batch_size ? all : l->batch_size, eval_row_sample, batch);
    for (int64_t r = 0; r < b->n_valid; r++) {
        struct position start = {lvn_loader_eval_sample(l, base + r) * l->stride, 0};
        LVN_TRY(fill_row(l, start, b, r));
    }
    for (int64_t r = b->n_valid; r < b->rows; r++) lvn_samples_pad(b, r);
    return LVN_OK;
}
