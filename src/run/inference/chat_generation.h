/* chat_generation.h - shared by the commands and functions that answer conversations: the chat template of a model, and
 * the sampling options that its publisher recommends. Called by the commands chat and generate, and by the library. */
#ifndef LVN_CHAT_GENERATION_H
#define LVN_CHAT_GENERATION_H

#include "chat/chat_encode.h"
#include "inference/generation.h"

/* Open the chat template and the encoder. ARG if the model has no tokenizer or no template. Close both, even after a
 * failure. */
enum lvn_status lvn_generator_open_chat(const struct lvn_generator *g, const struct lvn_chat_options *o,
                                        struct lvn_chat **chat, struct lvn_chat_encoder **encoder) LVN_CHECKED;
/* Merge generation_config.json with the values of `given` that are not negative. If the model is greedy and `given` has
 * top_k or top_p, temperature is 1. Logs the result. */
enum lvn_status lvn_generator_chat_choice(const struct lvn_generator *g, const struct lvn_choice *given,
                                          struct lvn_choice *out) LVN_CHECKED;

#endif
