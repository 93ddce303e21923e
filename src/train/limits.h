/* limits.h - how far a run goes: the steps of an epoch, the last step, and what trainer.fast_dev_run and
 * trainer.overfit_batches make of them. A batch of Lightning's is a step. */
#ifndef LVN_LIMITS_H
#define LVN_LIMITS_H

#include "data/loader.h"
#include "settings/settings.h"

/* The loader of the steps. ARG where the limits leave none. */
enum lvn_status lvn_limits_loader(struct lvn_loader *train, const struct lvn_dataset *data,
                                  const struct lvn_settings *s) LVN_CHECKED;
/* The last step as limits have it, for the learning rate, too; INT64_MAX: time alone ends it. */
int64_t lvn_limits_steps(const struct lvn_settings *s, int64_t steps_per_epoch);
/* Where a run ends: there, or after the steps of trainer.fast_dev_run. */
int64_t lvn_limits_last(const struct lvn_settings *s, int64_t steps_per_epoch);
/* Which part of the validation data is looked at; nothing where trainer.val_check_interval is 0. */
struct lvn_amount lvn_limits_validation(const struct lvn_settings *s);

#endif
