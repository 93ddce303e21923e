/* settings_model.h - the keys of settings that belong to the model's family (models/keys.h). */
#ifndef LVN_SETTINGS_MODEL_H
#define LVN_SETTINGS_MODEL_H

#include "models/keys.h"
#include "settings/settings.h"

/* Fill the keys of model.kind that nobody gave, by model.size, by the data or as is usual; refuse those that the family
 * does not have, and values that make no model. For a model that is built anew. */
enum lvn_status lvn_settings_finish_family(struct lvn_settings *s) LVN_CHECKED;
/* The configuration that finished settings tell. m: model.kind's, or a program's own model. */
enum lvn_status lvn_settings_config(const struct lvn_settings *s, const struct lvn_model *m,
                                    struct lvn_model_config *c) LVN_CHECKED;
/* What a recipe may say of a model that exists, into c; all else is the model's. Keys that its family does not have are
 * refused. */
enum lvn_status lvn_settings_adjust(const struct lvn_settings *s, struct lvn_model_config *c) LVN_CHECKED;
/* The whole number of the key with this meaning; 0: m has none, or nobody gave it. */
int64_t lvn_settings_role(const struct lvn_settings *s, const struct lvn_model *m, enum lvn_role meaning);

#endif
