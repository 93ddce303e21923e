/* collective_runner.h - runs the collective operations of a step's program on the communicator of a run.
 *
 * train_programs.c owns one; backends call it through `calls` while they run a program. Passes decide which collectives
 * exist and where they start; comm/comm.h transfers the data. */
#ifndef LVN_COLLECTIVE_RUNNER_H
#define LVN_COLLECTIVE_RUNNER_H

#include "engine/ranks.h"
#include "passes/program.h"

/* One collective of the program; its index is the collective handle. */
struct lvn_collective_work {
    const struct lvn_instr *instr;
    const struct lvn_call *call; /* of the last launch */
    int64_t *first;              /* [size + 1] first elements of the ranks' parts in out[0]; NULL: not divided */
    struct lvn_comm *comm;       /* communicator for the memory of that call */
    void **partial;              /* [program->n_pending] for a sum in tree order */
    struct lvn_request request;
    bool due;    /* launched by the program, delayed until backward has ended */
    bool active; /* started and not completed */
};

struct lvn_collective_runner {
    struct lvn_collectives calls; /* for the program's binding */
    struct lvn_sharding sharding; /* for its plan */
    struct lvn_ranks *ranks;
    const struct lvn_program *program;
    struct lvn_collective_work *work; /* [program->n_handles] */
    int64_t *first;                   /* memory of work[].first */
    bool overlapped;                  /* buckets are reduced while backward runs; otherwise all start after it */
    struct lvn_tree *tree;
    void **partial;         /* memory of work[].partial */
    double waited;          /* seconds that the last step waited for collectives */
    double summed;          /* of these, seconds for gradient reductions */
    enum lvn_status status; /* of the first collective that failed */
};

/* For a model with this sharding. Always release it. */
void lvn_collective_runner_init(struct lvn_collective_runner *runner, struct lvn_ranks *ranks,
                                const struct lvn_sharding *sharding);
/* Allocate what the collectives of a planned program need; several programs with the same collectives share it.
 * leaf[size + 1]: index of each rank's first micro-batch in the global batch. */
enum lvn_status lvn_collective_runner_prepare(struct lvn_collective_runner *runner, const struct lvn_program *p,
                                              const int64_t *leaf) LVN_CHECKED;
/* Memory of the collectives in addition to the values of the program: receive buffers, requests. */
int64_t lvn_collective_runner_bytes(const struct lvn_sharding *s, const struct lvn_program *p, const int64_t *leaf);
/* For measurements: reduce the last step's buckets from number `first` on again, with nothing else running. The
 * buckets are then wrong. */
enum lvn_status lvn_collective_runner_repeat(struct lvn_collective_runner *runner, int first) LVN_CHECKED;
/* Number of buckets; 0 with the tree, or if gradients are reduced in every micro-batch. */
int lvn_collective_runner_buckets(const struct lvn_program *p);
void lvn_collective_runner_release(struct lvn_collective_runner *runner);

#endif
