/* mpi_start.c - a library that crashes while it starts ends with a sentence.
 *
 * Open MPI may get the first message of a rank that is ahead before it can take one, and calls a function that is not
 * there yet: seen under srun on busy hosts, one start in some hundreds (github.com/open-mpi/ompi/issues/12495). Nothing
 * has been computed, and starting again is the cure, so it should not look like a crash of ours. */
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

#include "comm/comm.h"
#include "comm/mpi_find.h"

static _Thread_local sigjmp_buf *starting; /* of the thread that is inside the library's start */
static bool has_crashed;                   /* atomic */

bool lvn_comm_crashed(void)
{
    return __atomic_load_n(&has_crashed, __ATOMIC_ACQUIRE);
}

static void crashed(int number)
{
    if (starting) siglongjmp(*starting, number);
    signal(number, SIG_DFL); /* somebody else's: it comes again, and ends the process */
}

int lvn_mpi_guarded(int (*init)(int *argc, char ***argv, int wanted, int *given), int wanted, int *given)
{
    struct sigaction before, mine = {.sa_handler = crashed};
    sigjmp_buf here;
    if (sigaction(SIGSEGV, NULL, &before) || before.sa_handler != SIG_DFL) /* another's: a sanitizer's, say */
        return init(NULL, NULL, wanted, given);
    sigset_t wrong, blocked; /* levin's threads leave signals to the first one; this kind comes to who caused it */
    sigemptyset(&wrong);
    sigaddset(&wrong, SIGSEGV);
    sigaction(SIGSEGV, &mine, NULL);
    pthread_sigmask(SIG_UNBLOCK, &wrong, &blocked);
    starting = &here;
    volatile int code = LVN_MPI_CRASHED;
    if (!sigsetjmp(here, 1))
        code = init(NULL, NULL, wanted, given);
    else
        __atomic_store_n(&has_crashed, true, __ATOMIC_RELEASE);
    starting = NULL;
    pthread_sigmask(SIG_SETMASK, &blocked, NULL);
    if (!sigaction(SIGSEGV, NULL, &mine) && mine.sa_handler == crashed) sigaction(SIGSEGV, &before, NULL);
    return code;
}
