/* environment.h - the environment of a process: its variables and its ancestors. identity.c and the launchers' files
 * look for evidence in it, the engine and the commands read single variables. Left out: what the variables mean
 * (launcher_env.h). */
#ifndef LVN_ENVIRONMENT_H
#define LVN_ENVIRONMENT_H

#include <stdbool.h>

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

/* The value; NULL: not set, or empty. */
const char *lvn_variable(const struct lvn_environment *s, const char *name);
/* Is the name in the list, where "mpirun*" stands for all names with this prefix? */
bool lvn_is_among(const char *const *names, const char *name);
/* Parse an integer of at least `min`; false: it is none. */
bool lvn_whole_number(const char *text, int min, int *out);

#endif
