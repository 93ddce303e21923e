/* cluster_ranks.h - ranks as real processes over loopback, for tests of the rendezvous.
 *
 * Each rank is a child that writes its results into memory shared with the test. Times here are limits for a test
 * that hangs, or timeouts that only silence can reach; no result depends on which process is faster. */
#ifndef LVN_CLUSTER_RANKS_H
#define LVN_CLUSTER_RANKS_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/files.h"
#include "cluster/rendezvous/member.h"
#include "cluster/rendezvous/wire.h"

enum { RANKS = 4 };
static const double LIMIT = 90;

/* Shared with the children. */
static struct shared {
    _Atomic int has_invitation; /* rank 0's invitation is set */
    char invitation[4096];      /* what rank 0 broadcasts */
    _Atomic int invited;        /* the server of guests exists */
    char address[256], token[256];
    _Atomic int go, round; /* the test lets them continue */
    struct {
        _Atomic int pid, ready, opened, faulty, closed;
        int is_reporter_now, is_reporter, rank;
        char text[1200], difference[600];
    } rank[RANKS + 1];
} * shared;
static char folder[] = "/tmp/levin-cluster-XXXXXX", status_path[64];

/* Behaviour of a rank. */
struct plan {
    int size, claims_rank, claims_size, index;
    double timeout, join, stall_timeout;
    bool guest;                  /* of a server outside of the ranks: it waits until the test invites it */
    const char *address, *token; /* of a guest, if they differ from the server's */
    const char *build;
    bool early;   /* nothing is published yet; all are on one host */
    bool patient; /* it ends when all ranks but the lost one know the fault */
    enum { WAIT, HOLD, FAIL, FAIL_AFTER } then;
};

static inline bool until(_Atomic int *flag)
{
    for (double end = lvn_seconds() + LIMIT; !atomic_load(flag) && lvn_seconds() < end;) usleep(2000);
    return atomic_load(flag) != 0;
}

static inline enum lvn_status broadcast(void *context, void *x, int64_t bytes)
{
    const struct plan *p = context;
    if (p->claims_rank == 0) {
        memcpy(shared->invitation, x, (size_t)bytes);
        atomic_store(&shared->has_invitation, 1);
    } else if (until(&shared->has_invitation)) {
        memcpy(x, shared->invitation, (size_t)bytes);
    }
    return LVN_OK;
}

static inline void on_fault(void *context, const struct lvn_fault *f)
{
    const struct plan *p = context;
    snprintf(shared->rank[p->index].text, sizeof shared->rank[0].text, "%s", f->text);
    shared->rank[p->index].is_reporter = f->is_reporter;
    shared->rank[p->index].rank = f->rank;
    atomic_store(&shared->rank[p->index].faulty, 1);
    /* Each rank detects silence when it is next scheduled; the reporter must exist until then. */
    for (int i = 0; p->patient && i < p->size; i++)
        if (i != f->rank) until(&shared->rank[i].faulty);
    _exit(1);
}

static inline void record(const struct plan *p)
{
    snprintf(shared->rank[p->index].text, sizeof shared->rank[0].text, "%s", levin_error_text());
    shared->rank[p->index].is_reporter_now = lvn_is_reporter();
}

/* Wait until all ranks' states have been received. */
static inline void until_heard(struct lvn_member *h, int n)
{
    struct lvn_peer p[RANKS];
    for (double end = lvn_seconds() + LIMIT; lvn_seconds() < end; usleep(2000)) {
        int heard = 0;
        lvn_member_table(h, p, n);
        for (int i = 0; i < n; i++) heard += p[i].step == 412 || n == 1;
        if (heard == n) return;
    }
}

static inline void be_rank(const struct plan *p)
{
    struct lvn_identity id = {.launcher = "test", .rank = p->claims_rank, .size = p->claims_size};
    struct lvn_fact facts[] = {{"build", p->build ? p->build : "same"}, {"recipe", "a b%c"}};
    struct lvn_member_options o = {.id = &id,
                                   .timeout = p->timeout,
                                   .join_timeout = p->join,
                                   .stall_timeout = p->stall_timeout,
                                   .facts = facts,
                                   .n_facts = 2,
                                   .broadcast = broadcast,
                                   .broadcast_context = (void *)(uintptr_t)p,
                                   .fault = on_fault,
                                   .fault_context = (void *)(uintptr_t)p};
    struct lvn_member *h;
    snprintf(id.host, sizeof id.host, "node%d", p->early ? 0 : p->index);
    if (p->guest && until(&shared->invited)) {
        setenv("LEVIN_RENDEZVOUS", p->address ? p->address : shared->address, 1);
        setenv("LEVIN_RENDEZVOUS_TOKEN", p->token ? p->token : shared->token, 1);
    }
    if (lvn_member_open(&h, &o)) {
        record(p);
        atomic_store(&shared->rank[p->index].opened, -1);
        _exit(3);
    }
    if (!p->early) lvn_member_publish(h, status_path);
    lvn_member_difference(h, "build", shared->rank[p->index].difference, sizeof shared->rank[0].difference);
    atomic_store(&shared->rank[p->index].opened, 1);
    lvn_member_set_step(h, 412, 1000, 0.5);
    lvn_member_set_operation(h, "forward");
    if (p->index != 2) lvn_member_set_collective(h, 7, 12);
    until_heard(h, p->claims_size);
    atomic_store(&shared->rank[p->index].ready, 1);
    until(p->then == HOLD ? &shared->round : &shared->go);
    if (p->then == FAIL || p->then == FAIL_AFTER) {
        (void)lvn_fail_at("", 0, LVN_NONFINITE, "the loss is not a number");
        lvn_member_fail(h, p->then == FAIL_AFTER);
        record(p);
        lvn_member_close(h);
        atomic_store(&shared->rank[p->index].closed, 1);
        _exit(5);
    }
    lvn_member_close(h);
    atomic_store(&shared->rank[p->index].closed, 1);
    _exit(0);
}

static inline pid_t start(const struct plan *p)
{
    static struct plan copies[16]; /* of the child */
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        copies[0] = *p;
        be_rank(&copies[0]);
    }
    atomic_store(&shared->rank[p->index].pid, pid);
    return pid;
}

/* n equal ranks, except for the differences that `change` makes. A test must have one thread when it starts them: a
 * child would have copies of other threads' locks, which no thread unlocks. */
static inline void start_all(int n, struct plan base, void (*change)(struct plan *p))
{
    memset(shared, 0, sizeof *shared);
    for (int i = 0; i < n; i++) {
        struct plan p = base;
        p.size = p.claims_size = n;
        p.index = p.claims_rank = i;
        if (change) change(&p);
        start(&p);
    }
}

static inline bool all_opened(int n)
{
    for (int i = 0; i < n; i++) {
        if (!until(&shared->rank[i].ready)) return false;
    }
    return true;
}

/* Exit status; -signal; 1000: it did not end. */
static inline int end_of(int i)
{
    int status;
    pid_t pid = shared->rank[i].pid;
    for (double end = lvn_seconds() + LIMIT; lvn_seconds() < end; usleep(2000)) {
        if (waitpid(pid, &status, WNOHANG) == pid) return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return 1000;
}

static inline void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part)) print_message("'%s' lacks '%s'\n", text, part);
    assert_non_null(strstr(text, part));
}

static inline void assert_status(const char *part)
{
    char *text;
    int64_t bytes;
    assert_int_equal(lvn_file_read(status_path, 0, &text, &bytes), LVN_OK);
    assert_says(text, part);
    free(text);
}

static inline int prepare(void **state)
{
    (void)state;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(folder, sizeof folder, "/tmp/levin-cluster-XXXXXX");
    if (shared == MAP_FAILED || !mkdtemp(folder)) return 1;
    snprintf(status_path, sizeof status_path, "%s/status.json", folder);
    return 0;
}

static inline int cleared(void **state)
{
    (void)state;
    munmap(shared, sizeof *shared);
    return lvn_tree_remove(folder);
}

static const struct plan calm = {.timeout = 60}, hasty = {.timeout = 2, .patient = true};

/* All ranks but `lost` have ended with one reporter: this one; or ANY of them, where they detect silence; or NONE,
 * where levin launch reports. */
enum { NONE = -1, ANY = -2 };
static inline void assert_reported(int n, int lost, int speaker, const char *says)
{
    int speakers = 0;
    for (int i = 0; i < n; i++) {
        if (i == lost) continue;
        assert_int_equal(end_of(i), 1);
        assert_true(shared->rank[i].faulty);
        assert_int_equal(shared->rank[i].rank, lost);
        speakers += shared->rank[i].is_reporter;
        if (speaker != ANY) assert_int_equal(shared->rank[i].is_reporter, i == speaker);
        assert_says(shared->rank[i].text, says);
    }
    assert_int_equal(speakers, speaker != NONE);
    assert_status("\"state\": \"fault\"");
    assert_status(says);
}

#define RANKS_TEST(name) cmocka_unit_test_setup_teardown(name, prepare, cleared)

#endif
