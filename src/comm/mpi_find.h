/* mpi_find.h - finds the MPI library that belongs to the launcher; mpi.c calls it. */
#ifndef LVN_MPI_FIND_H
#define LVN_MPI_FIND_H

#include <stdbool.h>

#include "base/status.h"

/* Binary interfaces. MPICH's is also that of Intel MPI, MVAPICH and Cray MPICH. */
enum lvn_mpi_abi { LVN_ABI_OPENMPI, LVN_ABI_MPICH, LVN_ABI_STANDARD };

struct lvn_mpi_library {
    void *handle; /* from dlopen(); never closed, since an MPI cannot be unloaded */
    enum lvn_mpi_abi abi;
    char path[512];
    char reason[600]; /* why it was chosen: "as mpirun is Open MPI's; also here, and not taken: ..." */
};

/* `library`: the user's choice, "" or NULL: none. `family`: the launcher, NULL: not known. */
enum lvn_status lvn_mpi_find(struct lvn_mpi_library *out, const char *library, const char *launcher) LVN_CHECKED;

#endif
