/* keys.h - a model's configuration by the keys of its family. */
#ifndef LVN_KEYS_H
#define LVN_KEYS_H

#include "models/model.h"

double lvn_key_get(const struct lvn_key *k, const struct lvn_model_config *c);
void lvn_key_set(const struct lvn_key *k, struct lvn_model_config *c, double value);
enum { LVN_KEY_TEXT = 64 };
/* "6", "0.1", "true", "gelu_new" */
const char *lvn_key_text(const struct lvn_key *k, double value, char text[LVN_KEY_TEXT]);
/* Is the value one of the key's? ARG when not. What the data decide on may be 0 where `open`. */
enum lvn_status lvn_key_check(const struct lvn_key *k, double value, bool open) LVN_CHECKED;

/* The first key of m that recipes call so (without `model.`); NULL: it has none. */
const struct lvn_key *lvn_key_find(const struct lvn_model *m, const char *recipe);
/* The key that means this; NULL: it has none. */
const struct lvn_key *lvn_key_of(const struct lvn_model *m, enum lvn_role meaning);

/* A configuration of m with every default. */
void lvn_model_config_init(struct lvn_model_config *c, const struct lvn_model *m);
/* Set all fields that recipes call so. ARG when the model has none, naming those that it has. */
enum lvn_status lvn_model_put(struct lvn_model_config *c, const char *recipe, double value) LVN_CHECKED;
enum lvn_status lvn_model_put_all(struct lvn_model_config *c, const struct lvn_key_value *values) LVN_CHECKED;
/* The keys of a named size, and what it has besides where it is published. */
enum lvn_status lvn_model_put_size(struct lvn_model_config *c, const struct lvn_size *size) LVN_CHECKED;
/* By meaning: 0 where the family has nothing of it; setting it then does nothing. */
int64_t lvn_model_value(const struct lvn_model_config *c, enum lvn_role meaning);
void lvn_model_set(struct lvn_model_config *c, enum lvn_role meaning, int64_t value);

/* With what is 0 and follows from other values filled in. */
struct lvn_model_config lvn_model_settled(const struct lvn_model_config *c);
/* Do these values make a model? ARG with a sentence when not. open: what the data decide on may still be 0. */
enum lvn_status lvn_model_check(const struct lvn_model_config *c, bool open) LVN_CHECKED;
/* Can the variant's files tell this configuration? UNSUPPORTED with a sentence when not. */
enum lvn_status lvn_model_check_form(const struct lvn_model *form, const struct lvn_model_config *c) LVN_CHECKED;
/* "n_layer, n_head and n_embd": what recipes may set, into text; returns it. */
const char *lvn_model_keys_text(const struct lvn_model *m, char *text, size_t capacity);

#endif
