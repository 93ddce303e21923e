/* mpi_find.h - which MPI library of this machine belongs to the launcher, and what its constants are called. */
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

#endif
