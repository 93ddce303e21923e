/* threads.c - see threads.h: the thread team on POSIX threads, and single threads. levin does not use OpenMP, because
 * programs and libraries that contain one (PyTorch) would then have two.
 *
 * Threads start at the first run; after it they wait for the next one. A kernel of a small model needs a few
 * microseconds, so threads must synchronize without a system call. But if other processes compete for the cores, a
 * spinning thread delays the thread for which it waits. So a waiting thread spins briefly, then sleeps in the kernel
 * (futex). Without futexes it yields. OMP_WAIT_POLICY determines how long it spins between two runs. */
#include "base/threads.h"

#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
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
    SPINS_SHARED = 100,     /* in a team with more threads than CPUs: a waiting thread yields its CPU */
    SPINS_ACTIVE = INT_MAX, /* OMP_WAIT_POLICY=active: a minute */
    IDLE_TEAMS = 4,         /* maximum idle teams, so that concurrent callers need not start threads */
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
    struct event ended;   /* number of members, without the caller, that have completed the run */
    _Alignas(64) atomic_int arrived;
    _Alignas(64) void (*task)(void *argument, int thread, int n_threads); /* NULL: members terminate */
    void *argument;
    int n_threads; /* including the caller, thread 0 */
    int requested; /* number requested by the caller; the system may have started fewer */
    int spins, spins_between;
    struct member member[]; /* [requested - 1] */
};

static _Thread_local struct team *my_team; /* NULL outside a team, and in a team of one */
static struct team *_Atomic idle[IDLE_TEAMS];

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

/* Wait until the word is no longer `seen`; returns its value. */
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
    struct team *team = my_team;
    if (!team) return;
    int completed = atomic_load_explicit(&team->barrier.word, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) + 1 < team->n_threads) {
        await_change(&team->barrier, completed, team->spins);
        return;
    }
    atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
    atomic_store(&team->barrier.word, completed + 1);
    wake_all(&team->barrier);
}

static void *run_member(void *argument)
{
    struct member *m = argument;
    struct team *team = m->team;
    my_team = team;
    for (int runs = 0;;) {
        runs = await_change(&team->started, runs, team->spins_between);
        if (!team->task) return NULL;
        team->task(team->argument, m->thread, team->n_threads);
        atomic_fetch_add(&team->ended.word, 1);
        wake_all(&team->ended);
    }
}

/* A thread of a team blocks all signals except those that report its own faults (they may have a handler). */
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
    cpu_set_t set; /* fails on machines with more CPUs than it has bits, which are larger than any team */
    if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
#endif
    return INT_MAX;
}

static void choose_spins(struct team *team)
{
    const char *policy = lvn_getenv("OMP_WAIT_POLICY");
    bool shared = team->n_threads > cpus();
    team->spins = shared ? SPINS_SHARED : SPINS;
    team->spins_between = shared ? SPINS_SHARED : SPINS_BETWEEN;
    if (policy && !strcasecmp(policy, "passive")) team->spins_between = 0;
    if (policy && !strcasecmp(policy, "active")) team->spins_between = SPINS_ACTIVE;
}

/* In the child of a fork only the forking thread exists, so the child must start new teams. */
static void forget(void)
{
    for (int i = 0; i < IDLE_TEAMS; i++) atomic_store(&idle[i], NULL);
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
    struct team *team = lvn_malloc_aligned(_Alignof(struct team), (bytes + _Alignof(struct team) - 1) /
                                                                      _Alignof(struct team) * _Alignof(struct team));
    if (!team) {
        lvn_error_clear(); /* not a failure: the caller runs the task alone */
        return NULL;
    }
    pthread_once(&once, forget_in_children);
    *team = (struct team){.n_threads = n_threads, .requested = n_threads};
    choose_spins(team);
    block_signals(&before);
    for (int i = 0; i < n_threads - 1; i++) {
        team->member[i] = (struct member){.team = team, .thread = i + 1};
        if (!pthread_create(&team->member[i].id, NULL, run_member, &team->member[i])) continue;
        team->n_threads = i + 1;
        break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return team;
}

static void begin(struct team *team, void (*task)(void *argument, int thread, int n_threads), void *argument)
{
    team->task = task;
    team->argument = argument;
    atomic_store_explicit(&team->ended.word, 0, memory_order_relaxed);
    atomic_fetch_add(&team->started.word, 1);
    wake_all(&team->started);
}

static void stop(struct team *team)
{
    begin(team, NULL, NULL);
    for (int i = 0; i < team->n_threads - 1; i++) pthread_join(team->member[i].id, NULL);
    free(team);
}

/* An idle team, or a new one. Idle teams of other sizes are stopped, because their threads may never be used again.
 * NULL: out of memory. */
static struct team *acquire(int n_threads)
{
    struct team *other = NULL;
    for (int i = 0; i < IDLE_TEAMS; i++) {
        struct team *team = atomic_exchange(&idle[i], NULL);
        if (!team) continue;
        if (other) stop(other);
        if (team->requested == n_threads) return team;
        other = team;
    }
    if (other) stop(other);
    return start(n_threads);
}

static void make_idle(struct team *team)
{
    for (int i = 0; i < IDLE_TEAMS; i++) {
        struct team *none = NULL;
        if (atomic_compare_exchange_strong(&idle[i], &none, team)) return;
    }
    stop(team);
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
    struct team *team = n_threads > 1 && !my_team ? acquire(n_threads) : NULL; /* a member of a team runs it alone */
    if (!team) {
        run_alone(task, argument);
        return;
    }
    begin(team, task, argument);
    my_team = team;
    task(argument, 0, team->n_threads);
    my_team = NULL;
    for (int ended; (ended = atomic_load(&team->ended.word)) < team->n_threads - 1;)
        await_change(&team->ended, ended, team->spins);
    make_idle(team);
}

struct thread_start {
    void *(*run)(void *);
    void *argument;
    locale_t locale;
};

static void *begin_thread(void *argument)
{
    struct thread_start start = *(struct thread_start *)argument;
    free(argument);
    uselocale(start.locale);
    return start.run(start.argument);
}

int lvn_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    struct thread_start *start = lvn_malloc(sizeof *start);
    sigset_t all, before;
    if (!start) return ENOMEM;
    *start = (struct thread_start){run, argument, uselocale((locale_t)0)};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int bad = pthread_create(thread, NULL, begin_thread, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (bad) free(start);
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
    struct timed_task *task = argument;
    task->run(task->argument);
    pthread_mutex_lock(&task->lock);
    task->finished = true;
    bool abandoned = task->abandoned;
    pthread_cond_broadcast(&task->change);
    pthread_mutex_unlock(&task->lock);
    if (abandoned) free(task);
    return NULL;
}

bool lvn_thread_with_timeout(double seconds, void (*run)(void *argument), void *argument)
{
    struct timed_task *task = calloc(1, sizeof *task);
    struct timespec deadline = lvn_deadline(seconds);
    pthread_t thread;
    bool in_time = true;
    if (task) {
        *task = (struct timed_task){.run = run, .argument = argument};
        pthread_mutex_init(&task->lock, NULL);
        lvn_condition_init(&task->change);
    }
    if (!task || lvn_thread_start(&thread, run_timed, task)) {
        free(task);
        run(argument);
        return true;
    }
    pthread_mutex_lock(&task->lock);
    while (!task->finished && in_time) in_time = lvn_condition_wait(&task->change, &task->lock, &deadline);
    bool finished = task->finished;
    task->abandoned = !finished;
    pthread_mutex_unlock(&task->lock);
    if (!finished) {
        pthread_detach(thread);
        return false;
    }
    pthread_join(thread, NULL);
    free(task);
    return true;
}
