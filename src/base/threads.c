/* threads.c - see threads.h: the thread team on POSIX threads, and single threads. Programs and libraries that bring an
 * OpenMP of their own (PyTorch) meet no second one.
 *
 * Threads start at the first run and wait for the next one when it ends. A kernel of a small model takes a few
 * microseconds, so threads must synchronize without a system call; but if other processes compete for the cores, a
 * spinning thread takes time from the thread that it waits for. So a waiting thread spins briefly, then sleeps in the
 * kernel (futex). Without futexes it yields. How long it spins between two runs, OMP_WAIT_POLICY says. */
#include "base/threads.h"

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#include "base/arena.h"
#include "base/clock.h"
#include "base/getenv.h"
#include "base/status.h"

enum {
    SPINS = 2000,           /* at a barrier: some tens of microseconds */
    SPINS_BETWEEN = 50000,  /* until the next run: a millisecond or two, as between the steps of a training */
    SPINS_SHARED = 100,     /* of a team with more threads than CPUs: who waits gives its CPU away */
    SPINS_ACTIVE = INT_MAX, /* OMP_WAIT_POLICY=active: a minute */
    KEPT = 4,               /* teams that wait for a run, so that callers at the same time need not start threads */
};

/* A word that threads wait to change. */
struct event {
    _Alignas(64) atomic_int word;
    atomic_int sleepers;
};

struct member {
    struct team *team;
    int thread;
    pthread_t id;
};

struct team {
    struct event started; /* number of runs that began */
    struct event barrier; /* number of completed barriers */
    struct event ended;   /* number of members, without the caller, that have ended the run */
    _Alignas(64) atomic_int arrived;
    _Alignas(64) void (*task)(void *argument, int thread, int n_threads); /* NULL: members end */
    void *argument;
    int n_threads; /* with the caller, thread 0 */
    int requested; /* the caller wanted so many; the system may have given fewer */
    int spins, spins_between;
    struct member member[]; /* [requested - 1] */
};

static _Thread_local struct team *my_team; /* NULL outside of a team, and in a team of one */
static struct team *_Atomic kept[KEPT];

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sleep_until_changed(atomic_int *word, int seen)
{
#if defined(__linux__)
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
#else
    (void)word, (void)seen;
    sched_yield();
#endif
}

static void wake_all(struct event *e)
{
#if defined(__linux__)
    if (atomic_load(&e->sleepers)) syscall(SYS_futex, &e->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#else
    (void)e;
#endif
}

/* Wait until the word is no longer `seen`; returns what it is. */
static int await_change(struct event *e, int seen, int spins)
{
    int now;
    for (int i = 0; i < spins; i++) {
        now = atomic_load_explicit(&e->word, memory_order_acquire);
        if (now != seen) return now;
        pause_briefly();
    }
    atomic_fetch_add(&e->sleepers, 1);
    while ((now = atomic_load(&e->word)) == seen) sleep_until_changed(&e->word, seen);
    atomic_fetch_sub(&e->sleepers, 1);
    return now;
}

void lvn_team_barrier(void)
{
    struct team *t = my_team;
    if (!t) return;
    int completed = atomic_load_explicit(&t->barrier.word, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&t->arrived, 1, memory_order_acq_rel) + 1 < t->n_threads) {
        await_change(&t->barrier, completed, t->spins);
        return;
    }
    atomic_store_explicit(&t->arrived, 0, memory_order_relaxed);
    atomic_store(&t->barrier.word, completed + 1);
    wake_all(&t->barrier);
}

static void *run_member(void *argument)
{
    struct member *m = argument;
    struct team *t = m->team;
    my_team = t;
    for (int runs = 0;;) {
        runs = await_change(&t->started, runs, t->spins_between);
        if (!t->task) return NULL;
        t->task(t->argument, m->thread, t->n_threads);
        atomic_fetch_add(&t->ended.word, 1);
        wake_all(&t->ended);
    }
}

/* Which signals a thread of a team does not take: all that are not its own faults (a handler of those may be set). */
static void block_signals(sigset_t *before)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, before);
}

static int cpus(void)
{
#if defined(__linux__)
    cpu_set_t set; /* machines with more CPUs than it has bits: unknown, and no team is larger */
    if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
#endif
    return INT_MAX;
}

static void choose_spins(struct team *t)
{
    const char *policy = lvn_getenv("OMP_WAIT_POLICY");
    bool shared = t->n_threads > cpus();
    t->spins = shared ? SPINS_SHARED : SPINS;
    t->spins_between = shared ? SPINS_SHARED : SPINS_BETWEEN;
    if (policy && !strcasecmp(policy, "passive")) t->spins_between = 0;
    if (policy && !strcasecmp(policy, "active")) t->spins_between = SPINS_ACTIVE;
}

/* Only the thread that forks exists in the child: teams there start anew. */
static void forget(void)
{
    for (int i = 0; i < KEPT; i++) atomic_store(&kept[i], NULL);
}

static void forget_in_children(void)
{
    pthread_atfork(NULL, NULL, forget);
}

static struct team *start(int n_threads)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sigset_t before;
    size_t bytes = sizeof(struct team) + (size_t)(n_threads - 1) * sizeof(struct member);
    struct team *t = lvn_malloc_aligned(_Alignof(struct team), (bytes + _Alignof(struct team) - 1) /
                                                                   _Alignof(struct team) * _Alignof(struct team));
    if (!t) {
        lvn_error_clear(); /* no failure: the caller runs the task alone */
        return NULL;
    }
    pthread_once(&once, forget_in_children);
    *t = (struct team){.n_threads = n_threads, .requested = n_threads};
    choose_spins(t);
    block_signals(&before);
    for (int i = 0; i < n_threads - 1; i++) {
        t->member[i] = (struct member){.team = t, .thread = i + 1};
        if (!pthread_create(&t->member[i].id, NULL, run_member, &t->member[i])) continue;
        t->n_threads = i + 1;
        break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return t;
}

static void begin(struct team *t, void (*task)(void *argument, int thread, int n_threads), void *argument)
{
    t->task = task;
    t->argument = argument;
    atomic_store_explicit(&t->ended.word, 0, memory_order_relaxed);
    atomic_fetch_add(&t->started.word, 1);
    wake_all(&t->started);
}

static void stop(struct team *t)
{
    begin(t, NULL, NULL);
    for (int i = 0; i < t->n_threads - 1; i++) pthread_join(t->member[i].id, NULL);
    free(t);
}

/* A team that waits, or a new one. One of another size is stopped in favour of the new one: its threads would wait in
 * vain. NULL: no memory. */
static struct team *take(int n_threads)
{
    struct team *other = NULL;
    for (int i = 0; i < KEPT; i++) {
        struct team *t = atomic_exchange(&kept[i], NULL);
        if (!t) continue;
        if (other) stop(other);
        if (t->requested == n_threads) return t;
        other = t;
    }
    if (other) stop(other);
    return start(n_threads);
}

static void keep(struct team *t)
{
    for (int i = 0; i < KEPT; i++) {
        struct team *none = NULL;
        if (atomic_compare_exchange_strong(&kept[i], &none, t)) return;
    }
    stop(t);
}

static void run_alone(void (*task)(void *argument, int thread, int n_threads), void *argument)
{
    struct team *outer = my_team;
    my_team = NULL;
    task(argument, 0, 1);
    my_team = outer;
}

void lvn_team_run(int n_threads, void (*task)(void *argument, int thread, int n_threads), void *argument)
{
    struct team *t = n_threads > 1 && !my_team ? take(n_threads) : NULL; /* a member of a team runs it alone */
    if (!t) {
        run_alone(task, argument);
        return;
    }
    begin(t, task, argument);
    my_team = t;
    task(argument, 0, t->n_threads);
    my_team = NULL;
    for (int ended; (ended = atomic_load(&t->ended.word)) < t->n_threads - 1;) await_change(&t->ended, ended, t->spins);
    keep(t);
}

struct thread_start {
    void *(*run)(void *);
    void *argument;
    locale_t locale;
};

static void *begin_thread(void *argument)
{
    struct thread_start s = *(struct thread_start *)argument;
    free(argument);
    uselocale(s.locale);
    return s.run(s.argument);
}

int lvn_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    struct thread_start *s = lvn_malloc(sizeof *s);
    sigset_t all, before;
    if (!s) return ENOMEM;
    *s = (struct thread_start){run, argument, uselocale((locale_t)0)};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int bad = pthread_create(thread, NULL, begin_thread, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (bad) free(s);
    return bad;
}

struct timed_task {
    void (*run)(void *);
    void *argument;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool finished;  /* run() has returned */
    bool abandoned; /* the caller no longer waits */
};

static void *run_timed(void *argument)
{
    struct timed_task *w = argument;
    w->run(w->argument);
    pthread_mutex_lock(&w->lock);
    w->finished = true;
    bool abandoned = w->abandoned;
    pthread_cond_broadcast(&w->change);
    pthread_mutex_unlock(&w->lock);
    if (abandoned) free(w);
    return NULL;
}

bool lvn_thread_with_timeout(double seconds, void (*run)(void *argument), void *argument)
{
    struct timed_task *w = calloc(1, sizeof *w);
    struct timespec deadline = lvn_deadline(seconds);
    pthread_t thread;
    bool in_time = true;
    if (w) {
        *w = (struct timed_task){.run = run, .argument = argument};
        pthread_mutex_init(&w->lock, NULL);
        lvn_condition_init(&w->change);
    }
    if (!w || lvn_thread_start(&thread, run_timed, w)) {
        free(w);
        run(argument);
        return true;
    }
    pthread_mutex_lock(&w->lock);
    while (!w->finished && in_time) in_time = lvn_condition_wait(&w->change, &w->lock, &deadline);
    bool finished = w->finished;
    w->abandoned = !finished;
    pthread_mutex_unlock(&w->lock);
    if (!finished) {
        pthread_detach(thread);
        return false;
    }
    pthread_join(thread, NULL);
    free(w);
    return true;
}
