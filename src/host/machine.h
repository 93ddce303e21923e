/* machine.h - what this process may use of the machine: cores, memory, instructions.
 *
 * A machine's cores are not a process's: an affinity mask (taskset, Slurm), a cgroup's CPU quota (containers) and
 * OMP_NUM_THREADS each make them fewer, and two hardware threads of one core do not compute twice as much. All is read
 * from /proc and /sys; what cannot be read is left at 0. */
#ifndef LVN_MACHINE_H
#define LVN_MACHINE_H

#include <stdint.h>

struct lvn_machine {
    char cpu[128];            /* "Intel(R) Xeon(R) Processor" */
    char features[256];       /* those that matter here, "avx2 fma avx512f" */
    int online;               /* hardware threads of the machine */
    int allowed;              /* of them, in the affinity mask */
    int cores;                /* physical cores that those belong to */
    double quota;             /* CPUs that the cgroup grants; 0: no limit */
    int threads;              /* to use: see lvn_threads_default() */
    const char *threads_from; /* what decided: "OMP_NUM_THREADS", "CPU quota", "affinity mask", "physical cores" */
    int nodes;                /* of memory (NUMA) */
    int64_t cache[3];         /* bytes: L1 data, L2, L3 of one core */
    int64_t memory;           /* bytes of the machine */
    int64_t memory_available; /* that programs can get now without swapping, within the limit */
    int64_t memory_limit;     /* of the cgroup; 0: none */
    int64_t swap;             /* bytes of swap in use */
    char huge_pages[16];      /* transparent ones: "always", "madvise", "never"; "" not known */
};

/* Everything, about this process. */
void lvn_machine_read(struct lvn_machine *m);
/* For tests: `root` stands for "/", `allowed` CPUs 0..n-1 of the mask as '1' and '0' ("1101"), and what the variables
 * OMP_NUM_THREADS and OMP_THREAD_LIMIT hold (NULL: not set). */
void lvn_machine_read_at(struct lvn_machine *m, const char *root, const char *allowed, const char *omp_threads,
                         const char *omp_limit);

/* Bytes of this process in memory now, at most so far, and the part of the first that is not files. */
int64_t lvn_memory_resident(void);
int64_t lvn_memory_peak(void);
int64_t lvn_memory_anonymous(void);
/* Bytes that programs can get now, within the limit; 0: not known. */
int64_t lvn_memory_available(void);
/* How many threads to use when nobody says: physical cores that the affinity mask and the cgroup's CPU quota allow,
 * or OMP_NUM_THREADS where that is set. At least 1. */
int lvn_threads_default(void);

#endif
