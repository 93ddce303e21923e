/* plan_oversubscription.c - for levin plan --ranks: runs several processes that compute at the same time, as the ranks
 * of a host do. So how much ranks of one host slow each other down, and what their sums cost, is measured and not
 * estimated. Called by plan.c and plan_compute.c.
 *
 * The processes are forked before anything else, since a process with threads must not be forked: each plans by itself,
 * silently, and they meet in the measurement, joined by levin's TCP transport over pairs of sockets. */
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
            int ends[2];
            LVN_CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), IO,
                      "no sockets between the %d processes that measure: allow more open files (ulimit -n)", n);
            pair[i][j] = ends[0];
            pair[j][i] = ends[1];
        }
    }
    return LVN_OK;
}

/* This process is number `rank`: keep its ends of the sockets, close those of the others. */
static void keep_sockets(struct lvn_oversubscription *w, int pair[LVN_OVERSUBSCRIPTION][LVN_OVERSUBSCRIPTION], int rank)
{
    w->rank = rank;
    for (int i = 0; i < w->n; i++)
        for (int j = 0; j < w->n; j++) {
            if (i == rank) w->sockets[j] = pair[i][j];
            if (i != rank && i != j) close(pair[i][j]);
        }
}

static void discard_output(void)
{
    int null = open("/dev/null", O_WRONLY);
    if (null < 0) _exit(1);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
}

enum lvn_status lvn_oversubscription_begin(struct lvn_oversubscription *w, int n)
{
    int pair[LVN_OVERSUBSCRIPTION][LVN_OVERSUBSCRIPTION];
    pid_t parent = getpid();
    unsigned char order;
    *w = (struct lvn_oversubscription){.n = n};
    LVN_TRY(make_sockets(pair, n));
    fflush(NULL);
    for (int i = 1; i < n; i++) {
        w->pids[i] = fork();
        LVN_CHECK(w->pids[i] >= 0, MEMORY, "no process %d of %d to measure with", i + 1, n);
        if (w->pids[i]) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        discard_output();
        keep_sockets(w, pair, i);
        if (read(w->sockets[0], &order, 1) != 1) _exit(0);
        w->order = order;
        return LVN_OK;
    }
    keep_sockets(w, pair, 0);
    return LVN_OK;
}

void lvn_oversubscription_measure(struct lvn_oversubscription *w, int order)
{
    const unsigned char byte = (unsigned char)order;
    for (int i = 1; i < w->n && !w->rank; i++)
        if (write(w->sockets[i], &byte, 1) != 1) return; /* the process is gone: the measurement will fail */
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
