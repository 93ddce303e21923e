/* launch.h - one levin launch: the request, the hosts and the launcher, one attempt, and the state that is kept over
 * attempts. Only the files of this folder use it.
 *
 * The order of a launch: launch.c reads the command line and the hosts (launch_hosts.c),
 * launch_launcher.c selects a launcher, launch_probe.c checks the hosts, launch_command_line.c builds the command,
 * launch_restart.c runs attempts (launch_attempt.c) until one succeeds or a restart cannot help. If each node has its
 * own launcher (launch_place.h), the launcher of node 0 does all this, and launch_nodes.c connects the others, which
 * run node_agent.c. ranks_launcher.c is itself a launcher, and launch_slurm.c only writes a script; neither uses this
 * struct. */
#ifndef LVN_LAUNCH_H
#define LVN_LAUNCH_H

#include <poll.h>
#include <signal.h>

#include "cli/cli.h"
#include "cli/process.h"
#include "cluster/rendezvous/membership.h"
#include "launch/launch_place.h"

enum lvn_launcher {
    LVN_LAUNCHER_DIRECT, /* one rank on this machine: no launcher */
    LVN_LAUNCHER_SRUN,
    LVN_LAUNCHER_OPENMPI,
    LVN_LAUNCHER_MPICH,
    LVN_LAUNCHER_INTEL,
    LVN_LAUNCHER_LEVIN, /* levin ranks (ranks_launcher.c) */
};

enum { LVN_HOST_FAULTS = 2 }; /* a host with this number of faults is excluded */
struct lvn_host {
    const char *name;
    int slots;           /* maximum number of ranks; 0: not in the file */
    int line;            /* line in the hosts file */
    int ranks;           /* ranks in this attempt; 0: a spare or excluded host */
    int faults;          /* how often its ranks were lost */
    bool here;           /* it is this machine */
    int connection;      /* to the launcher of this node, for the next attempt; 0: none */
    bool down;           /* the last probe failed: no response, or no connection back to this machine */
    bool no_route_back;  /* the last probe failed because the host cannot connect back to this machine */
    const char *cut_off; /* name of the host to which its link failed LVN_HOST_FAULTS times; NULL: none */
};

struct lvn_launch_logs;
struct lvn_nodes;

/* A batch system that names the hosts of a job in a file: a row of batch_systems.def. */
struct lvn_batch_system {
    const char *title;          /* "PBS" */
    const char *hosts_variable; /* environment variable with the path of the hosts file */
    bool has_slots;     /* the second word of a line is the host's number of slots; else each line is one slot */
    const char *remote; /* remote shell with its options; used if installed, else ssh */
};

struct lvn_launch {
    struct lvn_cli *c;       /* levin launch's own command line */
    struct lvn_arena *arena; /* owns all texts below */
    const char *self;        /* full path of this program */

    /* From the command line and the launched command's recipe. Set once, by launch.c. */
    struct {
        bool training;           /* the launched command is train */
        bool collective;         /* ranks run the command together; else it runs once, on this machine */
        bool tcp;                /* trainer.transport is one that levin connects itself, such as tcp */
        bool mpi;                /* trainer.transport is one that the launcher connects, such as mpi */
        bool resume;             /* the launched command has --resume */
        bool requeued;           /* Slurm has requeued the job, but ranks do not get its variables */
        const char *mpi_library; /* trainer.mpi_library; "": not set */
        const char *run;         /* run_dir of a training that saves: a folder or a URL in a store; "": none */
        const char *run_dir;     /* the folder of `run` on this machine; "": none */
        double rank_timeout;     /* trainer.rank_timeout, seconds */
        double stall_timeout;    /* trainer.stall_timeout, seconds */
        double start_timeout;    /* trainer.start_timeout, seconds */
        struct lvn_words keys;   /* key, value, key, value, ...: values that must be identical on all nodes */
        int max_restarts;        /* maximum consecutive restarts without a later checkpoint */
        int min_ranks;           /* minimum number of ranks of a restart; 0: that of the first attempt */
    } request;

    struct lvn_launch_place place; /* which node this is, if each node has its own launcher */
    struct lvn_nodes *nodes;       /* the launchers of the other nodes; NULL: none, or this is one of them */

    /* Hosts, cores and threads for the ranks. Set once; a restart changes only the hosts' state (struct lvn_host). */
    struct {
        struct lvn_host *hosts;                      /* NULL: only this machine, or the nodes of a Slurm job */
        int n_hosts;                                 /* 0 if hosts is NULL */
        const char *hosts_path;                      /* path of the hosts file */
        const struct lvn_batch_system *batch_system; /* that wrote the file; NULL: the user wrote it */
        const char *ssh;                             /* remote shell: a program and its options */
        bool in_slurm;                               /* within a running Slurm job */
        bool in_step;                                /* within a job step of one node */
        int per_node;                                /* maximum number of ranks on a host */
        int cores;                                   /* number of cores of a host that ranks may use */
        int threads;                                 /* of a rank */
        bool oversubscribed;                         /* a host has more threads than cores */
        bool bind;                                   /* bind each rank to its own cores */
    } resources;

    /* The launcher that starts the ranks. Set once, by launch_launcher.c. */
    struct {
        enum lvn_launcher kind;
        const char *program; /* its path */
        bool is_script;      /* the program is a script; the launcher is its descendant */
        const char *title;   /* "Open MPI 4.1.4" */
        int major;           /* of its version */
        const char *plugin;  /* of srun: the value of --mpi */
    } launcher;

    /* One attempt. */
    struct {
        int ranks;
        struct lvn_words line; /* the whole command */
        struct lvn_words set;  /* NAME=VALUE, for the launcher and all ranks */
        struct lvn_words drop; /* names of stale variables of other launchers, which are unset */
    } attempt;

    /* Kept from one attempt to the next. */
    struct {
        char id[33];                  /* of a training: the same for all its attempts, random or from LEVIN_JOB_ID; "":
                                         not a training */
        bool job;                     /* id is from LEVIN_JOB_ID: an earlier launch of the job may have begun the run */
        int restarts;                 /* so far */
        bool run_begun;               /* rank 0 has begun the run: a restart resumes it */
        struct lvn_launch_logs *logs; /* lines of ranks are also written there */
    } history;
};

/* launch_hosts.c: read the hosts file `path` into l->resources. ARG, with the line number, for a line that cannot be
 * parsed, a name without an address, or one machine twice. */
enum lvn_status lvn_launch_hosts(struct lvn_launch *l, const char *path) LVN_CHECKED;
/* True if the name has an address of this machine. */
bool lvn_launch_is_this_host(const char *host);
/* launch_probe.c: probe each host other than this machine. It must respond, have this program and the launcher's
 * daemon, and connect back to this machine; else ARG. */
enum lvn_status lvn_launch_check_hosts(struct lvn_launch *l) LVN_CHECKED;
/* The same before a restart: sets `down` of each host, and does not fail. */
void lvn_launch_probe(struct lvn_launch *l);
/* Append the words that run a command on `host`; the caller appends the command. */
enum lvn_status lvn_launch_add_remote_shell(struct lvn_words *words, const char *ssh, const char *host) LVN_CHECKED;
/* launch_hosts.c: map `ranks` ranks to the hosts in their order, and return the number that have a slot. */
int lvn_launch_map_ranks(struct lvn_launch *l, int ranks);
/* The nodes of the Slurm job as hosts, in the job's order. */
enum lvn_status lvn_launch_slurm_nodes(struct lvn_launch *l) LVN_CHECKED;
/* The address of this machine that the first other host with ranks can reach, as "a.b.c.d" (the loopback without such a
 * host); and its network as "a.b.c.0/24", "" if it is not known. */
enum lvn_status lvn_launch_address(const struct lvn_launch *l, char address[64], char network[64]) LVN_CHECKED;

/* launch_launcher.c: select the launcher, by --launcher or by what is installed. */
enum lvn_status lvn_launch_pick_launcher(struct lvn_launch *l) LVN_CHECKED;
/* Use levin ranks. ARG if an MPI is requested. */
enum lvn_status lvn_launch_use_levin_ranks(struct lvn_launch *l) LVN_CHECKED;
/* Path of the daemon that the launcher starts on other hosts; NULL: not known. */
const char *lvn_launch_daemon(const struct lvn_launch *l);
/* launch_command_line.c: is the variable (NAME or NAME=VALUE) passed to ranks on other hosts? */
bool lvn_launch_exports(const char *variable);
/* The command line and the variables of the next attempt, in l->attempt. */
enum lvn_status lvn_launch_build_command(struct lvn_launch *l) LVN_CHECKED;
/* The launcher's environment, NAME=VALUE: that of this process without attempt.drop and with attempt.set. */
enum lvn_status lvn_launch_environment(const struct lvn_launch *l, struct lvn_words *out) LVN_CHECKED;

/* launch_attempt.c: run l->attempt to its end. */
struct lvn_launch_result {
    int code;                  /* exit code of this program */
    bool stopped;              /* a signal requested the end */
    bool time_up;              /* only USR1 arrived: the job's time limit is near */
    int host;                  /* index of the host at fault; -1: not known */
    int link[2];               /* indices of the two hosts whose link is at fault; -1: none */
    double restart_not_before; /* lvn_seconds() until which the lost rank 0 may still write; 0: it may not */
};
enum lvn_status lvn_launch_attempt(struct lvn_launch *l, struct lvn_launch_result *result) LVN_CHECKED;

/* launch_signals.c: signals received so far. SIGCHLD is not counted: it only interrupts a wait. */
struct lvn_launch_signal_counts {
    volatile sig_atomic_t interrupts; /* INT */
    volatile sig_atomic_t stops;      /* TERM, HUP */
    volatile sig_atomic_t timeups;    /* USR1: the job's time limit is near */
};
extern struct lvn_launch_signal_counts lvn_launch_signals_seen;
/* begin: block INT, TERM, HUP, USR1 and CHLD, which are then delivered only within the next two functions; else restore
 * the signal mask. */
void lvn_launch_signals(bool begin);
/* poll(), which a signal interrupts. */
int lvn_launch_poll(struct pollfd *p, int n, double seconds);
/* Sleep; false as soon as a signal has requested the end. */
bool lvn_launch_pause(double seconds);
/* True if a signal has requested the end. */
bool lvn_launch_stop_requested(void);

/* launch_nodes.c, on node 0: listen for the launchers of the other nodes. */
enum lvn_status lvn_launch_nodes_start(struct lvn_launch *l) LVN_CHECKED;
/* Wait until all nodes have joined, at most trainer.start_timeout, and print the missing ones. Then acquire their
 * connections for an attempt; `down` is set for hosts without one. Returns early if a signal requests the end. */
enum lvn_status lvn_launch_nodes_gather(struct lvn_launch *l) LVN_CHECKED;
/* Close the acquired connections. */
void lvn_launch_close_connections(struct lvn_launch *l);
/* The launch ends with this code: notify all nodes, waiting for those that took part in the last attempt. */
void lvn_launch_nodes_end(struct lvn_launch *l, int code);

/* launch_run_state.c: true if this launch has begun its run. Reads the run's folder and, with `store`, its store. */
bool lvn_launch_run_begun(const struct lvn_launch *l, bool store);
struct lvn_run_saved {
    bool seen;    /* the folder or the store could be read from this machine */
    int64_t step; /* of the newest checkpoint in it; -1: none */
};
struct lvn_run_saved lvn_launch_run_saved(const struct lvn_launch *l);
/* In a job with an id and several nodes: true if another launcher of the job has ended the run. Reads the store. */
bool lvn_launch_run_ended(const struct lvn_launch *l);
/* Record in the run that it has ended, before other nodes are notified: a node that restarts later reads it. */
void lvn_launch_run_write_end(const struct lvn_launch *l);
/* True if the next attempt resumes: the run has begun, the command has --resume, or Slurm has requeued the job. */
bool lvn_launch_resumes(const struct lvn_launch *l);

/* launch_place.c: the hosts of a launch by nodes, each with the same number of ranks; sets the number of ranks. */
enum lvn_status lvn_launch_place_hosts(struct lvn_launch *l) LVN_CHECKED;

/* launch_restart.c: run attempts until one is final; *code: exit code of this program. */
enum lvn_status lvn_launch_with_restarts(struct lvn_launch *l, int *code) LVN_CHECKED;

/* launch_logs.c: one file per rank. Lines that arrive before the files are open are buffered; close drops lines that
 * are still buffered. `peer` (attempt.ranks entries, or NULL) has the host of each rank. */
enum lvn_status lvn_launch_logs_new(struct lvn_launch_logs **out, const struct lvn_launch *l) LVN_CHECKED;
void lvn_launch_logs_free(struct lvn_launch_logs *logs);
void lvn_launch_logs_open(struct lvn_launch_logs *logs, const struct lvn_peer *peer);
void lvn_launch_logs_close(struct lvn_launch_logs *logs);
void lvn_launch_logs_add(struct lvn_launch_logs *logs, int rank, const char *line);

/* launch_output.c: lines of ranks, from the launcher's two pipes to stdout and stderr. A longer line is divided;
 * results with --json are one line. */
enum { LVN_LAUNCH_MAX_LINE = 1 << 28 };
#define LVN_HYDRA_PREFIX_END "<rank>:" /* after "[RANK]" */
struct lvn_launch_output;
enum lvn_status lvn_launch_output_new(struct lvn_launch_output **out, const struct lvn_launch *l) LVN_CHECKED;
void lvn_launch_output_free(struct lvn_launch_output *output);
/* Text from a pipe: 0 is the launcher's stdout, 1 its stderr. n 0: end of file, which also prints a last line without a
 * newline. */
void lvn_launch_output_add(struct lvn_launch_output *output, int pipe, const char *text, int64_t n);
/* Erase the live line, before something else is printed. */
void lvn_launch_output_clear(struct lvn_launch_output *output);
/* True if rank 0 has printed a line. */
bool lvn_launch_output_started(const struct lvn_launch_output *output);
/* True if a rank has printed why it failed or stopped. */
bool lvn_launch_output_explained(const struct lvn_launch_output *output);
/* True if the launcher of another node was requested to stop. */
bool lvn_launch_output_stops(const struct lvn_launch_output *output);
/* True if the reader of stdout or stderr is gone (as with `| head`). */
bool lvn_launch_output_unread(const struct lvn_launch_output *output);
/* The run's exit code, from those that ranks reported: 1 if any failed, else 2, 76, 75; 0: no rank reported a failure.
 */
int lvn_launch_output_exit_code(const struct lvn_launch_output *output);

/* launch_slurm.c: write the batch script of --slurm. */
enum lvn_status lvn_launch_slurm(struct lvn_cli *c) LVN_CHECKED;

#endif
