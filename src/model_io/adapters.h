/* adapters.h - the adapters of a network, to files as PEFT keeps them and back; the files are adapter_files.h's. */
#ifndef LVN_ADAPTERS_H
#define LVN_ADAPTERS_H

#include "base/text.h"
#include "engine/model_state.h"
#include "models/adapter_files.h"

/* The model that adapters stand beside. */
struct lvn_adapter_base {
    const char *name; /* a path from the root, a URL, or a name of the Hugging Face hub */
    uint64_t sum;     /* of its weights, lvn_pretrained_sum() */
    bool fresh_head;  /* it lacks the head, which began with initial values */
};

/* The texts of the folder. */
struct lvn_adapter_texts {
    struct lvn_safetensors_source weights; /* what it points to lies in the arena */
    struct lvn_text config, base;          /* to be released */
};
/* The adapters of n (config.lora), copied. */
enum lvn_status lvn_adapters_make(const struct lvn_model_state *n, const struct lvn_adapter_base *base,
                                  struct lvn_arena *a, struct lvn_adapter_texts *out) LVN_CHECKED;
/* The adapters of n from an open folder. ARG where they have another rank or alpha, FORMAT where they are not n's. */
enum lvn_status lvn_adapters_load(const struct lvn_adapter_files *f, const struct lvn_model_state *n,
                                  bool fresh_head) LVN_CHECKED;
/* The same of lora.init. */
enum lvn_status lvn_adapters_read(const char *folder, const struct lvn_model_state *n) LVN_CHECKED;

#endif
