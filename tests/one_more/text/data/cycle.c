/* cycle.c - sample i is the sequence i, i + 1, ... modulo data.period, computed instead of read. A token is one digit,
 * so the row of data.period, which tests/cli/one_more.sh adds to datasets.def, limits it to 10. */
#include "data/dataset.h"

static enum lvn_status sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i, struct lvn_draw draw,
                              void *const *out)
{
    (void)split, (void)draw;
    int32_t *ids = out[0], *labels = out[1];
    const int64_t period = d->split[LVN_SPLIT_TRAIN].n_samples;
    for (int64_t t = 0; t < d->fields.field[0].dim[0]; t++) {
        ids[t] = (int32_t)((i + t) % period);
        labels[t] = (int32_t)((i + t + 1) % period);
    }
    return LVN_OK;
}

static void fields(const struct lvn_data_options *o, struct lvn_fields *out)
{
    *out = lvn_stream_fields(o->block_size ? o->block_size : 2, o->period);
}

static enum lvn_status open_cycle(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    LVN_TRY(lvn_vocab_from_text(&d->vocabulary, "the cycle", "0123456789", o->period));
    d->vocab_size = o->period;
    d->block_size = o->block_size;
    for (int s = 0; s < LVN_SPLIT_COUNT; s++) d->split[s].n_samples = s == LVN_SPLIT_TEST ? 0 : o->period;
    return LVN_OK;
}

extern const struct lvn_dataset_kind lvn_dataset_cycle;
const struct lvn_dataset_kind lvn_dataset_cycle = {
    .name = "cycle",
    .help = "a sequence of numbers that repeats after data.period",
    .typical_vocab = 10,
    .fields = fields,
    .open = open_cycle,
    .sample = sample,
};
