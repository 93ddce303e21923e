/* torchrun.c - the launcher environment of torchrun's workers, recognized by TORCHELASTIC_RUN_ID: RANK and WORLD_SIZE
 * alone may have another origin.
 *
 * Source: torch.distributed.elastic.agent.server.api, the environment of a worker; TORCHELASTIC_USE_AGENT_STORE. */

#include "cluster/identity/launcher_env.h"

static enum lvn_evidence evidence(const struct lvn_environment *environment, char *reason)
{
    (void)reason;
    if (!lvn_variable(environment, "TORCHELASTIC_RUN_ID")) return LVN_ABSENT;
    return lvn_variable(environment, "RANK") || lvn_variable(environment, "WORLD_SIZE") ? LVN_UNKNOWN : LVN_ABSENT;
}

/* While torchrun runs, its own store may listen at MASTER_PORT; another port is computed from it. */
static void more(const struct lvn_environment *environment, struct lvn_identity *identity)
{
    const char *host = lvn_variable(environment, "MASTER_ADDR"), *port = lvn_variable(environment, "MASTER_PORT");
    const char *has_store = lvn_variable(environment, "TORCHELASTIC_USE_AGENT_STORE");
    int number;
    if (!host || !port || !has_store || strcmp(has_store, "True") || !lvn_whole_number(port, 1, &number)) return;
    snprintf(identity->endpoint, sizeof identity->endpoint, "%s:%d", host,
             lvn_launcher_env_port((unsigned long)number));
}

const struct lvn_launcher_env lvn_launcher_env_torchrun = {
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
    .more = more,
    .without_mpi = "torchrun starts ranks without MPI: leave trainer.transport at auto, or use mpirun or srun",
};
