/* args.h - from the words of a command line to struct lvn_cli: operands, flags, and settings (recipe, environment,
 * keys). main.c parses; commands read the settings. See settings/settings.h for what keys mean. */
#ifndef LVN_ARGS_H
#define LVN_ARGS_H

#include "cli/cli.h"

struct lvn_flag {
    const char *command;      /* "any": of all commands */
    struct lvn_option option; /* key: the word without leading dashes, with _ for - */
};
extern const struct lvn_flag lvn_flags[LVN_FLAG_COUNT];
/* Does the flag belong to the command? */
bool lvn_flag_fits(const struct lvn_flag *f, const struct lvn_command *command);
/* The flag as users write it: --nproc-per-node, -n. Returns text. */
enum { LVN_FLAG_TEXT = 64 };
char *lvn_flag_text(const struct lvn_option *o, char text[LVN_FLAG_TEXT]);
/* ARG, "--NAME WHY", if one of these flags [n] was given. */
enum lvn_status lvn_cli_refuse(const struct lvn_cli *c, const enum lvn_flag_id *flags, int n,
                               const char *why) LVN_CHECKED;
/* ARG, "--KEY WHY", if a key is given on the command line that is not in the list, "data, trainer.seed". */
enum lvn_status lvn_cli_refuse_keys(const struct lvn_cli *c, const char *list, const char *why) LVN_CHECKED;

/* Split the arguments after the command's name, and check them. `c->command` is set by the caller. */
enum lvn_status lvn_cli_parse(struct lvn_cli *c, int argc, char **argv) LVN_CHECKED;
void lvn_cli_release(struct lvn_cli *c);
/* Read recipe (NULL: none), environment and keys into c->settings, and derive the rest of these parts (LVN_USES_...).
 * `recipe` may also be data to train on. With --resume it may be a run, by its path, its name below runs/ or its
 * address in a store: then only the run's own settings and the keys count. */
enum lvn_status lvn_cli_settings(struct lvn_cli *c, const char *recipe, unsigned parts) LVN_CHECKED;

/* Warn of environment variables that are ignored because a run resumes with its own settings. */
void lvn_cli_warn_ignored_variables(const struct lvn_cli *c);

/* With --show-settings print the settings; true: the command is done then. */
bool lvn_cli_shows_settings(struct lvn_cli *c);

#endif
