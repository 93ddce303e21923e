/* settings_model.h - the settings of the model's family: keys that are rows of its own file (models/keys.h).
 *
 * lvn_settings_finish(), setup/setup.c, train/trainer_setup.c and cli/prepare.c call it. */
#ifndef LVN_SETTINGS_MODEL_H
#define LVN_SETTINGS_MODEL_H

#include "models/keys.h"
#include "settings/settings.h"

/* For a new model: give the keys of model.kind that were not given their values, by model.size, by the
 * data or by default. ARG: keys that the family does not have, and values that make no model. */
enum lvn_status lvn_settings_finish_family(struct levin_settings *s) LVN_CHECKED;
/* The configuration of finished settings. m: model.kind's, or a program's own model. */
enum lvn_status lvn_settings_config(const struct levin_settings *s, const struct lvn_model *m,
                                    struct lvn_model_config *c) LVN_CHECKED;
/* Apply the keys that may be set for a loaded model to c; all others stay the model's. ARG: keys that its family does
 * not have; and values other than the model's, except those of a recipe whose model another model.init replaces. */
enum lvn_status lvn_settings_adjust(const struct levin_settings *s, struct lvn_model_config *c) LVN_CHECKED;
/* After a model of this kind was loaded: set model.kind, and reset the sizes of a recipe whose model it replaces. */
enum lvn_status lvn_settings_loaded(struct levin_settings *s, const struct lvn_model *m) LVN_CHECKED;
/* The integer value of the key with this role; 0: m has none, or it was not given. */
int64_t lvn_settings_role(const struct levin_settings *s, const struct lvn_model *m, enum lvn_role role);
/* Set the key with this role to the value that the data determined, if it was not given. */
void lvn_settings_resolve(struct levin_settings *s, const struct lvn_model *m, enum lvn_role role, int64_t value);

#endif
