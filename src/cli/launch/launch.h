/* launch.h - one levin launch: what was asked for, the hosts and the launcher found, one attempt, and what lasts over
 * attempts.
 *
 * Used by the files of this folder alone. The order of a launch: launch.c reads the command line and the hosts
 * (launch_hosts.c, launch_batch_system.c), launch_launcher.c picks a launcher, launch_probe.c checks the hosts,
 * launch_command_line.c builds the command, launch_restart.c runs attempts (launch_attempt.c) until one succeeds or no
 * restart can help. Where each node has a launcher of its own (launch_place.h), that of node 0 does all this, for which
 * launch_nodes.c gathers the others; these run node_agent.c instead. ranks.c is a launcher of its own, and
 * launch_slurm.c only writes a script: neither uses this struct.
 */
#ifndef LVN_LAUNCH_H
#define LVN_LAUNCH_H

#include <poll.h>
#include <signal.h>

#include "cli/cli.h"
#include "cli/launch/launch_place.h"
#include "cli/process.h"
#include "cluster/rendezvous/membership.h"

enum lvn_launcher {
    LVN_LAUNCHER_DIRECT, /* one rank on this machine: no launcher */
    LVN_LAUNCHER_SRUN,
    LVN_LAUNCHER_OPENMPI,
    LVN_LAUNCHER_MPICH,
    LVN_LAUNCHER_INTEL,
    LVN_LAUNCHER_LEVIN, /* levin ranks (ranks.c) */
};

enum { LVN_HOST_FAULTS = 2 }; /* after this many faults a host is left out */
struct lvn_host {
    const char *name;
    int slots;           /* ranks that it may take; 0: the file does not say */
    int line;            /* of the hosts file */
    int ranks;           /* of this attempt; 0: a spare host, or one that is left out */
    int faults;          /* how often its ranks were lost */
    bool here;           /* it is this machine */
    int connection;      /* to the launcher of this node, for the next attempt; 0: there is none */
    bool down;           /* the last probe failed: no answer, or no connection back to this machine */
    bool no_route_back;  /* the last probe failed because the host cannot connect back to this machine */
    const char *cut_off; /* name of the host to which its link failed LVN_HOST_FAULTS times; NULL: none */
};

struct lvn_launch_logs;
struct lvn_nodes;

struct lvn_launch {
    struct lvn_cli *c;       /* levin launch's own command line */
    struct lvn_arena *arena; /* all texts below live in it */
    const char *self;        /* this program, by its full path */

    /* From the command line and the launched command's recipe. Set once, by launch.c. */
    struct {
        bool training;           /* the launched command is train */
        bool collective;         /* ranks run the command together; else it runs once, on this machine */
        bool tcp;                /* trainer.transport is one that levin itself connects, as tcp */
        bool mpi;                /* trainer.transport is one that the launcher connects, as mpi */
        bool resume;             /* the launched command has --resume */
        const char *mpi_library; /* trainer.mpi_library; "": none given */
        const char *run;         /* run_dir of a training that saves: a folder or an address in a store; "": none */
        const char *run_dir;     /* the folder of `run` on this machine; "": none */
        double rank_timeout;     /* trainer.rank_timeout, seconds */
        double stall_timeout;    /* trainer.stall_timeout, seconds */
        double start_timeout;    /* trainer.start_timeout, seconds */
        struct lvn_words keys;   /* key, value, key, value, ...: what all nodes must have alike */
        int max_restarts;        /* in a row without a later checkpoint */
        int min_ranks;           /* of a restart; 0: as many ranks as at first */
    } request;

    struct lvn_launch_place place; /* which node this is, where nodes have launchers of their own */
    struct lvn_nodes *nodes;       /* the launchers of the other nodes; NULL: there are none, or this is one of them */

    /* Hosts, cores and threads for the ranks. Found once; a restart changes only the hosts' state (struct lvn_host). */
    struct {
        struct lvn_host *hosts;                      /* NULL: this machine alone, or the nodes of a Slurm job */
        int n_hosts;                                 /* 0 where hosts is NULL */
        const char *hosts_path;                      /* of the file that names the hosts */
        const struct lvn_batch_system *batch_system; /* that wrote the file; NULL: the user did */
        const char *ssh;                             /* remote shell: a program and its options */
        bool in_slurm;                               /* within a Slurm job that is running */
        int per_node;                                /* most ranks on any host */
        int cores;                                   /* of a host that ranks may use */
        int threads;                                 /* of a rank */
        bool oversubscribed;                         /* a host has more threads than cores */
        bool bind;                                   /* pin each rank to cores of its own */
    } resources;

    /* The launcher that starts the ranks. Found once, by launch_launcher.c. */
    struct {
        enum lvn_launcher kind;
        const char *program; /* its path */
        bool is_script;      /* the program is a script: the launcher is a process below it */
        const char *title;   /* "Open MPI 4.1.4" */
        int major;           /* of its version */
    } launcher;

    /* One attempt. */
    struct {
        int ranks;
        struct lvn_words line; /* the whole command */
        struct lvn_words set;  /* NAME=VALUE, for the launcher and all ranks */
        struct lvn_words drop; /* names of variables of other launchers, left over from an outer shell */
    } attempt;

    /* Kept from one attempt to the next. */
    struct {
        char id[33];                  /* of a training: the same for all its attempts, random or from LEVIN_JOB_ID; "":
                                         no training */
        bool job;                     /* id is from LEVIN_JOB_ID: an earlier launch of the job may have begun the run */
        int restarts;                 /* so far */
        bool run_begun;               /* rank 0 has begun the run: a restart resumes it */
        struct lvn_launch_logs *logs; /* lines of ranks also go there */
    } history;
};

/* launch_hosts.c: read the hosts file `path` into l->resources. ARG, with the line's number: a line that is not
 * understood, a name without an address, one machine twice. */
enum lvn_status lvn_launch_hosts(struct lvn_launch *l, const char *path) LVN_CHECKED;
/* Has the name an address of this machine? */
bool lvn_launch_is_this_host(const char *host);
/* launch_batch_system.c: the hosts that a batch system has given to this job; none where there is no such job. */
enum lvn_status lvn_launch_batch_hosts(struct lvn_launch *l) LVN_CHECKED;
/* launch_probe.c: probe each host other than this machine. It must answer, have this program and the launcher's daemon,
 * and connect back to this machine; else ARG. */
enum lvn_status lvn_launch_check_hosts(struct lvn_launch *l) LVN_CHECKED;
/* The same before a restart: sets `down` of each host, and fails for none. */
void lvn_launch_probe(struct lvn_launch *l);
/* Add the words that run a command on `host`; the command is to be added behind them. */
enum lvn_status lvn_launch_add_remote_shell(struct lvn_words *w, const char *ssh, const char *host) LVN_CHECKED;
/* launch_hosts.c: map `ranks` ranks to the hosts in their order, and return how many have found a slot. */
int lvn_launch_map_ranks(struct lvn_launch *l, int ranks);
/* The nodes of the Slurm job as hosts, in the job's order. */
enum lvn_status lvn_launch_slurm_nodes(struct lvn_launch *l) LVN_CHECKED;
/* The address of this machine that `host` reaches, as "a.b.c.d" (NULL: that the first other host with ranks reaches,
 * or the loopback where there is none); and its network as "a.b.c.0/24", "" where it is not known. */
enum lvn_status lvn_launch_address(const struct lvn_launch *l, const char *host, char address[64],
                                   char network[64]) LVN_CHECKED;

/* launch_launcher.c: pick the launcher, by --launcher or by what is installed. */
enum lvn_status lvn_launch_pick_launcher(struct lvn_launch *l) LVN_CHECKED;
/* Take levin ranks. ARG if an MPI is asked for. */
enum lvn_status lvn_launch_use_levin_ranks(struct lvn_launch *l) LVN_CHECKED;
/* Path of the daemon that the launcher starts on other hosts; NULL: not known. */
const char *lvn_launch_daemon(const struct lvn_launch *l);
/* launch_command_line.c: is the variable (NAME or NAME=VALUE) passed to ranks on other hosts? */
bool lvn_launch_exports(const char *variable);
/* The command line and the variables of the next attempt, into l->attempt. */
enum lvn_status lvn_launch_build_command(struct lvn_launch *l) LVN_CHECKED;
/* The launcher's environment, NAME=VALUE: that of this process without attempt.drop and with attempt.set. */
enum lvn_status lvn_launch_environment(const struct lvn_launch *l, struct lvn_words *out) LVN_CHECKED;

/* launch_attempt.c: run l->attempt to its end. */
struct lvn_launch_result {
    int code;                  /* for this program to exit with */
    bool stopped;              /* a signal asked for the end */
    bool time_up;              /* of the signals only USR1 came: the job's time runs out */
    int host;                  /* index of the host at fault; -1: not known */
    int link[2];               /* indices of the two hosts whose link is at fault; -1: none is */
    double restart_not_before; /* lvn_seconds() until which the lost rank 0 may still write; 0: it may not */
};
enum lvn_status lvn_launch_attempt(struct lvn_launch *l, struct lvn_launch_result *result) LVN_CHECKED;

/* launch_signals.c: signals so far. SIGCHLD is not counted: it only interrupts a wait. */
struct lvn_launch_signal_counts {
    volatile sig_atomic_t interrupts; /* INT */
    volatile sig_atomic_t stops;      /* TERM, HUP */
    volatile sig_atomic_t timeups;    /* USR1: the job's time runs out */
};
extern struct lvn_launch_signal_counts lvn_launch_signals_seen;
/* begin: block INT, TERM, HUP, USR1 and CHLD, which from then on arrive only within the next two functions; else
 * restore the signal mask. */
void lvn_launch_signals(bool begin);
/* poll(), which a signal interrupts. */
int lvn_launch_poll(struct pollfd *p, int n, double seconds);
/* Sleep; false as soon as a signal has asked for the end. */
bool lvn_launch_pause(double seconds);
/* Has one asked for it? */
bool lvn_launch_stop_requested(void);

/* launch_nodes.c, on node 0: listen for the launchers of the other nodes. */
enum lvn_status lvn_launch_nodes_start(struct lvn_launch *l) LVN_CHECKED;
/* Wait until all nodes are here, at most trainer.start_timeout, and say who is waited for. Then take their connections
 * for an attempt: `down` of the hosts says who is not here. Ends early when a signal asks for the end. */
void lvn_launch_nodes_gather(struct lvn_launch *l);
/* Close the connections that were taken. */
void lvn_launch_close_connections(struct lvn_launch *l);
/* The launch ends with this code: tell all nodes, waiting for those that took part in the last attempt. */
void lvn_launch_nodes_end(struct lvn_launch *l, int code);

/* launch_survivors.c, after an attempt: `peer` has attempt.ranks entries, as the server last knew them.
 *
 * Did the rank run on this machine? */
bool lvn_launch_rank_is_here(const struct lvn_peer *p);
/* Add ranks of this machine that still exist, as ": rank 1 on node1 (pid 17) still runs, ...". */
void lvn_launch_list_survivors(const struct lvn_launch *l, const struct lvn_peer *peer, struct lvn_text *t);
/* Kill them, if their environment holds the attempt's rendezvous token: another process may have the pid by now. */
void lvn_launch_end_survivors(const struct lvn_launch *l, const struct lvn_peer *peer, const char *token);
/* Index of the host where the rank ran; -1: not known. */
int lvn_launch_host_of(const struct lvn_launch *l, const struct lvn_peer *p);
/* Index of the host whose ranks were lost before others or did not come; without such ranks the host of fault_rank. -1:
 * several hosts, or not known. */
int lvn_launch_host_at_fault(const struct lvn_launch *l, const struct lvn_peer *peer, int fault_rank);

/* launch_run_state.c: has this launch begun its run? Looks at the run's folder and, with `store`, at its store. */
bool lvn_launch_run_begun(const struct lvn_launch *l, bool store);
struct lvn_run_saved {
    bool seen;    /* the folder or the store could be read from this machine */
    int64_t step; /* of the newest checkpoint there; -1: none */
};
struct lvn_run_saved lvn_launch_run_saved(const struct lvn_launch *l);
/* In a job with a name and several nodes: has another launcher of the job ended the run? Reads the store. */
bool lvn_launch_run_ended(const struct lvn_launch *l);
/* Write into the run that it has ended, before other nodes are told so: a node that starts again later reads it. */
void lvn_launch_run_write_end(const struct lvn_launch *l);
/* Does the next attempt resume: because the run has begun, the command says so, or Slurm has requeued the job? */
bool lvn_launch_resumes(const struct lvn_launch *l);

/* launch_place.c: the hosts of a launch by nodes, each with as many ranks; sets the number of ranks. */
enum lvn_status lvn_launch_place_hosts(struct lvn_launch *l) LVN_CHECKED;

/* launch_restart.c: run attempts until one ends for good; *code: for this program to exit with. */
enum lvn_status lvn_launch_with_restarts(struct lvn_launch *l, int *code) LVN_CHECKED;

/* launch_logs.c: one file a rank. Lines that come before the files are open are held back; close drops those that still
 * are. `peer` (attempt.ranks entries, or NULL) says where each rank runs. */
enum lvn_status lvn_launch_logs_new(struct lvn_launch_logs **out, const struct lvn_launch *l) LVN_CHECKED;
void lvn_launch_logs_free(struct lvn_launch_logs *g);
void lvn_launch_logs_open(struct lvn_launch_logs *g, const struct lvn_peer *peer);
void lvn_launch_logs_close(struct lvn_launch_logs *g);
void lvn_launch_logs_add(struct lvn_launch_logs *g, int rank, const char *line);

/* launch_output.c: lines of ranks, from the launcher's two pipes to stdout and stderr. A line of more bytes (results
 * with --json are one line) is divided. */
enum { LVN_LAUNCH_MAX_LINE = 1 << 28 };
#define LVN_HYDRA_PREFIX_END "<rank>:" /* behind "[RANK]" */
struct lvn_launch_output;
enum lvn_status lvn_launch_output_new(struct lvn_launch_output **out, const struct lvn_launch *l) LVN_CHECKED;
void lvn_launch_output_free(struct lvn_launch_output *o);
/* Text from a pipe: 0 is the launcher's stdout, 1 its stderr. n 0: end of file; a last line without a newline is
 * printed then. */
void lvn_launch_output_add(struct lvn_launch_output *o, int pipe, const char *text, int64_t n);
/* Erase the live line, before something else is printed. */
void lvn_launch_output_clear(struct lvn_launch_output *o);
/* Has rank 0 printed a line yet? */
bool lvn_launch_output_started(const struct lvn_launch_output *o);
/* Has any rank printed why it failed or stopped? */
bool lvn_launch_output_explained(const struct lvn_launch_output *o);
/* Has the launcher of another node been asked to stop? */
bool lvn_launch_output_stops(const struct lvn_launch_output *o);
/* Has the reader of stdout or stderr closed it, as `| head` does? */
bool lvn_launch_output_unread(const struct lvn_launch_output *o);
/* The run's exit code by those that ranks reported: 1 if any failed, else 2, 76, 75; 0: no rank reported a failure. */
int lvn_launch_output_exit_code(const struct lvn_launch_output *o);

/* launch_slurm.c: write the batch script of --slurm. */
enum lvn_status lvn_launch_slurm(struct lvn_cli *c) LVN_CHECKED;

/* launch_kubernetes.c: print the manifests of --kubernetes. */
enum lvn_status lvn_launch_kubernetes(struct lvn_cli *c) LVN_CHECKED;

#endif
