/* local_ranks.h - the other ranks of this host, found as processes: when ranks do not meet at the start, a stopped
 * one is detected here. member.c and engine/ranks.c call it; `levin ranks` reports its own children. */
#ifndef LVN_LOCAL_RANKS_H
#define LVN_LOCAL_RANKS_H

#include "cluster/identity/identity.h"

struct lvn_stopped {
    int n;         /* ranks of this host that are stopped (SIGSTOP, a debugger) */
    int below;     /* those of them with a lower number than this rank */
    int rank, pid; /* the lowest of them; -1: none */
};

/* Find stopped ranks: children of the launcher's process whose environment has the variable that gave this process
 * its rank. Processes that cannot be inspected are not counted. */
void lvn_local_ranks_stopped(const struct lvn_identity *identity, struct lvn_stopped *out);
/* Tell the rendezvous (endpoint from LEVIN_RENDEZVOUS, and its token) that a rank of this host is stopped. Errors
 * are ignored: the rendezvous then finds the rank missing by itself. */
void lvn_local_ranks_report(const char *endpoint, const char *token, int rank, int pid);
/* Does such a process exist on this host, and is it neither stopped nor dead? */
bool lvn_process_runs(int pid);
/* Does it exist, and is it stopped? */
bool lvn_process_stopped(int pid);

#endif
