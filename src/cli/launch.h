/* launch.h - what levin launch knows about a launch before it starts. */
#ifndef LVN_LAUNCH_H
#define LVN_LAUNCH_H

#include "cli/cli.h"
#include "cli/process.h"

enum lvn_launcher {
    LVN_LAUNCHER_DIRECT, /* one rank on this machine: no launcher */
    LVN_LAUNCHER_SRUN,
    LVN_LAUNCHER_OPENMPI,
    LVN_LAUNCHER_MPICH,
    LVN_LAUNCHER_INTEL,
};

struct lvn_host {
    const char *name;
    int slots; /* ranks that the file gives it; 0: it does not say */
    int line;
    bool here; /* this machine */
};

struct lvn_launch {
    struct lvn_cli *c;
    struct lvn_arena *arena;
    const char *self;        /* this program, by its full path */
    const char *mpi_library; /* trainer.mpi_library; "": none given */
    int ranks, per_node;     /* per_node: the most on any host */
    int cores;               /* of a host that ranks may use */
    int threads;             /* of a rank */
    bool crowded;            /* more threads than cores */
    double rank_timeout;     /* seconds */
    bool bind, training;
    struct lvn_host *hosts; /* none: this machine, or Slurm's */
    int n_hosts;
    bool allocation; /* within a Slurm job that is running */

    enum lvn_launcher launcher;
    const char *program;   /* of the launcher */
    const char *title;     /* "Open MPI 4.1.4" */
    int major;             /* of its version */
    struct lvn_words line; /* the whole command */
    struct lvn_words set;  /* NAME=VALUE, for it and all ranks */
    struct lvn_words drop; /* variables of other launchers, left over from an outer shell */
};

/* launch_hosts.c: read the file, and look at each host: it has an address, answers, stands there once, and has this
 * program. */
enum lvn_status lvn_launch_hosts(struct lvn_launch *l, const char *path) LVN_CHECKED;
enum lvn_status lvn_launch_reach(const struct lvn_launch *l) LVN_CHECKED;
/* The address of this machine that `host` (NULL: the first other one, or the loopback) sees; "a.b.c.d". And the network
 * as "a.b.c.0/24", "" where it is not known. */
enum lvn_status lvn_launch_address(const struct lvn_launch *l, const char *host, char address[64],
                                   char network[64]) LVN_CHECKED;

/* launch_find.c: which launcher there is; launch_line.c: its command line. */
enum lvn_status lvn_launch_find(struct lvn_launch *l) LVN_CHECKED;
enum lvn_status lvn_launch_line(struct lvn_launch *l) LVN_CHECKED;
/* Its environment, NAME=VALUE: that of this process as l->drop and l->set change it. */
enum lvn_status lvn_launch_environment(const struct lvn_launch *l, struct lvn_words *out) LVN_CHECKED;

/* launch_run.c: run it to its end; the exit code of this program. */
enum lvn_status lvn_launch_run(struct lvn_launch *l, int *code) LVN_CHECKED;

/* launch_output.c: lines of ranks, from the launcher's two pipes to stdout and stderr. */
struct lvn_launch_output;
enum lvn_status lvn_launch_output_new(struct lvn_launch_output **out, const struct lvn_launch *l) LVN_CHECKED;
void lvn_launch_output_free(struct lvn_launch_output *o);
/* What came from a pipe: 0 is the launcher's stdout, 1 its stderr. `n` 0: the end; a line without an end is shown. */
void lvn_launch_output_add(struct lvn_launch_output *o, int pipe, const char *text, int64_t n);
/* Take the live line away, before something else is printed. */
void lvn_launch_output_clear(struct lvn_launch_output *o);
/* Has rank 0 said anything yet? */
bool lvn_launch_output_heard(const struct lvn_launch_output *o);
/* Has anybody said why it failed or stopped? */
bool lvn_launch_output_said(const struct lvn_launch_output *o);
/* The exit code of the run by those that ranks told: 1 if any failed, else 2, 76, 75; 0: none told of a failure. */
int lvn_launch_output_code(const struct lvn_launch_output *o);

/* launch_slurm.c: the batch script. */
enum lvn_status lvn_launch_slurm(struct lvn_cli *c) LVN_CHECKED;

#endif
