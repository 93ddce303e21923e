/* launcher_env.h - a launcher as identity.c sees it: its variables, its processes, and how to tell whether its
 * variables are alive.
 *
 * Each launcher's file ends with one struct lvn_launcher_env. Variables of a launcher are inherited by everything
 * below it, other launchers too, and can be exported by old shells; so each launcher says how its variables are told
 * from stale ones. */
#ifndef LVN_LAUNCHER_ENV_H
#define LVN_LAUNCHER_ENV_H

#include <stdbool.h>

#include "cluster/identity/identity.h"

/* The environment of a process; tests make their own. */
struct lvn_environment {
    const char *(*variable)(const struct lvn_environment *s, const char *name); /* NULL: not set */
    bool (*socket_open)(const struct lvn_environment *s, int fd);
    bool (*path_exists)(const struct lvn_environment *s, const char *path);
    const char *const *variables; /* for tests: name, value, name, value, ..., NULL */
    struct {
        int pid;
        char name[16];
    } ancestors[64]; /* parent, its parent, ... */
    int n_ancestors;
    bool complete; /* the last ancestor is the first process of the system: not a container */
    int pid;
};
/* Read the environment of this process. */
void lvn_environment_read(struct lvn_environment *s);

enum lvn_evidence {
    LVN_ABSENT,  /* no variables of this launcher, or not for a process like this one */
    LVN_DEAD,    /* the variables are stale */
    LVN_UNKNOWN, /* the variables may be alive */
    LVN_ALIVE,
};

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
    const char *without_mpi; /* why no MPI joins such ranks, and what to do about it; NULL: one does */
};

#define LVN_LAUNCHER_ENV(name) extern const struct lvn_launcher_env lvn_launcher_env_##name;
#include "cluster/identity/launcher_envs.def"
#undef LVN_LAUNCHER_ENV

/* The value; NULL: not set, or empty. */
const char *lvn_variable(const struct lvn_environment *s, const char *name);
/* Is the name in the list, where "mpirun*" stands for all names with this prefix? */
bool lvn_is_among(const char *const *names, const char *name);
const struct lvn_launcher_env *lvn_launcher_env_find(const char *name); /* NULL: there is no such launcher */
/* Depth of the nearest ancestor that is a process of this launcher, from 1; 0: none. */
int lvn_launcher_env_depth(const struct lvn_launcher_env *f, const struct lvn_environment *s);
/* Parse an integer of at least `min`; false: it is none. */
bool lvn_whole_number(const char *text, int min, int *out);
/* A port derived from a number, outside of the range that the system assigns. */
int lvn_launcher_env_port(unsigned long number);
/* lvn_identity_find() for a given environment. */
enum lvn_status lvn_identity_find_in(struct lvn_identity *out, const struct lvn_environment *s) LVN_CHECKED;

#endif
