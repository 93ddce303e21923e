/* adapters.h - low-rank adapters as PEFT keeps them: a folder with adapter_config.json and adapter_model.safetensors.
 *
 * There A is (rank, in), B (out, rank), and names are those of the base model's files behind "base_model.model."; a
 * head that learns beside them lies there whole. What levin's adapters cannot be (a scale by the root of the rank or of
 * their own, magnitudes, biases, a base that they change) is refused when it is read. */
#ifndef LVN_ADAPTERS_H
#define LVN_ADAPTERS_H

#include "base/text.h"
#include "formats/safetensors.h"
#include "train/network.h"

#define LVN_ADAPTERS_CONFIG "adapter_config.json"
#define LVN_ADAPTERS_WEIGHTS "adapter_model.safetensors"

/* The adapters of n (config.lora) as these two files, copied into the arena; base: where the model beside them comes
 * from. */
enum lvn_status lvn_adapters_files(const struct lvn_network *n, const char *base, struct lvn_arena *a,
                                   struct lvn_safetensors_source *source, struct lvn_text *config) LVN_CHECKED;
/* The adapters of n from such a folder. ARG where they have another rank or alpha, FORMAT where they are not n's. */
enum lvn_status lvn_adapters_read(const char *folder, struct lvn_network *n) LVN_CHECKED;

#endif
