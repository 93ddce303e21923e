/* test_clock.c - covers: src/base/clock.c src/base/files.c src/base/status.c
 *
 * Waiting while somebody sets the clock: an hour on, an hour back. The program's own clock_gettime() stands in for
 * that somebody. */
#include "io_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "cluster/rendezvous/member.h"
#include "host/machine.h"

static _Atomic long shift;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    long bad = syscall(SYS_clock_gettime, clock, t);
    if (clock == CLOCK_REALTIME) t->tv_sec += atomic_load(&shift);
    return (int)bad;
}

static void waits_as_long_as_it_says(void **state)
{
    (void)state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never;
    lvn_condition_init(&never);
    pthread_mutex_lock(&lock);
    for (long hours = -1; hours <= 1; hours++) {
        atomic_store(&shift, 3600 * hours);
        double begin = lvn_seconds();
        struct timespec until = lvn_deadline(1.05);
        while (lvn_condition_wait(&never, &lock, &until)) continue;
        double took = lvn_seconds() - begin;
        assert_true(took >= 1.05 && took < 600);
    }
    atomic_store(&shift, 0);
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&never);
}

/* The time in status.json; 0: no file yet. */
static double last_update(const char *path)
{
    char *text;
    int64_t n;
    if (lvn_file_read(path, 0, &text, &n) != LVN_OK) return lvn_error_clear(), 0;
    const char *at = strstr(text, "\"time\": ");
    double time = at ? strtod(at + 8, NULL) : 0;
    free(text);
    return time;
}

/* True if status.json is written again within a minute. */
static bool written(const char *path)
{
    double before = last_update(path);
    for (double end = lvn_seconds() + 60; lvn_seconds() < end; usleep(10000))
        if (last_update(path) != before) return true;
    return false;
}

static void status_continues(void **state)
{
    (void)state;
    struct lvn_identity id = {.size = 1, .local_size = 1, .nodes = 1, .host = "here"};
    struct lvn_member_options o = {.id = &id, .timeout = 60};
    struct lvn_member *h;
    const char *path = test_path("status.json");
    ASSERT_OK(lvn_member_open(&h, &o));
    lvn_member_publish(h, path);
    for (int i = 0; i < 6; i++) { /* several times: an operation that began before the change may end well */
        atomic_store(&shift, i < 3 ? 3600 : -3600);
        assert_true(written(path));
    }
    atomic_store(&shift, 0);
    lvn_member_close(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_as_long_as_it_says),
        cmocka_unit_test(status_continues),
    };
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}
