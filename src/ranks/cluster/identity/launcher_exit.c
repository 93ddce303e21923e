/* launcher_exit.c - see launcher_exit.h. */
#include "cluster/identity/launcher_exit.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TICK = 50, TIMEOUT = 2000 }; /* milliseconds */

int lvn_launcher_pid(const struct lvn_environment *environment, const char *name)
{
    const struct lvn_launcher_env *launcher = lvn_launcher_env_find(name);
    int at = launcher && launcher->launchers[0] ? lvn_launcher_env_depth(launcher, environment) : 0, pid = 0;
    for (int i = at - 1; at > 0 && i < environment->n_ancestors; i++) {
        bool one = lvn_is_among(launcher->launchers, environment->ancestors[i].name);
        if (!one && !lvn_is_among(launcher->processes, environment->ancestors[i].name)) break;
        pid = environment->ancestors[i].pid;
    }
    return pid;
}

/* Kill process `pid` unless it ends within TIMEOUT. Runs in a fork of a process with threads, so it must not use locks
 * or allocate. All connections are closed, so that other ranks notice the end of this one. */
static void watch(int pid)
{
    const struct timespec tick = {.tv_nsec = TICK * 1000000L};
    setsid();
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 0u, ~0u, 0u))
#endif
        for (int fd = 0; fd < 4096; fd++) close(fd);
    for (int ms = 0; ms < TIMEOUT && !kill(pid, 0); ms += TICK) nanosleep(&tick, NULL);
    kill(pid, SIGKILL);
    _exit(0);
}

void lvn_launcher_end_soon(int pid)
{
    if (pid > 1 && fork() == 0) watch(pid);
}
