/* local_ranks.h - finds the other ranks of this host as processes. If a rank does not join at the start because it is
 * stopped, this detects it. member.c and engine/ranks.c call it; `levin ranks` reports its own children. */
#ifndef LVN_LOCAL_RANKS_H
#define LVN_LOCAL_RANKS_H

#include "cluster/identity/identity.h"

struct lvn_stopped {
    int n;         /* number of ranks of this host that are stopped (SIGSTOP, a debugger) */
    int below;     /* number of those with a lower rank than this process */
    int rank, pid; /* the lowest of them; -1: none */
};

/* Find stopped ranks: children of the launcher's process whose environment has the variable that gave this process
 * its rank. Processes that cannot be inspected are not counted. */
void lvn_local_ranks_stopped(const struct lvn_identity *identity, struct lvn_stopped *out);
/* Report to the rendezvous (endpoint from LEVIN_RENDEZVOUS, and its token) that a rank of this host is stopped. Errors
 * are ignored: the rendezvous then notices that the rank is missing. */
void lvn_local_ranks_report(const char *endpoint, const char *token, int rank, int pid);
/* True if the process exists on this host and is neither stopped nor dead. */
bool lvn_process_runs(int pid);
/* True if it exists and is stopped. */
bool lvn_process_stopped(int pid);

#endif
