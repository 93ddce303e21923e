/* keys.h - a model's configuration through the keys of its family: get, set and check values, resolve defaults.
 *
 * Called by settings, model_io and the commands. See model_io/model_config.h for config.json. */
#ifndef LVN_KEYS_H
#define LVN_KEYS_H

#include "models/model.h"

/* The value of the key's field; of a key without a field its default. */
double lvn_key_get(const struct lvn_key *k, const struct lvn_model_config *c);
void lvn_key_set(const struct lvn_key *k, struct lvn_model_config *c, double value);
enum { LVN_KEY_TEXT = 64 };
/* "6", "0.1", "true", "gelu_new" */
const char *lvn_key_text(const struct lvn_key *k, double value, char text[LVN_KEY_TEXT]);
/* ARG if the value is outside the key's range. open: a key that is set from the data may be 0. */
enum lvn_status lvn_key_check(const struct lvn_key *k, double value, bool open) LVN_CHECKED;

/* The first key of m with this name in recipes (without `model.`); NULL: none. */
const struct lvn_key *lvn_key_find(const struct lvn_model *m, const char *recipe);
/* The key with this role; NULL: none. */
const struct lvn_key *lvn_key_by_role(const struct lvn_model *m, enum lvn_role role);

/* A configuration of m with every default. */
void lvn_model_config_init(struct lvn_model_config *c, const struct lvn_model *m);
/* Set all fields with this name in recipes. ARG if the model has none, with a list of its names, and for a value out
 * of range. */
enum lvn_status lvn_model_put(struct lvn_model_config *c, const char *recipe, double value) LVN_CHECKED;
enum lvn_status lvn_model_put_all(struct lvn_model_config *c, const struct lvn_key_value *values) LVN_CHECKED;
/* Set the keys of a named size; of a published one also the model's `published` values. */
enum lvn_status lvn_model_put_size(struct lvn_model_config *c, const struct lvn_size *size) LVN_CHECKED;
/* Get and set by role. A family without a key of the role: get returns 0, set does nothing. */
int64_t lvn_model_value(const struct lvn_model_config *c, enum lvn_role role);
void lvn_model_set(struct lvn_model_config *c, enum lvn_role role, int64_t value);
/* Set fewer positions than the model has; on shorter texts it computes the same. ARG if that is impossible. */
enum lvn_status lvn_model_shorten(struct lvn_model_config *c, int64_t positions) LVN_CHECKED;

/* A copy in which each 0 that means a derived default has its value. */
struct lvn_model_config lvn_model_resolved(const struct lvn_model_config *c);
/* ARG or UNSUPPORTED if these values do not make a model. open: sizes that are set from the data may still be 0. */
enum lvn_status lvn_model_check(const struct lvn_model_config *c, bool open) LVN_CHECKED;
/* UNSUPPORTED if files of this variant cannot express the configuration. */
enum lvn_status lvn_model_check_variant(const struct lvn_model *variant, const struct lvn_model_config *c) LVN_CHECKED;
/* Write the names of the keys that recipes may set, "n_layer, n_head and n_embd", into text; returns it. */
const char *lvn_model_keys_text(const struct lvn_model *m, char *text, size_t capacity);

#endif
