/* chat_options.h - what `levin chat` and `levin generate --chat` share: the chat template of a model, and the
 * sampling options that its publisher recommends. */
#ifndef LVN_CHAT_OPTIONS_H
#define LVN_CHAT_OPTIONS_H

#include "chat/chat_encode.h"
#include "cli/cli.h"
#include "inference/generation.h"

/* ARG if the model has no tokenizer or no template. Close both, even after a failure. */
enum lvn_status lvn_cli_chat_open(const struct lvn_generator *g, const struct lvn_chat_options *o,
                                  struct lvn_chat **chat, struct lvn_chat_encoder **encoder) LVN_CHECKED;
/* The values of generation_config.json, replaced by the flags that are given. Reports which are used. */
struct lvn_cli_choice_flags {
    enum lvn_flag_id temperature, top_k, top_p, repetition_penalty;
};
enum lvn_status lvn_cli_chat_choice(const struct lvn_cli *c, const struct lvn_generator *g,
                                    const struct lvn_cli_choice_flags *flags, struct lvn_choice *out) LVN_CHECKED;

#endif
