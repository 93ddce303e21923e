/* plan_oversubscription.c - processes that compute beside this one while levin plan measures: the ranks of a host, made
 * real.
 *
 * They are made before anything else, for a process with threads must not be copied: each plans by itself, silently,
 * and all meet in the measurement, joined by levin's own transport over pairs of sockets. So what ranks of one host
 * take from each other, and what their sums cost, is measured and not guessed. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/plan/plan.h"

static enum lvn_status make_sockets(int pair[LVN_OVERSUBSCRIPTION][LVN_OVERSUBSCRIPTION], int n)
{
    for (int i = 0; i < n; i++) {
        pair[i][i] = -1;
        for (int j = 0; j < i; j++) {
            int both[2];
            LVN_CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both), IO,
                      "no sockets between the %d processes that measure: allow more open files (ulimit -n)", n);
            pair[i][j] = both[0];
            pair[j][i] = both[1];
        }
    }
    return LVN_OK;
}

/* This process is number `rank` of them: the sockets of the others are not its own. */
static void keep(struct lvn_oversubscription *w, int pair[LVN_OVERSUBSCRIPTION][LVN_OVERSUBSCRIPTION], int rank)
{
    w->rank = rank;
    for (int i = 0; i < w->n; i++)
        for (int j = 0; j < w->n; j++) {
            if (i == rank) w->sockets[j] = pair[i][j];
            if (i != rank && i != j) close(pair[i][j]);
        }
}

static void be_silent(void)
{
    int nothing = open("/dev/null", O_WRONLY);
    if (nothing < 0) _exit(1);
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
}

enum lvn_status lvn_oversubscription_begin(struct lvn_oversubscription *w, int n)
{
    int pair[LVN_OVERSUBSCRIPTION][LVN_OVERSUBSCRIPTION];
    pid_t parent = getpid();
    unsigned char what;
    *w = (struct lvn_oversubscription){.n = n};
    LVN_TRY(make_sockets(pair, n));
    fflush(NULL);
    for (int i = 1; i < n; i++) {
        w->pids[i] = fork();
        LVN_CHECK(w->pids[i] >= 0, MEMORY, "no process %d of %d to measure with", i + 1, n);
        if (w->pids[i]) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        be_silent();
        keep(w, pair, i);
        if (read(w->sockets[0], &what, 1) != 1) _exit(0);
        w->what = what;
        return LVN_OK;
    }
    keep(w, pair, 0);
    return LVN_OK;
}

void lvn_oversubscription_go(struct lvn_oversubscription *w, int what)
{
    const unsigned char told = (unsigned char)what;
    for (int i = 1; i < w->n && !w->rank; i++)
        if (write(w->sockets[i], &told, 1) != 1) return; /* it is gone: the measurement says so */
}

void lvn_oversubscription_end(struct lvn_oversubscription *w)
{
    if (w->rank) _exit(0);
    for (int i = 1; i < w->n; i++) {
        if (w->pids[i] <= 0) continue;
        kill(w->pids[i], SIGKILL);
        waitpid(w->pids[i], NULL, 0);
    }
    w->n = 0;
}
