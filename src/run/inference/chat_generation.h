/* chat_generation.h - what everything that answers conversations shares: the chat template of a model, and the sampling
 * options that its publisher recommends. Called by the commands chat and generate, and by the library. */
#ifndef LVN_CHAT_GENERATION_H
#define LVN_CHAT_GENERATION_H

#include "chat/chat_encode.h"
#include "inference/generation.h"

/* ARG if the model has no tokenizer or no template. Close both, even after a failure. */
enum lvn_status lvn_generator_open_chat(const struct lvn_generator *g, const struct lvn_chat_options *o,
                                        struct lvn_chat **chat, struct lvn_chat_encoder **encoder) LVN_CHECKED;
/* The values of generation_config.json, replaced by those of `given` that are not negative. Reports which are used. */
enum lvn_status lvn_generator_chat_choice(const struct lvn_generator *g, const struct lvn_choice *given,
                                          struct lvn_choice *out) LVN_CHECKED;

#endif
