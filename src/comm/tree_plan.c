/* tree_plan.c - makes a tree: the order of additions of an exchange, and its memory; see tree.h. Called when a tree or
 * a communicator is made.
 *
 * The subtrees that ranks hold are the sources of the stage within their host; the largest subtrees of all the
 * host's leaves are its results, and the sources of the stage between hosts, whose result is the whole tree. So the
 * order of additions is that of the tree, however the leaves are divided. Hosts must have equal numbers of ranks for
 * that, with consecutive numbers; otherwise all ranks count as those of one host. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "comm/exchange.h"
#include "comm/sum_algorithm.h"
#include "comm/tree.h"

enum { MEMORY = 8 << 20 /* bytes of receive buffers */ };

/* All ranks must compute the same. */
int64_t lvn_segment_bytes(int n_sources)
{
    int64_t max = MEMORY / (LVN_SLOTS * (n_sources > 1 ? n_sources - 1 : 1)), segment = 512 << 10;
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
    return LVN_SLOTS * (n - mine) * lvn_segment_bytes((int)n) + n * (LVN_BLOCK * 4 + 24) + handles * 13 +
           (int64_t)sizeof(struct lvn_tree);
}

/* --- the order of additions --- */

struct planner {
    const struct lvn_subtree *tree; /* the subtree of each source */
    struct lvn_exchange_stage *stage;
    int next;
};

/* Plan the additions of the node over [from, to); returns the index of the source that then holds its sum. */
static int plan_node(struct planner *p, int64_t from, int64_t to)
{
    if (p->tree[p->next].first == from && p->tree[p->next].end == to) return p->next++;
    int64_t middle = from + lvn_tree_split(to - from);
    int a = plan_node(p, from, middle), b = plan_node(p, middle, to);
    p->stage->add[p->stage->n_adds++] = (struct lvn_addition){.into = a, .from = b};
    return a;
}

/* Plan a stage whose member i holds leaves [leaf[i], leaf[i + 1]) of `all`, as its largest subtrees; the results are
 * those of all members together. */
static enum lvn_status plan_stage(struct lvn_exchange_stage *l, const int64_t *leaf, int64_t all)
{
    struct lvn_subtree some[LVN_MAX_SUBTREES];
    int n = 0;
    for (int i = 0; i < l->n; i++) n += lvn_subtrees(all, leaf[i], leaf[i + 1], some);
    struct lvn_subtree *tree = lvn_malloc(sizeof *tree * (size_t)(n + LVN_MAX_SUBTREES));
    l->owner = lvn_calloc((size_t)n + 1, sizeof *l->owner);
    l->add = lvn_calloc((size_t)n + 1, sizeof *l->add);
    l->result = lvn_calloc(LVN_MAX_SUBTREES, sizeof *l->result);
    if (!tree || !l->owner || !l->add || !l->result) {
        free(tree);
        return LVN_MEMORY;
    }
    for (int i = 0; i < l->n; i++) {
        int here = lvn_subtrees(all, leaf[i], leaf[i + 1], tree + l->n_sources);
        if (i == l->me) l->mine = l->n_sources, l->n_mine = here;
        for (int k = 0; k < here; k++) l->owner[l->n_sources++] = i;
    }
    struct planner p = {.tree = tree, .stage = l};
    l->n_results = lvn_subtrees(all, leaf[0], leaf[l->n], some);
    for (int k = 0; k < l->n_results; k++) l->result[k] = plan_node(&p, some[k].first, some[k].end);
    free(tree);
    return LVN_OK;
}

/* leaf NULL: a plain sum, for which each stage has a tree of its own. */
static enum lvn_status plan(struct lvn_tree *t, const int64_t *leaf)
{
    const int max = t->per_host > t->hosts ? t->per_host : t->hosts;
    int64_t *at = lvn_malloc(sizeof *at * (size_t)(max + 1));
    if (!at) return LVN_MEMORY;
    t->stage[0] =
        (struct lvn_exchange_stage){.n = t->per_host, .me = t->local, .first = t->host * t->per_host, .stride = 1};
    t->stage[1] = (struct lvn_exchange_stage){.n = t->hosts, .me = t->host, .first = t->local, .stride = t->per_host};
    for (int i = 0; i <= t->per_host; i++) at[i] = leaf ? leaf[t->stage[0].first + i] : i;
    enum lvn_status status = plan_stage(&t->stage[0], at, leaf ? leaf[t->size] : t->per_host);
    for (int i = 0; i <= t->hosts; i++) at[i] = leaf ? leaf[i * t->per_host] : i;
    if (status == LVN_OK) status = plan_stage(&t->stage[1], at, leaf ? leaf[t->size] : t->hosts);
    free(at);
    return status;
}

/* --- memory --- */

/* Whole pages: an MPI maps receive buffers to write into them; adding needs aligned cache lines. */
static char *receive_pages(int64_t bytes)
{
    enum { PAGE = 4096 };
    return lvn_malloc_aligned(PAGE, (size_t)(bytes / PAGE + 1) * PAGE);
}

static enum lvn_status make_slots(struct lvn_tree *t)
{
    const struct lvn_exchange_stage *a = &t->stage[0], *b = &t->stage[1];
    const int other = t->per_host - 1, hosts = t->hosts - 1;
    const int n[LVN_TRANSFERS] = {other * t->hosts * a->n_mine,
                                  t->hosts * (a->n_sources - a->n_mine),
                                  hosts * b->n_mine,
                                  b->n_sources - b->n_mine,
                                  hosts,
                                  hosts,
                                  other * t->hosts,
                                  other * t->hosts};
    for (int l = 0; l < LVN_TRANSFERS; l++) t->at[l + 1] = t->at[l] + n[l];
    t->n_handles = t->at[LVN_TRANSFERS];
    t->max_sources = a->n_sources > b->n_sources ? a->n_sources : b->n_sources;
    t->f32 = lvn_malloc((size_t)t->max_sources * LVN_BLOCK * sizeof *t->f32);
    t->source = lvn_calloc((size_t)t->max_sources, sizeof *t->source);
    t->done = lvn_calloc((size_t)t->n_handles + 1, sizeof *t->done);
    bool good = t->f32 && t->source && t->done;
    for (int s = 0; s < LVN_SLOTS; s++) {
        struct lvn_slot *x = &t->slot[s];
        x->received[0] = receive_pages(n[LVN_REDUCE_WITHIN_RECEIVE] * t->segment);
        x->received[1] = receive_pages(n[LVN_REDUCE_BETWEEN_RECEIVE] * t->segment);
        x->handles = lvn_calloc((size_t)t->n_handles + 1, sizeof(void *));
        x->peer = lvn_calloc((size_t)t->n_handles + 1, sizeof *x->peer);
        good = good && x->received[0] && x->received[1] && x->handles && x->peer;
    }
    return good ? LVN_OK : LVN_MEMORY;
}

void lvn_tree_free(struct lvn_tree *t)
{
    for (int i = 0; t && i < 2; i++) {
        free(t->stage[i].owner);
        free(t->stage[i].add);
        free(t->stage[i].result);
    }
    for (int s = 0; t && s < LVN_SLOTS; s++) {
        free(t->slot[s].received[0]);
        free(t->slot[s].received[1]);
        free(t->slot[s].handles);
        free(t->slot[s].peer);
    }
    if (t) free(t->f32), free(t->source), free(t->done);
    free(t);
}

static enum lvn_status check(int size, const int64_t *leaf)
{
    for (int i = 0; i < size; i++)
        LVN_CHECK(leaf[i] <= leaf[i + 1], ARG, "rank %d holds leaves %lld to %lld", i, (long long)leaf[i],
                  (long long)leaf[i + 1] - 1);
    LVN_CHECK(leaf[0] == 0 && leaf[size] > 0, ARG, "the ranks hold leaves %lld to %lld; wanted 0 and up",
              (long long)leaf[0], (long long)leaf[size] - 1);
    return LVN_OK;
}

enum lvn_status lvn_tree_make(struct lvn_tree **out, int size, int rank, int hosts, const int64_t *leaf)
{
    *out = NULL;
    if (leaf) LVN_TRY(check(size, leaf));
    struct lvn_tree *t = lvn_calloc(1, sizeof *t);
    if (!t) return LVN_MEMORY;
    t->size = size;
    t->rank = rank;
    t->hosts = lvn_sum_groups(size, hosts);
    t->per_host = size / t->hosts;
    t->host = rank / t->per_host;
    t->local = rank % t->per_host;
    t->plain = !leaf;
    t->segment = lvn_segment_bytes(count_sources(leaf, size, 0, size));
    enum lvn_status status = plan(t, leaf);
    if (status == LVN_OK) status = make_slots(t);
    if (status == LVN_OK)
        *out = t;
    else
        lvn_tree_free(t);
    return status;
}

enum lvn_status lvn_tree_new(struct lvn_tree **out, const struct lvn_comm *c, const int64_t *leaf)
{
    return lvn_tree_make(out, c->size, c->rank, c->hosts, leaf);
}
