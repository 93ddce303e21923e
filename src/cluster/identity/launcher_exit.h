/* launcher_exit.h - ends a launcher that does not end by itself; engine/ranks.c calls it when a run is aborted.
 *
 * After MPI_Abort() Open MPI's mpirun and Intel's mpiexec still wait for a host that is cut off, and SIGTERM does
 * not end them (the second waits on, the first crashes). They are killed by a separate process, because the rank may
 * be gone by then. */
#ifndef LVN_LAUNCHER_EXIT_H
#define LVN_LAUNCHER_EXIT_H

#include "cluster/identity/launcher_env.h"

/* The topmost visible launcher process of this rank on this host: mpirun, or its daemon here. 0: there is none, or
 * it ends by itself. */
int lvn_launcher_pid(const struct lvn_environment *s, const char *launcher);
/* If it has not ended in two seconds, it is killed. 0: nothing. */
void lvn_launcher_end_soon(int pid);

#endif
