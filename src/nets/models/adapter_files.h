/* adapter_files.h - reads a folder of low-rank adapters in PEFT's format: adapter_config.json,
 * adapter_model.safetensors, or, of older versions, adapter_model.bin.
 *
 * In these files A is (rank, in) and B (out, rank); names are "base_model.model." and the name in the base model's
 * files. Other trained modules (a classification head) are stored whole. adapter_config.json names the base model: a
 * path, or a name on the Hugging Face hub. levin adds base.json with the checksum of the base's weights, to detect a
 * base that has changed; PEFT ignores it.
 *
 * Called by model_io, train and export. Left out, and refused when the folder is opened: scales per module, DoRA's
 * magnitudes, biases, adapters that change their base. */
#ifndef LVN_ADAPTER_FILES_H
#define LVN_ADAPTER_FILES_H

#include "formats/json.h"
#include "formats/weights.h"
#include "models/weight_files.h"

#define LVN_ADAPTERS_CONFIG "adapter_config.json"
#define LVN_ADAPTERS_WEIGHTS "adapter_model.safetensors"
#define LVN_ADAPTERS_BASE "base.json"
/* The folder of them in a checkpoint. */
#define LVN_ADAPTERS_FOLDER "adapter"

struct lvn_adapter_files {
    struct lvn_arena arena;
    const char *dir;
    const char *base; /* the base model, from adapter_config.json; NULL: not named */
    const char *sum;  /* checksum of the base's weights, from base.json; NULL: not known */
    struct lvn_lora lora;
    bool keeps_ties;  /* ensure_weight_tying: a head that is tied to the embedding is trained with it */
    const char *path; /* of its weights */
    struct lvn_weights weights;
};

/* The folder with the adapters of a model folder: itself, or its folder `adapter` (a checkpoint). NULL: it has none; a
 * folder with weights has none. In the arena. */
const char *lvn_adapter_files_find(struct lvn_arena *a, const char *folder);
/* Rank, alpha, use_rslora, dropout and tokens (those in the order of the file), from adapter_config.json alone. */
enum lvn_status lvn_adapter_files_scale(const char *dir, struct lvn_lora *out) LVN_CHECKED;
/* ARG, naming what to set, if rank, alpha or use_rslora of a folder (`found`) differ from those of the settings
 * (`expected`). */
enum lvn_status lvn_adapter_check_scale(const char *dir, const struct lvn_lora *found,
                                        const struct lvn_lora *expected) LVN_CHECKED;
/* After a failure there is nothing to close. */
enum lvn_status lvn_adapter_files_open(struct lvn_adapter_files *f, const char *dir) LVN_CHECKED;
void lvn_adapter_files_close(struct lvn_adapter_files *f);
/* Read the object of an adapter_config.json into *f, whose arena is initialized; `name`: for messages. */
enum lvn_status lvn_adapter_files_parse(struct lvn_adapter_files *f, const char *name, const json_t *root) LVN_CHECKED;

/* The linear layers that have adapters in the folder, as patterns for lora.targets (graph/names.h): the same maps of
 * all layers, "self_attn.q_proj, mlp.up_proj". In the arena. */
enum lvn_status lvn_adapter_files_targets(struct lvn_arena *a, const char *dir, const char **out) LVN_CHECKED;

/* The layout of a weight's A or B (`which`) in the file, for which 'R' of `rank` trained rows of an embedding, for
 * which
 * '\0' of a parameter that is stored whole.
 * `variant` and `c` as in lvn_file_layout(). */
enum lvn_status lvn_adapter_layout(const struct lvn_model *variant, const struct lvn_model_config *c,
                                   const struct lvn_param *p, int64_t rank, char which,
                                   struct lvn_layout *l) LVN_CHECKED;
/* The tensor with the name of that layout, with or without the family's prefix. NULL: there is none. */
const struct lvn_weight *lvn_adapter_find(const struct lvn_adapter_files *f, const struct lvn_model *variant,
                                          const struct lvn_layout *l);
/* Its values in the order in memory, as floats; `scratch` is as large as `to`. FORMAT if shape or type differ from the
 * layout, NONFINITE if a value is not finite. */
enum lvn_status lvn_adapter_read(const struct lvn_weight *t, const struct lvn_layout *l, float *to,
                                 float *scratch) LVN_CHECKED;

#endif
