/* mpi_find.h - the MPI library that belongs to the launcher: which one it is, its constants, its start. */
#ifndef LVN_MPI_FIND_H
#define LVN_MPI_FIND_H

#include <stdbool.h>

#include "base/status.h"

/* Binary interfaces. MPICH's is also Intel MPI's, MVAPICH's and Cray MPICH's. */
enum lvn_mpi_abi { LVN_ABI_OPENMPI, LVN_ABI_MPICH, LVN_ABI_STANDARD };

struct lvn_mpi_library {
    void *handle; /* of dlopen(); never closed: an MPI cannot be unloaded */
    enum lvn_mpi_abi abi;
    char path[512];
    char why[600]; /* "as mpirun is Open MPI's; also here, and not taken: ..." */
};

/* `library`: the user's own choice, "" or NULL: none. `family`: of the launcher, NULL: not known. */
enum lvn_status lvn_mpi_find(struct lvn_mpi_library *out, const char *library, const char *family) LVN_CHECKED;

/* mpi_start.c. MPI_Init_thread: its error code; LVN_MPI_CRASHED: it ran into a wrong address, and nothing of the
 * library may be called any more. */
enum { LVN_MPI_CRASHED = -76 };
int lvn_mpi_guarded(int (*init)(int *argc, char ***argv, int wanted, int *given), int wanted, int *given);

#endif
