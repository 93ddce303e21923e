/* machine.h - the cores, memory and instructions that this process may use. The thread team, plans and `levin doctor`
 * use it.
 *
 * A process may have fewer cores than its machine, because of an affinity mask (taskset, Slurm), a cgroup's CPU quota
 * (containers), or OMP_NUM_THREADS. Two hardware threads of one core compute less than twice as much. Everything is
 * read from /proc and /sys, and the limits that Slurm sets from its variables; values that cannot be read are 0. */
#ifndef LVN_MACHINE_H
#define LVN_MACHINE_H

#include <stdint.h>

enum { LVN_MAX_THREADS = 4096 }; /* also for trainer.threads */

struct lvn_machine {
    char cpu[128];            /* "Intel(R) Xeon(R) Processor" */
    char features[256];       /* the relevant ones: "avx2 fma avx512f" */
    int online;               /* hardware threads of the machine */
    int allowed;              /* number of them in the affinity mask */
    int cores;                /* physical cores of the allowed hardware threads */
    double quota;             /* CPUs granted by the cgroup; 0: no limit */
    int requested;            /* OMP_NUM_THREADS; 0: not set, -1: not 1 to LVN_MAX_THREADS, and ignored */
    int threads;              /* number of threads to use; see lvn_threads_default() */
    const char *threads_from; /* origin: "OMP_NUM_THREADS", "CPU quota", "affinity mask", "physical cores" */
    int nodes;                /* NUMA nodes */
    int64_t cache[3];         /* bytes: L1 data, L2, L3 of one core */
    int64_t memory;           /* bytes of the machine */
    int64_t memory_available; /* bytes that programs can allocate now without swapping, within the limit */
    int64_t memory_limit;     /* of the cgroup or of Slurm's job on this node, the smaller one, in bytes; 0: no limit */
    const char *memory_limit_from; /* "cgroup", or the variable of Slurm; NULL: no limit */
    int64_t swap;                  /* bytes of swap in use */
    char huge_pages[16];           /* transparent huge pages: "always", "madvise", "never"; "": unknown */
};

/* Fill the whole struct for this process. */
void lvn_machine_read(struct lvn_machine *machine);
/* For tests: `root` replaces "/", `allowed` is the affinity mask, CPU 0 first, as '1' and '0' ("1101"); the last two
 * are the values of OMP_NUM_THREADS and OMP_THREAD_LIMIT (NULL: not set). */
void lvn_machine_read_at(struct lvn_machine *machine, const char *root, const char *allowed, const char *omp_threads,
                         const char *omp_limit);

/* How busy other programs keep the CPUs between two points in time. */
struct lvn_machine_load {
    double wall;   /* seconds */
    double others; /* CPU seconds of all other programs so far, and of other virtual machines if they are reported */
};
struct lvn_machine_load lvn_machine_load_read(void);
/* The fraction of all CPUs, 0 to 1; 0 if the system does not report it. */
double lvn_machine_share_of_others(const struct lvn_machine_load *from, const struct lvn_machine_load *to);

/* Bytes of this process: resident, the maximum so far, and the resident part that does not belong to files. */
int64_t lvn_memory_resident(void);
int64_t lvn_memory_peak(void);
int64_t lvn_memory_anonymous(void);
/* Bytes that programs can allocate now, within the limit; 0: unknown. */
int64_t lvn_memory_available(void);
/* Bytes that this process can still map within its limit RLIMIT_AS (ulimit -v, h_vmem of Grid Engine), at least 1;
 * INT64_MAX: no limit. */
int64_t lvn_memory_address_space(void);
/* CPUs that the process may use concurrently: its affinity mask, or the quota if that is less. */
int lvn_machine_cpus(const struct lvn_machine *machine);
/* Number of threads if no option sets it: the physical cores that affinity mask and CPU quota allow, or OMP_NUM_THREADS
 * if set. At least 1. */
int lvn_threads_default(void);

#endif
