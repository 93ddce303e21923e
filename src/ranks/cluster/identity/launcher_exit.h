/* launcher_exit.h - terminates a launcher that does not exit; engine/ranks.c calls it when a run is aborted.
 *
 * After MPI_Abort() Open MPI's mpirun and Intel's mpiexec still wait for an unreachable host, and SIGTERM does not
 * terminate them (mpiexec continues to wait, mpirun crashes). A separate process kills them, because this rank may have
 * exited by then. */
#ifndef LVN_LAUNCHER_EXIT_H
#define LVN_LAUNCHER_EXIT_H

#include "cluster/identity/launcher_env.h"

/* The topmost visible launcher process of this rank on this host: mpirun, or its daemon. 0: none is visible, or it
 * exits without help. */
int lvn_launcher_pid(const struct lvn_environment *environment, const char *name);
/* Kill it in two seconds if it has not exited by then. pid 0 is ignored. */
void lvn_launcher_end_soon(int pid);

#endif
