/* launcher_env.h - a launcher as identity.c sees it: its variables, its processes, and how to tell whether its
 * variables are alive.
 *
 * Each launcher's file ends with one struct lvn_launcher_env. Variables of a launcher are inherited by everything
 * below it, other launchers too, and can be exported by old shells; so each launcher says how its variables are told
 * from stale ones. */
#ifndef LVN_LAUNCHER_ENV_H
#define LVN_LAUNCHER_ENV_H

#include <stdbool.h>

#include "cluster/identity/environment.h"
#include "cluster/identity/identity.h"

enum lvn_evidence {
    LVN_ABSENT,  /* no variables of this launcher, or not for a process like this one */
    LVN_DEAD,    /* the variables are stale */
    LVN_UNKNOWN, /* the variables may be alive */
    LVN_ALIVE,
};

enum { LVN_REFUSAL = 300 }; /* bytes of a sentence */

struct lvn_launcher_env {
    const char *name, *title;
    /* Names of variables; the first one that is set counts. */
    const char *rank[3], *size[3], *local_rank[3], *local_size[3], *node[3], *nodes[3];
    /* Processes that are parents of its ranks; "mpirun*": all names with this prefix. */
    const char *processes[10];
    const char
        *launchers[4]; /* launchers above these processes that a rank may kill when they hang; none: it does not hang */
    /* Are the variables set, and this process's? NULL: UNKNOWN if rank or size is set. `reason` has 160 bytes, and
     * explains DEAD. An ancestor among `processes` turns UNKNOWN into ALIVE. */
    enum lvn_evidence (*evidence)(const struct lvn_environment *s, char *reason);
    /* Read what the variables above do not give. NULL: nothing. */
    void (*more)(const struct lvn_environment *s, struct lvn_identity *id);
    /* Do the variables show that this process was started in a wrong way? Then `text` is a sentence about it. NULL: no.
     */
    bool (*refuse)(const struct lvn_environment *s, char text[LVN_REFUSAL]);
    const char *without_mpi; /* why no MPI joins such ranks, and what to do about it; NULL: one does */
};

#define LVN_LAUNCHER_ENV(name) extern const struct lvn_launcher_env lvn_launcher_env_##name;
#include "cluster/identity/launcher_envs.def"
#undef LVN_LAUNCHER_ENV
enum {
#define LVN_LAUNCHER_ENV(name) LVN_LAUNCHER_ENV_##name,
#include "cluster/identity/launcher_envs.def"
#undef LVN_LAUNCHER_ENV
    LVN_LAUNCHER_ENVS
};
extern const struct lvn_launcher_env *const lvn_launcher_envs[LVN_LAUNCHER_ENVS];

const struct lvn_launcher_env *lvn_launcher_env_find(const char *name); /* NULL: there is no such launcher */
/* Depth of the nearest ancestor that is a process of this launcher, from 1; 0: none. */
int lvn_launcher_env_depth(const struct lvn_launcher_env *f, const struct lvn_environment *s);
/* A port derived from a number, outside of the range that the system assigns. */
int lvn_launcher_env_port(unsigned long number);

#endif
