/* identity.h - determines the rank of this process, the number of ranks, the host, and the launcher that set them.
 * engine/ranks.c calls it first; `levin doctor` prints the result.
 *
 * Each launcher (srun, Open MPI, hydra, torchrun, ...) has a row in launcher_env.c. Rank and size always come from the
 * same launcher, the innermost one with evidence (see identity.c). So stale variables of an outer shell, or of an
 * allocation in which this process was not started as a task, are not used. */
#ifndef LVN_IDENTITY_H
#define LVN_IDENTITY_H

#include "base/status.h"

struct lvn_environment;

struct lvn_identity {
    const char *launcher;       /* name in launcher_env.c; "local": no launcher */
    const char *title;          /* for display: "Open MPI's mpirun" */
    int rank, size;             /* of the run */
    int local_rank, local_size; /* on this host; -1: the launcher does not provide it */
    int node;                   /* index of this host; -1: the launcher does not provide it */
    int nodes;                  /* number of hosts; -1: the launcher does not provide it */
    const char *rank_from;      /* "SLURM_PROCID": the variable of the rank; "": none (local) */
    const char *size_from;      /* the variable of the number of ranks */
    char evidence[160];         /* why this launcher was chosen: "started by slurmstepd (pid 812)" */
    char ignored[400];          /* message about ignored variables and the reasons; "": none */
    char unconnected[256];      /* without a launcher: message about variables that number this process; "": none */
    char host[256];
    char endpoint[300];      /* HOST:PORT of the rendezvous, from the launcher's variables; "": not known */
    const char *no_endpoint; /* why it is not known, though the launcher usually sets it; NULL: nothing to say */
    const char *without_mpi; /* why no MPI connects these ranks, and what to do about it; NULL: one may */
    bool one_host;           /* all ranks are on this host: the loopback interface is sufficient */
    bool launched;           /* the launcher is running, so the other ranks exist */
    bool first;              /* this process reports an error of lvn_identity_find(); see is_first() */
};

/* Determined from the environment and the ancestors of this process. ARG with a message if variables are missing, not
 * numbers, negative or contradictory; `first` is set even then. */
enum lvn_status lvn_identity_find(struct lvn_identity *out) LVN_CHECKED;
/* lvn_identity_find() for a given environment (environment.h). */
enum lvn_status lvn_identity_find_in(struct lvn_identity *out, const struct lvn_environment *environment) LVN_CHECKED;

#endif
