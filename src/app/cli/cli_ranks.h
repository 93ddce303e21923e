/* cli_ranks.h - how a command joins the other ranks. Commands call it after args.h has read their settings, and main.c.
 */
#ifndef LVN_CLI_RANKS_H
#define LVN_CLI_RANKS_H

#include "cli/cli.h"

/* Set c->settings.ranks to the number of ranks that the environment says were started; unknown: it stays as it is. */
void lvn_cli_count_ranks(struct lvn_cli *c);
/* For collective commands: lvn_cli_settings(), then join the other ranks (c->ranks). If reading fails on any rank, all
 * ranks get the status of the lowest one that failed, and rank 0 alone prints. */
enum lvn_status lvn_cli_join(struct lvn_cli *c, const char *recipe, unsigned parts) LVN_CHECKED;
/* The second half alone; status: how reading the settings went on this rank. */
enum lvn_status lvn_cli_join_ranks(struct lvn_cli *c, enum lvn_status status) LVN_CHECKED;
/* This rank's arguments could not be parsed (status). A collective command joins the other ranks, which may wait for
 * it, so that all of them return the same status. */
enum lvn_status lvn_cli_exit_collectively(struct lvn_cli *c, enum lvn_status status) LVN_CHECKED;

#endif
