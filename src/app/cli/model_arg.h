/* model_arg.h - settings and tokenizer of the operand MODEL, for evaluate, predict, generate, prepare and tokenize. */
#ifndef LVN_MODEL_ARG_H
#define LVN_MODEL_ARG_H

#include "cli/cli.h"

/* Read the settings for a command that works on MODEL (see model_io/model_find.h): those of the run that made it, if it
 * has any, then environment and command line; model.init is MODEL. MODEL may be a recipe (.yaml), which names the model
 * in its model.init. */
enum lvn_status lvn_cli_model_settings(struct lvn_cli *c, const char *model, unsigned parts) LVN_CHECKED;

/* Open the tokenizer that `name` stands for (see model_io/model_find.h); the caller closes it. */
struct lvn_tokenizer;
enum lvn_status lvn_cli_tokenizer(struct lvn_cli *c, const char *name, struct lvn_tokenizer **t) LVN_CHECKED;

/* Is the name that of a recipe (.yaml, .yml), or the file a recipe in JSON? */
bool lvn_cli_is_recipe(const char *path);

/* A struct lvn_choice of the flags of a command that are given; of the others -1. */
#define LVN_CLI_CHOICE(c, command)                                                                                     \
    {                                                                                                                  \
        .temperature = LVN_CLI_GIVEN(c, LVN_FLAG_##command##_temperature, r),                                          \
        .top_k = LVN_CLI_GIVEN(c, LVN_FLAG_##command##_top_k, i),                                                      \
        .top_p = LVN_CLI_GIVEN(c, LVN_FLAG_##command##_top_p, r),                                                      \
        .repetition_penalty = LVN_CLI_GIVEN(c, LVN_FLAG_##command##_repetition_penalty, r)                             \
    }
#define LVN_CLI_GIVEN(c, id, member) ((c)->given[id] ? (c)->flag[id].member : -1)

#endif
