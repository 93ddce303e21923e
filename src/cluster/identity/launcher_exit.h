/* launcher_exit.h - the end of a launcher that does not end by itself.
 *
 * After MPI_Abort() Open MPI's mpirun and Intel's mpiexec still wait for a host that is cut off, and TERM does not end
 * them (the second waits on, the first breaks down). They are killed by a process of its own: the rank may be gone. */
#ifndef LVN_LAUNCHER_EXIT_H
#define LVN_LAUNCHER_EXIT_H

#include "cluster/identity/launcher_env.h"

/* The launcher of this rank as far up as it is seen on this host: mpirun, or its daemon here. 0: there is none, or it
 * is of a kind that ends by itself. */
int lvn_launcher_pid(const struct lvn_environment *s, const char *launcher);
/* From now on it has two seconds to end; then it is killed. 0: nothing. */
void lvn_launcher_end_soon(int pid);

#endif
