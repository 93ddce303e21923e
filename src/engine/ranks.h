/* ranks.h - the ranks of a run: which rank this process is, how it reaches the others, and how all of them decide.
 *
 * `levin train`, `bench`, `evaluate`, `doctor` and the C API open one; every part of the loop calls it. Heartbeats and
 * lost ranks are cluster/rendezvous/member.h's, messages comm/comm.h's, devices devices.h's.
 *
 * Ranks never decide alone. An operation that can fail on one of them (a file that only some can read) is followed by
 * lvn_ranks_agree(): all continue, or all return the sentence of the lowest rank that failed, which rank 0 prints. A
 * single rank takes the same path. */
#ifndef LVN_RANKS_H
#define LVN_RANKS_H

#include <pthread.h>

#include "backend/backend.h"
#include "cluster/rendezvous/local_ranks.h"
#include "cluster/rendezvous/member.h"
#include "comm/comm_kind.h"
#include "settings/settings.h"

enum { LVN_HOST_TEXT = 65 }; /* longest host name that Linux allows, with its final 0 */

struct lvn_ranks {
    int rank;
    int size;
    int local_rank;               /* index of this rank among those of its host, by their ranks */
    int local_size;               /* ranks of this host */
    int hosts;                    /* how many */
    int cpu_sharers;              /* ranks of this host that may use the same CPUs as this one, itself included */
    struct lvn_identity identity; /* as the launcher's environment says */
    struct lvn_comm *comm;
    pthread_mutex_t close_lock;     /* over `comm` and `device_comm`, while they are closed or aborted */
    struct lvn_member *member;      /* heartbeats; NULL: none, or not joined yet */
    char (*host)[LVN_HOST_TEXT];    /* [size] names */
    double join_timeout;            /* seconds that the other ranks may take to join */
    struct lvn_stopped stopped;     /* after a failed start: the ranks of this host that are stopped (SIGSTOP) */
    bool lost;                      /* this process exits while other ranks may not know it */
    bool external;                  /* comm and member belong to the caller, who closes them */
    bool exclusive_devices;         /* each rank has a device of its own */
    struct lvn_comm *device_comm;   /* between the ranks' devices; NULL: their memory goes through the host's */
    struct lvn_rank_groups *groups; /* where the model is divided within groups of ranks; NULL: all are one */
    bool agreed;                    /* the error record is the same on all ranks: rank 0 prints for all */
};

/* Find out which rank this process is, and join the others with the library that s names. All ranks then compute with
 * the lowest instruction set that any of them has. so_far: the status of reading s on this rank, which is the first
 * agreement. fault: called by another thread, with *out, when a rank is lost (NULL: nothing is called). Close it
 * always, after a failure too. */
enum lvn_status lvn_ranks_open(struct lvn_ranks **out, const struct lvn_settings *s, lvn_fault_callback *fault,
                               enum lvn_status so_far) LVN_CHECKED;
void lvn_ranks_close(struct lvn_ranks *r); /* NULL: nothing */
/* The kind of communicator that connects such ranks, by trainer.transport. ARG if it wants an MPI and the launcher has
 * none. */
enum lvn_status lvn_ranks_transport(const struct lvn_identity *identity, const struct lvn_settings *s,
                                    const struct lvn_comm_kind **kind) LVN_CHECKED;
/* Ranks over the caller's communicator and heartbeat (NULL: none), which stay the caller's. */
enum lvn_status lvn_ranks_over(struct lvn_ranks **out, const struct lvn_identity *identity, struct lvn_comm *comm,
                               struct lvn_member *member) LVN_CHECKED;
/* This process is about to exit with `status`: should it print its error record? Informs the others if they do not know
 * of the failure yet. May take some seconds. */
bool lvn_ranks_is_reporter(struct lvn_ranks *r, enum lvn_status status);
/* This process is about to exit with `code` because another rank no longer answers: have the launcher end the job, too,
 * unless a levin launch does so. Any thread; does not return if that works. */
void lvn_ranks_abort(struct lvn_ranks *r, int code);
/* "rank 3 on node2" */
enum { LVN_RANK_TEXT = LVN_HOST_TEXT + 32 };
const char *lvn_ranks_name(const struct lvn_ranks *r, int rank, char text[LVN_RANK_TEXT]);

/* Threads of this rank: `given` if above 0, else its part of the threads that the ranks which share its CPUs may use;
 * 0: as many as there are. r may be NULL. */
int lvn_ranks_threads(const struct lvn_ranks *r, int64_t given);

/* --- collectives: all ranks call them in the same order --- */

/* Of these two, NULL: one rank, alone. Each rank passes its own status; all get the same one back: OK, or that of the
 * lowest rank that failed, with its sentence (and, if not all failed, its name) in every rank's error record. */
enum lvn_status lvn_ranks_agree(struct lvn_ranks *r, enum lvn_status mine) LVN_CHECKED;
/* Sums of x[0..n-1] over ranks, in place. If all ranks but one hold 0 the sum is exact. */
enum lvn_status lvn_ranks_sum(struct lvn_ranks *r, double *x, int64_t n) LVN_CHECKED;
/* Rank 0's bytes to all. */
enum lvn_status lvn_ranks_broadcast(struct lvn_ranks *r, void *x, int64_t bytes) LVN_CHECKED;
/* Rank 0's text of *bytes, which other ranks get in memory of their own (malloc'd, with a final 0). */
enum lvn_status lvn_ranks_broadcast_text(struct lvn_ranks *r, char **text, int64_t *bytes) LVN_CHECKED;
/* Bytes from a device's memory to devices' memory. */
enum lvn_status lvn_ranks_broadcast_memory(struct lvn_ranks *r, struct lvn_memory *m, int64_t offset,
                                           int64_t bytes) LVN_CHECKED;

#endif
