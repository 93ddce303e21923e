/* batch_system.h - queues that give a job hosts and start one process on the first of them: the job starts the ranks
 * itself.
 *
 * A queue is a file batch_NAME.c and its line in batch_systems.def. Slurm is none of them: srun starts ranks. */
#ifndef LVN_BATCH_SYSTEM_H
#define LVN_BATCH_SYSTEM_H

#include <stdbool.h>

struct lvn_batch_system {
    const char *title;  /* "PBS" */
    const char *file;   /* variable that names the file of hosts: one a line */
    bool counts;        /* the second word of a line is its number of slots; else each line is one */
    const char *remote; /* what reaches the job's hosts, with its options, if it is installed; else ssh does */
};

#define LVN_BATCH_SYSTEM(name) extern const struct lvn_batch_system lvn_batch_system_##name;
#include "cli/launch/batch_systems.def"

#endif
