/* exchange.h - the inside of an exchange: exchange_plan.c (who adds what, the memory), exchange.c (messages), sum.c
 * (adding).
 */
#ifndef LVN_EXCHANGE_H
#define LVN_EXCHANGE_H

#include "comm/engine.h"

enum {
    LVN_SLOTS = 4,    /* chunks of a tree that may be under way */
    LVN_BLOCK = 2048, /* elements that are added at once: they stay in the first cache */
    LVN_LINE = 64,    /* elements: where a vector may be cut */
};

struct lvn_addition {
    int into, from; /* sources */
};

/* Ranks that exchange with each other: of a host, or one of each host. Member i is rank first + i * stride. What they
 * hold are the sources, in the order of the leaves; they are added until the results are left. */
struct lvn_exchange_stage {
    int n, me, first, stride;
    int n_sources, n_mine, mine; /* sources of all members, of mine, the first of mine */
    int *owner;                  /* [n_sources] member */
    struct lvn_addition *add;    /* [n_adds] in this order */
    int n_adds, n_results;
    int *result; /* [n_results] source in which it ends */
};

/* What a rank does with a chunk: four exchanges, each out and in. Parts to the ranks of this host, and theirs of my
 * region; sums of the host to the other hosts, and theirs of my shard; the total of my shard to the other hosts, and
 * theirs; all totals of my region to the ranks of this host, and theirs. */
enum lvn_transfer_kind {
    LVN_A_OUT,
    LVN_A_IN,
    LVN_B_OUT,
    LVN_B_IN,
    LVN_C_OUT,
    LVN_C_IN,
    LVN_D_OUT,
    LVN_D_IN,
    LVN_TRANSFERS
};

/* The messages of a lane: handles [at, at + n) of the slot, of which `busy` are under way. */
struct lvn_exchange_transfer {
    bool started;
    int n, busy;
};

/* A chunk under way. */
struct lvn_slot {
    struct lvn_request *r; /* NULL: free */
    int64_t chunk;
    int turn;
    bool host_added, added;
    struct lvn_exchange_transfer lane[LVN_TRANSFERS];
    char *arriving[2]; /* of a level: [its sources that are others'][its pieces][piece] */
    char *handles;     /* [n_handles] */
    int *peer;         /* [n_handles] rank */
};

struct lvn_tree {
    int rank, size, hosts, per_host, host,
        local;                          /* this rank is number `local` of host `host`; or groups of one host */
    bool plain;                         /* one leaf a rank */
    struct lvn_exchange_stage level[2]; /* within the host; between hosts */
    int64_t piece;                      /* bytes of a shard in a chunk */
    int max_sources;
    float *wide;                          /* [most_sources][LVN_BLOCK] of bf16 */
    void **source;                        /* [most_sources] while adding */
    int n_handles, at[LVN_TRANSFERS + 1]; /* of a slot; where a lane's begin */
    int *done;                            /* [n_handles] */
    struct lvn_slot slot[LVN_SLOTS];
    int64_t taken;                    /* chunks that have got a slot */
    struct lvn_slot *turn[LVN_SLOTS]; /* of chunk k % LVN_SLOTS; NULL: it is over */
};

/* sum.c. t->source: where the n elements of each source of the level lie. The results end in their sources; with `out`
 * the one result ends there. */
void lvn_add_sources(const struct lvn_tree *t, const struct lvn_exchange_stage *l, void *out, int64_t n,
                     enum lvn_dtype type);

#endif
