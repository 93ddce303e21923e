/* launch.h - what levin launch knows about a launch before it starts. */
#ifndef LVN_LAUNCH_H
#define LVN_LAUNCH_H

#include "cli/cli.h"
#include "cli/process.h"
#include "cluster/rendezvous/membership.h"

enum lvn_launcher {
    LVN_LAUNCHER_DIRECT, /* one rank on this machine: no launcher */
    LVN_LAUNCHER_SRUN,
    LVN_LAUNCHER_OPENMPI,
    LVN_LAUNCHER_MPICH,
    LVN_LAUNCHER_INTEL,
    LVN_LAUNCHER_OWN, /* levin ranks (ranks.c) */
};

enum { LVN_HOST_FAULTS = 2 };
struct lvn_host {
    const char *name;
    int slots; /* ranks that the file gives it; 0: it does not say */
    int line;
    int ranks;           /* of this attempt; 0: a spare one, or left out */
    int faults;          /* how often its ranks were lost; so many, and it is left out: */
    bool here;           /* this machine */
    bool down;           /* it does not answer, or does not reach this machine: */
    bool quiet;          /* of these the second */
    const char *cut_off; /* twice the link between it and this host was at fault, so it is left out; NULL: it is not */
};

struct lvn_launch_logs;

struct lvn_launch {
    struct lvn_cli *c;
    struct lvn_arena *arena;
    const char *self;                   /* this program, by its full path */
    const char *mpi_library;            /* trainer.mpi_library; "": none given */
    int ranks, per_node;                /* per_node: the most on any host */
    int cores;                          /* of a host that ranks may use */
    int threads;                        /* of a rank */
    bool crowded;                       /* more threads than cores */
    double rank_timeout, stall_timeout; /* seconds */
    bool bind, training;
    bool together;                /* ranks run the command as one; else it runs once, here */
    bool tcp, mpi;                /* trainer.transport asks for it */
    const char *run;              /* run_dir of a training that keeps something, a folder or in a store; "" */
    const char *run_dir;          /* its folder on this machine; "" */
    char id[33];                  /* of a training: all its attempts have it, no other launch has; "": no training */
    bool resumes;                 /* the command says --resume */
    int max_restarts, min_ranks;  /* min_ranks 0: as many ranks as at first */
    int restart;                  /* how many restarts there have been */
    bool goes_on;                 /* the run has begun: a restart goes on with it */
    struct lvn_launch_logs *logs; /* lines of ranks also go there */
    struct lvn_host *hosts;       /* none: this machine, or Slurm's */
    int n_hosts;
    const char *hosts_path;              /* of the file that names them */
    const struct lvn_batch_system *site; /* the queue that wrote it; NULL: none */
    const char *ssh;                     /* reaches other hosts: a program and its options */
    bool allocation;                     /* within a Slurm job that is running */

    enum lvn_launcher launcher;
    const char *program;   /* of the launcher */
    bool script;           /* it is one, and what starts ranks is below it */
    const char *title;     /* "Open MPI 4.1.4" */
    int major;             /* of its version */
    struct lvn_words line; /* the whole command */
    struct lvn_words set;  /* NAME=VALUE, for it and all ranks */
    struct lvn_words drop; /* variables of other launchers, left over from an outer shell */
};

/* launch_hosts.c: read the file; each host has an address and stands there once. */
enum lvn_status lvn_launch_hosts(struct lvn_launch *l, const char *path) LVN_CHECKED;
bool lvn_launch_here(const char *host); /* is it this machine? */
/* launch_batch_system.c: the hosts that a queue has given to this job, if there is one. */
enum lvn_status lvn_launch_site(struct lvn_launch *l) LVN_CHECKED;
/* launch_probe.c: look at each host: it answers, has what it takes, and reaches this machine. */
enum lvn_status lvn_launch_reach(struct lvn_launch *l) LVN_CHECKED;
/* The same in between, for restarts: sets `down`. */
void lvn_launch_probe(struct lvn_launch *l);
/* The words that run something on a host, which is to be added. */
enum lvn_status lvn_launch_remote(struct lvn_words *w, const char *ssh, const char *host) LVN_CHECKED;
/* Give `ranks` places to the hosts in their order; how many have got one. */
int lvn_launch_map_ranks(struct lvn_launch *l, int ranks);
/* The nodes of a Slurm job as hosts, in the job's order. */
enum lvn_status lvn_launch_nodes(struct lvn_launch *l) LVN_CHECKED;
/* The address of this machine that `host` (NULL: the first other one, or the loopback) sees; "a.b.c.d". And the network
 * as "a.b.c.0/24", "" where it is not known. */
enum lvn_status lvn_launch_address(const struct lvn_launch *l, const char *host, char address[64],
                                   char network[64]) LVN_CHECKED;

/* launch_find.c: which launcher there is; launch_command_line.c: its command line. */
enum lvn_status lvn_launch_find(struct lvn_launch *l) LVN_CHECKED;
/* The program that it starts on other hosts; NULL: none that is known. */
const char *lvn_launch_daemon(const struct lvn_launch *l);
bool lvn_launch_exported(const char *variable); /* goes to ranks on other hosts */
enum lvn_status lvn_launch_line(struct lvn_launch *l) LVN_CHECKED;
/* Its environment, NAME=VALUE: that of this process as l->drop and l->set change it. */
enum lvn_status lvn_launch_environment(const struct lvn_launch *l, struct lvn_words *out) LVN_CHECKED;

/* launch_run.c: run it once, to its end. */
struct lvn_launch_end {
    int code;              /* for this program to end with */
    bool stopped, time_up; /* a signal asked for the end; of them USR1 alone did */
    int host;              /* of l->hosts, that is at fault; -1: not known */
    int link[2];           /* of l->hosts, two of which the link between them is at fault; -1: it is not */
    double quiet_at;       /* lvn_seconds() when what a lost host may still do is over */
};
enum lvn_status lvn_launch_attempt(struct lvn_launch *l, struct lvn_launch_end *end) LVN_CHECKED;
/* Signals come in during attempts and pauses only, from `begin` on. A pause is cut short by them: false. */
void lvn_launch_signals(bool begin);
bool lvn_launch_pause(double seconds);

/* launch_survivors.c: after an attempt, of which `peer` (l->ranks) was last heard. Is the rank on this machine? Ranks
 * of this machine that should be gone, as ": rank 1 on node1 (pid 17) still runs, ..."; their end. They are known by
 * the token that they were given.
 */
bool lvn_launch_is_here(const struct lvn_peer *p);
void lvn_launch_survivors(const struct lvn_launch *l, const struct lvn_peer *peer, struct lvn_text *t);
void lvn_launch_end_survivors(const struct lvn_launch *l, const struct lvn_peer *peer, const char *token);
/* Of l->hosts, where a rank ran; -1: not known. And the one whose ranks were lost before others, or did not come; else
 * that of the rank at fault; -1: several hosts, or none is known. */
int lvn_launch_host_of(const struct lvn_launch *l, const struct lvn_peer *p);
int lvn_launch_blame(const struct lvn_launch *l, const struct lvn_peer *peer, int fault_rank);

/* launch_saved.c: has this launch begun its run, as far as the run's folder says, and, with `store`, its store? */
bool lvn_launch_begun(const struct lvn_launch *l, bool store);
struct lvn_saved {
    bool seen;    /* the folder, or the store, was looked at */
    int64_t step; /* of the newest checkpoint there; -1: none */
};
struct lvn_saved lvn_launch_saved(const struct lvn_launch *l);
/* Does an attempt go on with what is saved, because the run has begun or the command says so? */
bool lvn_launch_resumes(const struct lvn_launch *l);

/* launch_restart.c: run it, and again where that can cure what happened; the exit code of this program. */
enum lvn_status lvn_launch_run(struct lvn_launch *l, int *code) LVN_CHECKED;

/* launch_logs.c: a file a rank. `peer` (l->ranks of them, or NULL) says where each one is. Lines of an attempt may come
 * before its files are open; close forgets those that are left. */
enum lvn_status lvn_launch_logs_new(struct lvn_launch_logs **out, const struct lvn_launch *l) LVN_CHECKED;
void lvn_launch_logs_free(struct lvn_launch_logs *g);
void lvn_launch_logs_open(struct lvn_launch_logs *g, const struct lvn_peer *peer);
void lvn_launch_logs_close(struct lvn_launch_logs *g);
void lvn_launch_logs_add(struct lvn_launch_logs *g, int rank, const char *line);

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
