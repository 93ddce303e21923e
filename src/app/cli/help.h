/* help.h - the help texts, the page docs/options.md and the completion scripts.
 * main.c calls it for --help, `levin help` for the rest. */
#ifndef LVN_HELP_H
#define LVN_HELP_H

#include "base/text.h"
#include "cli/cli.h"

/* Print what COMMAND --help prints. */
enum lvn_status lvn_help_command(struct lvn_cli *c, const struct lvn_command *command) LVN_CHECKED;

#endif
