/* comm.h - what the ranks of a run do together: reductions, broadcasts, messages.
 *
 * Every call starts work and returns at once; lvn_comm_wait() waits. The engine's own calls are all made by one thread
 * that opened it (so any level of thread support of an MPI will do): it takes requests from a queue, polls those under
 * way, and sleeps longer and longer between polls while nobody waits. It never blocks in a call, so a dead peer traps
 * nobody: whoever watches the peers (cluster/heartbeat.h) ends the process.
 *
 * Collectives must be started in the same order on every rank. `self` is a full engine: one rank is not a special case.
 *
 * Sums in a fixed order: lvn_comm_tree_reduce() adds what the ranks hold of one binary tree over numbered leaves, so
 * the result has the same bits for every number of ranks (docs/design.md, Order of summation). */
#ifndef LVN_COMM_H
#define LVN_COMM_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/status.h"
#include "base/tensor.h"

struct lvn_comm;

struct lvn_comm_options {
    int rank, size;      /* as the launcher said; 0 of 1: the engine is self */
    const char *library; /* trainer.mpi_library; "": the launcher's own */
    const char *family;  /* of the launcher, a name of cluster/families.def: which libraries fit */
};

/* Open the engine. Refuses, with the cure, a library that does not belong to the launcher: one in which every process
 * believes that it is rank 0 of 1. */
enum lvn_status lvn_comm_open(struct lvn_comm **out, const struct lvn_comm_options *o) LVN_CHECKED;
void lvn_comm_close(struct lvn_comm *c); /* NULL: nothing. All ranks call it; a process that ends in trouble need not */
int lvn_comm_rank(const struct lvn_comm *c);
int lvn_comm_size(const struct lvn_comm *c);
/* "Open MPI 4.1.4 (/usr/lib/.../libmpi.so.40)", for people. */
const char *lvn_comm_describe(const struct lvn_comm *c);

/* Work under way. The caller owns it, and leaves it and the buffers alone until lvn_comm_wait() returned. */
struct lvn_request {
    _Atomic int done;
    int64_t number; /* how many were started before it: the same on every rank for collectives */
    void *engine[4];
};

enum lvn_reduce { LVN_SUM, LVN_MIN, LVN_MAX };

/* Element types: F32, F64, I32, I64 and, for LVN_SUM, BF16 (summed in fp32). Buffers are host memory. Counts may pass
 * 2^31: the engine cuts. In place throughout. */
void lvn_comm_all_reduce(struct lvn_comm *c, struct lvn_request *r, void *x, int64_t count, enum lvn_dtype type,
                         enum lvn_reduce op);
/* Rank i ends with the sum of elements [first[i], first[i + 1]) in their place; the rest of x is undefined then. */
void lvn_comm_reduce_scatter(struct lvn_comm *c, struct lvn_request *r, void *x, const int64_t *first,
                             enum lvn_dtype type);
/* Rank i holds elements [first[i], first[i + 1]) at the start; all hold all in the end. */
void lvn_comm_all_gather(struct lvn_comm *c, struct lvn_request *r, void *x, const int64_t *first, enum lvn_dtype type);
void lvn_comm_broadcast(struct lvn_comm *c, struct lvn_request *r, void *x, int64_t bytes, int root);
void lvn_comm_send(struct lvn_comm *c, struct lvn_request *r, const void *x, int64_t bytes, int to, int tag);
void lvn_comm_receive(struct lvn_comm *c, struct lvn_request *r, void *x, int64_t bytes, int from, int tag);
/* Wait until it is done. Fails with COMM when the engine reported an error. */
enum lvn_status lvn_comm_wait(struct lvn_comm *c, struct lvn_request *r) LVN_CHECKED;

/* One after the other, for small things between steps. */
enum lvn_status lvn_comm_all_reduce_now(struct lvn_comm *c, void *x, int64_t count, enum lvn_dtype type,
                                        enum lvn_reduce op) LVN_CHECKED;
enum lvn_status lvn_comm_broadcast_now(struct lvn_comm *c, void *x, int64_t bytes, int root) LVN_CHECKED;

#endif
