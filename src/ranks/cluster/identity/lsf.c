/* lsf.c - the launcher environment of jsrun, the launcher of LSF (its process: jsmd). */
#include "cluster/identity/launcher_env.h"

const struct lvn_launcher_env lvn_launcher_env_lsf = {
    .name = "lsf",
    .title = "jsrun",
    .rank = {"JSM_NAMESPACE_RANK"},
    .size = {"JSM_NAMESPACE_SIZE"},
    .local_rank = {"JSM_NAMESPACE_LOCAL_RANK"},
    .local_size = {"JSM_NAMESPACE_LOCAL_SIZE"},
    .processes = {"jsmd*", "jsm"},
};
