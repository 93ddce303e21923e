/* mpi_start.c - calls MPI_Init_thread, and turns a crash in it into an error.
 *
 * Open MPI may receive the first message of a faster rank before it has initialized its handlers, and then calls a null
 * function pointer. Seen under srun on busy hosts, in one of several hundred starts
 * (github.com/open-mpi/ompi/issues/12495). Nothing has been computed yet, and starting again helps, so it should not
 * look like a crash of levin. */
#include "comm/mpi_start.h"

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static _Thread_local sigjmp_buf *starting; /* set in the thread that is inside MPI_Init_thread */
static bool has_crashed;                   /* atomic */

bool lvn_comm_crashed(void)
{
    return __atomic_load_n(&has_crashed, __ATOMIC_ACQUIRE);
}

static void crashed(int number)
{
    if (starting) siglongjmp(*starting, number);
    signal(number, SIG_DFL); /* not from MPI_Init_thread: the signal is raised again and terminates the process */
}

int lvn_mpi_guarded(int (*init)(int *argc, char ***argv, int required, int *provided), int required, int *provided)
{
    struct sigaction previous, handler = {.sa_handler = crashed};
    sigjmp_buf here;
    if (sigaction(SIGSEGV, NULL, &previous) ||
        previous.sa_handler != SIG_DFL) /* another handler is installed, for example a sanitizer's */
        return init(NULL, NULL, required, provided);
    sigset_t wrong, blocked; /* levin's threads block signals; SIGSEGV is delivered to the thread that caused it */
    sigemptyset(&wrong);
    sigaddset(&wrong, SIGSEGV);
    sigaction(SIGSEGV, &handler, NULL);
    pthread_sigmask(SIG_UNBLOCK, &wrong, &blocked);
    starting = &here;
    volatile int code = LVN_MPI_CRASHED;
    if (!sigsetjmp(here, 1))
        code = init(NULL, NULL, required, provided);
    else
        __atomic_store_n(&has_crashed, true, __ATOMIC_RELEASE);
    starting = NULL;
    pthread_sigmask(SIG_SETMASK, &blocked, NULL);
    if (!sigaction(SIGSEGV, NULL, &handler) && handler.sa_handler == crashed) sigaction(SIGSEGV, &previous, NULL);
    return code;
}
