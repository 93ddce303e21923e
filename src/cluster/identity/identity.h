/* identity.h - which rank this process is, of how many, on which host; and which launcher says so. engine/ranks.c
 * calls it first; `levin doctor` prints it.
 *
 * One file per launcher (slurm.c, openmpi.c, hydra.c, torchrun.c, ...), and one line each in launcher_envs.def. Rank
 * and size always come from the same launcher, the innermost with evidence: stale variables of an outer shell, or of
 * an allocation in which this process was not started as a task, do not mislead. How the innermost is found:
 * identity.c. */
#ifndef LVN_IDENTITY_H
#define LVN_IDENTITY_H

#include <stdbool.h>

#include "base/status.h"

struct lvn_environment;

struct lvn_identity {
    const char *launcher;       /* name in launcher_envs.def; "local": no launcher */
    const char *title;          /* "Open MPI's mpirun", for people */
    int rank, size;             /* of the run */
    int local_rank, local_size; /* on this host; -1: not known from the launcher */
    int node;                   /* number of this host; -1: not known from the launcher */
    int nodes;                  /* number of hosts; -1: not known from the launcher */
    const char *rank_from;      /* "SLURM_PROCID": the variable of the rank; "": none (local) */
    const char *size_from;      /* the same of the number of ranks */
    char evidence[160];         /* why this launcher: "started by slurmstepd (pid 812)" */
    char ignored[400];          /* message about ignored variables and the reasons; "" */
    char host[256];
    char endpoint[300];      /* HOST:PORT where the ranks can meet, from the launcher's variables; "": not known */
    const char *without_mpi; /* why no MPI joins these ranks, and what to do about it; NULL: one may */
    bool one_host;           /* all ranks are on this host: the loopback suffices */
    bool launched;           /* the launcher is seen to run, so the other ranks exist */
    bool first; /* no evidence of an earlier process of the run: if finding out fails, this process reports the error */
};

/* Find out from the environment and the ancestors of this process. ARG with a message if variables are missing, not
 * numbers, negative or contradictory; `first` is set even then. */
enum lvn_status lvn_identity_find(struct lvn_identity *out) LVN_CHECKED;
/* lvn_identity_find() for a given environment (environment.h). */
enum lvn_status lvn_identity_find_in(struct lvn_identity *out, const struct lvn_environment *s) LVN_CHECKED;

#endif
