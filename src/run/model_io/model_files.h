/* model_files.h - a model as files: config.json and model.safetensors, as Hugging Face's library reads them.
 *
 * Checkpoints, `levin export` and evaluation (gradients) call it. It makes texts and tensors; the caller writes them.
 * The other direction is pretrained.h. */
#ifndef LVN_MODEL_FILES_H
#define LVN_MODEL_FILES_H

#include "base/text.h"
#include "engine/parameters.h"
#include "formats/safetensors.h"
#include "models/model.h"

/* Owns everything that the source points to; the origin of an item is a struct lvn_shard_origin (shard_files.h). */
struct lvn_model_files {
    struct lvn_arena arena;
    struct lvn_text config;               /* config.json */
    struct lvn_safetensors_source source; /* of model.safetensors */
};
/* By the tables of `variant`, a model of n's family (that of lvn_model_file_variant() loads back exactly): the values,
 * or the gradients, of n's parameters, in their type. They must stay unchanged until the source was written.
 * parameters_only: no tensor is duplicated and none is filled with zeros. */
enum lvn_status lvn_model_files_make(struct lvn_model_files *f, const struct lvn_model *variant,
                                     const struct lvn_model_state *n, enum lvn_parameters_of of,
                                     bool parameters_only) LVN_CHECKED;
/* The same with values that are read when a tensor is written, so that the model is never in memory: n, which need not
 * be allocated, lists the parameters, and has their type in the files. read: fills `to` [p->count], fp32, in the order
 * of memory. */
struct lvn_model_values {
    enum lvn_status (*read)(void *context, const struct lvn_param *p, float *to);
    void *context;
};
enum lvn_status lvn_model_files_stream(struct lvn_model_files *f, const struct lvn_model *variant,
                                       const struct lvn_model_state *n, const struct lvn_model_values *values,
                                       bool parameters_only) LVN_CHECKED;
void lvn_model_files_release(struct lvn_model_files *f);

#endif
