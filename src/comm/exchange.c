/* exchange.c - long vectors summed and gathered with messages alone, in pieces, the sum always in the same order.
 *
 * The vector is cut into one shard a rank. Everybody sends its parts of shard s to rank s, which adds them and, where
 * all are to have the result, sends the sum to everybody: each rank sends and receives about twice the vector, as in
 * the best known ways. All goes piece by piece, a few pieces of every peer under way, so that memory is bounded and the
 * ways there, the adding and the ways back overlap.
 *
 * A rank's part is the sums of its subtrees (comm.h); they meet in the order of the tree, so that the bits depend on
 * the leaves alone. Plain sums are the case of one leaf a rank. bf16 is widened and added in fp32; plain sums are
 * rounded once, those of a tree at every node, for another split makes a node a part that some rank holds.
 *
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005 (reduce-
 * scatter by pairwise exchange, then all-gather). */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/bf16.h"
#include "comm/engine.h"

enum {
    DEPTH = 3,       /* pieces of one peer that may be under way */
    BLOCK = 2048,    /* elements that are added at once: they stay in the first cache */
    MEMORY = 8 << 20 /* bytes that arriving pieces may take */
};

/* Pieces sent to a peer, and of them arrived there; of each kind of message. Kinds: parts of its shard to it, sums of
 * my shard to it, sums of its shard from it. */
enum lane_kind { PARTS, SUMS_OUT, SUMS_IN, LANES };
struct lane {
    int64_t pieces, issued, done;
    int busy[DEPTH]; /* messages under way for each piece */
};
struct peer {
    struct lane lane[LANES];
};
struct addition {
    int into, from; /* sources */
};

struct lvn_tree {
    int rank, size;
    bool plain;                  /* one leaf a rank */
    int n_sources, n_mine, mine; /* parts that make up a sum: of all ranks, of mine, the first of mine */
    int *owner;                  /* [n_sources] rank */
    struct addition *add;        /* [n_sources - 1] in this order; the sum ends in source 0 */
    int64_t piece;               /* bytes */
    char *arriving;              /* [DEPTH][n_sources - n_mine][piece] */
    float *wide;                 /* [n_sources][BLOCK] of bf16 */
    void **source;               /* [n_sources] while adding */
    /* [DEPTH][n_in] arriving parts, [DEPTH][size][n_mine] parts to others, [DEPTH][size] sums to, sums from others */
    char *handles;
    int *done;
    int n_handles, at_parts, at_sums_out, at_sums_in;
    struct peer *peers; /* [size] */
    struct lane in;     /* pieces of my shard: issued: asked of the others, done: added */
};

/* --- who adds what --- */

struct planner {
    const struct lvn_subtree *tree; /* of every source */
    int next, n_adds;
    struct addition *add;
};

/* Plan the node over [from, to); returns the source in which its sum ends. */
static int plan_node(struct planner *p, int64_t from, int64_t to)
{
    if (p->tree[p->next].first == from && p->tree[p->next].end == to) return p->next++;
    int64_t middle = from + lvn_tree_half(to - from);
    int a = plan_node(p, from, middle), b = plan_node(p, middle, to);
    p->add[p->n_adds++] = (struct addition){.into = a, .from = b};
    return a;
}

static int count_sources(int size, const int64_t *leaf, int rank, int *mine)
{
    struct lvn_subtree some[LVN_MAX_SUBTREES];
    int n = 0;
    *mine = 1;
    if (!leaf) return size;
    *mine = 0;
    for (int r = 0; r < size; r++) {
        int here = lvn_subtrees(leaf[size], leaf[r], leaf[r + 1], some);
        if (r == rank) *mine = here;
        n += here;
    }
    return n;
}

/* All ranks must come to the same. */
int64_t lvn_piece_bytes(int n_sources)
{
    int64_t most = MEMORY / (DEPTH * (n_sources > 1 ? n_sources - 1 : 1)), piece = 512 << 10;
    while (piece > most && piece > 16 << 10) piece /= 2;
    return piece;
}

static void free_parts(struct lvn_tree *t)
{
    free(t->owner);
    free(t->add);
    free(t->arriving);
    free(t->wide);
    free(t->source);
    free(t->handles);
    free(t->done);
    free(t->peers);
}

void lvn_tree_free(struct lvn_tree *t)
{
    if (!t) return;
    free_parts(t);
    free(t);
}

int64_t lvn_tree_bytes(int size, int rank, const int64_t *leaf)
{
    int mine, n = count_sources(size, leaf, rank, &mine);
    int64_t handles = DEPTH * ((int64_t)n - mine + (int64_t)size * (mine + 2));
    return DEPTH * (n - mine) * lvn_piece_bytes(n) + (int64_t)n * (BLOCK * 4 + 20) + handles * 12 +
           size * (int64_t)sizeof(struct peer) + (int64_t)sizeof(struct lvn_tree);
}

static enum lvn_status plan(struct lvn_tree *t, const int64_t *leaf)
{
    struct lvn_subtree *tree = lvn_malloc(sizeof *tree * (size_t)(t->n_sources + LVN_MAX_SUBTREES));
    if (!tree) return LVN_MEMORY;
    int n = 0;
    for (int r = 0; r < t->size; r++) {
        if (r == t->rank) t->mine = n;
        int here = lvn_subtrees(leaf[t->size], leaf[r], leaf[r + 1], tree + n);
        for (int k = 0; k < here; k++) t->owner[n++] = r;
    }
    struct planner p = {.tree = tree, .add = t->add};
    plan_node(&p, 0, leaf[t->size]);
    free(tree);
    return LVN_OK;
}

static enum lvn_status make_parts(struct lvn_tree *t, const int64_t *leaf)
{
    size_t n = (size_t)t->n_sources, in = n - (size_t)t->n_mine, size = (size_t)t->size;
    t->piece = lvn_piece_bytes(t->n_sources);
    t->at_parts = DEPTH * (int)in;
    t->at_sums_out = t->at_parts + DEPTH * t->size * t->n_mine;
    t->at_sums_in = t->at_sums_out + DEPTH * t->size;
    t->n_handles = t->at_sums_in + DEPTH * t->size;
    t->owner = lvn_calloc(n, sizeof *t->owner);
    t->add = lvn_calloc(n, sizeof *t->add);
    t->arriving = lvn_malloc(DEPTH * in * (size_t)t->piece + 1);
    t->wide = lvn_malloc(n * BLOCK * sizeof *t->wide);
    t->source = lvn_calloc(n, sizeof *t->source);
    t->handles = lvn_calloc((size_t)t->n_handles, sizeof(void *));
    t->done = lvn_calloc((size_t)t->n_handles, sizeof *t->done);
    t->peers = lvn_calloc(size, sizeof *t->peers);
    if (!t->owner || !t->add || !t->arriving || !t->wide || !t->source || !t->handles || !t->done || !t->peers)
        return LVN_MEMORY;
    return plan(t, leaf);
}

enum lvn_status lvn_tree_make(struct lvn_tree **out, int size, int rank, const int64_t *leaf)
{
    *out = NULL;
    for (int i = 0; i < size; i++)
        LVN_CHECK(leaf[i] <= leaf[i + 1], ARG, "rank %d holds leaves %lld to %lld", i, (long long)leaf[i],
                  (long long)leaf[i + 1] - 1);
    LVN_CHECK(leaf[0] == 0 && leaf[size] > 0, ARG, "the ranks hold leaves %lld to %lld; wanted 0 and up",
              (long long)leaf[0], (long long)leaf[size] - 1);
    struct lvn_tree *t = lvn_calloc(1, sizeof *t);
    if (!t) return LVN_MEMORY;
    t->size = size;
    t->rank = rank;
    t->n_sources = count_sources(size, leaf, rank, &t->n_mine);
    enum lvn_status status = make_parts(t, leaf);
    if (status == LVN_OK)
        *out = t;
    else
        lvn_tree_free(t);
    return status;
}

enum lvn_status lvn_tree_flat(struct lvn_tree **out, int size, int rank)
{
    int64_t *leaf = lvn_malloc((size_t)(size + 1) * sizeof *leaf);
    if (!leaf) return LVN_MEMORY;
    for (int i = 0; i <= size; i++) leaf[i] = i;
    enum lvn_status status = lvn_tree_make(out, size, rank, leaf);
    if (status == LVN_OK) (*out)->plain = true;
    free(leaf);
    return status;
}

/* --- adding --- */

/* t->source: where the n elements of each source lie. */
static void add_piece(const struct lvn_tree *t, void *out, int64_t n, enum lvn_dtype type)
{
    int n_adds = t->n_sources - 1;
    int64_t bytes = lvn_dtype_bytes(type);
    if (!n_adds && out != t->source[0]) memcpy(out, t->source[0], (size_t)(n * bytes));
    for (int64_t at = 0; at < n && n_adds; at += BLOCK) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK;
        for (int s = 0; type == LVN_BF16 && s < t->n_sources; s++)
            lvn_widen(t->wide + (int64_t)s * BLOCK, (const uint16_t *)t->source[s] + at, m);
        for (int k = 0; k < n_adds; k++) {
            int a = t->add[k].into, b = t->add[k].from;
            bool last = k == n_adds - 1;
            if (type == LVN_F64) {
                double *x = (double *)t->source[a] + at;
                lvn_add_f64(last ? (double *)out + at : x, x, (const double *)t->source[b] + at, m);
            } else if (type == LVN_F32) {
                float *x = (float *)t->source[a] + at;
                lvn_add_f32(last ? (float *)out + at : x, x, (const float *)t->source[b] + at, m);
            } else {
                float *x = t->wide + (int64_t)a * BLOCK;
                lvn_add_f32(x, x, t->wide + (int64_t)b * BLOCK, m);
                for (int64_t i = 0; !t->plain && i < m; i++) x[i] = lvn_bf16_get(lvn_bf16_make(x[i]));
            }
        }
        if (type == LVN_BF16) lvn_narrow((uint16_t *)out + at, t->wide, m);
    }
}

/* --- one exchange under way --- */

/* Where rank i's part begins: r->first[i], or an even split. */
static int64_t first_of(const struct lvn_request *r, int size, int i)
{
    if (r->first) return r->first[i];
    int64_t line = 64, lines = (r->count + line - 1) / line, at = lines * i / size * line;
    return at < r->count ? at : r->count;
}

struct view {
    struct lvn_engine *c;
    struct lvn_request *r;
    struct lvn_tree *t;
    int64_t bytes; /* of an element */
    bool *moved;
};

static char *handle(const struct view *v, int index)
{
    return v->t->handles + (int64_t)index * v->c->handle_bytes;
}

/* Piece n of rank i's shard, in bytes from the start of the vector. */
static int64_t piece_at(const struct view *v, int i, int64_t n, int64_t *bytes)
{
    int64_t begin = first_of(v->r, v->t->size, i) * v->bytes;
    int64_t end = first_of(v->r, v->t->size, i + 1) * v->bytes, at = begin + n * v->t->piece;
    *bytes = end - at < v->t->piece ? end - at : v->t->piece;
    return at;
}

static char *part(const struct view *v, int k)
{
    return v->r->partial ? v->r->partial[k] : v->r->x;
}

static int tag(const struct view *v, bool sums)
{
    return LVN_TAGS + 2 * (int)(v->r->number % (LVN_TAGS / 2 - 1)) + sums;
}

void lvn_exchange_start(struct lvn_engine *c, struct lvn_request *r)
{
    struct lvn_tree *t = r->tree;
    int64_t bytes = lvn_dtype_bytes((enum lvn_dtype)r->type), mine = 0;
    const bool sum = r->kind != LVN_ASK_ALL_GATHER;
    for (int h = 0; h < t->n_handles; h++) c->transport->clear(c->state, t->handles + (int64_t)h * c->handle_bytes);
    for (int i = 0; i < t->size; i++) {
        int64_t shard = (first_of(r, t->size, i + 1) - first_of(r, t->size, i)) * bytes;
        int64_t pieces = (shard + t->piece - 1) / t->piece;
        t->peers[i] = (struct peer){0};
        if (i == t->rank)
            mine = pieces;
        else if (sum && t->n_mine)
            t->peers[i].lane[PARTS].pieces = pieces;
        if (i != t->rank && r->gather) t->peers[i].lane[SUMS_IN].pieces = pieces;
    }
    for (int i = 0; i < t->size && r->gather; i++)
        if (i != t->rank) t->peers[i].lane[SUMS_OUT].pieces = mine;
    t->in = (struct lane){.pieces = mine, .issued = sum ? 0 : mine, .done = sum ? 0 : mine};
}

/* Which lane and piece a finished handle belongs to. */
static void count_done(struct lvn_tree *t, int index)
{
    if (index < t->at_parts)
        t->in.busy[index / (t->n_sources - t->n_mine)]--;
    else if (index < t->at_sums_out)
        t->peers[(index - t->at_parts) / t->n_mine % t->size]
            .lane[PARTS]
            .busy[(index - t->at_parts) / t->n_mine / t->size]--;
    else if (index < t->at_sums_in)
        t->peers[(index - t->at_sums_out) % t->size].lane[SUMS_OUT].busy[(index - t->at_sums_out) / t->size]--;
    else
        t->peers[(index - t->at_sums_in) % t->size].lane[SUMS_IN].busy[(index - t->at_sums_in) / t->size]--;
}

static int poll_all(const struct view *v)
{
    struct lvn_tree *t = v->t;
    int n = 0, code = v->c->transport->test(v->c->state, t->handles, t->n_handles, &n, t->done);
    if (code) return code;
    for (int k = 0; k < n; k++) count_done(t, t->done[k]);
    *v->moved |= n > 0;
    for (int i = 0; i < t->size; i++)
        for (int l = 0; l < LANES; l++) {
            struct lane *lane = &t->peers[i].lane[l];
            while (lane->done < lane->issued && !lane->busy[lane->done % DEPTH]) lane->done++;
        }
    return 0;
}

/* Ask the others for their parts of the next pieces of my shard. */
static int ask_parts(const struct view *v)
{
    struct lvn_tree *t = v->t;
    int in = t->n_sources - t->n_mine;
    for (; t->in.issued < t->in.pieces && t->in.issued - t->in.done < DEPTH; t->in.issued++) {
        int64_t bytes, slot = t->in.issued % DEPTH;
        (void)piece_at(v, t->rank, t->in.issued, &bytes);
        t->in.busy[slot] = in;
        for (int s = 0, j = 0; s < t->n_sources; s++) {
            if (t->owner[s] == t->rank) continue;
            int code = v->c->transport->receive(v->c->state, t->arriving + (slot * in + j) * t->piece, bytes,
                                                t->owner[s], tag(v, false), handle(v, (int)slot * in + j));
            if (code) return code;
            j++;
        }
        *v->moved = true;
    }
    return 0;
}

/* Add the pieces of my shard that have come. */
static void add_parts(const struct view *v)
{
    struct lvn_tree *t = v->t;
    int in = t->n_sources - t->n_mine;
    for (; t->in.done < t->in.issued && !t->in.busy[t->in.done % DEPTH]; t->in.done++) {
        int64_t bytes, slot = t->in.done % DEPTH, at = piece_at(v, t->rank, t->in.done, &bytes);
        for (int s = 0, j = 0; s < t->n_sources; s++)
            t->source[s] =
                t->owner[s] == t->rank ? part(v, s - t->mine) + at : t->arriving + (slot * in + j++) * t->piece;
        add_piece(t, (char *)v->r->x + at, bytes / v->bytes, (enum lvn_dtype)v->r->type);
        *v->moved = true;
    }
}

static bool room(const struct lane *l)
{
    return l->issued < l->pieces && l->issued - l->done < DEPTH;
}

/* My parts of rank i's shard, to it. */
static int send_parts(const struct view *v, int i)
{
    struct lvn_tree *t = v->t;
    struct lane *l = &t->peers[i].lane[PARTS];
    for (; room(l); l->issued++) {
        int64_t bytes, at = piece_at(v, i, l->issued, &bytes);
        int slot = (int)(l->issued % DEPTH);
        l->busy[slot] = t->n_mine;
        for (int k = 0; k < t->n_mine; k++) {
            int code = v->c->transport->send(v->c->state, part(v, k) + at, bytes, i, tag(v, false),
                                             handle(v, t->at_parts + (slot * t->size + i) * t->n_mine + k));
            if (code) return code;
        }
        *v->moved = true;
    }
    return 0;
}

/* The sums of my shard to rank i, as far as they are made. */
static int send_sums(const struct view *v, int i)
{
    struct lvn_tree *t = v->t;
    struct lane *l = &t->peers[i].lane[SUMS_OUT];
    for (; room(l) && l->issued < t->in.done; l->issued++) {
        int64_t bytes, at = piece_at(v, t->rank, l->issued, &bytes);
        int slot = (int)(l->issued % DEPTH);
        l->busy[slot] = 1;
        int code = v->c->transport->send(v->c->state, (char *)v->r->x + at, bytes, i, tag(v, true),
                                         handle(v, t->at_sums_out + slot * t->size + i));
        if (code) return code;
        *v->moved = true;
    }
    return 0;
}

/* The sums of rank i's shard, into the place from which my part of them has gone. */
static int ask_sums(const struct view *v, int i)
{
    struct lvn_tree *t = v->t;
    struct lane *l = &t->peers[i].lane[SUMS_IN];
    const struct lane *gone = &t->peers[i].lane[PARTS];
    for (; room(l) && (!gone->pieces || l->issued < gone->done); l->issued++) {
        int64_t bytes, at = piece_at(v, i, l->issued, &bytes);
        int slot = (int)(l->issued % DEPTH);
        l->busy[slot] = 1;
        int code = v->c->transport->receive(v->c->state, (char *)v->r->x + at, bytes, i, tag(v, true),
                                            handle(v, t->at_sums_in + slot * t->size + i));
        if (code) return code;
        *v->moved = true;
    }
    return 0;
}

int lvn_exchange_step(struct lvn_engine *c, struct lvn_request *r, bool *moved, bool *finished)
{
    struct lvn_tree *t = r->tree;
    struct view v = {.c = c, .r = r, .t = t, .bytes = lvn_dtype_bytes((enum lvn_dtype)r->type), .moved = moved};
    int code = poll_all(&v);
    if (!code) code = ask_parts(&v);
    add_parts(&v);
    *finished = t->in.done == t->in.pieces;
    for (int k = 1; k < t->size && !code; k++) {
        int to = (t->rank + k) % t->size; /* everybody starts with another one */
        code = send_parts(&v, to);
        if (!code) code = send_sums(&v, to);
        if (!code) code = ask_sums(&v, to);
        for (int l = 0; l < LANES; l++) *finished &= t->peers[to].lane[l].done == t->peers[to].lane[l].pieces;
    }
    return code;
}

int lvn_exchange_awaits(const struct lvn_engine *c, const struct lvn_request *r)
{
    const struct lvn_tree *t = r->tree;
    char none[8];
    c->transport->clear(c->state, none);
    int64_t in = t->n_sources - t->n_mine, slot = t->in.done % DEPTH;
    for (int s = 0, j = 0; t->in.done < t->in.issued && s < t->n_sources; s++) {
        if (t->owner[s] == t->rank) continue;
        if (memcmp(t->handles + (slot * in + j++) * c->handle_bytes, none, (size_t)c->handle_bytes)) return t->owner[s];
    }
    for (int i = 0; i < t->size; i++)
        for (int l = 0; l < LANES; l++)
            if (t->peers[i].lane[l].done < t->peers[i].lane[l].issued) return i;
    return -1;
}
