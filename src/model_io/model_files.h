/* model_files.h - a model in memory as files: config.json and model.safetensors, as Hugging Face's library reads them.
 *
 * Checkpoints, `levin export` and evaluation (gradients) call it. It makes texts and tensors; the caller writes them.
 * The other direction is pretrained.h. */
#ifndef LVN_MODEL_FILES_H
#define LVN_MODEL_FILES_H

#include "backend/backend.h"
#include "base/text.h"
#include "formats/safetensors.h"
#include "models/model.h"

/* Owns everything that the source points to. */
struct lvn_model_files {
    struct lvn_arena arena;
    struct lvn_text config;               /* config.json */
    struct lvn_safetensors_source source; /* of model.safetensors */
};
/* By the tables of `variant`, a model of c's family (that of lvn_model_file_variant() loads back exactly). `values`:
 * flat, of `type`, which the file's tensors have, too; must stay valid and unchanged until the source was written.
 * `gradients`: `values` are gradients, so no tensor is duplicated and none is filled with zeros. */
enum lvn_status lvn_model_files_make(struct lvn_model_files *f, const struct lvn_model *variant,
                                     const struct lvn_model_config *c, const struct lvn_params *params,
                                     const struct lvn_memory *values, enum lvn_dtype type, bool gradients) LVN_CHECKED;
void lvn_model_files_release(struct lvn_model_files *f);

#endif
