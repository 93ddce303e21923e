/* reduction.h - the collective operations of a step's program on the communicator of a run. */
#ifndef LVN_REDUCTION_H
#define LVN_REDUCTION_H

#include "engine/ranks.h"
#include "passes/program.h"

/* What one token stands for. */
struct lvn_collective_work {
    const struct lvn_instr *instr;
    const struct lvn_call *call; /* of the last start */
    int64_t *first;              /* [size + 1] elements of out[0] at which the ranks' parts begin; NULL: all have all */
    struct lvn_request request;
    bool due, going; /* asked for, and not started yet; started, and not done yet */
};

struct lvn_reduction {
    struct lvn_collectives calls; /* for the program's binding */
    struct lvn_sharding sharding; /* for its plan */
    struct lvn_ranks *ranks;
    const struct lvn_program *program;
    struct lvn_collective_work *work; /* [program->n_handles] */
    int64_t *first;                   /* what those of `work` point into */
    bool beside;                      /* sums of buckets run beside backward; else all start behind it */
    struct lvn_tree *tree;
    void *partial[LVN_MAX_PENDING];
    double waited;          /* seconds of the last step in which nothing could be done but wait */
    double summed;          /* those among them in which gradients were summed */
    enum lvn_status status; /* of the first collective that failed */
};

/* For a network of these parameters. Release it always. */
void lvn_reduction_init(struct lvn_reduction *d, struct lvn_ranks *ranks, const struct lvn_sharding *sharding);
/* The program is planned, or several with the same collectives: make what these need. leaf[i]: number of rank i's first
 * micro-batch in the global batch, [size + 1]. */
enum lvn_status lvn_reduction_prepare(struct lvn_reduction *d, const struct lvn_program *p,
                                      const int64_t *leaf) LVN_CHECKED;
/* Bytes that the collectives of the program take besides its values: pieces that arrive, requests. */
int64_t lvn_reduction_bytes(const struct lvn_sharding *s, const struct lvn_program *p, const int64_t *leaf);
/* The sums of the last step's buckets from number `first` on once more, with nothing beside them; what is in the
 * buckets is added again. */
enum lvn_status lvn_reduction_repeat(struct lvn_reduction *d, int first) LVN_CHECKED;
/* How many buckets the program has; 0 with the tree. */
int lvn_reduction_buckets(const struct lvn_program *p);
void lvn_reduction_release(struct lvn_reduction *d);

#endif
