/* process_as_init.c - part of process.h: what the init of a container (as tini) does, without another program in the
 * image.
 *
 * The kernel treats process 1 of a process namespace differently: a signal for which it has no handler is dropped, so
 * that `levin prepare` in a container could not be stopped, and orphans of the whole namespace become its children,
 * which stay zombies until it waits for them. So process 1 only passes signals on and reaps; the command runs in its
 * child. When the child has ended, process 1 ends, and the kernel kills what is left of the namespace. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/process.h"

/* Signals of a fault of this process itself, which must not wait. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

/* The child is in this process's group, so it has got what a terminal sends (^C) already; a second SIGINT would kill
 * it. SIGHUP is passed on: when a terminal is closed, only its first process is sure to get one. */
static bool child_has_it(const siginfo_t *info)
{
    return info->si_code == SI_KERNEL && info->si_signo != SIGHUP;
}

/* Wait for all children that have ended. Has `child`? Then *status is its status. */
static bool reap(pid_t child, int *status)
{
    bool ended = false;
    int other;
    for (pid_t pid; (pid = waitpid(-1, &other, WNOHANG)) > 0;) {
        if (pid != child) continue;
        *status = other;
        ended = true;
    }
    return ended;
}

static int exit_code(int status)
{
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    int number = WTERMSIG(status);
    fprintf(stderr, "error: levin was killed by signal %d (%s)%s\n", number, strsignal(number),
            number == SIGKILL ? ", as it is when the memory of a container runs out: give it more, or see what `levin "
                                "plan` says of the recipe"
                              : "");
    return 128 + number;
}

bool lvn_process_as_init(int *code)
{
    sigset_t passed_on, before;
    siginfo_t info;
    int status = 0;
    if (getpid() != 1) return false;
    sigfillset(&passed_on);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&passed_on, faults[i]);
    signal(SIGCHLD, SIG_DFL); /* where it is ignored, the kernel reaps, and no exit code remains */
    sigprocmask(SIG_BLOCK, &passed_on, &before);
    pid_t child = fork();
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        return false;
    }
    if (child < 0) {
        fprintf(stderr,
                "error: levin is process 1 here and runs its commands in a child, which cannot be started: %s\n",
                strerror(errno));
        *code = LVN_EXIT_FAILED;
        return true;
    }
    for (;;) {
        int number = sigwaitinfo(&passed_on, &info);
        if (number == SIGCHLD && reap(child, &status)) break;
        if (number > 0 && number != SIGCHLD && !child_has_it(&info)) kill(child, number);
    }
    *code = exit_code(status);
    return true;
}
