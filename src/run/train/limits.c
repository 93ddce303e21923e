/* limits.c - see limits.h. */
#include "train/limits.h"

#include "options/choices.h"

static bool is_on(const struct lvn_amount *a)
{
    return a->count > 0 || a->fraction > 0.0;
}

enum lvn_status lvn_limits_loader(struct lvn_loader *train, const struct lvn_dataset *data,
                                  const struct levin_settings *s)
{
    bool overfit = is_on(&s->values.trainer.overfit_batches);
    const struct lvn_amount *share =
        overfit ? &s->values.trainer.overfit_batches : &s->values.trainer.limit_train_batches;
    enum lvn_sampling sampling = overfit ? LVN_SAMPLING_SEQUENTIAL : lvn_sampling_of(s->values.data.sampling);
    LVN_TRY(lvn_loader_init(train, data, LVN_SPLIT_TRAIN, sampling, s->values.trainer.batch_size,
                            (uint64_t)s->values.trainer.seed));
    int64_t all = train->steps_per_epoch,
            steps = share->count ? share->count : (int64_t)(share->fraction * (double)all);
    if (s->values.trainer.fast_dev_run && !overfit) steps = s->values.trainer.fast_dev_run;
    LVN_CHECK(
        steps > 0, ARG,
        "trainer.%s_batches (%g) of the %lld steps of an epoch is less than one; use a larger fraction or an integer",
        overfit ? "overfit" : "limit_train", share->fraction, (long long)all);
    lvn_loader_limit_steps(train, steps);
    return LVN_OK;
}

int64_t lvn_limits_steps(const struct levin_settings *s, int64_t steps_per_epoch)
{
    int64_t by_steps = s->values.trainer.max_steps ? s->values.trainer.max_steps : INT64_MAX;
    const int64_t epochs = s->values.trainer.max_epochs;
    int64_t by_epochs = epochs && steps_per_epoch > INT64_MAX / epochs ? INT64_MAX : epochs * steps_per_epoch;
    return by_epochs && by_epochs < by_steps ? by_epochs : by_steps;
}

int64_t lvn_limits_last(const struct levin_settings *s, int64_t steps_per_epoch)
{
    int64_t few = s->values.trainer.fast_dev_run;
    if (!few) return lvn_limits_steps(s, steps_per_epoch);
    return few < steps_per_epoch ? few : steps_per_epoch;
}

struct lvn_amount lvn_limits_validation(const struct levin_settings *s)
{
    if (!is_on(&s->values.trainer.val_check_interval)) return (struct lvn_amount){0};
    if (is_on(&s->values.trainer.overfit_batches) && is_on(&s->values.trainer.limit_val_batches))
        return s->values.trainer.overfit_batches;
    if (s->values.trainer.fast_dev_run) return (struct lvn_amount){.count = s->values.trainer.fast_dev_run};
    return s->values.trainer.limit_val_batches;
}
