/* test_machine.c - covers: src/base/host/machine.c
 *
 * Cores and memory according to a fake /proc and /sys, and log lines. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/log.h"
#include "base/threads.h"
#include "host/machine.h"

static char root[] = "/tmp/levin-machine-XXXXXX";

/* Write a file below the fake root, with its folders. */
static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0777);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int fresh(void **state)
{
    (void)state;
    memcpy(root + strlen(root) - 6, "XXXXXX", 6);
    if (!mkdtemp(root)) return 1;
    /* four cores of two hardware threads: siblings 0 and 4, 1 and 5, ... */
    for (int cpu = 0; cpu < 8; cpu++) {
        char path[128], text[16];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        snprintf(text, sizeof text, "%d,%d\n", cpu % 4, cpu % 4 + 4);
        put(path, text);
    }
    put("/sys/devices/system/cpu/online", "0-7\n");
    put("/sys/devices/system/node/online", "0-1\n");
    put("/proc/meminfo",
        "MemTotal:       16384 kB\nMemFree:  1 kB\nMemAvailable:   8192 kB\nSwapTotal: 4 kB\nSwapFree: 1 kB\n");
    put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nflags\t\t: fpu avx2 fma avx512fx avx512bw\n");
    put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    return 0;
}

static int cleared(void **state)
{
    (void)state;
    return lvn_tree_remove(root);
}

static void physical_cores(void **state)
{
    (void)state;
    struct lvn_machine m;
    lvn_machine_read_at(&m, root, "11111111", NULL, NULL);
    assert_int_equal(m.online, 8);
    assert_int_equal(m.allowed, 8);
    assert_int_equal(m.cores, 4);
    assert_int_equal(m.threads, 4);
    assert_int_equal(m.nodes, 2);
    assert_string_equal(m.threads_from, "physical cores");
    assert_string_equal(m.cpu, "Some CPU @ 3 GHz");
    assert_string_equal(m.features, "fma avx2 avx512bw");
    assert_string_equal(m.huge_pages, "madvise");
    assert_true(m.memory == 16384 * 1024 && m.memory_available == 8192 * 1024 && m.memory_limit == 0);
    assert_true(m.swap == 3 * 1024);
}

static void affinity(void **state)
{
    (void)state;
    struct lvn_machine m;
    lvn_machine_read_at(&m, root, "0100110", NULL, NULL); /* 1 and 5 are one core, 4 alone is another */
    assert_int_equal(m.allowed, 3);
    assert_int_equal(m.cores, 2);
    assert_int_equal(m.threads, 2);
    assert_string_equal(m.threads_from, "affinity mask");
}

static void variables(void **state)
{
    (void)state;
    struct lvn_machine m;
    lvn_machine_read_at(&m, root, "11111111", "6,2", NULL);
    assert_int_equal(m.threads, 6);
    assert_string_equal(m.threads_from, "OMP_NUM_THREADS");
    lvn_machine_read_at(&m, root, "11111111", "nonsense", "3");
    assert_int_equal(m.threads, 3);
    assert_string_equal(m.threads_from, "OMP_THREAD_LIMIT");
    static const char *const ignored[] = {"0", "-1", "abc", "4x", "4097", "99999999999", "99999999999999999999"};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        lvn_machine_read_at(&m, root, "11111111", ignored[i], NULL);
        assert_int_equal(m.requested, -1);
        assert_int_equal(m.threads, 4);
        assert_string_equal(m.threads_from, "physical cores");
    }
    lvn_machine_read_at(&m, root, "11111111", "", "2147483647");
    assert_int_equal(m.requested, 0);
    assert_int_equal(m.threads, 4);
    lvn_machine_read_at(&m, root, "11111111", "4096", NULL);
    assert_int_equal(m.threads, LVN_MAX_THREADS);
}

static void quota_of_version_2(void **state)
{
    (void)state;
    struct lvn_machine m;
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/cpu.max", "250000 100000\n"); /* above the process's own group */
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/a/b/memory.max", "4194304\n");
    put("/sys/fs/cgroup/a/b/memory.current", "2097152\n");
    put("/sys/fs/cgroup/a/b/memory.stat",
        "anon 7\ninactive_file 1048000\nactive_file 576\n"); /* given up when needed */
    put("/sys/fs/cgroup/a/memory.max", "max\n");
    lvn_machine_read_at(&m, root, "11111111", NULL, NULL);
    assert_true(m.quota == 2.5);
    assert_int_equal(m.threads, 2);
    assert_string_equal(m.threads_from, "CPU quota");
    assert_true(m.memory_limit == 4194304 && m.memory_available == 3145728);
    assert_string_equal(m.memory_limit_from, "cgroup");
    put("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    lvn_machine_read_at(&m, root, "11111111", NULL, NULL);
    assert_int_equal(m.threads, 1);
}

/* Slurm without cgroups: the smaller limit counts, and is named. */
static void memory_of_a_job(void **state)
{
    (void)state;
    struct lvn_machine m;
    static const char *const names[] = {"SLURM_JOB_ID",       "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU",
                                        "SLURM_CPUS_ON_NODE", "SLURM_MEM_PER_GPU",  "SLURM_GPUS_ON_NODE"};
    setenv("SLURM_MEM_PER_NODE", "1", 1);
    lvn_machine_read(&m); /* no job */
    assert_true(m.memory_limit != 1 << 20);
    setenv("SLURM_JOB_ID", "7", 1);
    lvn_machine_read(&m);
    assert_true(m.memory_limit == 1 << 20 && m.memory_available < 1 << 20);
    assert_string_equal(m.memory_limit_from, "SLURM_MEM_PER_NODE");
    setenv("SLURM_MEM_PER_NODE", "0", 1); /* all of the node's */
    setenv("SLURM_MEM_PER_CPU", "1", 1);
    lvn_machine_read(&m); /* of an unknown number */
    assert_true(m.memory_limit != 1 << 20);
    setenv("SLURM_CPUS_ON_NODE", "3", 1);
    lvn_machine_read(&m);
    assert_true(m.memory_limit == 3 << 20);
    assert_string_equal(m.memory_limit_from, "SLURM_MEM_PER_CPU");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
}

static void quota_of_version_1(void **state)
{
    (void)state;
    struct lvn_machine m;
    put("/proc/self/cgroup", "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n"); /* from inside: the root is the container's own group */
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    lvn_machine_read_at(&m, root, "11111111", NULL, NULL);
    assert_true(m.quota == 3);
    assert_int_equal(m.threads, 3);
    assert_true(m.memory_limit == 0);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3000000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "2000000\n");
    put("/sys/fs/cgroup/memory/memory.stat",
        "inactive_file 5\nactive_file 5\ntotal_inactive_file 500000\ntotal_active_file 1000000\n");
    lvn_machine_read_at(&m, root, "11111111", NULL, NULL);
    assert_true(m.memory_limit == 3000000 && m.memory_available == 2500000);
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    lvn_machine_read_at(&m, root, "11111111", NULL, NULL);
    assert_int_equal(m.threads, 4);
}

static void nothing_to_read(void **state)
{
    (void)state;
    struct lvn_machine m;
    lvn_machine_read_at(&m, "/nowhere", "11", NULL, NULL);
    assert_int_equal(m.cores, 2);
    assert_int_equal(m.threads, 2);
    assert_true(lvn_threads_default() >= 1);
    assert_true(lvn_memory_resident() > 0 && lvn_memory_peak() >= lvn_memory_resident() / 2);
}

static char last[256];
static void sink(void *context, enum lvn_log_level level, const char *text)
{
    snprintf(last, sizeof last, "%s %d %s", (const char *)context, level, text);
}

static void log_lines(void **state)
{
    (void)state;
    lvn_log(LVN_LOG_ERROR, "nobody hears this");
    lvn_log_set(sink, "to", LVN_LOG_INFO);
    lvn_log(LVN_LOG_WARN, "%d things", 3);
    assert_string_equal(last, "to 1 3 things");
    lvn_log(LVN_LOG_DEBUG, "too much");
    assert_string_equal(last, "to 1 3 things");
    lvn_log_set(NULL, NULL, LVN_LOG_INFO);
}

/* Half of the CPUs for two seconds; a clock that counts nothing. */
static void share_of_others(void **state)
{
    (void)state;
    const double cpus = (double)sysconf(_SC_NPROCESSORS_ONLN);
    const struct lvn_machine_load from = {.wall = 1, .others = 5}, to = {.wall = 3, .others = 5 + cpus}, none = {0};
    assert_true(lvn_machine_share_of_others(&from, &to) == 0.5);
    assert_true(lvn_machine_share_of_others(&to, &to) == 0);
    assert_true(lvn_machine_share_of_others(&none, &none) == 0);
    const struct lvn_machine_load a = lvn_machine_load_read(), b = lvn_machine_load_read();
    assert_true(b.wall >= a.wall && a.wall > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(physical_cores, fresh, cleared),
        cmocka_unit_test_setup_teardown(affinity, fresh, cleared),
        cmocka_unit_test_setup_teardown(variables, fresh, cleared),
        cmocka_unit_test_setup_teardown(quota_of_version_2, fresh, cleared),
        cmocka_unit_test_setup_teardown(quota_of_version_1, fresh, cleared),
        cmocka_unit_test(memory_of_a_job),
        cmocka_unit_test(nothing_to_read),
        cmocka_unit_test(log_lines),
        cmocka_unit_test(share_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
