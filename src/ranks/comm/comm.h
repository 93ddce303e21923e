/* comm.h - the communicator: collectives and messages between the ranks of a run. The engine's reductions
 * (src/run/engine/collective_runner.c), agreement between ranks and start-up call it.
 *
 * One interface has several implementations, which are listed in a table of kinds (comm_kind.h). Buffers are addresses
 * in host memory, or in the memory of the device with which the communicator was opened (lvn_comm_device()).
 *
 * Every call starts an operation and returns immediately; lvn_comm_wait() waits. For host memory, one thread of the
 * communicator opens the transport (MPI or TCP) and makes all its calls, so any thread level of MPI is sufficient. The
 * thread polls its operations, and sleeps for increasing times between polls if no caller waits. It never blocks in a
 * call, so a dead peer cannot block it; the heartbeat (cluster/rendezvous/member.h) detects lost ranks and terminates
 * the process.
 *
 * For device memory, an operation is appended to a queue of the device, after the programs launched so far. Programs
 * launched after lvn_comm_wait() see its result, and the CPU does not wait. So both calls may be captured within a
 * program. All these calls are made by one thread.
 *
 * All ranks must start collectives in the same order. `self` implements all calls for one rank, so callers need no
 * special case.
 *
 * Sums in a fixed order: lvn_comm_tree_reduce() adds the ranks' parts of one binary tree over numbered leaves, so the
 * result has the same bits for every number of ranks (docs/numerics.md). */
#ifndef LVN_COMM_H
#define LVN_COMM_H

#include "base/status.h"
#include "base/tensor.h"

struct lvn_comm;
struct lvn_comm_kind;
struct lvn_device;

enum { LVN_COMM_ID = 128 };
struct lvn_comm_options {
    int rank, size;                   /* from the launcher; size 1 selects `self` */
    const struct lvn_comm_kind *kind; /* NULL: the first kind in the table whose `connection` matches these options */
    const char *library;              /* trainer.mpi_library; "" or NULL: the library of the launcher */
    const char *launcher; /* a name in cluster/identity/launcher_env.c; determines which MPI libraries are usable */
    double timeout;       /* maximum seconds to wait for the other ranks to join; 0: no limit */
    int cpu;              /* 1 + the CPU to which the communicator's thread is bound; 0: not bound */
    int per_host;         /* ranks per host; 0: all are on one host, until lvn_comm_set_hosts() */
    const int *sockets;   /* [size] connected sockets to the other ranks; the communicator closes them; NULL: none */
    int64_t max_message_bytes; /* of a single message; 0: the default (other values are for tests) */
    /* For kinds that transfer device memory: */
    struct lvn_device *device;  /* of this rank */
    struct lvn_comm *host_comm; /* a communicator in host memory between the same ranks, which outlives this one */
    const char *where;          /* this rank among those of the run, for messages: "rank 1 on node2"; copied */
    char id[LVN_COMM_ID];       /* identifies the communicator; lvn_comm_open() sets it */
};

/* Open a communicator. Refuses an MPI library that does not belong to the launcher (every process would be rank 0 of
 * 1); the error message names a remedy. */
enum lvn_status lvn_comm_open(struct lvn_comm **out, const struct lvn_comm_options *o) LVN_CHECKED;
/* Collective: all ranks call it, except a process that terminates after a fault. NULL is allowed. */
void lvn_comm_close(struct lvn_comm *comm);
/* Request that the launcher terminate all processes of the run with this exit code, including those that no longer
 * respond (MPI_Abort). Any thread may call it. Returns if that is not supported, or has not happened within `seconds`.
 */
void lvn_comm_abort(struct lvn_comm *comm, int code, double seconds);
/* This process is about to terminate: abort operations in progress between devices, which then fail with COMM. Any
 * thread may call it; it may block for a long time. Does nothing for communicators in host memory. */
void lvn_comm_cancel(struct lvn_comm *comm);
/* Divide the ranks into groups, as MPI_Comm_split() does: ranks with the same color (0 or above) form the new
 * communicator *out, in which ranks are ordered by key, then by rank in comm. A rank with a negative color joins no
 * group and receives NULL. Collective over comm, while no operation is in progress on it. Results of a group have the
 * bits of a communicator opened with that number of ranks on one host (see lvn_comm_set_hosts()).
 *
 * Operations of several groups, and of comm, may be in progress concurrently; ranks that share two of them may start
 * their collectives in any relative order, except in device memory, where all must use the same. Close a group before
 * comm. UNSUPPORTED, on all ranks, if the kind of communicator does not support groups. */
enum lvn_status lvn_comm_split(struct lvn_comm *comm, struct lvn_comm **out, int color, int key) LVN_CHECKED;
/* Mark the recorded failure as a consequence of another rank's: lvn_ranks_agree() then prefers that one. Returns
 * `status`. */
enum lvn_status lvn_comm_follows(enum lvn_status status);
/* Is the recorded failure of this thread such a consequence? */
bool lvn_comm_is_consequence(void);
int lvn_comm_rank(const struct lvn_comm *comm);
int lvn_comm_size(const struct lvn_comm *comm);
/* Declare that the ranks run on `hosts` hosts, with the same number of consecutive ranks on each. Sums then use the
 * hierarchical algorithm. All ranks call it with the same value, while no operation is in progress and no tree exists.
 */
enum lvn_status lvn_comm_set_hosts(struct lvn_comm *comm, int hosts) LVN_CHECKED;
/* The device that buffers belong to; NULL: host memory. */
const struct lvn_device *lvn_comm_device(const struct lvn_comm *comm);
/* For display: "Open MPI 4.1.4 (/usr/lib/.../libmpi.so.40), because mpirun is Open MPI's". */
const char *lvn_comm_describe(const struct lvn_comm *comm);

/* An operation in progress. The caller owns the struct, and must not access it or the buffers until lvn_comm_wait()
 * returns. All fields are private to the communicator. */
struct lvn_request {
    int done;                 /* written by the communicator's thread; read it with lvn_request_done() */
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
    int64_t mark; /* of a device's queue (backend/backend.h): its work is in the queue before it */
    struct lvn_tree *tree;
    void *handle[2];
    void (*call)(void *state, void *argument);
};

enum lvn_reduce { LVN_SUM, LVN_MIN, LVN_MAX };

/* Element types: F32, F64, I32, I64 and, for LVN_SUM, BF16 (summed in fp32, rounded once within a host and once
 * between hosts or groups of ranks; a device library has its own rules). Counts may exceed 2^31. All operations are in
 * place. The result has the same bits on all ranks, and in every repetition on the same ranks. */
void lvn_comm_all_reduce(struct lvn_comm *comm, struct lvn_request *request, void *x, int64_t count,
                         enum lvn_dtype type, enum lvn_reduce op);
/* Rank i receives the sum of elements [first[i], first[i + 1]) in their place; the rest of x is undefined
 * afterwards. `first` has size + 1 entries, which must not change until the request is done. F32, F64, BF16. */
void lvn_comm_reduce_scatter(struct lvn_comm *comm, struct lvn_request *request, void *x, const int64_t *first,
                             enum lvn_dtype type);
/* Rank i contributes elements [first[i], first[i + 1]); afterwards all ranks have all elements. Any type. */
void lvn_comm_all_gather(struct lvn_comm *comm, struct lvn_request *request, void *x, const int64_t *first,
                         enum lvn_dtype type);
void lvn_comm_broadcast(struct lvn_comm *comm, struct lvn_request *request, void *x, int64_t bytes, int root);
/* Messages between two different ranks. Tags are 0..16383. Messages between the same two ranks with the same tag
 * arrive in the order in which they were started; the receiver passes the same number of bytes as the sender. */
void lvn_comm_send(struct lvn_comm *comm, struct lvn_request *request, const void *x, int64_t bytes, int to, int tag);
void lvn_comm_receive(struct lvn_comm *comm, struct lvn_request *request, void *x, int64_t bytes, int from, int tag);
/* True if the operation is complete. Does not wait. */
bool lvn_request_done(const struct lvn_request *request);
/* Wait for completion. Fails with COMM if the communicator has failed. Any thread may wait. */
enum lvn_status lvn_comm_wait(struct lvn_comm *comm, struct lvn_request *request) LVN_CHECKED;
/* Wait at most `seconds`. Returns false if the operation is not complete; it then continues to use the buffers. */
bool lvn_comm_wait_for(struct lvn_comm *comm, struct lvn_request *request, double seconds);

/* Blocking calls, for small data between steps. */
enum lvn_status lvn_comm_all_reduce_now(struct lvn_comm *comm, void *x, int64_t count, enum lvn_dtype type,
                                        enum lvn_reduce op) LVN_CHECKED;
enum lvn_status lvn_comm_broadcast_now(struct lvn_comm *comm, void *x, int64_t bytes, int root) LVN_CHECKED;

/* --- a sum in the fixed order of a tree (comm/tree.h) ---
 *
 * partial[k] (first[size] elements each) is the sum of this rank's k-th subtree, k < lvn_subtrees(...). Rank i
 * receives elements [first[i], first[i + 1]) of the total in their place in `out`; with `gather` every rank receives
 * all elements. `out` may be one of the partials. Afterwards the partials are undefined and, without `gather`, so are
 * the other elements of `out`. F32, F64, BF16 (every node of the tree is rounded, as the partials must be). Arrays
 * must not change until the request is done. */
void lvn_comm_tree_reduce(struct lvn_comm *comm, struct lvn_request *request, struct lvn_tree *tree,
                          void *const *partial, void *out, const int64_t *first, enum lvn_dtype type, bool gather);

#endif
