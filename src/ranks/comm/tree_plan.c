/* tree_plan.c - creates a tree: the order of additions of an exchange, and its memory; see tree.h. Called when a tree
 * or a communicator is created.
 *
 * The first stage, within a host, adds the subtrees of the host's ranks (its sources) to the largest subtrees of all
 * leaves of the host (its results). These are the sources of the second stage, between hosts, whose result is the whole
 * tree. So additions are in the order of the tree for any division of the leaves. This requires the same number of
 * consecutive ranks on each host; otherwise all ranks are treated as ranks of one host. */

#include "base/arena.h"
#include "comm/exchange.h"
#include "comm/sum_algorithm.h"
#include "comm/tree.h"

enum { RECEIVE_BYTES = 8 << 20 /* of all receive buffers */ };

/* All ranks must compute the same value. */
int64_t lvn_segment_bytes(int n_sources)
{
    int64_t max = RECEIVE_BYTES / (LVN_SLOTS * (n_sources > 1 ? n_sources - 1 : 1)), segment = 512 << 10;
    while (segment > max && segment > 16 << 10) segment /= 2;
    return segment;
}

/* Number of sources of ranks [from, to). */
static int count_sources(const int64_t *leaf, int size, int from, int to)
{
    struct lvn_subtree some[LVN_MAX_SUBTREES];
    int n = 0;
    if (!leaf) return to - from;
    for (int r = from; r < to; r++) n += lvn_subtrees(leaf[size], leaf[r], leaf[r + 1], some);
    return n;
}

int64_t lvn_tree_bytes(int size, int rank, const int64_t *leaf)
{
    const int64_t n = count_sources(leaf, size, 0, size), mine = count_sources(leaf, size, rank, rank + 1),
                  handles = LVN_SLOTS * (n - mine + size * (mine + 2));
    /* As plan_stage() and make_slots() allocate; of a handle: itself, its peer and its entry of `done`. */
    const int64_t source_bytes = LVN_BLOCK * (int64_t)sizeof(float) + (int64_t)sizeof(void *) +
                                 2 * (int64_t)(sizeof(int) + sizeof(struct lvn_addition)),
                  handle_bytes = LVN_HANDLE_BYTES + (int64_t)sizeof(int) + (int64_t)sizeof(int) / LVN_SLOTS;
    return LVN_SLOTS * (n - mine) * lvn_segment_bytes((int)n) + n * source_bytes + handles * handle_bytes +
           (int64_t)sizeof(struct lvn_tree);
}

/* --- the order of additions --- */

struct planner {
    const struct lvn_subtree *tree; /* the subtree of each source */
    struct lvn_exchange_stage *stage;
    int next;
};

/* Plan the additions for the node over leaves [from, to). Returns the index of the source that will contain its sum. */
static int plan_node(struct planner *p, int64_t from, int64_t to)
{
    if (p->tree[p->next].first == from && p->tree[p->next].end == to) return p->next++;
    int64_t middle = from + lvn_tree_split(to - from);
    int a = plan_node(p, from, middle), b = plan_node(p, middle, to);
    p->stage->add[p->stage->n_adds++] = (struct lvn_addition){.into = a, .from = b};
    return a;
}

/* Plan a stage whose member i has leaves [leaf[i], leaf[i + 1]) of `all`, as its largest subtrees; the results are
 * the largest subtrees of all members' leaves. */
static enum lvn_status plan_stage(struct lvn_exchange_stage *stage, const int64_t *leaf, int64_t all)
{
    struct lvn_subtree some[LVN_MAX_SUBTREES];
    int n = 0;
    for (int i = 0; i < stage->n; i++) n += lvn_subtrees(all, leaf[i], leaf[i + 1], some);
    struct lvn_subtree *tree = lvn_malloc(sizeof *tree * (size_t)(n + LVN_MAX_SUBTREES));
    stage->owner = lvn_calloc((size_t)n + 1, sizeof *stage->owner);
    stage->add = lvn_calloc((size_t)n + 1, sizeof *stage->add);
    stage->result = lvn_calloc(LVN_MAX_SUBTREES, sizeof *stage->result);
    if (!tree || !stage->owner || !stage->add || !stage->result) {
        free(tree);
        return LVN_MEMORY;
    }
    for (int i = 0; i < stage->n; i++) {
        int here = lvn_subtrees(all, leaf[i], leaf[i + 1], tree + stage->n_sources);
        if (i == stage->me) stage->mine = stage->n_sources, stage->n_mine = here;
        for (int k = 0; k < here; k++) stage->owner[stage->n_sources++] = i;
    }
    struct planner p = {.tree = tree, .stage = stage};
    stage->n_results = lvn_subtrees(all, leaf[0], leaf[stage->n], some);
    for (int k = 0; k < stage->n_results; k++) stage->result[k] = plan_node(&p, some[k].first, some[k].end);
    free(tree);
    return LVN_OK;
}

/* leaf NULL: a plain sum, for which each stage has a separate tree. */
static enum lvn_status plan(struct lvn_tree *tree, const int64_t *leaf)
{
    const int max = tree->per_host > tree->hosts ? tree->per_host : tree->hosts;
    int64_t *at = lvn_malloc(sizeof *at * (size_t)(max + 1));
    if (!at) return LVN_MEMORY;
    tree->stage[0] = (struct lvn_exchange_stage){
        .n = tree->per_host, .me = tree->local, .first = tree->host * tree->per_host, .stride = 1};
    tree->stage[1] =
        (struct lvn_exchange_stage){.n = tree->hosts, .me = tree->host, .first = tree->local, .stride = tree->per_host};
    for (int i = 0; i <= tree->per_host; i++) at[i] = leaf ? leaf[tree->stage[0].first + i] : i;
    enum lvn_status status = plan_stage(&tree->stage[0], at, leaf ? leaf[tree->size] : tree->per_host);
    for (int i = 0; i <= tree->hosts; i++) at[i] = leaf ? leaf[i * tree->per_host] : i;
    if (status == LVN_OK) status = plan_stage(&tree->stage[1], at, leaf ? leaf[tree->size] : tree->hosts);
    free(at);
    return status;
}

/* --- memory --- */

/* Allocate whole pages: an MPI may map receive buffers into the sender, and vector additions need aligned cache lines.
 */
static char *receive_pages(int64_t bytes)
{
    enum { PAGE = 4096 };
    return lvn_malloc_aligned(PAGE, (size_t)(bytes / PAGE + 1) * PAGE);
}

static enum lvn_status make_slots(struct lvn_tree *tree)
{
    const struct lvn_exchange_stage *within = &tree->stage[0], *between = &tree->stage[1];
    const int other_ranks = tree->per_host - 1, other_hosts = tree->hosts - 1;
    const int n[LVN_TRANSFERS] = {other_ranks * tree->hosts * within->n_mine,
                                  tree->hosts * (within->n_sources - within->n_mine),
                                  other_hosts * between->n_mine,
                                  between->n_sources - between->n_mine,
                                  other_hosts,
                                  other_hosts,
                                  other_ranks * tree->hosts,
                                  other_ranks * tree->hosts};
    for (int k = 0; k < LVN_TRANSFERS; k++) tree->at[k + 1] = tree->at[k] + n[k];
    tree->n_handles = tree->at[LVN_TRANSFERS];
    tree->max_sources = within->n_sources > between->n_sources ? within->n_sources : between->n_sources;
    tree->f32 = lvn_malloc((size_t)tree->max_sources * LVN_BLOCK * sizeof *tree->f32);
    tree->source = lvn_calloc((size_t)tree->max_sources, sizeof *tree->source);
    tree->done = lvn_calloc((size_t)tree->n_handles + 1, sizeof *tree->done);
    bool good = tree->f32 && tree->source && tree->done;
    for (int s = 0; s < LVN_SLOTS; s++) {
        struct lvn_slot *slot = &tree->slot[s];
        slot->received[0] = receive_pages(n[LVN_REDUCE_WITHIN_RECEIVE] * tree->segment);
        slot->received[1] = receive_pages(n[LVN_REDUCE_BETWEEN_RECEIVE] * tree->segment);
        slot->handles = lvn_calloc((size_t)tree->n_handles + 1, LVN_HANDLE_BYTES);
        slot->peer = lvn_calloc((size_t)tree->n_handles + 1, sizeof *slot->peer);
        good = good && slot->received[0] && slot->received[1] && slot->handles && slot->peer;
    }
    return good ? LVN_OK : LVN_MEMORY;
}

void lvn_tree_free(struct lvn_tree *tree)
{
    for (int i = 0; tree && i < 2; i++) {
        free(tree->stage[i].owner);
        free(tree->stage[i].add);
        free(tree->stage[i].result);
    }
    for (int s = 0; tree && s < LVN_SLOTS; s++) {
        free(tree->slot[s].received[0]);
        free(tree->slot[s].received[1]);
        free(tree->slot[s].handles);
        free(tree->slot[s].peer);
    }
    if (tree) free(tree->f32), free(tree->source), free(tree->done);
    free(tree);
}

static enum lvn_status check(int size, const int64_t *leaf)
{
    for (int i = 0; i < size; i++)
        LVN_CHECK(leaf[i] <= leaf[i + 1], ARG,
                  "rank %d has leaves %lld to %lld, but the last must not be below the first", i, (long long)leaf[i],
                  (long long)leaf[i + 1] - 1);
    LVN_CHECK(leaf[0] == 0 && leaf[size] > 0, ARG,
              "the ranks have leaves %lld to %lld, but they must begin at 0 and not be empty", (long long)leaf[0],
              (long long)leaf[size] - 1);
    return LVN_OK;
}

enum lvn_status lvn_tree_new_for(struct lvn_tree **out, int size, int rank, int hosts, const int64_t *leaf)
{
    *out = NULL;
    if (leaf) LVN_TRY(check(size, leaf));
    struct lvn_tree *tree = lvn_calloc(1, sizeof *tree);
    if (!tree) return LVN_MEMORY;
    tree->size = size;
    tree->rank = rank;
    tree->hosts = lvn_sum_groups(size, hosts);
    tree->per_host = size / tree->hosts;
    tree->host = rank / tree->per_host;
    tree->local = rank % tree->per_host;
    tree->plain = !leaf;
    tree->segment = lvn_segment_bytes(count_sources(leaf, size, 0, size));
    enum lvn_status status = plan(tree, leaf);
    if (status == LVN_OK) status = make_slots(tree);
    if (status == LVN_OK)
        *out = tree;
    else
        lvn_tree_free(tree);
    return status;
}

enum lvn_status lvn_tree_new(struct lvn_tree **out, const struct lvn_comm *comm, const int64_t *leaf)
{
    return lvn_tree_new_for(out, comm->size, comm->rank, comm->hosts, leaf);
}
