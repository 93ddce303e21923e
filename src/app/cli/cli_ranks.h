/* cli_ranks.h - how a command joins the other ranks. Commands call it, and main.c if their arguments are wrong. */
#ifndef LVN_CLI_RANKS_H
#define LVN_CLI_RANKS_H

#include "cli/cli.h"

/* Set c->settings.values.ranks to the number of started ranks that the environment gives, if it gives one. */
void lvn_cli_count_ranks(struct lvn_cli *c);
/* For collective commands: lvn_cli_settings(), then join the other ranks (c->ranks). If reading fails on any rank, all
 * ranks get the status of the lowest one that failed, and rank 0 alone prints. */
enum lvn_status lvn_cli_join(struct lvn_cli *c, const char *recipe, unsigned parts) LVN_CHECKED;
/* Only the second step of lvn_cli_join(), joining the other ranks. status: result of the first step, reading the
 * settings, on this rank. */
enum lvn_status lvn_cli_join_ranks(struct lvn_cli *c, enum lvn_status status) LVN_CHECKED;
/* This rank's arguments could not be parsed (status). A collective command joins the other ranks, which may wait for
 * it, so that all of them return the same status. */
enum lvn_status lvn_cli_exit_collectively(struct lvn_cli *c, enum lvn_status status) LVN_CHECKED;

#endif
