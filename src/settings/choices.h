/* choices.h - words of the settings as the engine's own enums.
 *
 * Each is a switch without a default, so that a word which one side has and the other lacks does not compile, and the
 * order of neither side matters. Words that settings_check.c refuses become the engine's first. */
#ifndef LVN_CHOICES_H
#define LVN_CHOICES_H

#include "data/dataset.h"
#include "data/loader.h"
#include "passes/program.h"
#include "settings/settings.h"

enum lvn_precision lvn_precision_of(enum lvn_trainer_precision word);
enum lvn_recompute lvn_recompute_of(enum lvn_trainer_recompute word);
enum lvn_decay lvn_decay_of(enum lvn_optimizer_decay word);
enum lvn_optimizer_id lvn_optimizer_of(enum lvn_optimizer_kind word);
enum lvn_sampling lvn_sampling_of(enum lvn_data_sampling word);
/* Not of `auto`, which evaluation decides on. */
enum lvn_split_id lvn_split_of(enum lvn_data_split word);

#endif
