/* model.h - what the commands with a MODEL share. */
#ifndef LVN_CLI_MODEL_H
#define LVN_CLI_MODEL_H

#include "cli/cli.h"

/* Settings for a command that works on MODEL (a run, a checkpoint or a model directory): those of the run that made it,
 * where there are such, then environment and command line; model.init is MODEL. */
enum lvn_status lvn_cli_model_settings(struct lvn_cli *c, const char *model, unsigned parts) LVN_CHECKED;

#endif
