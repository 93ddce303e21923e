/* machine.c - see machine.h: reads /proc and /sys.
 *
 * cgroups: version 2 has one hierarchy (cpu.max, memory.max), version 1 one for each controller. The limits of all
 * ancestors apply too, so each group from this process's up to the root is read. In a container the path of the group
 * may not be visible; then the root is the container's own group.
 * https://docs.kernel.org/admin-guide/cgroup-v2.html */
#include "host/machine.h"
#include "base/text.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { CPUS = 4096, PATH = 1024 };

static bool read_text(const char *root, const char *path, char *text, size_t capacity)
{
    char full[PATH];
    text[0] = '\0';
    int n = snprintf(full, sizeof full, "%s%s", root, path);
    if (n < 0 || (size_t)n >= sizeof full) return false;
    int fd = open(full, O_RDONLY | O_CLOEXEC); /* not fopen(), which allocates and could fail for lack of memory */
    if (fd < 0) return false;
    size_t used = 0;
    for (ssize_t got; (got = read(fd, text + used, capacity - 1 - used)) > 0;) used += (size_t)got;
    text[used] = '\0';
    close(fd);
    while (used > 0 && (text[used - 1] == '\n' || text[used - 1] == ' ')) text[--used] = '\0';
    return used > 0;
}

/* The text after "key" and spaces or a colon at the start of a line; false: not found. */
static bool line_of(const char *text, const char *key, char *value, size_t capacity)
{
    size_t n = strlen(key);
    for (const char *p = text; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
        if (strncmp(p, key, n) || !strchr(" \t:", p[n])) continue;
        p += n + strspn(p + n, " \t:");
        snprintf(value, capacity, "%.*s", (int)strcspn(p, "\n"), p);
        return true;
    }
    return false;
}

/* --- cores --- */

/* Parse a list such as "0-3,8,10-11": set the entries with these indices, if below CPUS. */
static void list_read(const char *text, bool *set)
{
    long first, last;
    while (lvn_range_next(&text, &first, &last))
        for (long i = first < 0 ? 0 : first; i <= last && i < CPUS; i++) set[i] = true;
}

/* The number of cores of the allowed hardware threads: each core is counted at its first allowed thread. */
static int count_cores(const char *root, const bool *allowed, int *n_allowed)
{
    int cores = 0, threads = 0;
    for (int cpu = 0; cpu < CPUS; cpu++) {
        if (!allowed[cpu]) continue;
        threads++;
        char path[96], text[512];
        bool sibling[CPUS] = {false};
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        if (read_text(root, path, text, sizeof text)) list_read(text, sibling);
        int first = 0;
        while (first < cpu && !(sibling[first] && allowed[first])) first++;
        if (first == cpu) cores++;
    }
    *n_allowed = threads;
    return cores;
}

/* --- cgroups --- */

/* This process's group for a controller; version 2 has an empty list of controllers. */
static bool group_of(const char *text, const char *controller, char *path, size_t capacity)
{
    for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
        const char *list = strchr(p, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        if (!group) continue;
        char names[128];
        snprintf(names, sizeof names, ",%.*s,", (int)(group - list - 1), list + 1);
        char key[32];
        snprintf(key, sizeof key, ",%s,", controller);
        if (*controller ? !strstr(names, key) : strcmp(names, ",,") != 0) continue;
        snprintf(path, capacity, "%.*s", (int)strcspn(group + 1, "\n"), group + 1);
        return true;
    }
    return false;
}

/* Call read_limits(folder) for the group and all its ancestors up to the mount point. */
static void for_each_group(const char *root, const char *mount, const char *group,
                           void (*read_limits)(struct lvn_machine *machine, const char *root, const char *folder),
                           struct lvn_machine *machine)
{
    char folder[PATH];
    snprintf(folder, sizeof folder, "%s%s", mount, strcmp(group, "/") ? group : "");
    size_t stop = strlen(mount);
    for (;;) {
        read_limits(machine, root, folder);
        if (strlen(folder) <= stop) return;
        char *slash = strrchr(folder, '/');
        *slash = '\0';
    }
}

static void limit_cpus(struct lvn_machine *machine, double cpus)
{
    if (cpus > 0 && (machine->quota == 0 || cpus < machine->quota)) machine->quota = cpus;
}

static void limit_memory(struct lvn_machine *machine, double limit, double used, const char *from)
{
    if (limit <= 0 || limit >= 0x1p60) return; /* version 1 has a huge number for "no limit" */
    if (machine->memory_limit == 0 || limit < (double)machine->memory_limit) {
        machine->memory_limit = (int64_t)limit;
        machine->memory_limit_from = from;
    }
    double left = limit > used ? limit - used : 0;
    if (left < (double)machine->memory_available) machine->memory_available = (int64_t)left;
}

static double value_in(const char *root, const char *folder, const char *name)
{
    char path[PATH + 64], text[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return read_text(root, path, text, sizeof text) ? strtod(text, NULL) : 0; /* "max" yields 0 */
}

/* Bytes of files of this group in the page cache, which the system frees when a process needs memory: a group that has
 * written checkpoints is not full. In memory.stat of version 1, names that begin with total_ include descendant groups.
 */
static double cached_in(const char *root, const char *folder, const char *prefix)
{
    static const char *const names[] = {"inactive_file", "active_file"};
    char path[PATH + 64], text[8192], key[64], value[32];
    double bytes = 0;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (!read_text(root, path, text, sizeof text)) return 0;
    for (int i = 0; i < 2; i++) {
        snprintf(key, sizeof key, "%s%s", prefix, names[i]);
        if (line_of(text, key, value, sizeof value)) bytes += strtod(value, NULL);
    }
    return bytes;
}

static void read_v2(struct lvn_machine *machine, const char *root, const char *folder)
{
    char path[PATH + 64], text[64], *end;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (read_text(root, path, text, sizeof text)) {
        double quota = strtod(text, &end), period = strtod(end, NULL);
        if (end != text && period > 0) limit_cpus(machine, quota / period);
    }
    limit_memory(machine, value_in(root, folder, "memory.max"),
                 value_in(root, folder, "memory.current") - cached_in(root, folder, ""), "cgroup");
}

static void read_cpu_v1(struct lvn_machine *machine, const char *root, const char *folder)
{
    double quota = value_in(root, folder, "cpu.cfs_quota_us"), period = value_in(root, folder, "cpu.cfs_period_us");
    if (quota > 0 && period > 0) limit_cpus(machine, quota / period);
}

static void read_memory_v1(struct lvn_machine *machine, const char *root, const char *folder)
{
    limit_memory(machine, value_in(root, folder, "memory.limit_in_bytes"),
                 value_in(root, folder, "memory.usage_in_bytes") - cached_in(root, folder, "total_"), "cgroup");
}

static void read_groups(struct lvn_machine *machine, const char *root)
{
    char text[4096], group[512];
    if (!read_text(root, "/proc/self/cgroup", text, sizeof text)) return;
    if (group_of(text, "", group, sizeof group)) {
        for_each_group(root, "/sys/fs/cgroup", group, read_v2, machine);
        for_each_group(root, "/sys/fs/cgroup/unified", group, read_v2, machine);
    }
    if (group_of(text, "cpu", group, sizeof group))
        for_each_group(root, "/sys/fs/cgroup/cpu", group, read_cpu_v1, machine);
    if (group_of(text, "memory", group, sizeof group))
        for_each_group(root, "/sys/fs/cgroup/memory", group, read_memory_v1, machine);
}

/* --- the rest --- */

static void read_cpu(struct lvn_machine *machine, const char *root)
{
    static const char *const known[] = {"sse4_2",      "avx",         "f16c",     "fma",      "avx2",
                                        "avx512f",     "avx512bw",    "avx512dq", "avx512vl", "avx512_vnni",
                                        "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_bf16",
                                        "asimd",       "sve",         "sve2",     "bf16",     "i8mm"};
    char text[8192], flags[4096];
    if (!read_text(root, "/proc/cpuinfo", text, sizeof text)) return;
    if (!line_of(text, "model name", machine->cpu, sizeof machine->cpu))
        line_of(text, "CPU part", machine->cpu, sizeof machine->cpu);
    flags[0] = ' ';
    if (!line_of(text, "flags", flags + 1, sizeof flags - 2) && !line_of(text, "Features", flags + 1, sizeof flags - 2))
        return;
    strncat(flags, " ", sizeof flags - strlen(flags) - 1);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char word[32];
        snprintf(word, sizeof word, " %s ", known[i]);
        if (strstr(flags, word))
            lvn_print_append(machine->features, sizeof machine->features, "%s%s", *machine->features ? " " : "",
                             known[i]);
    }
}

static int64_t kib(const char *text, const char *key)
{
    char value[64];
    return line_of(text, key, value, sizeof value) ? strtoll(value, NULL, 10) * 1024 : 0;
}

static void read_memory(struct lvn_machine *machine, const char *root)
{
    char text[4096];
    if (read_text(root, "/proc/meminfo", text, sizeof text)) {
        machine->memory = kib(text, "MemTotal");
        machine->memory_available = kib(text, "MemAvailable");
        machine->swap = kib(text, "SwapTotal") - kib(text, "SwapFree");
    }
    if (read_text(root, "/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text)) {
        const char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;
        if (close) snprintf(machine->huge_pages, sizeof machine->huge_pages, "%.*s", (int)(close - open - 1), open + 1);
    }
    for (int i = 0; i < 8; i++) {
        char path[96], level[8], type[32], size[32];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        if (!read_text(root, path, level, sizeof level)) break;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        if (!read_text(root, path, type, sizeof type) || !strcmp(type, "Instruction")) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        if (level[0] < '1' || level[0] > '3' || !read_text(root, path, size, sizeof size)) continue;
        machine->cache[level[0] - '1'] = strtoll(size, NULL, 10) * (strchr(size, 'M') ? 1 << 20 : 1024);
    }
    if (read_text(root, "/sys/devices/system/node/online", text, sizeof text)) {
        bool set[CPUS] = {false};
        list_read(text, set);
        for (int i = 0; i < CPUS; i++) machine->nodes += set[i];
    }
}

/* The first number of a list such as "4,2"; 0: not set or empty, -1: not 1 to LVN_MAX_THREADS. */
static int threads_of(const char *list)
{
    if (!list || !*list) return 0;
    char *end;
    const long n = strtol(list, &end, 10);
    return n >= 1 && n <= LVN_MAX_THREADS && (!*end || strchr(", \t", *end)) ? (int)n : -1;
}

static void choose_threads(struct lvn_machine *machine, const char *omp_threads, const char *omp_limit)
{
    const int limit = threads_of(omp_limit); /* values above LVN_MAX_THREADS do not limit anything */
    machine->requested = threads_of(omp_threads);
    machine->threads = machine->cores > 0 ? machine->cores : 1;
    machine->threads_from = machine->allowed < machine->online ? "affinity mask" : "physical cores";
    int whole = machine->quota < 1
                    ? 1
                    : (int)machine->quota; /* threads beyond the quota are throttled in the middle of a step */
    if (machine->quota > 0 && whole < machine->threads) {
        machine->threads = whole;
        machine->threads_from = "CPU quota";
    }
    if (machine->requested > 0) {
        machine->threads = machine->requested;
        machine->threads_from = "OMP_NUM_THREADS";
    }
    if (limit > 0 && limit < machine->threads) {
        machine->threads = limit;
        machine->threads_from = "OMP_THREAD_LIMIT";
    }
}

void lvn_machine_read_at(struct lvn_machine *machine, const char *root, const char *allowed, const char *omp_threads,
                         const char *omp_limit)
{
    char text[512];
    bool set[CPUS] = {false}, online[CPUS] = {false};
    memset(machine, 0, sizeof *machine);
    for (int i = 0; allowed[i] && i < CPUS; i++) set[i] = allowed[i] == '1';
    machine->cores = count_cores(root, set, &machine->allowed);
    if (read_text(root, "/sys/devices/system/cpu/online", text, sizeof text)) list_read(text, online);
    for (int i = 0; i < CPUS; i++) machine->online += online[i];
    if (machine->online < machine->allowed) machine->online = machine->allowed;
    read_cpu(machine, root);
    read_memory(machine, root);
    read_groups(machine, root);
    choose_threads(machine, omp_threads, omp_limit);
}

/* The memory that Slurm grants a job on this node, in MiB, which a cgroup may not enforce. What other processes of the
 * job use is not known. Source: sbatch(1), output environment variables. */
static void limit_by_slurm(struct lvn_machine *machine)
{
    static const char *const names[][2] = {{"SLURM_MEM_PER_NODE", NULL},
                                           {"SLURM_MEM_PER_CPU", "SLURM_CPUS_ON_NODE"},
                                           {"SLURM_MEM_PER_GPU", "SLURM_GPUS_ON_NODE"}};
    for (size_t i = 0; getenv("SLURM_JOB_ID") && i < sizeof names / sizeof *names; i++) {
        const char *each = getenv(names[i][0]), *n = names[i][1] ? getenv(names[i][1]) : "1";
        if (each && n)
            limit_memory(machine, strtod(each, NULL) * strtod(n, NULL) * 0x1p20, (double)lvn_memory_anonymous(),
                         names[i][0]);
    }
}

void lvn_machine_read(struct lvn_machine *machine)
{
    char mask[CPUS + 1] = "1";
    cpu_set_t set[CPUS / CPU_SETSIZE];
    if (!sched_getaffinity(0, sizeof set, set)) {
        for (int i = 0; i < CPUS; i++) mask[i] = CPU_ISSET_S((size_t)i, sizeof set, set) ? '1' : '0';
    }
    lvn_machine_read_at(machine, "", mask, getenv("OMP_NUM_THREADS"), getenv("OMP_THREAD_LIMIT"));
    limit_by_slurm(machine);
}

static int64_t status_line(const char *key)
{
    char text[65536]; /* the groups of the user precede the memory */
    return read_text("", "/proc/self/status", text, sizeof text) ? kib(text, key) : 0;
}

int64_t lvn_memory_resident(void)
{
    return status_line("VmRSS");
}

int64_t lvn_memory_peak(void)
{
    return status_line("VmHWM");
}

int64_t lvn_memory_anonymous(void)
{
    return status_line("RssAnon");
}

int64_t lvn_memory_address_space(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > INT64_MAX) return INT64_MAX;
    const int64_t left = (int64_t)limit.rlim_cur - status_line("VmSize");
    return left > 1 ? left : 1;
}

int64_t lvn_memory_available(void)
{
    struct lvn_machine machine;
    lvn_machine_read(&machine);
    return machine.memory_available;
}

int lvn_machine_cpus(const struct lvn_machine *machine)
{
    const int granted = machine->quota < 1 ? 1 : (int)machine->quota;
    return machine->quota > 0 && granted < machine->allowed ? granted : machine->allowed;
}

int lvn_threads_default(void)
{
    struct lvn_machine machine;
    lvn_machine_read(&machine);
    return machine.threads;
}

/* proc(5): user, nice, system, idle, iowait, irq, softirq and steal of all CPUs, in clock ticks; user includes guests.
 */
struct lvn_machine_load lvn_machine_load_read(void)
{
    enum { IDLE = 3, WAIT = 4, STEAL = 7 };
    char text[256];
    struct timespec now, own;
    double busy = 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    if (!read_text("", "/proc/stat", text, sizeof text) || strncmp(text, "cpu ", 4) != 0) text[0] = '\0';
    char *rest = text[0] ? text + 4 : text;
    for (int i = 0; *rest && i <= STEAL; i++) {
        const double ticks = strtod(rest, &rest);
        if (i != IDLE && i != WAIT) busy += ticks;
    }
    busy /= (double)sysconf(_SC_CLK_TCK);
    const double mine = (double)own.tv_sec + 1e-9 * (double)own.tv_nsec;
    return (struct lvn_machine_load){.wall = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec, .others = busy - mine};
}

double lvn_machine_share_of_others(const struct lvn_machine_load *from, const struct lvn_machine_load *to)
{
    const double seconds = (to->wall - from->wall) * (double)sysconf(_SC_NPROCESSORS_ONLN);
    const double share = seconds > 0 ? (to->others - from->others) / seconds : 0;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}
