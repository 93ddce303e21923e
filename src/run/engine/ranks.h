/* ranks.h - the ranks of a run: the identity of this process, its communicators, and collective decisions.
 *
 * `levin train`, `bench`, `evaluate`, `doctor` and the C API open one; every part of the loop calls it. See
 * cluster/rendezvous/member.h for heartbeats and lost ranks, comm/comm.h for messages, devices.h for devices.
 *
 * Ranks never decide alone. An operation that can fail on one of them (a file that only some can read) is followed by
 * lvn_ranks_agree(): all continue, or all return the message of the lowest rank that failed, which rank 0 prints. A
 * single rank runs the same code. */
#ifndef LVN_RANKS_H
#define LVN_RANKS_H

#include <pthread.h>

#include "backend/backend.h"
#include "cluster/rendezvous/local_ranks.h"
#include "cluster/rendezvous/member.h"
#include "comm/comm_kind.h"
#include "options/values.h"

enum { LVN_HOST_TEXT = 65 }; /* longest host name that Linux allows, including its NUL */

struct lvn_ranks {
    int rank;
    int size;
    int local_rank;               /* index of this rank among those of its host */
    int local_size;               /* number of ranks of this host */
    int hosts;                    /* number of hosts */
    int cpu_sharers;              /* number of ranks of this host, including this one, that may use the same CPUs */
    struct lvn_identity identity; /* from the launcher's environment */
    struct lvn_comm *comm;
    pthread_mutex_t close_lock;     /* protects `comm` and `device_comm` while they are closed or aborted */
    struct lvn_member *member;      /* heartbeats; NULL: none, or not joined yet */
    char (*host)[LVN_HOST_TEXT];    /* [size] names */
    double join_timeout;            /* seconds to wait for other ranks to join */
    struct lvn_stopped stopped;     /* after a failed start: the ranks of this host that are stopped (SIGSTOP) */
    bool lost;                      /* this process exits while other ranks may not know it */
    bool external;                  /* the caller owns and closes comm and member */
    bool exclusive_devices;         /* each rank has its own device */
    int device_sharers;             /* number of ranks, including this one, that use its device; 0: not compared */
    bool shared_cards;              /* two of these devices are parts of one card (MIG) */
    struct lvn_comm *device_comm;   /* between the ranks' devices; NULL: staged through host memory */
    struct lvn_rank_groups *groups; /* if groups of ranks shard the model; NULL: one group */
    bool agreed;                    /* the error record is the same on all ranks: rank 0 prints for all */
};

/* Determine this process's rank, and join the others with the library given in v. All ranks then compute with the
 * lowest instruction set that any of them has. so_far: the status of reading options on this rank, which is the first
 * agreement. fault: called by another thread, with *out, when a rank is lost (NULL: none). Always close it, even after
 * a failure. */
enum lvn_status lvn_ranks_open(struct lvn_ranks **out, const struct lvn_values *v, lvn_fault_callback *fault,
                               enum lvn_status so_far) LVN_CHECKED;
void lvn_ranks_close(struct lvn_ranks *r); /* does nothing if r is NULL */
/* The kind of communicator that connects these ranks, by trainer.transport. ARG: it requires an MPI, and the launcher
 * has none. */
enum lvn_status lvn_ranks_transport(const struct lvn_identity *identity, const struct lvn_values *v,
                                    const struct lvn_comm_kind **kind) LVN_CHECKED;
/* Ranks over a communicator and a heartbeat (NULL: none) that the caller owns. */
enum lvn_status lvn_ranks_over(struct lvn_ranks **out, const struct lvn_identity *identity, struct lvn_comm *comm,
                               struct lvn_member *member) LVN_CHECKED;
/* Before this process exits with `status`: report the failure of this rank to the server if it does not know of it yet,
 * and wait some seconds for its decision. True: this process prints the error. */
bool lvn_ranks_report_end(struct lvn_ranks *r, enum lvn_status status);
/* Before this process exits with `code` because another rank no longer answers: make the launcher end the job, unless a
 * levin launch does so. Any thread; does not return on success. */
void lvn_ranks_abort(struct lvn_ranks *r, int code);
/* "rank 3 on node2" */
enum { LVN_RANK_TEXT = LVN_HOST_TEXT + 32 };
const char *lvn_ranks_name(const struct lvn_ranks *r, int rank, char text[LVN_RANK_TEXT]);

/* Threads of this rank: `given` if above 0, otherwise its part of the threads of the ranks that share its CPUs; 0: one
 * per CPU. r may be NULL. */
int lvn_ranks_threads(const struct lvn_ranks *r, int64_t given);

/* --- collectives: all ranks call them in the same order --- */

/* r may be NULL here and in lvn_ranks_sum(): one rank. Each rank passes its status, and all get the same one back: OK,
 * or that of the lowest rank that failed (by itself, if one did: lvn_comm_follows()), with its message (and, if not all
 * failed, its name) in every rank's error record. */
enum lvn_status lvn_ranks_agree(struct lvn_ranks *r, enum lvn_status mine) LVN_CHECKED;
/* Sums of x[0..n-1] over ranks, in place. If all ranks but one pass 0, the sum is exact. */
enum lvn_status lvn_ranks_sum(struct lvn_ranks *r, double *x, int64_t n) LVN_CHECKED;
/* Send rank 0's bytes to all. */
enum lvn_status lvn_ranks_broadcast(struct lvn_ranks *r, void *x, int64_t bytes) LVN_CHECKED;
/* Send rank 0's text of *bytes; other ranks get it in allocated, NUL-terminated memory, which they free. */
enum lvn_status lvn_ranks_broadcast_text(struct lvn_ranks *r, char **text, int64_t *bytes) LVN_CHECKED;
/* Broadcast rank 0's bytes between memories of devices. */
enum lvn_status lvn_ranks_broadcast_memory(struct lvn_ranks *r, struct lvn_memory *m, int64_t offset,
                                           int64_t bytes) LVN_CHECKED;

#endif
