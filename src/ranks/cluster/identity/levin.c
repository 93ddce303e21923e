/* levin.c - the launcher environment of ranks that levin launch has started without MPI. */
#include "cluster/identity/launcher_env.h"

const struct lvn_launcher_env lvn_launcher_env_levin = {
    .name = "levin",
    .title = "levin launch",
    .rank = {"LEVIN_RANK"},
    .size = {"LEVIN_SIZE"},
    .local_rank = {"LEVIN_LOCAL_RANK"},
    .local_size = {"LEVIN_LOCAL_SIZE"},
    .node = {"LEVIN_NODE"},
    .nodes = {"LEVIN_NODES"},
    .processes = {"levin*"},
    .without_mpi = "levin launch started these ranks without an MPI: leave trainer.transport at auto, or set "
                   "trainer.mpi_library to the MPI library",
};
