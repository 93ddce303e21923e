/* loader.c - batches as pure functions of seed, step and row; see loader.h. */
#include "data/loader.h"

#include "base/random.h"

/* The cut is shifted by 0 .. T-1 tokens. One sample less than fits at shift 0 fits at every shift, so all epochs are
 * equally long. */
static int64_t shifted_samples(int64_t n_tokens, int64_t T)
{
    int64_t samples = n_tokens / T - 1;
    return samples > 1 ? samples : 1;
}

static int64_t shift_of_epoch(const struct lvn_loader *l, int64_t epoch)
{
    int64_t room = l->data->split[l->split].n_tokens - l->samples * l->scale; /* shifts that fit */
    if (room > l->scale) room = l->scale;
    if (room < 1) room = 1; /* a validation part shorter than a sample */
    return lvn_random_below(l->seed ^ lvn_name_hash("data.cut"), (uint64_t)epoch, 0, room);
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
                             .scale = T,
                             .eval_samples = lvn_dataset_samples(data, split)};
    LVN_CHECK(l->eval_samples, FORMAT,
              "'%s' has %lld tokens, but one window of model.block_size=%lld needs %lld: give more data or a smaller "
              "model.block_size",
              p->path, (long long)p->n_tokens, (long long)T, (long long)T + 1);
    bool shifted = sampling == LVN_SAMPLING_PERMUTATION && p->n_tokens > T;
    l->samples = shifted ? shifted_samples(p->n_tokens, T) : l->eval_samples;
    l->steps_per_epoch = l->samples / batch_size > 1 ? l->samples / batch_size : 1;
    return LVN_OK;
}

void lvn_loader_take_rest(struct lvn_loader *l)
{
    int64_t labels = l->data->split[l->split].n_tokens - 1;
    if (labels > 0) l->eval_samples = (labels + l->scale - 1) / l->scale;
}

void lvn_loader_shorten(struct lvn_loader *l, int64_t steps)
{
    if (steps < l->steps_per_epoch) l->steps_per_epoch = steps;
}

/* Where row `row` of step `step` begins: a token of a stream, or the number of a sample. */
static int64_t start_of_row(const struct lvn_loader *l, int64_t step, int64_t row)
{
    const struct lvn_split *p = &l->data->split[l->split];
    if (l->sampling == LVN_SAMPLING_RANDOM) {
        int64_t places = p->n_samples ? p->n_samples : p->n_tokens - l->scale;
        uint64_t seed = l->seed ^ lvn_name_hash("data.random");
        return lvn_random_below(seed, (uint64_t)step, (uint64_t)row, places > 1 ? places : 1);
    }
    int64_t epoch = step / l->steps_per_epoch, index = step % l->steps_per_epoch * l->batch_size + row;
    if (l->sampling == LVN_SAMPLING_SEQUENTIAL) return index % l->samples * l->scale;
    /* A batch larger than an epoch walks through several orders. */
    int64_t rounds = (l->batch_size + l->samples - 1) / l->samples, round = index / l->samples;
    int64_t order = epoch * rounds + round;
    int64_t sample = lvn_random_permute(l->seed, (uint64_t)order, l->samples, index % l->samples);
    return p->n_samples ? sample : shift_of_epoch(l, order) + sample * l->scale;
}

/* Row `row` of a batch: the sample that begins at `at`. */
static enum lvn_status fill_row(const struct lvn_loader *l, int64_t at, struct lvn_samples *b, int64_t row)
{
    void *out[LVN_MAX_FIELDS];
    for (int k = 0; k < b->fields.n; k++) out[k] = lvn_samples_at(b, k, row);
    return lvn_dataset_sample(l->data, l->split, at, out);
}

enum lvn_status lvn_loader_batch(const struct lvn_loader *l, int64_t step, int64_t first, struct lvn_samples *b)
{
    b->there = b->rows;
    for (int64_t r = 0; r < b->rows; r++) LVN_TRY(fill_row(l, start_of_row(l, step, first + r), b, r));
    return LVN_OK;
}

int64_t lvn_loader_eval_batches(const struct lvn_loader *l, int64_t limit)
{
    int64_t all = (l->eval_samples + l->batch_size - 1) / l->batch_size;
    return limit > 0 && limit < all ? limit : all;
}

/* Which of all batches is the i-th that is looked at: evenly spaced from the first on. */
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

enum lvn_status lvn_loader_eval_batch(const struct lvn_loader *l, int64_t limit, int64_t i, int64_t first,
                                      struct lvn_samples *b, int64_t *number)
{
    int64_t base = eval_index(l, limit, i) * l->batch_size + first, left = l->eval_samples - base;
    *number = base;
    b->there = left < 0 ? 0 : left < b->rows ? left : b->rows;
    for (int64_t r = 0; r < b->there; r++) LVN_TRY(fill_row(l, (base + r) * l->scale, b, r));
    for (int64_t r = b->there; r < b->rows; r++) lvn_samples_blank(b, r);
    return LVN_OK;
}
