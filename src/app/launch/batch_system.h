/* batch_system.h - batch systems (PBS, LSF, Grid Engine) that assign hosts to a job and start one process on the first
 * of them; levin launch, in that process, starts the ranks.
 *
 * Each has a file batch_NAME.c and a line in batch_systems.def; launch_batch_system.c reads them. Slurm is not one of
 * them, because srun starts ranks itself. */
#ifndef LVN_BATCH_SYSTEM_H
#define LVN_BATCH_SYSTEM_H

#include <stdbool.h>

struct lvn_batch_system {
    const char *title;          /* "PBS" */
    const char *hosts_variable; /* environment variable with the path of the hosts file, which has one host per line */
    bool has_slots;     /* the second word of a line is the host's number of slots; else each line is one slot */
    const char *remote; /* remote shell with its options; used if installed, else ssh */
};

#define LVN_BATCH_SYSTEM(name) extern const struct lvn_batch_system lvn_batch_system_##name;
#include "launch/batch_systems.def"

#endif
