/* launch_batch_system.c - the hosts that a queue has given to this job. */
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/getenv.h"
#include "cli/launch/batch_system.h"
#include "cli/launch/launch.h"

static const struct lvn_batch_system *const sites[] = {
#define LVN_BATCH_SYSTEM(name) &lvn_batch_system_##name,
#include "cli/launch/batch_systems.def"
};

enum lvn_status lvn_launch_site(struct lvn_launch *l)
{
    for (size_t i = 0; i < sizeof sites / sizeof *sites && !l->site; i++) {
        const char *path = lvn_getenv(sites[i]->file);
        if (!path) continue;
        if (lvn_path_exists(path))
            l->site = sites[i], l->hosts_path = path;
        else
            lvn_log(LVN_LOG_WARN, "%s=%s is left over: there is no such file; it is not used", sites[i]->file, path);
    }
    if (!l->site) return LVN_OK;
    const char *word = lvn_arena_printf(l->arena, "%.*s", (int)strcspn(l->site->remote, " "), l->site->remote);
    if (!word) return LVN_MEMORY;
    if (!l->c->given[LVN_FLAG_launch_ssh] && lvn_process_find(l->arena, word)) l->ssh = l->site->remote;
    LVN_TRY_WHILE(lvn_launch_hosts(l, l->hosts_path), "reading the hosts that %s gave this job (%s)", l->site->title,
                  l->site->file);
    return LVN_OK;
}
