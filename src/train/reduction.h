/* reduction.h - the collectives of programs (passes/program.h) on the communicator of a run. */
#ifndef LVN_REDUCTION_H
#define LVN_REDUCTION_H

#include "passes/program.h"
#include "train/ranks.h"

struct lvn_reduction {
    struct lvn_collectives calls; /* for the program's binding */
    struct lvn_sharding sharding; /* for its plan */
    struct lvn_ranks *ranks;
    int64_t *shard;              /* [size + 1] first elements of the shards of the flat trainable parameters */
    int64_t *block;              /* [size + 1] the same in blocks of the norm */
    struct lvn_request *request; /* [n_requests], one a bucket */
    int64_t *bucket_shard;       /* zero1: [n_requests][size + 1], shards within each bucket */
    int n_requests, started;
    enum lvn_dtype weights, gradient_type;
    uint16_t *wire; /* gradients on their way as bf16; NULL: they travel as they are */
    bool beside;    /* reductions run beside backward; else all start behind it */
    const struct lvn_program *program;
    void *gradients;
    struct lvn_tree *tree;
    double waited;          /* seconds of the last step in which nothing could be done but wait */
    double summed;          /* those among them in which gradients were summed */
    enum lvn_status status; /* of the first collective that failed */
};

/* For a network of these parameters. leaf[i]: number of rank i's first micro-batch in the global batch, [size + 1];
 * buckets: how many the program has, 0 with the tree. Release it always. */
enum lvn_status lvn_reduction_init(struct lvn_reduction *d, struct lvn_ranks *ranks,
                                   const struct lvn_sharding *sharding) LVN_CHECKED;
/* The program is planned: make what its collectives need. bf16: what gradients are while they travel. */
enum lvn_status lvn_reduction_prepare(struct lvn_reduction *d, const struct lvn_program *p, const int64_t *leaf,
                                      bool bf16) LVN_CHECKED;
/* Bytes that the collectives of the program take: gradients on their way, pieces that arrive, requests. */
int64_t lvn_reduction_bytes(const struct lvn_sharding *s, const struct lvn_program *p, const int64_t *leaf, bool bf16);
void lvn_reduction_release(struct lvn_reduction *d);

#endif
