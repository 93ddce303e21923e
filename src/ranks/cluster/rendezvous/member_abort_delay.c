/* member_abort_delay.c - delays SIGABRT, so that a rank that is aborted by its communication library terminates a
 * moment later. member.c calls it.
 *
 * When a rank is killed, a library that shares memory with it may abort a neighbor at the same instant (UCX does). It
 * is then random which of the two connections closes first, and in half of the cases the message about the fault would
 * begin with the neighbor. With SIGABRT delayed, the server sees the cause first. */
#include <signal.h>
#include <stddef.h>
#include <time.h>

#include "cluster/rendezvous/member_private.h"

static void linger(int number)
{
    (void)number;
    const struct timespec delay = {.tv_nsec =
                                       100 * 1000 * 1000}; /* within the 0.3 s in which the server groups faults */
    nanosleep(&delay, NULL);
    raise(SIGABRT); /* blocked until the handler returns; then the default action (SA_RESETHAND) */
}

void lvn_delay_abort(void)
{
    struct sigaction now, late = {.sa_handler = linger, .sa_flags = (int)SA_RESETHAND};
    if (sigaction(SIGABRT, NULL, &now) || now.sa_handler != SIG_DFL)
        return; /* another handler is installed, for example a sanitizer's */
    sigaction(SIGABRT, &late, NULL);
}
