/* exchange.h - sums and gathers of long vectors, implemented with messages; private to src/ranks/comm. engine.c calls
 * exchange.c, which sends and receives and calls exchange_sum.c to add. tree_plan.c plans the order of additions and
 * allocates the memory. */
#ifndef LVN_EXCHANGE_H
#define LVN_EXCHANGE_H

#include "comm/engine.h"

enum {
    LVN_SLOTS = 4,    /* maximum number of chunks of a tree in progress */
    LVN_BLOCK = 2048, /* elements added at a time, so that they stay in the L1 cache */
    LVN_LINE = 64,    /* elements: vectors are divided at multiples of this */
};

struct lvn_addition {
    int into, from; /* indices of sources: into += from */
};

/* A stage: ranks that exchange with each other, either those of a host or one of each host. Member i is rank
 * (first + i * stride). The partial sums of the members are the sources, in the order of the leaves; they are added
 * until only the results are left. */
struct lvn_exchange_stage {
    int n, me, first, stride;
    int n_sources;            /* of all members */
    int n_mine;               /* of this rank */
    int mine;                 /* index of this rank's first source */
    int *owner;               /* [n_sources] the member that contributes it */
    struct lvn_addition *add; /* [n_adds] additions in order */
    int n_adds, n_results;
    int *result; /* [n_results] index of the source that contains the result */
};

/* The transfers of a chunk: four exchanges, each with sends and receives. Together they are a reduce-scatter within
 * the host, one between hosts, an all-gather between hosts, and one within the host. For "partition" see exchange.c. */
enum lvn_transfer_kind {
    LVN_REDUCE_WITHIN_SEND,     /* this rank's partial sums of the other local ranks' partitions */
    LVN_REDUCE_WITHIN_RECEIVE,  /* the other local ranks' partial sums of this rank's partition */
    LVN_REDUCE_BETWEEN_SEND,    /* this host's sums of the other hosts' shards */
    LVN_REDUCE_BETWEEN_RECEIVE, /* the other hosts' sums of this rank's shard */
    LVN_GATHER_BETWEEN_SEND,    /* the total of this rank's shard */
    LVN_GATHER_BETWEEN_RECEIVE, /* the totals of the other hosts' shards */
    LVN_GATHER_WITHIN_SEND,     /* all totals of this rank's partition */
    LVN_GATHER_WITHIN_RECEIVE,  /* all totals of the other local ranks' partitions */
    LVN_TRANSFERS
};

/* The messages of one transfer: `n` handles of the slot, of which `busy` are in progress. */
struct lvn_exchange_transfer {
    bool started;
    int n, busy;
};

/* A chunk in progress. */
struct lvn_slot {
    struct lvn_request *request; /* NULL: free */
    int64_t chunk;
    int sequence;    /* number of the chunk modulo LVN_SLOTS, part of its tags */
    bool host_added; /* the sources of this host are added */
    bool added;      /* all sources are added */
    struct lvn_exchange_transfer transfer[LVN_TRANSFERS];
    char *received[2]; /* receive buffers of a stage: [sources of other ranks][segments of the partition][segment] */
    char *handles;     /* [n_handles] */
    int *peer;         /* [n_handles] the other rank */
};

struct lvn_tree {
    int rank, size;
    int hosts;                          /* number of hosts, or of groups of ranks of one host (lvn_sum_groups()) */
    int per_host;                       /* ranks per host */
    int host;                           /* host of this rank */
    int local;                          /* local rank on its host */
    bool plain;                         /* one leaf per rank */
    struct lvn_exchange_stage stage[2]; /* [0]: within the host, [1]: between hosts */
    int64_t segment;                    /* bytes of a shard in one chunk */
    int max_sources;
    float *f32;                /* [max_sources][LVN_BLOCK]: blocks of bf16 sources in fp32 */
    void **source;             /* [max_sources], used while adding */
    int n_handles;             /* of a slot */
    int at[LVN_TRANSFERS + 1]; /* index of a transfer's first handle */
    int *done;                 /* [n_handles] indices, for test() */
    struct lvn_slot slot[LVN_SLOTS];
    int64_t n_started;                    /* number of chunks that were assigned a slot */
    struct lvn_slot *in_order[LVN_SLOTS]; /* [k % LVN_SLOTS]: the slot of chunk k; NULL: complete */
};

/* --- exchange.c --- */

/* Make progress. Returns 0 or the transport's error. *moved: progress was made; *issued: all chunks are in progress or
 * complete; *finished: all chunks are complete. */
int lvn_exchange_step(struct lvn_engine *engine, struct lvn_request *request, bool *moved, bool *issued,
                      bool *finished);
/* The rank, in the request's communicator, whose message the exchange waits for (receives before sends); -1: none. */
int lvn_exchange_waits_for(const struct lvn_engine *engine, const struct lvn_request *request);

/* --- exchange_sum.c --- */

/* Add the n elements of each source of the stage, in t->source. The results replace their sources; a single result is
 * written to `out` unless that is NULL. */
void lvn_add_sources(const struct lvn_tree *tree, const struct lvn_exchange_stage *stage, void *out, int64_t n,
                     enum lvn_dtype type);

#endif
