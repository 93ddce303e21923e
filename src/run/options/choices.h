/* choices.h - from the choices of options to the enums of the other folders.
 *
 * Whoever makes options of the engine from values calls them. Each is a switch without a default, so that a choice
 * which one enum has and the other lacks does not compile, and the order of neither matters. Choices that
 * settings_check.c refuses map to the first value. */
#ifndef LVN_CHOICES_H
#define LVN_CHOICES_H

#include "data/dataset.h"
#include "data/loader.h"
#include "optimizers/optimizer.h"
#include "options/values.h"
#include "passes/program.h"
#include "schedules/schedule.h"

enum lvn_precision lvn_precision_of(enum lvn_trainer_precision word);
enum lvn_recompute lvn_recompute_of(enum lvn_trainer_recompute word);
/* F32 for none. */
enum lvn_dtype lvn_quantize_of(enum lvn_model_quantize word);
enum lvn_decay lvn_decay_of(enum lvn_optimizer_decay word);
/* The options of the part `optimizer`, with those of clipping. Texts are those of v. */
struct lvn_optimizer_options lvn_optimizer_options_of(const struct lvn_values *v);
/* The options of the part `schedule`, with optimizer.lr. Texts are those of v. */
struct lvn_schedule_options lvn_schedule_options_of(const struct lvn_values *v);
/* The options of the part `data`; what is known of the run and its model is set by others. Texts are those of v. */
struct lvn_data_options lvn_data_options_of(const struct lvn_values *v);
/* data.path as it is opened: as given, or in data.folder. */
const char *lvn_data_path_of(const struct lvn_values *v);
enum lvn_sampling lvn_sampling_of(enum lvn_data_sampling word);
/* Not for `auto`, on which evaluation decides. */
enum lvn_split_id lvn_split_of(enum lvn_data_split word);

#endif
