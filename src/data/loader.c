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
    int64_t capacity = l->data->split[l->split].n_tokens - l->samples * l->scale; /* shifts that fit */
    if (capacity > l->scale) capacity = l->scale;
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

/* Place `at` of an order by length. */
static int64_t ordered_by_length(const struct lvn_loader *l, uint64_t order, int64_t at)
{
    const struct lvn_split *p = &l->data->split[l->split];
    const uint64_t seed = l->seed ^ lvn_name_hash("data.lengths");
    at = (at + lvn_random_below(seed, order, 0, l->samples)) % l->samples;
    int k = 0;
    while (p->first_of[k + 1] <= at) k++;
    const int64_t first = p->first_of[k], n = p->first_of[k + 1] - first;
    return p->by_length[first + lvn_random_permute(seed + (uint64_t)k, order, n, at - first)];
}

struct place {
    int64_t at;     /* a token of a stream, or the number of a sample */
    uint64_t order; /* drawn for this epoch */
};

/* Where row `row` of step `step` begins. */
static struct place start_of_row(const struct lvn_loader *l, int64_t step, int64_t row)
{
    const struct lvn_split *p = &l->data->split[l->split];
    if (l->sampling == LVN_SAMPLING_RANDOM) {
        int64_t places = p->n_samples ? p->n_samples : p->n_tokens - l->scale;
        uint64_t seed = l->seed ^ lvn_name_hash("data.random");
        int64_t at = lvn_random_below(seed, (uint64_t)step, (uint64_t)row, places > 1 ? places : 1);
        return (struct place){at, (uint64_t)step * (uint64_t)l->batch_size + (uint64_t)row};
    }
    int64_t epoch = step / l->steps_per_epoch, batch = step % l->steps_per_epoch;
    if (p->by_length && l->sampling == LVN_SAMPLING_PERMUTATION && l->samples > l->batch_size)
        batch = lvn_random_permute(l->seed, (uint64_t)epoch, l->samples / l->batch_size, batch);
    /* A batch larger than an epoch walks through several orders. */
    int64_t index = batch * l->batch_size + row;
    int64_t rounds = (l->batch_size + l->samples - 1) / l->samples, round = index / l->samples;
    uint64_t order = (uint64_t)(epoch * rounds + round);
    if (l->sampling == LVN_SAMPLING_SEQUENTIAL) return (struct place){index % l->samples * l->scale, order};
    if (p->by_length) return (struct place){ordered_by_length(l, order, index % l->samples), order};
    int64_t sample = lvn_random_permute(l->seed, order, l->samples, index % l->samples);
    return (struct place){p->n_samples ? sample : shift_of_epoch(l, (int64_t)order) + sample * l->scale, order};
}

/* Row `row` of a batch. */
static enum lvn_status fill_row(const struct lvn_loader *l, struct place from, struct lvn_samples *b, int64_t row)
{
    void *out[LVN_MAX_FIELDS];
    struct lvn_draw how = {.length = lvn_fields_length(&b->fields), .order = from.order};
    for (int k = 0; k < b->fields.n; k++) out[k] = lvn_samples_at(b, k, row);
    return lvn_dataset_sample(l->data, l->split, from.at, how, out);
}

/* Make the batch as long as the longest of the samples at `place`, which is asked for [0, n). */
static void cut(const struct lvn_loader *l, struct lvn_samples *b, int64_t n,
                int64_t (*place)(const struct lvn_loader *l, int64_t batch, int64_t i), int64_t batch)
{
    const struct lvn_dataset *d = l->data;
    int longest = l->longest ? d->n_lengths - 1 : 0;
    if (!d->n_lengths) return;
    for (int64_t i = 0; i < n && longest < d->n_lengths - 1; i++) {
        int k = lvn_dataset_length(d, l->split, place(l, batch, i));
        if (k > longest) longest = k;
    }
    lvn_fields_cut(&b->fields, d->length[longest]);
}

static int64_t place_of_row(const struct lvn_loader *l, int64_t step, int64_t row)
{
    return start_of_row(l, step, row).at;
}

enum lvn_status lvn_loader_batch(const struct lvn_loader *l, int64_t step, int64_t first, struct lvn_samples *b)
{
    cut(l, b, l->batch_size, place_of_row, step);
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

int64_t lvn_loader_eval_sample(const struct lvn_loader *l, int64_t place)
{
    const int64_t *by_length = l->data->split[l->split].by_length;
    return by_length ? by_length[place] : place;
}

static int64_t place_of_eval_row(const struct lvn_loader *l, int64_t base, int64_t row)
{
    return lvn_loader_eval_sample(l, base + row);
}

enum lvn_status lvn_loader_eval_batch(const struct lvn_loader *l, int64_t limit, int64_t i, int64_t first,
                                      struct lvn_samples *b, int64_t *number)
{
    int64_t batch = eval_index(l, limit, i) * l->batch_size, all = l->eval_samples - batch;
    int64_t base = batch + first, left = l->eval_samples - base;
    *number = base;
    b->there = left < 0 ? 0 : left < b->rows ? left : b->rows;
    cut(l, b, all < l->batch_size ? all : l->batch_size, place_of_eval_row, batch);
    for (int64_t r = 0; r < b->there; r++) {
        struct place from = {lvn_loader_eval_sample(l, base + r) * l->scale, 0};
        LVN_TRY(fill_row(l, from, b, r));
    }
    for (int64_t r = b->there; r < b->rows; r++) lvn_samples_blank(b, r);
    return LVN_OK;
}
