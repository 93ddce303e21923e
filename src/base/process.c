/* process.c - see process.h. Linux: /proc and cgroups, version 2 and 1. */
#include "base/process.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

double lvn_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int64_t lvn_resident_bytes(void)
{
    long long total, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    if (fscanf(f, "%lld %lld", &total, &resident) != 2) resident = 0;
    fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

int64_t lvn_resident_peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

/* A number in a file; -1: no such file, or a word ("max"). */
static int64_t number_in(const char *path)
{
    long long x = -1;
    FILE *f = fopen(path, "r");
    if (!f) return -1;
    if (fscanf(f, "%lld", &x) != 1) x = -1;
    fclose(f);
    return x;
}

static int64_t meminfo_available(void)
{
    char line[128];
    long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "MemAvailable: %lld", &kib) != 1) continue;
    if (f) fclose(f);
    return kib * 1024;
}

/* What a cgroup's limit leaves in the folder `base` + the process's own path; `least` when there is no limit. */
static int64_t cut_by_cgroup(int64_t least, const char *base, const char *path, const char *limit, const char *usage)
{
    char file[1024];
    snprintf(file, sizeof file, "%s%s/%s", base, path, limit);
    int64_t most = number_in(file);
    snprintf(file, sizeof file, "%s%s/%s", base, path, usage);
    int64_t used = number_in(file);
    if (most <= 0 || used < 0 || most > INT64_MAX / 4) return least;
    int64_t left = most > used ? most - used : 1;
    return least <= 0 || left < least ? left : least;
}

int64_t lvn_available_bytes(void)
{
    int64_t bytes = meminfo_available();
    char line[512];
    FILE *f = fopen("/proc/self/cgroup", "r");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *path = strrchr(line, ':');
        if (!path) continue;
        if (strncmp(line, "0::", 3) == 0)
            bytes = cut_by_cgroup(bytes, "/sys/fs/cgroup", path + 1, "memory.max", "memory.current");
        else if (strstr(line, ":memory:"))
            bytes = cut_by_cgroup(bytes, "/sys/fs/cgroup/memory", path + 1, "memory.limit_in_bytes",
                                  "memory.usage_in_bytes");
    }
    if (f) fclose(f);
    return bytes;
}
