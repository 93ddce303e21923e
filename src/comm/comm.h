/* comm.h - the communicator: collectives and messages between the ranks of a run. The engine's reductions
 * (src/engine/reduction.c), agreement between ranks and start-up call it.
 *
 * There is one interface, and a table of kinds that implement it (comm_kind.h). A request names memory by its address:
 * the host's, or that of the device which the communicator was opened with (lvn_comm_device()).
 *
 * Every call starts an operation and returns at once; lvn_comm_wait() waits. In host memory all calls of the transport
 * (MPI or TCP) are made by one thread of the communicator, which opened it, so any thread level of an MPI will do. That
 * thread takes requests from a queue, polls those in progress, and sleeps longer and longer between polls while nobody
 * waits. It never blocks in a call, so a dead peer blocks nobody; the heartbeat (cluster/rendezvous/member.h)
 * detects lost ranks and ends the process.
 *
 * In a device's memory a request is put into a queue of the device, behind what programs have launched so far; after
 * lvn_comm_wait() programs that are launched later find its result, and the processor has waited for nothing. So both
 * may be captured within a program. One thread makes these calls.
 *
 * Collectives must be started in the same order on every rank. `self` is a full communicator: one rank is not a
 * special case.
 *
 * Sums in a fixed order: lvn_comm_tree_reduce() adds what the ranks hold of one binary tree over numbered leaves, so
 * the result has the same bits for every number of ranks (docs/numerics.md). */
#ifndef LVN_COMM_H
#define LVN_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/tensor.h"

struct lvn_comm;
struct lvn_comm_kind;
struct lvn_device;

enum { LVN_COMM_ID = 128 };
struct lvn_comm_options {
    int rank, size;                   /* from the launcher; 0 of 1: the communicator is `self` */
    const struct lvn_comm_kind *kind; /* NULL: the first of its table that meets by what is given here */
    const char *library;              /* trainer.mpi_library; "" or NULL: the library of the launcher */
    const char
        *launcher;  /* the launcher, a name of cluster/identity/launcher_envs.def: decides which MPI libraries fit */
    double timeout; /* seconds that joining the other ranks may take; 0: no limit */
    int cpu;        /* 1 + the CPU that the communicator's thread is bound to; 0: not bound */
    int per_host;   /* ranks per host; 0: all are on one host, until lvn_comm_set_hosts() */
    const int *sockets; /* [size] connected sockets to the other ranks, which the communicator then owns; NULL: none */
    int64_t cut;        /* bytes of the longest single message; 0: the default (other values are for tests) */
    /* For kinds that carry the memory of devices: */
    struct lvn_device *device; /* of this rank */
    struct lvn_comm *over;     /* a communicator between the processors of the same ranks, which outlives this one */
    const char *host;          /* of this rank, for messages */
    char id[LVN_COMM_ID];      /* of the group of ranks; lvn_comm_open() sets it */
};

/* Open a communicator. Refuses, with the remedy, an MPI library that does not belong to the launcher: one in which
 * every process is rank 0 of 1. */
enum lvn_status lvn_comm_open(struct lvn_comm **out, const struct lvn_comm_options *o) LVN_CHECKED;
void lvn_comm_close(
    struct lvn_comm *c); /* NULL: nothing. Collective: all ranks call it; a process that ends after a fault need not */
/* Have the launcher end all processes of the run with this code, also those that no longer answer (MPI_Abort). Any
 * thread may call. Returns where that is impossible, or has not happened within `seconds`. */
void lvn_comm_abort(struct lvn_comm *c, int code, double seconds);
/* This process is about to end: make what is in progress between devices end at once, and fail with COMM. Any thread
 * may call; takes long at times. Does nothing where the processors' memory is carried. */
void lvn_comm_cancel(struct lvn_comm *c);
/* Divide the ranks into groups, as MPI_Comm_split() does: those that pass the same colour, 0 or above, become a
 * communicator *out of their own, in which they are numbered by key, and by their rank in c where keys are equal. A
 * colour below 0: this rank is in no group, and *out is NULL. All ranks of c call it, while nothing is in progress on
 * c. The result has the bits of a communicator that was opened with so many ranks on one host (see
 * lvn_comm_set_hosts()).
 *
 * Requests of several groups, and of c, may be in progress at once; ranks which share two of them start collectives of
 * both in any order. Close a group before c. UNSUPPORTED, on all ranks, if the kind of communicator has no groups. */
enum lvn_status lvn_comm_split(struct lvn_comm *c, struct lvn_comm **out, int colour, int key) LVN_CHECKED;
int lvn_comm_rank(const struct lvn_comm *c);
int lvn_comm_size(const struct lvn_comm *c);
/* Tell the communicator that the ranks are on `hosts` hosts, as many on each, with consecutive numbers; sums make
 * use of that. All ranks call it with the same number, while no operation is in progress and no tree exists. */
enum lvn_status lvn_comm_set_hosts(struct lvn_comm *c, int hosts) LVN_CHECKED;
/* The device whose memory requests name; NULL: host memory. */
const struct lvn_device *lvn_comm_device(const struct lvn_comm *c);
/* "Open MPI 4.1.4 (/usr/lib/.../libmpi.so.40), as mpirun is Open MPI's", for people. */
const char *lvn_comm_describe(const struct lvn_comm *c);

/* An operation in progress. The caller owns the struct, and must not touch it or the buffers until lvn_comm_wait()
 * has returned. All other fields are the communicator's. */
struct lvn_request {
    int done;                 /* written by the communicator's thread: read it by lvn_request_done() */
    int64_t number;           /* number of collectives started before it, the same on every rank; -1: a message */
    enum lvn_status status;   /* valid once done */
    struct lvn_request *next; /* next in its queue */
    struct lvn_engine_group *group;
    int kind, type, op, peer, tag, busy;
    bool gather;
    void *x;
    void *const *partial;
    const int64_t *first;
    int64_t count, at;
    struct lvn_tree *tree;
    void *handle[2];
    void (*call)(void *state, void *argument);
};

enum lvn_reduce { LVN_SUM, LVN_MIN, LVN_MAX };

/* Element types: F32, F64, I32, I64 and, for LVN_SUM, BF16 (summed in fp32, rounded once within a host, and once
 * between hosts, or groups of many ranks; a device's library has rules of its own). Counts may exceed 2^31. All are in
 * place. The result has the same bits on all ranks, and in every repetition on the same ranks. */
void lvn_comm_all_reduce(struct lvn_comm *c, struct lvn_request *r, void *x, int64_t count, enum lvn_dtype type,
                         enum lvn_reduce op);
/* Rank i receives the sum of elements [first[i], first[i + 1]), in their place; the rest of x is undefined
 * afterwards. `first` has size + 1 entries, and must stay until the request is done. F32, F64, BF16. */
void lvn_comm_reduce_scatter(struct lvn_comm *c, struct lvn_request *r, void *x, const int64_t *first,
                             enum lvn_dtype type);
/* Rank i contributes elements [first[i], first[i + 1]); afterwards all ranks have all elements. Any type. */
void lvn_comm_all_gather(struct lvn_comm *c, struct lvn_request *r, void *x, const int64_t *first, enum lvn_dtype type);
void lvn_comm_broadcast(struct lvn_comm *c, struct lvn_request *r, void *x, int64_t bytes, int root);
/* Messages to and from other ranks than this one. Tags are 0..16383. Messages between the same two ranks with the
 * same tag arrive in the order in which they were started; the receiver passes the same number of bytes as the
 * sender. */
void lvn_comm_send(struct lvn_comm *c, struct lvn_request *r, const void *x, int64_t bytes, int to, int tag);
void lvn_comm_receive(struct lvn_comm *c, struct lvn_request *r, void *x, int64_t bytes, int from, int tag);
/* Is it done? Does not wait. */
bool lvn_request_done(const struct lvn_request *r);
/* Wait until it is done. Fails with COMM if the communicator has failed. Any thread may wait. */
enum lvn_status lvn_comm_wait(struct lvn_comm *c, struct lvn_request *r) LVN_CHECKED;
/* Wait at most `seconds`; false: it is not done, and request and buffers still belong to the communicator. */
bool lvn_comm_wait_for(struct lvn_comm *c, struct lvn_request *r, double seconds);

/* Blocking calls, for small data between steps. */
enum lvn_status lvn_comm_all_reduce_now(struct lvn_comm *c, void *x, int64_t count, enum lvn_dtype type,
                                        enum lvn_reduce op) LVN_CHECKED;
enum lvn_status lvn_comm_broadcast_now(struct lvn_comm *c, void *x, int64_t bytes, int root) LVN_CHECKED;

/* --- a sum in the fixed order of a tree (comm/tree.h) ---
 *
 * partial[k] (first[size] elements each) is the sum of this rank's k-th subtree, k < lvn_subtrees(...). Rank i
 * receives elements [first[i], first[i + 1]) of the total in their place in `out`; with `gather` every rank receives
 * all of it. `out` may be one of the partials. The partials are undefined afterwards, and without `gather` so are
 * the other elements of `out`. F32, F64, BF16 (every node of the tree is rounded, as the partials must be). Arrays
 * must stay until the request is done. */
void lvn_comm_tree_reduce(struct lvn_comm *c, struct lvn_request *r, struct lvn_tree *t, void *const *partial,
                          void *out, const int64_t *first, enum lvn_dtype type, bool gather);

#endif
