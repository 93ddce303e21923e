/* pretrained.h - model directories: config.json and weights; and checkpoints of torch.save().
 *
 * What the keys of config.json and the tensors of the files are called, and how these lie, is said by the tables of the
 * model that model_type names (models/model.h). A checkpoint of torch.save() is the same with the values of config.json
 * in `model_args`. */
#ifndef LVN_PRETRAINED_H
#define LVN_PRETRAINED_H

#include "backend/backend.h"
#include "base/text.h"
#include "formats/weights.h"
#include "models/adapter_files.h"
#include "models/model.h"

struct lvn_pretrained {
    struct lvn_arena arena;
    const char *path;             /* of the directory, or of the checkpoint */
    const char *dir;              /* path, or the directory in which that file lies */
    const struct lvn_model *form; /* whose keys and files they are */
    struct lvn_model_config config;
    struct lvn_weights weights;
    struct lvn_pretrained *base;       /* beside which adapters stand; NULL: `weights` are all */
    struct lvn_adapter_files adapters; /* merged into what the base has while it is loaded */
    bool fresh;                        /* the head begins anew, with initial values: */
    uint64_t seed;                     /* by this */
};

/* Open a MODEL (lvn_model_find_files() says what that may be; prefer: "best" or "last"). Every tensor that the model
 * wants must be there with its shape; missing, extra and misshaped ones are listed, ten at most, then counted. Nothing
 * to close after a failure. */
enum lvn_status lvn_pretrained_open(struct lvn_pretrained *p, const char *model, const char *prefer) LVN_CHECKED;
/* The same. Where the MODEL is adapters (a folder of PEFT's, or a checkpoint of a run with lora.rank), `base` is their
 * base model, in place of the one that they name; "" or NULL: that one. FORMAT where its weights are not those that the
 * adapters were trained beside. */
enum lvn_status lvn_pretrained_open_on(struct lvn_pretrained *p, const char *model, const char *prefer,
                                       const char *base) LVN_CHECKED;
/* Checksum of all weights, with names, types and shapes, as the files have them. */
enum lvn_status lvn_pretrained_sum(const struct lvn_pretrained *p, uint64_t *sum) LVN_CHECKED;
void lvn_pretrained_close(struct lvn_pretrained *p);
/* Load as a model of so many tokens: 50304 rows of a model of 50257, or the other way round. ARG when that is fewer
 * than `used`, the tokens that the model's tokenizer has (0: it has none). */
enum lvn_status lvn_pretrained_set_vocab(struct lvn_pretrained *p, int64_t vocab_size, int64_t used) LVN_CHECKED;
/* With another head, or the same one for so many classes, which begins anew. FORMAT when the file lacks anything else.
 */
enum lvn_status lvn_pretrained_set_head(struct lvn_pretrained *p, const struct lvn_head *head, int64_t classes,
                                        uint64_t seed) LVN_CHECKED;
/* Copy the weights, adapters merged, into the flat values of `params`, of `type` (F32, or BF16: rounded to the
 * nearest), laid out for a graph of p->config in which there may be fewer positions (the first rows are taken) and more
 * or fewer tokens (rows are cut, or more are made: see pretrained_weights.c). The adapters of `params` are left alone.
 * NONFINITE with the name of the tensor when one holds NaN or infinity. */
enum lvn_status lvn_pretrained_load(const struct lvn_pretrained *p, const struct lvn_params *params,
                                    struct lvn_memory *values, enum lvn_dtype type) LVN_CHECKED;

/* The same of one parameter: its values in memory's order; room: as many. */
enum lvn_status lvn_pretrained_values(const struct lvn_pretrained *p, const struct lvn_param *q, float *to,
                                      float *capacity) LVN_CHECKED;

/* A name of p->form's files as the opened file spells it; the name itself when the file lacks it. */
const char *lvn_pretrained_name(const struct lvn_pretrained *p, const char *name);

/* The other direction: a model in memory as files. Owns what the source points to. */
struct lvn_model_files {
    struct lvn_arena arena;
    struct lvn_text config;               /* config.json */
    struct lvn_safetensors_source source; /* of model.safetensors */
};
/* By the tables of `form`, a variant of c's family (lvn_model_file_variant() loads back exactly). `values`: flat, of
 * `type`, which the file's tensors have too; must stay valid and unchanged until the source was written. `gradients`:
 * true when `values` are gradients (then nothing stands twice, and nothing is filled with zeros). */
enum lvn_status lvn_model_files_make(struct lvn_model_files *f, const struct lvn_model *form,
                                     const struct lvn_model_config *c, const struct lvn_params *params,
                                     const struct lvn_memory *values, enum lvn_dtype type, bool gradients) LVN_CHECKED;
void lvn_model_files_release(struct lvn_model_files *f);

#endif
