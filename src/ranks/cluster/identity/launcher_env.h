/* launcher_env.h - a launcher as identity.c sees it: its variables, its processes, and how to determine whether its
 * variables are valid.
 *
 * All descendants of a launcher inherit its variables, other launchers too, and old shells may export them; so each
 * launcher has a rule that recognizes stale variables. */
#ifndef LVN_LAUNCHER_ENV_H
#define LVN_LAUNCHER_ENV_H

#include "cluster/identity/environment.h"
#include "cluster/identity/identity.h"

enum lvn_evidence {
    LVN_ABSENT,  /* the launcher's variables are not set, or not for a process like this one */
    LVN_DEAD,    /* the variables are stale */
    LVN_UNKNOWN, /* the variables may be valid */
    LVN_ALIVE,   /* the launcher started this process */
};

enum { LVN_REFUSAL = 300 }; /* bytes of a refusal's text */

struct lvn_launcher_env {
    const char *name, *title;
    /* Names of variables; the first one that is set is used. */
    const char *rank[3], *size[3], *local_rank[3], *local_size[3], *node[3], *nodes[3];
    /* Processes that are parents of its ranks; "mpirun*": all names with this prefix. */
    const char *processes[10];
    const char *launchers[4]; /* ancestors of these processes that may be killed if they hang; none: they do not hang */
    /* Evidence that the variables belong to this process. NULL: UNKNOWN if rank or size is set. `reason` has 160 bytes,
     * and explains DEAD. An ancestor among `processes` turns UNKNOWN into ALIVE. */
    enum lvn_evidence (*evidence)(const struct lvn_environment *environment, char *reason);
    /* Set further fields of identity. NULL: none. */
    void (*more)(const struct lvn_environment *environment, struct lvn_identity *identity);
    /* True if the variables show that this process was started in a wrong way; `text` explains it. NULL: never. */
    bool (*refuse)(const struct lvn_environment *environment, char text[LVN_REFUSAL]);
    const char *without_mpi; /* why no MPI connects such ranks, and what to do about it; NULL: one does */
};

extern const struct lvn_launcher_env lvn_launcher_env_slurm; /* slurm.c */
enum { LVN_LAUNCHER_ENVS = 11 };
extern const struct lvn_launcher_env *const lvn_launcher_envs[LVN_LAUNCHER_ENVS];

const struct lvn_launcher_env *lvn_launcher_env_find(const char *name); /* NULL: not in the table */
/* Depth of the nearest ancestor that is a process of this launcher, from 1; 0: none. */
int lvn_launcher_env_depth(const struct lvn_launcher_env *launcher, const struct lvn_environment *environment);
/* A port computed from a number, outside the range of ports that the system assigns. */
int lvn_launcher_env_port(unsigned long number);

#endif
