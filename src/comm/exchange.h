/* exchange.h - sums and gathers of long vectors, built of messages; private to src/comm. engine.c calls exchange.c,
 * which sends and receives; that calls exchange_sum.c, which adds. tree_plan.c makes the order of additions and the
 * memory. */
#ifndef LVN_EXCHANGE_H
#define LVN_EXCHANGE_H

#include "comm/engine.h"

enum {
    LVN_SLOTS = 4,    /* chunks of a tree that may be in progress */
    LVN_BLOCK = 2048, /* elements that are added at once: they stay in the first-level cache */
    LVN_LINE = 64,    /* elements: a vector is divided at multiples of this */
};

struct lvn_addition {
    int into, from; /* indices of sources: into += from */
};

/* A stage: ranks that exchange with each other, those of a host, or one of each host. Member i is rank first + i *
 * stride. The partial sums that they hold are the sources, in the order of the leaves; they are added until only the
 * results are left. */
struct lvn_exchange_stage {
    int n, me, first, stride;
    int n_sources;            /* of all members */
    int n_mine;               /* of this rank */
    int mine;                 /* index of this rank's first source */
    int *owner;               /* [n_sources] the member that holds it */
    struct lvn_addition *add; /* [n_adds] additions in order */
    int n_adds, n_results;
    int *result; /* [n_results] index of the source that then holds the result */
};

/* The transfers of a chunk: four exchanges, each with sends and receives. Together they are a reduce-scatter within
 * the host, one between hosts, an all-gather between hosts, and one within the host. A rank's partition is the
 * shards of the ranks with its local number on all hosts. */
enum lvn_transfer_kind {
    LVN_REDUCE_WITHIN_SEND,     /* my partial sums of the other local ranks' partitions */
    LVN_REDUCE_WITHIN_RECEIVE,  /* the other local ranks' partial sums of my partition */
    LVN_REDUCE_BETWEEN_SEND,    /* this host's sums of the other hosts' shards */
    LVN_REDUCE_BETWEEN_RECEIVE, /* the other hosts' sums of my shard */
    LVN_GATHER_BETWEEN_SEND,    /* the total of my shard */
    LVN_GATHER_BETWEEN_RECEIVE, /* the totals of the other hosts' shards */
    LVN_GATHER_WITHIN_SEND,     /* all totals of my partition */
    LVN_GATHER_WITHIN_RECEIVE,  /* all totals of the other local ranks' partitions */
    LVN_TRANSFERS
};

/* The messages of one kind of transfer: `n` handles of the slot, of which `busy` are in progress. */
struct lvn_exchange_transfer {
    bool started;
    int n, busy;
};

/* A chunk in progress. */
struct lvn_slot {
    struct lvn_request *r; /* NULL: free */
    int64_t chunk;
    int sequence;    /* number of the chunk modulo LVN_SLOTS, part of its tags */
    bool host_added; /* the host's sources are added */
    bool added;      /* all sources are added */
    struct lvn_exchange_transfer transfer[LVN_TRANSFERS];
    char *received[2]; /* receive buffers of a stage: [sources of other ranks][segments of the partition][segment] */
    char *handles;     /* [n_handles] */
    int *peer;         /* [n_handles] rank at the other end */
};

struct lvn_tree {
    int rank, size;
    int hosts;                          /* or groups of one host */
    int per_host;                       /* ranks per host */
    int host;                           /* host of this rank */
    int local;                          /* number of this rank on its host */
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
    int64_t n_started;                    /* number of chunks that have got a slot */
    struct lvn_slot *in_order[LVN_SLOTS]; /* [k % LVN_SLOTS]: the slot of chunk k; NULL: it is done */
};

/* --- exchange.c --- */

/* Make progress. Returns 0 or the transport's error. *moved: something happened; *issued: all of it is in progress
 * or done; *finished: all is done. */
int lvn_exchange_step(struct lvn_engine *c, struct lvn_request *r, bool *moved, bool *issued, bool *finished);
/* The rank, of the request's communicator, whose message the exchange waits for (receives before sends); -1: none. */
int lvn_exchange_waits_for(const struct lvn_engine *c, const struct lvn_request *r);

/* --- exchange_sum.c --- */

/* Add the n elements of each source of the stage, at t->source. The results replace their sources; the single
 * result goes to `out` unless that is NULL. */
void lvn_add_sources(const struct lvn_tree *t, const struct lvn_exchange_stage *l, void *out, int64_t n,
                     enum lvn_dtype type);

#endif
