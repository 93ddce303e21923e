/* model_arg.h - what the commands with a MODEL or a tokenizer share. */
#ifndef LVN_MODEL_ARG_H
#define LVN_MODEL_ARG_H

#include "cli/cli.h"

/* Settings for a command that works on MODEL (see model_io/model_find.h): those of the run that made it, where there
 * are such, then environment and command line; model.init is MODEL. A recipe (.yaml) names the model in its model.init.
 */
enum lvn_status lvn_cli_model_settings(struct lvn_cli *c, const char *model, unsigned parts) LVN_CHECKED;

/* The tokenizer that a name stands for (see model_io/model_find.h), to be closed. */
struct lvn_tokenizer;
enum lvn_status lvn_cli_tokenizer(struct lvn_cli *c, const char *name, struct lvn_tokenizer **t) LVN_CHECKED;

/* Is this the name of a recipe? */
bool lvn_cli_is_recipe(const char *path);
/* Is MODEL a recipe's file? */
bool lvn_cli_model_is_recipe(const char *model);

#endif
