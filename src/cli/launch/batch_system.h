/* batch_system.h - batch systems (PBS, LSF, Grid Engine) that give a job hosts and start one process on the first of
 * them; levin launch, in that process, starts the ranks.
 *
 * Each is a file batch_NAME.c and its line in batch_systems.def; launch_batch_system.c reads them. Slurm is not among
 * them: there srun starts the ranks. */
#ifndef LVN_BATCH_SYSTEM_H
#define LVN_BATCH_SYSTEM_H

#include <stdbool.h>

struct lvn_batch_system {
    const char *title;          /* "PBS" */
    const char *hosts_variable; /* environment variable with the path of the file of hosts, one a line */
    bool has_slots;     /* the second word of a line is the host's number of slots; else each line is one slot */
    const char *remote; /* remote shell with its options, used if installed; else ssh is */
};

#define LVN_BATCH_SYSTEM(name) extern const struct lvn_batch_system lvn_batch_system_##name;
#include "cli/launch/batch_systems.def"

#endif
