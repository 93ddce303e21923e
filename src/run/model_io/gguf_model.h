/* gguf_model.h - models in llama.cpp's GGUF files: from metadata to a configuration, and back.
 *
 * pretrained.c and `levin export` call it. Names of metadata and tensors are in the tables of the families (struct
 * lvn_gguf_family in models/model.h), the container in formats/gguf.h, tokenizers in tokenizers/gguf_tokenizer.h. */
#ifndef LVN_GGUF_MODEL_H
#define LVN_GGUF_MODEL_H

#include "model_io/model_files.h"
#include "model_io/pretrained.h"
#include "tokenizers/tokenizer.h"

/* Set p->variant, p->config and p->files from the metadata of p->weights.gguf. UNSUPPORTED for an architecture that no
 * family of levin has. */
enum lvn_status lvn_gguf_model_read(struct lvn_pretrained *p) LVN_CHECKED;
/* UNSUPPORTED, with the reason, if llama.cpp does not have such a model. */
enum lvn_status lvn_gguf_model_check(const struct lvn_model_config *c) LVN_CHECKED;
/* A model for a file. */
struct lvn_gguf_model {
    const struct lvn_model_state *model_state;
    const struct lvn_model_values *values; /* of its parameters, in fp32 */
    const struct lvn_tokenizer *tokenizer; /* NULL: the file gets none */
    const struct lvn_gguf_type *type;      /* of tensors with two dimensions */
    const char *name;                      /* general.name */
};
/* Write `path`, fsynced. A failure leaves no file. */
enum lvn_status lvn_gguf_model_write(const char *path, const struct lvn_gguf_model *model) LVN_CHECKED;

/* Write the adapters of p alone, in the same way. UNSUPPORTED if they have more than pairs of low rank. */
enum lvn_status lvn_gguf_adapter_write(const char *path, const struct lvn_pretrained *p, const char *name,
                                       const struct lvn_gguf_type *type) LVN_CHECKED;

/* Scaling of rotary positions: metadata keys after "ARCHITECTURE.", and the keys of config.json. */
extern const struct lvn_gguf_key lvn_gguf_scaling[];
/* Metadata of levin, from which the divisors below were computed; other programs ignore them. */
#define LVN_GGUF_LOW "levin.rope_scaling.low_freq_factor"
#define LVN_GGUF_HIGH "levin.rope_scaling.high_freq_factor"
#define LVN_GGUF_ORIGINAL "levin.rope_scaling.original_max_position_embeddings"
/* Scaling of rotary positions of the type llama3: files have the divisors of the frequencies. */
struct lvn_gguf_divisors {
    double theta, factor, low, high, original;
    int64_t dims; /* channels of a head */
};
/* Of frequency i. */
double lvn_gguf_divisor(const struct lvn_gguf_divisors *d, int64_t i);
/* The variant with the names and layouts of GGUF files, in the arena; NULL: out of memory. */
const struct lvn_model *lvn_gguf_variant(struct lvn_arena *a, const struct lvn_model *variant);

#endif
