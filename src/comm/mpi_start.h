/* mpi_start.h - calls MPI_Init_thread, and turns a crash in it into an error. The transport mpi.c starts the library by
 * it; whoever opens a communicator asks whether that crashed. */
#ifndef LVN_MPI_START_H
#define LVN_MPI_START_H

#include <stdbool.h>

/* Call MPI_Init_thread; returns its error code. LVN_MPI_CRASHED: it crashed, and no function of the library may be
 * called any more. */
enum { LVN_MPI_CRASHED = -76 };
int lvn_mpi_guarded(int (*init)(int *argc, char ***argv, int wanted, int *given), int wanted, int *given);
/* Did the MPI crash in this process while it started? Then the fault is this rank's alone. */
bool lvn_comm_crashed(void);

#endif
