/* launcher_exit.c - see launcher_exit.h. */
#include "cluster/identity/launcher_exit.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TICK = 50, PATIENCE = 2000 }; /* milliseconds */

int lvn_launcher_pid(const struct lvn_environment *s, const char *launcher)
{
    const struct lvn_launcher_env *f = lvn_launcher_env_find(launcher);
    int at = f && f->launchers[0] ? lvn_launcher_env_depth(f, s) : 0, pid = 0;
    for (int i = at - 1; at > 0 && i < s->n_ancestors; i++) {
        bool one = lvn_is_among(f->launchers, s->ancestors[i].name);
        if (!one && !lvn_is_among(f->processes, s->ancestors[i].name)) break;
        pid = s->ancestors[i].pid;
    }
    return pid;
}

/* Runs in the child of a process with threads: only calls that need neither locks nor memory. Closes all
 * connections, so that other ranks see the end of this one. */
static void watch(int pid)
{
    const struct timespec tick = {.tv_nsec = TICK * 1000000L};
    setsid();
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 0u, ~0u, 0u))
#endif
        for (int fd = 0; fd < 4096; fd++) close(fd);
    for (int ms = 0; ms < PATIENCE && !kill(pid, 0); ms += TICK) nanosleep(&tick, NULL);
    kill(pid, SIGKILL);
    _exit(0);
}

void lvn_launcher_end_soon(int pid)
{
    if (pid > 1 && fork() == 0) watch(pid);
}
