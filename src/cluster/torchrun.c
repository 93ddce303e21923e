/* torchrun.c - workers of torchrun, which TORCHELASTIC_RUN_ID marks: RANK and WORLD_SIZE alone are anybody's. */
#include "cluster/family.h"

static enum lvn_evidence evidence(const struct lvn_surroundings *s, char *why)
{
    (void)why;
    if (!lvn_variable(s, "TORCHELASTIC_RUN_ID")) return LVN_ABSENT;
    return lvn_variable(s, "RANK") || lvn_variable(s, "WORLD_SIZE") ? LVN_UNKNOWN : LVN_ABSENT;
}

const struct lvn_family lvn_family_torchrun = {
    .name = "torchrun",
    .title = "torchrun",
    .rank = {"RANK"},
    .size = {"WORLD_SIZE"},
    .local_rank = {"LOCAL_RANK"},
    .local_size = {"LOCAL_WORLD_SIZE"},
    .node = {"GROUP_RANK"},
    .nodes = {"GROUP_WORLD_SIZE"},
    .processes = {"torchrun", "python*", "pt_elastic*", "pt_main_thread"},
    .evidence = evidence,
    .without_mpi = "torchrun starts no MPI: leave trainer.transport at auto, or start levin by mpirun or srun",
};
