/* mpi_start.c - calls MPI_Init_thread, and turns a crash in it into an error.
 *
 * Open MPI may receive the first message of a faster rank before it has initialized its handlers, and then calls a null
 * function pointer. Seen under srun on busy hosts, in one of several hundred starts
 * (github.com/open-mpi/ompi/issues/12495). Nothing has been computed yet, and a restart cures it, so levin reports an
 * error instead of crashing. */
#include "comm/mpi_start.h"

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static _Thread_local sigjmp_buf *init_jump; /* set in the thread that is inside MPI_Init_thread */
static bool has_crashed;                    /* atomic */

bool lvn_comm_crashed(void)
{
    return __atomic_load_n(&has_crashed, __ATOMIC_ACQUIRE);
}

static void on_segv(int number)
{
    if (init_jump) siglongjmp(*init_jump, number);
    signal(number, SIG_DFL); /* not from MPI_Init_thread: the signal is raised again and terminates the process */
}

int lvn_mpi_guarded(int (*init)(int *argc, char ***argv, int required, int *provided), int required, int *provided)
{
    struct sigaction previous, handler = {.sa_handler = on_segv};
    sigjmp_buf here;
    if (sigaction(SIGSEGV, NULL, &previous) ||
        previous.sa_handler != SIG_DFL) /* another handler is installed, for example a sanitizer's */
        return init(NULL, NULL, required, provided);
    sigset_t segv, blocked; /* levin's threads block signals; SIGSEGV is delivered to the thread that caused it */
    sigemptyset(&segv);
    sigaddset(&segv, SIGSEGV);
    sigaction(SIGSEGV, &handler, NULL);
    pthread_sigmask(SIG_UNBLOCK, &segv, &blocked);
    init_jump = &here;
    volatile int code = LVN_MPI_CRASHED;
    if (!sigsetjmp(here, 1))
        code = init(NULL, NULL, required, provided);
    else
        __atomic_store_n(&has_crashed, true, __ATOMIC_RELEASE);
    init_jump = NULL;
    pthread_sigmask(SIG_SETMASK, &blocked, NULL);
    if (!sigaction(SIGSEGV, NULL, &handler) && handler.sa_handler == on_segv) sigaction(SIGSEGV, &previous, NULL);
    return code;
}
