/* pretrained.h - reads model directories (config.json and weights), checkpoints of torch.save(), and GGUF files.
 *
 * model_setup.c, checkpoints and `levin export` call it. The names of config.json's keys and of tensors, and their
 * layout, come from the tables of the model that model_type names (models/model.h). A checkpoint of torch.save() has
 * the values of config.json in `model_args`, a GGUF file in its metadata. model_files.h writes models; model_find.h
 * finds their paths. */
#ifndef LVN_PRETRAINED_H
#define LVN_PRETRAINED_H

#include "base/text.h"
#include "engine/parameters.h"
#include "formats/weights.h"
#include "models/adapter_files.h"
#include "models/model.h"

struct lvn_pretrained {
    struct lvn_arena arena;
    const char *path; /* of the directory, the checkpoint of torch.save() or the GGUF file */
    const char *dir;  /* where the tokenizer is: path, or the directory of a checkpoint of torch.save() */
    const struct lvn_model *variant; /* of the family: whose keys they are */
    const struct lvn_model *files;   /* whose names and layouts the weights have: variant, or GGUF's */
    struct lvn_model_config config;
    struct lvn_weights weights;
    struct lvn_pretrained *base;       /* the base model of adapters; NULL: `weights` is the whole model */
    struct lvn_adapter_files adapters; /* merged into the base's weights when loading */
    const char *was_tied; /* the embedding that the base ties its head to, if adapters untie it; NULL: they do not */
    const char *lacks;    /* a tensor of the head for tokens that is missing; NULL: none */
    bool apart;           /* the adapters are loaded into those of the model instead */
    uint64_t seed;        /* of the initial values of a new head (config.fresh_head) */
};

/* Open a MODEL (anything that lvn_model_find_files() finds; prefer: "best" or "last"). Every tensor of the model must
 * be there with its shape, except a head for tokens (lvn_pretrained_check_head()); FORMAT lists missing, extra and
 * misshaped ones, ten at most, then counts them. If the MODEL is adapters (a folder of PEFT, or a checkpoint of a run
 * with lora.rank), `base` is their base model, instead of the one that they name; "" or NULL: that one. FORMAT if its
 * weights are not those with which the adapters were trained. After a failure there is nothing to close. */
enum lvn_status lvn_pretrained_open_on(struct lvn_pretrained *p, const char *model, const char *prefer,
                                       const char *base) LVN_CHECKED;
/* Read config.json of the folder p->path to p->variant and p->config; paths are allocated in p->arena. */
enum lvn_status lvn_pretrained_config(struct lvn_pretrained *p) LVN_CHECKED;
/* Checksum of all weights in the files, with names, types and shapes. */
enum lvn_status lvn_pretrained_checksum(const struct lvn_pretrained *p, uint64_t *checksum) LVN_CHECKED;
void lvn_pretrained_close(struct lvn_pretrained *p);
/* FORMAT if the model would predict tokens with a head that its files lack, as those of transformers' AutoModel do. */
enum lvn_status lvn_pretrained_check_head(const struct lvn_pretrained *p) LVN_CHECKED;
/* Load with this vocabulary size, such as 50304 rows of a model with 50257, or the reverse. ARG: it is smaller than
 * `used`, the tokens of the model's tokenizer (0: it has none). */
enum lvn_status lvn_pretrained_set_vocab(struct lvn_pretrained *p, int64_t vocab_size, int64_t used) LVN_CHECKED;
/* Load with a head that starts with initial values: another one, or the same one for this number of classes. FORMAT:
 * the file lacks a tensor outside of the head. ARG: it is the same head, and it is tied to the embedding. */
enum lvn_status lvn_pretrained_set_head(struct lvn_pretrained *p, const struct lvn_head *head, int64_t classes,
                                        uint64_t seed) LVN_CHECKED;
/* Adapters of p, if it has some, stay apart from their base's weights: *c gets them, and lvn_pretrained_load() loads
 * both. For inference with model.quantize, which would round merged weights. */
enum lvn_status lvn_pretrained_keep_adapters(struct lvn_pretrained *p, struct lvn_model_config *c) LVN_CHECKED;
/* Weights of linear layers that the files have in packed blocks stay in them: c->stored lists them. `why` not NULL:
 * they are widened to fp32 for this reason ("": none is given). Both are logged, with the memory. quantize: the type of
 * model.quantize; ARG if they are stored in another one. */
enum lvn_status lvn_pretrained_keep_blocks(struct lvn_pretrained *p, enum lvn_dtype quantize, const char *why,
                                           struct lvn_model_config *c) LVN_CHECKED;
/* Copy the weights, with adapters merged, to the parameters of n, in their type (F32, or BF16: rounded to nearest). n
 * is an allocated model of p->config with perhaps fewer positions (the first rows are used) and more or fewer tokens
 * (rows are dropped or added: see pretrained_weights.c). The adapters of n are not touched. NONFINITE with the name of
 * a tensor that holds NaN or infinity. */
enum lvn_status lvn_pretrained_load(const struct lvn_pretrained *p, const struct lvn_model_state *n) LVN_CHECKED;
/* The same on all ranks, each with its shards of n. If all see the same files, each rank reads its own elements of the
 * parameters that the file has as they are in memory, then rank 0 the others, which it sends to their owners; else rank
 * 0 reads everything. No rank needs memory for more than its shards and one tensor. Without shards rank 0 alone has the
 * values afterwards. */
enum lvn_status lvn_pretrained_load_on_ranks(const struct lvn_pretrained *p, const struct lvn_model_state *n,
                                             struct lvn_ranks *ranks) LVN_CHECKED;

/* The same for one parameter: `to` and `scratch` are [q->count], in the order of memory. */
enum lvn_status lvn_pretrained_values(const struct lvn_pretrained *p, const struct lvn_param *q, float *to,
                                      float *scratch) LVN_CHECKED;

/* A tensor name of p->variant's files, as the opened file spells it; the name itself if the file lacks it. */
const char *lvn_pretrained_name(const struct lvn_pretrained *p, const char *name);

#endif
