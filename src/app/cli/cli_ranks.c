/* cli_ranks.c - a command joins the other ranks, and ends when one of them is lost; see cli_ranks.h. */
#include "cli/cli_ranks.h"

#include <unistd.h>

#include "base/threads.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "engine/devices.h"
#include "engine/ranks.h"

static void print_fault(void *text)
{
    fprintf(stderr, "error: %s\n", (char *)text);
}

/* Called by the heartbeat thread after a rank was lost, unless the main thread has ended the process before with its
 * error: docs/cluster-internals.md, "From a lost connection to exit code 76". */
static void end_at_fault(void *ranks, const struct lvn_fault *fault)
{
    const int code = fault->permanent ? LVN_EXIT_FAILED : LVN_EXIT_FAULT;
    char *text = fault->is_reporter ? strdup(fault->text) : NULL;
    if (text) (void)lvn_thread_with_timeout(1, print_fault, text); /* writing to a stopped terminal would block */
    lvn_ranks_give_up(ranks);
    if (fault->is_reporter && fault->quiet) lvn_ranks_abort(ranks, code);
    _exit(code);
}

enum lvn_status lvn_cli_exit_collectively(struct lvn_cli *c, enum lvn_status status)
{
    struct lvn_identity identity;
    if (!c->command->collective || lvn_identity_find(&identity) != LVN_OK || identity.size == 1) return status;
    return lvn_ranks_open(&c->ranks, &c->settings.values, end_at_fault, status);
}

enum lvn_status lvn_cli_join_ranks(struct lvn_cli *c, enum lvn_status status)
{
    if (lvn_cli_on(c, LVN_FLAG_any_show_settings)) return status;
    return lvn_ranks_open(&c->ranks, &c->settings.values, end_at_fault, status);
}

void lvn_cli_count_ranks(struct lvn_cli *c)
{
    struct lvn_identity identity;
    if (lvn_identity_find(&identity) == LVN_OK) c->settings.values.ranks = identity.size;
}

enum lvn_status lvn_cli_join(struct lvn_cli *c, const char *recipe, unsigned parts)
{
    lvn_cli_count_ranks(c);
    return lvn_cli_join_ranks(c, lvn_cli_settings(c, recipe, parts));
}
