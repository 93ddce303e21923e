/* environment.c - reads the environment and the ancestors of this process; see environment.h.
 *
 * In the initial PID namespace (its inode number is fixed in the kernel, PROC_PID_INIT_INO) all ancestors are
 * visible, up to the first process; in a container a launcher may run outside. */
#include "cluster/identity/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *variable(const struct lvn_environment *environment, const char *name)
{
    (void)environment;
    return getenv(name);
}

static bool socket_open(const struct lvn_environment *environment, int fd)
{
    struct stat st;
    (void)environment;
    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

static bool path_exists(const struct lvn_environment *environment, const char *path)
{
    (void)environment;
    return access(path, F_OK) == 0;
}

/* Parent and name from "pid (name) state parent ..."; the name may contain spaces and brackets. */
static int parent_of(int pid, char name[16])
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f) return -1;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    int parent = -1;
    if (!open || !close || sscanf(close + 1, " %*c %d", &parent) != 1) return -1;
    *close = '\0';
    snprintf(name, 16, "%.15s", open + 1);
    return parent;
}

void lvn_environment_read(struct lvn_environment *environment)
{
    enum { MAX = sizeof environment->ancestors / sizeof *environment->ancestors };
    char name[16];
    *environment =
        (struct lvn_environment){.variable = variable, .socket_open = socket_open, .path_exists = path_exists};
    environment->pid = getpid();
    int pid = parent_of(environment->pid, name);
    while (pid > 0 && environment->n_ancestors < MAX) {
        int parent = parent_of(pid, name);
        if (parent < 0) break;
        environment->ancestors[environment->n_ancestors].pid = pid;
        memcpy(environment->ancestors[environment->n_ancestors++].name, name, sizeof name);
        pid = parent;
    }
    char first[64];
    ssize_t n = readlink("/proc/self/ns/pid", first, sizeof first - 1);
    environment->complete = pid == 0 && n > 0 && (first[n] = '\0', !strcmp(first, "pid:[4026531836]"));
}

const char *lvn_variable(const struct lvn_environment *environment, const char *name)
{
    const char *value = name ? environment->variable(environment, name) : NULL;
    return value && *value ? value : NULL;
}

bool lvn_whole_number(const char *text, int min, int *out)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < min || n > 1 << 24 || text[0] == ' ' || text[0] == '+') return false;
    *out = (int)n;
    return true;
}

bool lvn_is_among(const char *const *names, const char *name)
{
    for (const char *const *p = names; *p; p++) {
        size_t n = strlen(*p);
        bool prefix = n > 0 && (*p)[n - 1] == '*';
        if (prefix ? !strncmp(*p, name, n - 1) : !strcmp(*p, name)) return true;
    }
    return false;
}
