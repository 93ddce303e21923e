/* local_ranks.h - the other ranks of this host, seen as processes: where ranks do not come together, one that stands
 * still shows there. */
#ifndef LVN_LOCAL_RANKS_H
#define LVN_LOCAL_RANKS_H

#include "cluster/identity/identity.h"

struct lvn_stopped {
    int n;         /* how many ranks of this host are stopped (SIGSTOP, a debugger) */
    int below;     /* of them, those with a lower number than this one */
    int rank, pid; /* the lowest of them */
};

/* Ranks are the children of the launcher's process that have the variable which gave this one its rank. What cannot be
 * seen is not counted. */
void lvn_local_ranks_stopped(const struct lvn_identity *identity, struct lvn_stopped *out);
/* Tell the place where ranks meet (LEVIN_RENDEZVOUS and its token) that this rank of this host is stopped. Silent where
 * that fails: the one there misses it later by itself. */
void lvn_local_ranks_report(const char *endpoint, const char *token, int rank, int pid);
/* Is there such a process of this host, and neither stopped nor dead? */
bool lvn_process_runs(int pid);
/* Is there one, and stopped? */
bool lvn_process_stopped(int pid);

#endif
