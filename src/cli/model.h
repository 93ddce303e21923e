/* model.h - what the commands with a MODEL share. */
#ifndef LVN_CLI_MODEL_H
#define LVN_CLI_MODEL_H

#include "cli/cli.h"

/* Settings for a command that works on MODEL (see train/model_find.h): those of the run that made it, where there are
 * such, then environment and command line; model.init is MODEL. A recipe (.yaml) names the model in its model.init. */
enum lvn_status lvn_cli_model_settings(struct lvn_cli *c, const char *model, unsigned parts) LVN_CHECKED;

/* Is MODEL a recipe's file? */
bool lvn_cli_model_is_recipe(const char *model);

#endif
