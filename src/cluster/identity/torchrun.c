/* torchrun.c - the launcher environment of torchrun's workers, marked by TORCHELASTIC_RUN_ID: RANK and WORLD_SIZE
 * alone may come from anywhere.
 *
 * Source: torch.distributed.elastic.agent.server.api, the environment of a worker; TORCHELASTIC_USE_AGENT_STORE. */
#include <stdio.h>
#include <string.h>

#include "cluster/identity/launcher_env.h"

static enum lvn_evidence evidence(const struct lvn_environment *s, char *reason)
{
    (void)reason;
    if (!lvn_variable(s, "TORCHELASTIC_RUN_ID")) return LVN_ABSENT;
    return lvn_variable(s, "RANK") || lvn_variable(s, "WORLD_SIZE") ? LVN_UNKNOWN : LVN_ABSENT;
}

/* At MASTER_PORT a store of torchrun itself may listen, as long as it runs. */
static void more(const struct lvn_environment *s, struct lvn_identity *id)
{
    const char *host = lvn_variable(s, "MASTER_ADDR"), *port = lvn_variable(s, "MASTER_PORT");
    const char *taken = lvn_variable(s, "TORCHELASTIC_USE_AGENT_STORE");
    int number;
    if (!host || !port || !taken || strcmp(taken, "True") || !lvn_whole_number(port, 1, &number)) return;
    snprintf(id->endpoint, sizeof id->endpoint, "%s:%d", host, lvn_launcher_env_port((unsigned long)number));
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
    .without_mpi = "torchrun starts no MPI: leave trainer.transport at auto, or start levin by mpirun or srun",
};
