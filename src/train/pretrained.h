/* pretrained.h - model directories: config.json and weights, in three dialects, and nanoGPT's checkpoints.
 *
 *   huggingface  model_type gpt2; names with or without `transformer.`; linear weights (in, out); n_positions
 *   nanogpt      model_type nanogpt; linear weights (out, in); block_size, bias, dropout
 *   mingpt       model_type mingpt; linear weights (out, in); block_size, embd_pdrop, resid_pdrop, attn_pdrop
 *
 * In memory levin's parameters have Hugging Face's names and layouts, so that dialect is a plain copy. It has no models
 * without biases: they are written with zero biases, and an object `levin` in config.json says so that they load back
 * exactly; heads of their own are written with tie_word_embeddings false. A checkpoint of nanoGPT (ckpt.pt) is that
 * dialect with its sizes in `model_args`. */
#ifndef LVN_PRETRAINED_H
#define LVN_PRETRAINED_H

#include "base/text.h"
#include "formats/weights.h"
#include "models/model.h"

/* X(name in C, word for --format and model_type) */
#define LVN_DIALECT_MAP(X) X(HUGGINGFACE, "huggingface") X(NANOGPT, "nanogpt") X(MINGPT, "mingpt")
enum lvn_dialect {
#define LVN_X(name, word) LVN_DIALECT_##name,
    LVN_DIALECT_MAP(LVN_X)
#undef LVN_X
};
enum lvn_status lvn_dialect_find(const char *word, enum lvn_dialect *out) LVN_CHECKED;

struct lvn_pretrained {
    struct lvn_arena arena;
    const char *path; /* of the directory, or of the checkpoint of nanoGPT */
    const char *dir;  /* path, or the directory in which that file lies */
    enum lvn_dialect dialect;
    struct lvn_model_config config;
    struct lvn_weights weights;
};

/* Open a MODEL (lvn_model_find_files() says what that may be; prefer: "best" or "last"). Every tensor that the model
 * wants must be there with its shape; missing, extra and misshaped ones are listed, ten at most, then counted. Nothing
 * to close after a failure. */
enum lvn_status lvn_pretrained_open(struct lvn_pretrained *p, const char *model, const char *prefer) LVN_CHECKED;
void lvn_pretrained_close(struct lvn_pretrained *p);
/* Load as a model of so many tokens: 50304 rows of a model of 50257, or the other way round. ARG when that is fewer
 * than `used`, the tokens that the model's tokenizer has (0: it has none). */
enum lvn_status lvn_pretrained_set_vocab(struct lvn_pretrained *p, int64_t vocab_size, int64_t used) LVN_CHECKED;
/* Copy the weights into the flat values of `params`, of `type` (F32, or BF16: rounded to the nearest), laid out for a
 * graph of p->config in which n_positions may be smaller (the first rows are taken) and vocab_size another one (rows
 * are cut, or more are made: see pretrained_weights.c). Adapters are left alone. NONFINITE with the name of the tensor
 * when one holds NaN or infinity.
 */
enum lvn_status lvn_pretrained_load(const struct lvn_pretrained *p, const struct lvn_params *params, void *values,
                                    enum lvn_dtype type) LVN_CHECKED;

/* What the opened file calls this parameter (Hugging Face's name); the name itself when the file lacks it. */
const char *lvn_pretrained_name(const struct lvn_pretrained *p, const char *name);

/* The other direction: a model in memory as the files of a dialect. Owns what the source points to. */
struct lvn_model_files {
    struct lvn_arena arena;
    struct lvn_text config;               /* config.json */
    struct lvn_safetensors_source source; /* of model.safetensors: names and layouts of the dialect */
};
/* `values`: flat, of `type`, which the file's tensors have too; must stay valid and unchanged until the source was
 * written. `gradients`: true when `values` are
 * gradients (then tied ones stand once, under the embedding's name, and nothing is filled with zeros). */
enum lvn_status lvn_model_files_make(struct lvn_model_files *f, enum lvn_dialect dialect,
                                     const struct lvn_model_config *c, const struct lvn_params *params,
                                     const void *values, enum lvn_dtype type, bool gradients) LVN_CHECKED;
void lvn_model_files_release(struct lvn_model_files *f);

#endif
