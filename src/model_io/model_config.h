/* model_config.h - config.json <-> a model's configuration, by the keys of its family; private to pretrained*.c,
 * model_files.c and those who write files of other programs. */
#ifndef LVN_MODEL_CONFIG_H
#define LVN_MODEL_CONFIG_H

#include "base/text.h"
#include "formats/json.h"
#include "formats/torch_write.h"
#include "models/keys.h"

/* From the object `root`; `name` is what messages call it. *form: the variant of its model_type, by whose keys and
 * files it was written; c->model may be another one of that family. */
enum lvn_status lvn_config_read(struct lvn_model_config *c, const struct lvn_model **form, const char *name,
                                const json_t *root) LVN_CHECKED;
/* The same where model_type is known. */
enum lvn_status lvn_config_read_as(struct lvn_model_config *c, const struct lvn_model *form, const char *name,
                                   const json_t *root) LVN_CHECKED;
/* The text of config.json. type: of the weights beside it. */
enum lvn_status lvn_config_write(struct lvn_text *t, const struct lvn_model *form, const struct lvn_model_config *c,
                                 enum lvn_dtype type) LVN_CHECKED;
/* The same as plain values, for a checkpoint of torch.save(); returns how many. */
enum { LVN_CONFIG_ARGS = 32 };
int lvn_config_args(const struct lvn_model *form, const struct lvn_model_config *c,
                    struct lvn_torch_arg args[LVN_CONFIG_ARGS]);

/* "LABEL_1", or what config.json calls class i. Returns text. */
const char *lvn_class_name(const struct lvn_model_config *c, int64_t i, char text[LVN_CLASS_NAMES]);

#endif
