/* test_races.c - covers: src/core/backend/backend.c src/base/log.c
 *
 * Data that threads share without their own synchronization: the log's sink, and the probing of a backend. */
#include "io_test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "backend/backend.h"
#include "base/log.h"

enum { THREADS = 4, LINES = 20000 };

/* --- the sink that is taken away is not in use any more --- */

static _Atomic int in_sink, let_go, taken_away;

static void slow_sink(void *context, enum lvn_log_level level, const char *text)
{
    (void)context, (void)level, (void)text;
    atomic_store(&in_sink, 1);
    while (!atomic_load(&let_go)) usleep(1000);
}

static void *log_one(void *unused)
{
    lvn_log(LVN_LOG_INFO, "a line");
    return unused;
}

static void *take_away(void *unused)
{
    lvn_log_set(NULL, NULL, LVN_LOG_INFO);
    atomic_store(&taken_away, 1);
    return unused;
}

static void a_sink_ends_before_it_is_gone(void **state)
{
    (void)state;
    pthread_t logs, takes;
    lvn_log_set(slow_sink, NULL, LVN_LOG_INFO);
    assert_int_equal(pthread_create(&logs, NULL, log_one, NULL), 0);
    while (!atomic_load(&in_sink)) usleep(1000);
    assert_int_equal(pthread_create(&takes, NULL, take_away, NULL), 0);
    usleep(200000);
    bool early = atomic_load(&taken_away);
    atomic_store(&let_go, 1);
    pthread_join(logs, NULL);
    pthread_join(takes, NULL);
    assert_false(early);
    assert_true(atomic_load(&taken_away));
}

/* --- lines come one at a time --- */

static int in_use; /* not atomic: the sink is not entered twice */
static int64_t lines;

static void counting_sink(void *context, enum lvn_log_level level, const char *text)
{
    (void)context, (void)level, (void)text;
    in_use++;
    lines += in_use == 1;
    in_use--;
}

static void *log_many(void *unused)
{
    for (int i = 0; i < LINES; i++) lvn_log(LVN_LOG_INFO, "line %d", i);
    return unused;
}

static void run_in_threads(void *(*run)(void *))
{
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, run, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

static void lines_are_all_there(void **state)
{
    (void)state;
    lvn_log_set(counting_sink, NULL, LVN_LOG_INFO);
    run_in_threads(log_many);
    lvn_log_set(NULL, NULL, LVN_LOG_INFO);
    assert_int_equal(lines, (int64_t)THREADS * LINES);
}

/* --- threads that look for a backend at the same time find the same one --- */

static _Atomic(const struct lvn_backend *) found_first;
static _Atomic int found_others;

static void *find_backend(void *unused)
{
    const struct lvn_backend *none = NULL, *found = lvn_backend_find("auto");
    if (!atomic_compare_exchange_strong(&found_first, &none, found) && none != found)
        atomic_fetch_add(&found_others, 1);
    return unused;
}

static void a_backend_is_probed_once(void **state)
{
    (void)state;
    run_in_threads(find_backend);
    assert_non_null(atomic_load(&found_first));
    assert_int_equal(atomic_load(&found_others), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sink_ends_before_it_is_gone),
        cmocka_unit_test(lines_are_all_there),
        cmocka_unit_test(a_backend_is_probed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
