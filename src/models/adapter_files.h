/* adapter_files.h - a folder with low-rank adapters as PEFT keeps them: adapter_config.json, adapter_model.safetensors.
 *
 * There A is (rank, in), B (out, rank), and names are those of the base model's files behind "base_model.model."; a
 * module that was trained besides (a head for classes) lies there whole. adapter_config.json names the base model: a
 * path, or a name of the Hugging Face hub. levin writes base.json beside them, with the checksum of the base's weights,
 * so that a base that has changed is noticed; PEFT does not look at it. What levin's adapters cannot be (a scale by the
 * root of the rank or of their own, magnitudes, biases, a base that they change) is refused when the folder is opened.
 */
#ifndef LVN_ADAPTER_FILES_H
#define LVN_ADAPTER_FILES_H

#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/weight_files.h"

#define LVN_ADAPTERS_CONFIG "adapter_config.json"
#define LVN_ADAPTERS_WEIGHTS "adapter_model.safetensors"
#define LVN_ADAPTERS_BASE "base.json"
/* The folder of them in a checkpoint. */
#define LVN_ADAPTERS_FOLDER "adapter"

struct lvn_adapter_files {
    struct lvn_arena arena;
    const char *dir;
    const char *base; /* the base model, as adapter_config.json names it; NULL: it does not */
    const char *sum;  /* checksum of the base's weights, from base.json; NULL: not known */
    struct lvn_lora lora;
    struct lvn_safetensors file;
    bool open; /* is the file? */
};

/* Where the adapters of a model folder lie: in itself, in its folder `adapter` (a checkpoint), or nowhere (NULL), as
 * where it has weights. In the arena. */
const char *lvn_adapter_files_find(struct lvn_arena *a, const char *folder);
/* The folder's rank and alpha, from adapter_config.json alone. */
enum lvn_status lvn_adapter_files_scale(const char *dir, struct lvn_lora *out) LVN_CHECKED;
/* Are a folder's rank and alpha those that the settings want? ARG, with what to set, where they are not. */
enum lvn_status lvn_adapter_check_scale(const char *dir, const struct lvn_lora *there,
                                        const struct lvn_lora *wanted) LVN_CHECKED;
/* Nothing to close after a failure. */
enum lvn_status lvn_adapter_files_open(struct lvn_adapter_files *f, const char *dir) LVN_CHECKED;
void lvn_adapter_files_close(struct lvn_adapter_files *f);
/* What the object of an adapter_config.json says, into *f, whose arena is there; `name` is what messages call it. */
enum lvn_status lvn_adapter_files_parse(struct lvn_adapter_files *f, const char *name, const json_t *root) LVN_CHECKED;

/* How A or B (`which`) of a weight lies in the file, or, with which '\0', a parameter that lies there whole. `form` and
 * `c` as in lvn_file_layout(). */
enum lvn_status lvn_adapter_layout(const struct lvn_model *form, const struct lvn_model_config *c,
                                   const struct lvn_param *p, int64_t rank, char which,
                                   struct lvn_layout *l) LVN_CHECKED;
/* The tensor of that layout; names may lack the family's prefix. NULL: there is none. */
const struct lvn_safetensor *lvn_adapter_find(const struct lvn_adapter_files *f, const struct lvn_model *form,
                                              const struct lvn_layout *l);
/* Its values in memory's order, as floats; `room` is as large. FORMAT where its shape or type is another one, NONFINITE
 * where a number is none. */
enum lvn_status lvn_adapter_read(const struct lvn_safetensor *t, const struct lvn_layout *l, float *to,
                                 float *capacity) LVN_CHECKED;

#endif
