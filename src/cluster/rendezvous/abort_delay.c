/* abort_delay.c - a rank whose communication library aborts it ends a moment later.
 *
 * When a rank is killed, a library that shares memory with it may abort its neighbour in the same instant (UCX does).
 * Which of the two connections closes first is then chance, and the sentence about the fault would begin with the
 * neighbour half of the time. So SIGABRT waits: what it is the consequence of is seen before it. */
#include <signal.h>
#include <stddef.h>
#include <time.h>

#include "cluster/rendezvous/member_private.h"

static void linger(int number)
{
    (void)number;
    const struct timespec moment = {.tv_nsec = 100 * 1000 * 1000}; /* of the 0.3 s in which faults are one group */
    nanosleep(&moment, NULL);
    raise(SIGABRT); /* blocked until this returns; then by default, as SA_RESETHAND says */
}

void lvn_delay_abort(void)
{
    struct sigaction now, late = {.sa_handler = linger, .sa_flags = (int)SA_RESETHAND};
    if (sigaction(SIGABRT, NULL, &now) || now.sa_handler != SIG_DFL) return; /* another's: a sanitizer's, say */
    sigaction(SIGABRT, &late, NULL);
}
