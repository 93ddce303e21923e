/* launch_batch_system.c - the hosts that a batch system (batch_systems.def) has assigned to this job; launch.c calls it
 * and detects jobs of Slurm itself. */

#include "base/files.h"
#include "base/getenv.h"
#include "launch/launch.h"

static const struct lvn_batch_system batch_systems[] = {
#define LVN_BATCH_SYSTEM(...) {__VA_ARGS__},
#include "launch/batch_systems.def"
};

enum lvn_status lvn_launch_batch_hosts(struct lvn_launch *l)
{
    const struct lvn_batch_system *found = NULL;
    const char *path = NULL;
    for (size_t i = 0; i < sizeof batch_systems / sizeof *batch_systems && !found; i++) {
        const char *variable = batch_systems[i].hosts_variable;
        path = lvn_getenv(variable);
        if (!path) continue;
        if (lvn_path_exists(path))
            found = &batch_systems[i];
        else
            lvn_log(LVN_LOG_WARN, "%s=%s is ignored: the file does not exist", variable, path);
    }
    if (!found) return LVN_OK;
    l->resources.batch_system = found;
    l->resources.hosts_path = path;
    const char *program = lvn_arena_printf(l->arena, "%.*s", (int)strcspn(found->remote, " "), found->remote);
    if (!program) return LVN_MEMORY;
    if (!l->c->given[LVN_FLAG_launch_ssh] && lvn_process_find(l->arena, program)) l->resources.ssh = found->remote;
    LVN_TRY_WHILE(lvn_launch_hosts(l, path), "reading the hosts that %s assigned to this job (%s)", found->title,
                  found->hosts_variable);
    return LVN_OK;
}
