/* limits.h - the length of a run: the steps of an epoch, the last step, the validation batches.
 *
 * The trainer's set-up calls it. It applies trainer.max_steps, max_epochs, limit_*_batches, overfit_batches and
 * fast_dev_run; the loop applies trainer.max_time. Lightning's "batch" is a step here. */
#ifndef LVN_LIMITS_H
#define LVN_LIMITS_H

#include "data/loader.h"
#include "settings/settings.h"

/* The loader of the steps. ARG if the limits leave none. */
enum lvn_status lvn_limits_loader(struct lvn_loader *train, const struct lvn_dataset *data,
                                  const struct levin_settings *s) LVN_CHECKED;
/* The last step by max_steps and max_epochs, which the learning rate uses too; INT64_MAX: only time ends the run. */
int64_t lvn_limits_steps(const struct levin_settings *s, int64_t steps_per_epoch);
/* The step after which the run ends: that one, or the last of trainer.fast_dev_run. */
int64_t lvn_limits_last(const struct levin_settings *s, int64_t steps_per_epoch);
/* The part of the validation data to use; none if trainer.val_check_interval is 0. */
struct lvn_amount lvn_limits_validation(const struct levin_settings *s);

#endif
