/* mpi_start.h - calls MPI_Init_thread, and turns a crash in it into an error. mpi.c calls it; code that opens
 * communicators queries whether it crashed. */
#ifndef LVN_MPI_START_H
#define LVN_MPI_START_H

#include <stdbool.h>

/* Call MPI_Init_thread; returns its error code, or LVN_MPI_CRASHED if it crashed. After a crash no function of the
 * library may be called. */
enum { LVN_MPI_CRASHED = -76 };
int lvn_mpi_guarded(int (*init)(int *argc, char ***argv, int required, int *provided), int required, int *provided);
/* True if the MPI crashed in this process while it started. Then the fault is that of this rank alone. */
bool lvn_comm_crashed(void);

#endif
