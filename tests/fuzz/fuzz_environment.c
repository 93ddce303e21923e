/* fuzz_environment.c - variables and parent processes as launchers and old shells leave them.
 *
 * A line is NAME=VALUE, a variable; >NAME, a parent process; anything else is skipped. First byte: is this a container,
 * which sockets are open. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/identity/environment.h"
#include "cluster/identity/launcher_env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VARIABLES = 64 };

static const char *variable(const struct lvn_environment *s, const char *name)
{
    for (const char *const *p = s->variables; *p; p += 2)
        if (!strcmp(*p, name)) return p[1];
    return NULL;
}

static bool socket_open(const struct lvn_environment *s, int fd)
{
    return (s->pid >> 1 & 1) == (fd & 1);
}

static bool path_exists(const struct lvn_environment *s, const char *path)
{
    return (s->pid >> 2 & 1) == (strlen(path) & 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *list[2 * VARIABLES + 1] = {NULL};
    struct lvn_environment s = {
        .variable = variable, .socket_open = socket_open, .path_exists = path_exists, .variables = list};
    struct lvn_identity id;
    char *text = malloc(size + 1), *rest = text;
    int n = 0;
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    text[size] = '\0';
    s.pid = (unsigned char)*text;
    s.complete = s.pid & 1;
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *value = strchr(line, '=');
        if (*line == '>' && s.n_ancestors < 64) {
            s.ancestors[s.n_ancestors].pid = 100 + s.n_ancestors;
            snprintf(s.ancestors[s.n_ancestors++].name, sizeof s.ancestors->name, "%.15s", line + 1);
        } else if (value && n < VARIABLES) {
            *value = '\0';
            list[2 * n] = line;
            list[2 * n++ + 1] = value + 1;
        }
    }
    if (lvn_identity_find_in(&id, &s) != LVN_OK) {
        if (!*levin_error_text()) abort();
    } else if (id.rank < 0 || id.rank >= id.size || !id.launcher ||
               (id.local_size > 0 && id.local_rank >= id.local_size)) {
        abort();
    }
    free(text);
    return 0;
}
