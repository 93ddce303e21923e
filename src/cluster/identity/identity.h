/* identity.h - which rank this process is, of how many, where; and who said so.
 *
 * One file for each family of launchers (slurm.c, openmpi.c, hydra.c, torchrun.c, ...), one line each in
 * launcher_envs.def. Rank and size always come from the same family, and the innermost launcher's evidence wins: stale
 * variables of an outer shell or of an allocation in which this process was not started as a task do not mislead. How
 * innermost is told: identity.c. */
#ifndef LVN_IDENTITY_H
#define LVN_IDENTITY_H

#include <stdbool.h>

#include "base/status.h"

struct lvn_identity {
    const char *launcher;                /* name in launcher_envs.def; "local": no launcher */
    const char *title;                 /* "Open MPI's mpirun", for people */
    int rank, size;                    /* of the run */
    int local_rank, local_size;        /* on this host; -1: the launcher does not say */
    int node, nodes;                   /* -1: the launcher does not say */
    const char *rank_from, *size_from; /* "SLURM_PROCID": the variables that gave them; "": none (local) */
    char evidence[160];                /* why this family: "started by slurmstepd (pid 812)" */
    char ignored[400];                 /* what was passed over and why, a sentence; "" */
    char host[256];
    char endpoint[300];         /* HOST:PORT where the ranks can meet, as the launcher's variables say; "": they do not */
    const char *without_mpi; /* why no MPI joins these ranks, and what to do about that; NULL: one may */
    bool one_host;           /* all ranks are on this machine: they need no other address than the loopback */
    bool launched;           /* the launcher that says so is seen to live: the other ranks are there */
    bool first; /* nothing says that another process of the run stands before it: where finding out fails, it speaks */
};

/* `first` is set whatever happens. From the environment and the processes above this one. Fails with a sentence (ARG)
 * when variables are missing, not numbers, negative or contradict. */
enum lvn_status lvn_identity_find(struct lvn_identity *out) LVN_CHECKED;

#endif
