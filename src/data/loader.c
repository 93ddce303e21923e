/* loader.c - batches as pure functions of seed, step and row; see loader.h. */
#include "data/loader.h"

#include <string.h>

#include "base/random.h"

enum lvn_status lvn_sampling_find(const char *name, enum lvn_sampling *out)
{
    static const char *const names[] = {
#define LVN_X(id, text) text,
        LVN_SAMPLING_MAP(LVN_X)
#undef LVN_X
    };
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (enum lvn_sampling)i;
            return LVN_OK;
        }
    LVN_FAIL(ARG, "data.sampling is '%s'; levin knows permutation, random and sequential", name);
}

/* The cut is shifted by 0 .. T-1 tokens. One window less than fits at shift 0 fits at every shift, so all epochs are
 * equally long. */
static int64_t shifted_windows(int64_t n_tokens, int64_t T)
{
    int64_t windows = n_tokens / T - 1;
    return windows > 1 ? windows : 1;
}

static int64_t shift_of_epoch(const struct lvn_loader *l, int64_t epoch)
{
    int64_t room = l->data->split[l->split].n_tokens - l->windows * l->block_size; /* shifts that fit */
    if (room > l->block_size) room = l->block_size;
    if (room < 1) room = 1; /* a validation part shorter than a window */
    return lvn_random_below(l->seed ^ lvn_name_hash("data.cut"), (uint64_t)epoch, 0, room);
}

enum lvn_status lvn_loader_init(struct lvn_loader *l, const struct lvn_dataset *data, enum lvn_split_id split,
                                enum lvn_sampling sampling, int64_t block_size, int64_t batch_size, uint64_t seed)
{
    const struct lvn_split *p = &data->split[split];
    LVN_CHECK(block_size >= 1, ARG, "model.block_size is %lld; it must be at least 1", (long long)block_size);
    LVN_CHECK(batch_size >= 1, ARG, "trainer.batch_size is %lld; it must be at least 1", (long long)batch_size);
    LVN_CHECK(lvn_dataset_has(data, split), ARG, "there is no %s data%s",
              split == LVN_SPLIT_VAL ? "validation" : "training", split == LVN_SPLIT_VAL ? ": give data.val_path" : "");
    *l = (struct lvn_loader){data, split, sampling, block_size, batch_size, seed, 0, 0, 0};
    l->eval_windows = lvn_dataset_windows(data, split, block_size);
    LVN_CHECK(l->eval_windows, FORMAT,
              "'%s' has %lld tokens, but one window of model.block_size=%lld needs %lld: give more data or a smaller "
              "model.block_size",
              p->path, (long long)p->n_tokens, (long long)block_size, (long long)block_size + 1);
    bool shifted = sampling == LVN_SAMPLING_PERMUTATION && p->n_tokens > block_size;
    l->windows = shifted ? shifted_windows(p->n_tokens, block_size) : l->eval_windows;
    l->steps_per_epoch = l->windows / batch_size > 1 ? l->windows / batch_size : 1;
    return LVN_OK;
}

/* Where row `row` of step `step` begins: a token of a stream, or the number of a sample. */
static int64_t start_of_row(const struct lvn_loader *l, int64_t step, int64_t row)
{
    const struct lvn_split *p = &l->data->split[l->split];
    int64_t scale = p->n_samples ? 1 : l->block_size;
    if (l->sampling == LVN_SAMPLING_RANDOM) {
        int64_t places = p->n_samples ? p->n_samples : p->n_tokens - l->block_size;
        uint64_t seed = l->seed ^ lvn_name_hash("data.random");
        return lvn_random_below(seed, (uint64_t)step, (uint64_t)row, places > 1 ? places : 1);
    }
    int64_t epoch = step / l->steps_per_epoch, index = step % l->steps_per_epoch * l->batch_size + row;
    if (l->sampling == LVN_SAMPLING_SEQUENTIAL) return index % l->windows * scale;
    /* A batch larger than an epoch walks through several orders. */
    int64_t rounds = (l->batch_size + l->windows - 1) / l->windows, round = index / l->windows;
    int64_t order = epoch * rounds + round;
    int64_t window = lvn_random_permute(l->seed, (uint64_t)order, l->windows, index % l->windows);
    return p->n_samples ? window : shift_of_epoch(l, order) + window * scale;
}

enum lvn_status lvn_loader_batch(const struct lvn_loader *l, int64_t step, int64_t first, int64_t n, int32_t *ids,
                                 int32_t *labels)
{
    for (int64_t i = 0; i < n; i++)
        LVN_TRY(lvn_dataset_window(l->data, l->split, start_of_row(l, step, first + i), l->block_size,
                                   ids + i * l->block_size, labels + i * l->block_size));
    return LVN_OK;
}

int64_t lvn_loader_eval_batches(const struct lvn_loader *l, int64_t limit)
{
    int64_t all = (l->eval_windows + l->batch_size - 1) / l->batch_size;
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
    return end > l->eval_windows ? count - (end - l->eval_windows) : count;
}

enum lvn_status lvn_loader_eval_batch(const struct lvn_loader *l, int64_t limit, int64_t i, int64_t first, int64_t n,
                                      int32_t *ids, int32_t *labels, int64_t *window)
{
    int64_t T = l->block_size, base = eval_index(l, limit, i) * l->batch_size + first;
    int64_t scale = l->data->split[l->split].n_samples ? 1 : T;
    for (int64_t r = 0; r < n; r++) {
        bool there = base + r < l->eval_windows;
        if (window) window[r] = there ? base + r : -1;
        if (there) {
            LVN_TRY(lvn_dataset_window(l->data, l->split, (base + r) * scale, T, ids + r * T, labels + r * T));
        } else {
            memset(ids + r * T, 0, (size_t)T * sizeof *ids);
            memset(labels + r * T, -1, (size_t)T * sizeof *labels);
        }
    }
    return LVN_OK;
}
