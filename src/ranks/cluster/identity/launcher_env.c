/* launcher_env.c - the table of launchers, and functions that their files share; see launcher_env.h. */
#include "cluster/identity/launcher_env.h"

const struct lvn_launcher_env *const lvn_launcher_envs[LVN_LAUNCHER_ENVS] = {
#define LVN_LAUNCHER_ENV(name) &lvn_launcher_env_##name,
#include "cluster/identity/launcher_envs.def"
};

int lvn_launcher_env_port(unsigned long number)
{
    enum { FIRST_PORT = 20000, PORTS = 12000 };
    return FIRST_PORT + (int)(number % PORTS);
}

int lvn_launcher_env_depth(const struct lvn_launcher_env *launcher, const struct lvn_environment *environment)
{
    for (int i = 0; i < environment->n_ancestors; i++)
        if (lvn_is_among(launcher->processes, environment->ancestors[i].name)) return i + 1;
    return 0;
}

const struct lvn_launcher_env *lvn_launcher_env_find(const char *name)
{
    for (int i = 0; i < LVN_LAUNCHER_ENVS; i++)
        if (name && !strcmp(lvn_launcher_envs[i]->name, name)) return lvn_launcher_envs[i];
    return NULL;
}
