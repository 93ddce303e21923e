/* adapters.h - the adapters of a model state, to files of PEFT and back.
 *
 * Checkpoints and lora.init use it. adapter_files.h describes the format. */
#ifndef LVN_ADAPTERS_H
#define LVN_ADAPTERS_H

#include "base/text.h"
#include "engine/model_state.h"
#include "models/adapter_files.h"

/* The base model of adapters. */
struct lvn_adapter_base {
    const char *name;  /* absolute path, URL, or name on the Hugging Face hub */
    uint64_t checksum; /* of its weights, lvn_pretrained_checksum() */
};

/* The contents of a folder of PEFT. */
struct lvn_adapter_texts {
    struct lvn_safetensors_source weights; /* in the arena */
    struct lvn_text config;                /* adapter_config.json; to be released */
    struct lvn_text base;                  /* base.json; to be released */
};
/* The adapters of n (config.lora), copied. */
enum lvn_status lvn_adapters_make(const struct lvn_model_state *n, const struct lvn_adapter_base *base,
                                  struct lvn_arena *a, struct lvn_adapter_texts *out) LVN_CHECKED;
struct lvn_pretrained;
/* Trained rows of the embedding (lora.tokens) start as those of the base model. */
enum lvn_status lvn_adapters_start(const struct lvn_pretrained *p, const struct lvn_model_state *n) LVN_CHECKED;
/* Load the adapters of n from an open folder. loaded: the parameters that the folder stores in full are in n already.
 * ARG if rank, alpha or use_rslora differ, FORMAT if they do not fit n. */
enum lvn_status lvn_adapters_load(const struct lvn_adapter_files *f, const struct lvn_model_state *n,
                                  bool loaded) LVN_CHECKED;
/* The same for a path, lora.init; warns if the checksum of their base is known and is not p's. */
enum lvn_status lvn_adapters_read(const char *folder, const struct lvn_pretrained *p, uint64_t checksum,
                                  const struct lvn_model_state *n) LVN_CHECKED;

#endif
