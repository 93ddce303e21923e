/* help.h - what levin and its options are, for people and shells: help texts, the page docs/options.md, completion
 * scripts. main.c calls it for --help, `levin help` for the rest. */
#ifndef LVN_HELP_H
#define LVN_HELP_H

#include "base/text.h"
#include "cli/cli.h"

/* Print what COMMAND --help prints. */
enum lvn_status lvn_help_command(struct lvn_cli *c, const struct lvn_command *command) LVN_CHECKED;
/* Append the examples of commands.def for the command, each indented by four spaces. */
void lvn_help_examples(struct lvn_text *t, const struct lvn_command *command);
/* help_docs.c: docs/options.md. */
void lvn_help_markdown(struct lvn_text *t);
/* The completion script for bash, zsh or fish. */
enum lvn_status lvn_help_completion(struct lvn_text *t, const char *shell) LVN_CHECKED;
/* launch/chart_schema.c: deploy/helm/levin/values.schema.json. */
enum lvn_status lvn_chart_schema(struct lvn_text *t) LVN_CHECKED;

#endif
