/* environment.h - the environment of a process: its variables and its ancestors. identity.c and the launchers' files
 * search it for evidence; the engine and the commands read single variables. The meaning of variables is in
 * launcher_env.h. */
#ifndef LVN_ENVIRONMENT_H
#define LVN_ENVIRONMENT_H

#include <stdbool.h>

/* The environment of a process; tests construct their own. */
struct lvn_environment {
    const char *(*variable)(const struct lvn_environment *environment, const char *name); /* NULL: not set */
    bool (*socket_open)(const struct lvn_environment *environment, int fd);
    bool (*path_exists)(const struct lvn_environment *environment, const char *path);
    const char *const *variables; /* for tests: name, value, name, value, ..., NULL */
    struct {
        int pid;
        char name[16];
    } ancestors[64]; /* parent, its parent, ... */
    int n_ancestors;
    bool complete; /* the ancestors reach the first process of the system, so this is not a container */
    int pid;
};
/* Read the environment of this process. */
void lvn_environment_read(struct lvn_environment *environment);

/* The value; NULL if it is not set or empty. */
const char *lvn_variable(const struct lvn_environment *environment, const char *name);
/* True if the name is in the list; "mpirun*" matches all names with this prefix. */
bool lvn_is_among(const char *const *names, const char *name);
/* Parse an integer of at least `min`; false if the text is not one. */
bool lvn_whole_number(const char *text, int min, int *out);

#endif
