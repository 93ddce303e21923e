/* launcher_env.h - what a family of launchers is: its variables, its processes, and whether what it left is alive.
 *
 * A family's file ends with one struct lvn_launcher_env. Variables of a launcher are inherited by everything that runs
 * below it, also by other launchers, and can be exported from old shells; so each family says how its own can be told
 * from what is left over. */
#ifndef LVN_LAUNCHER_ENV_H
#define LVN_LAUNCHER_ENV_H

#include <stdbool.h>

#include "cluster/identity/identity.h"

/* What surrounds the process; tests make their own. */
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
    bool complete; /* nothing can be above the last of them: not a container */
    int pid;
};
/* Those of this process. */
void lvn_environment_read(struct lvn_environment *s);

enum lvn_evidence {
    LVN_ABSENT,  /* no variables of this family, or not for a process like this one */
    LVN_DEAD,    /* left over from somewhere else */
    LVN_UNKNOWN, /* they may be ours */
    LVN_ALIVE,
};

struct lvn_launcher_env {
    const char *name, *title;
    /* Variables; the first one that is set counts. */
    const char *rank[3], *size[3], *local_rank[3], *local_size[3], *node[3], *nodes[3];
    /* Processes that are parents of its ranks; "mpirun*": all names that begin so. */
    const char *processes[10];
    const char *launchers[4]; /* what may stand above these and is one with them: a rank may end it when it hangs; none:
                               * it does not hang */
    /* Are the variables there, and this process's? NULL: rank or size set, UNKNOWN. `why` has room for 160 characters,
     * and says for DEAD what gave it away. A process among those above makes UNKNOWN alive. */
    enum lvn_evidence (*evidence)(const struct lvn_environment *s, char *reason);
    /* What the variables above do not say. NULL: nothing. */
    void (*more)(const struct lvn_environment *s, struct lvn_identity *id);
    const char *without_mpi; /* why no MPI joins such ranks, and what to do about that; NULL: one does */
};

#define LVN_LAUNCHER_ENV(name) extern const struct lvn_launcher_env lvn_launcher_env_##name;
#include "cluster/identity/launcher_envs.def"
#undef LVN_LAUNCHER_ENV

/* The value; NULL when it is not set or empty. */
const char *lvn_variable(const struct lvn_environment *s, const char *name);
/* Is the name among these, of which "mpirun*" stands for all that begin so? */
bool lvn_is_among(const char *const *names, const char *name);
const struct lvn_launcher_env *lvn_launcher_env_find(const char *name); /* NULL: there is no such family */
/* How far above this process one of the family's stands, from 1; 0: none. */
int lvn_launcher_env_depth(const struct lvn_launcher_env *f, const struct lvn_environment *s);
/* A whole number of at least `least`; false otherwise. */
bool lvn_whole_number(const char *text, int min, int *out);
/* A port that follows from a number and is another: none that the system gives out by itself. */
int lvn_launcher_env_port(unsigned long number);
/* lvn_identity_find() for these surroundings. */
enum lvn_status lvn_identity_find_in(struct lvn_identity *out, const struct lvn_environment *s) LVN_CHECKED;

#endif
