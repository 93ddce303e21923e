/* model_config.h - config.json <-> a model's configuration, by the keys of its family.
 *
 * pretrained*.c, model_files.c and `levin export` call it. What the keys are is said by models/keys.h. */
#ifndef LVN_MODEL_CONFIG_H
#define LVN_MODEL_CONFIG_H

#include "base/text.h"
#include "formats/json.h"
#include "formats/torch_write.h"
#include "models/keys.h"

/* From the object `root`; messages call it `name`. *variant: the model of its model_type, whose keys and files it uses;
 * c->model may be another variant of that family. */
enum lvn_status lvn_config_read(struct lvn_model_config *c, const struct lvn_model **variant, const char *name,
                                const json_t *root) LVN_CHECKED;
/* The same for a known model_type. */
enum lvn_status lvn_config_read_as(struct lvn_model_config *c, const struct lvn_model *variant, const char *name,
                                   const json_t *root) LVN_CHECKED;
/* The text of config.json. type: of the weights in the same folder. */
enum lvn_status lvn_config_write(struct lvn_text *t, const struct lvn_model *variant, const struct lvn_model_config *c,
                                 enum lvn_dtype type) LVN_CHECKED;
/* Insert an end token as the first of eos_token_id in the text of config.json or generation_config.json. name: the
 * file's name in messages. old: the second end token if the text has no eos_token_id; -1: none. *out: the new text;
 * empty: the text has the token already. */
enum lvn_status lvn_config_add_end(struct lvn_text *out, const char *name, const char *text, int64_t old,
                                   int64_t id) LVN_CHECKED;
/* Insert an end token into the configuration that lvn_config_write() writes; *added: it was not there before. */
enum lvn_status lvn_model_add_end(struct lvn_model_config *c, int64_t id, bool *added) LVN_CHECKED;
/* The sizes and switches as an object, without the keys that say what kind of model it is. NULL: out of memory. */
json_t *lvn_config_sizes(const struct lvn_model *variant, const struct lvn_model_config *c);
/* The same as values of model_args, for a checkpoint of torch.save(); returns their number. */
enum { LVN_CONFIG_ARGS = 32 };
int lvn_config_args(const struct lvn_model *variant, const struct lvn_model_config *c,
                    struct lvn_torch_arg args[LVN_CONFIG_ARGS]);

#endif
