/* mpi_find.h - finds the MPI library that belongs to the launcher; mpi.c calls it. */
#ifndef LVN_MPI_FIND_H
#define LVN_MPI_FIND_H

#include "base/status.h"

/* ABIs. MPICH's is also that of Intel MPI, MVAPICH and Cray MPICH. */
enum lvn_mpi_abi { LVN_ABI_OPENMPI, LVN_ABI_MPICH, LVN_ABI_STANDARD };

struct lvn_mpi_library {
    void *handle; /* from dlopen(); never closed, because an MPI cannot be unloaded */
    enum lvn_mpi_abi abi;
    char path[512];
    char reason[600]; /* why it was chosen: "because the launcher is Open MPI's; also installed, but not used: ..." */
};

/* `library`: the user's choice; "" or NULL: none. `launcher`: a name in launcher_env.c; NULL: not known. */
enum lvn_status lvn_mpi_find(struct lvn_mpi_library *out, const char *library, const char *launcher) LVN_CHECKED;

#endif
