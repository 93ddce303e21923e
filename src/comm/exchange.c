/* exchange.c - long vectors summed and gathered with messages alone, in pieces, the sum always in the same order.
 *
 * The vector is cut into one shard a rank. Within a host, rank j gets everybody's parts of the shards that the ranks
 * number j of all hosts have, and adds them; those ranks exchange and add what their hosts have made, each for its own
 * shard; where all are to have the result, the totals go the same way back. With one host, or one rank on each, that is
 * the direct exchange: each rank sends and receives about twice the vector, as in the best known ways. Between hosts
 * every number then goes once each way, not once for each rank.
 *
 * All goes by chunks, which hold a piece of every shard. A few chunks are under way at a time, those of the next vector
 * behind those of the last one, so that memory is bounded, and ways there, adding and ways back overlap. All ranks take
 * chunks in the same order, and a chunk's turn in it is in its tags.
 *
 * A rank's part is the sums of its subtrees (comm.h); they meet in the order of the tree, so that the bits depend on
 * the leaves alone. Plain sums are the case of one leaf a rank. bf16 is widened and added in fp32; plain sums are
 * rounded once on each host and once between hosts, those of a tree at every node, for another split makes a node a
 * part that some rank holds.
 *
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005 (reduce-
 * scatter by pairwise exchange, then all-gather). */
#include "comm/exchange.h"

#include <string.h>

/* --- where things lie --- */

/* A chunk under way, and what it belongs to. */
struct view {
    struct lvn_engine *c;
    struct lvn_request *r;
    struct lvn_tree *t;
    struct lvn_slot *slot;
    int64_t bytes; /* of an element */
};

/* Shards need not be certain ranks' where all have the whole sum in the end: then those of a region are neighbours. */
static bool is_free(const struct lvn_request *r)
{
    return r->kind != LVN_REQUEST_ALL_GATHER && r->gather;
}

static int64_t n_chunks(const struct lvn_request *r, int64_t bytes)
{
    const struct lvn_tree *t = r->tree;
    const int64_t piece = t->piece / bytes, chunk = piece * t->size;
    int64_t max = 0;
    if (is_free(r)) return (r->count + chunk - 1) / chunk;
    for (int i = 0; i < t->size; i++) {
        int64_t n = (r->first[i + 1] - r->first[i] + piece - 1) / piece;
        max = n > max ? n : max;
    }
    return max;
}

/* Elements of the vector. */
struct range {
    int64_t at, n;
};

/* Of shards [q, q + n) of a free chunk: an even split in whole lines. */
static struct range free_range(const struct view *v, int q, int n)
{
    const struct lvn_tree *t = v->t;
    const int64_t chunk = t->piece / v->bytes * t->size, from = v->slot->chunk * chunk, left = v->r->count - from,
                  m = left < chunk ? left : chunk, lines = (m + LVN_LINE - 1) / LVN_LINE;
    int64_t a = lines * q / t->size * LVN_LINE, b = lines * (q + n) / t->size * LVN_LINE;
    if (a > m) a = m;
    if (b > m) b = m;
    return (struct range){from + a, b - a};
}

/* The piece of rank `local` of `host`. */
static struct range piece_of(const struct view *v, int host, int local)
{
    const struct lvn_tree *t = v->t;
    const int rank = host * t->per_host + local;
    if (is_free(v->r)) return free_range(v, local * t->hosts + host, 1);
    const int64_t piece = t->piece / v->bytes, at = v->r->first[rank] + v->slot->chunk * piece,
                  left = v->r->first[rank + 1] - at;
    return (struct range){at, left < 0 ? 0 : left < piece ? left : piece};
}

/* The region of rank `local` of every host goes as one message, or as one for each host. */
static int n_parts(const struct view *v)
{
    return is_free(v->r) ? 1 : v->t->hosts;
}

static struct range region_part(const struct view *v, int part, int local)
{
    return is_free(v->r) ? free_range(v, local * v->t->hosts, v->t->hosts) : piece_of(v, part, local);
}

static char *in_vector(const struct view *v, const void *x, int64_t at)
{
    union {
        const void *in;
        char *out;
    } p = {.in = x};
    return p.out + at * v->bytes;
}

/* My k-th partial sum. */
static void *partial(const struct view *v, int k)
{
    return v->r->partial ? v->r->partial[k] : v->r->x;
}

/* Which of the level's sources that are others' is this? */
static int foreign(const struct lvn_exchange_stage *l, int s)
{
    return s < l->mine ? s : s - l->n_mine;
}

/* Where part `part` of what the host's source s has of my region arrives. */
static char *arriving(const struct view *v, int s, int part)
{
    const struct lvn_tree *t = v->t;
    return v->slot->arriving[0] + ((int64_t)foreign(&t->level[0], s) * t->hosts + part) * t->piece;
}

/* Source s of the host's level, as far as it is the piece of my number on `host`. */
static char *host_source(const struct view *v, int s, int host)
{
    const struct lvn_tree *t = v->t;
    const struct lvn_exchange_stage *l = &t->level[0];
    const struct range piece = piece_of(v, host, t->local);
    if (l->owner[s] == l->me) return in_vector(v, partial(v, s - l->mine), piece.at);
    if (!is_free(v->r)) return arriving(v, s, host);
    return arriving(v, s, 0) + (piece.at - region_part(v, 0, t->local).at) * v->bytes;
}

/* The k-th sum that this host has made of that piece. */
static char *host_sum(const struct view *v, int k, int host)
{
    return host_source(v, v->t->level[0].result[k], host);
}

static void add_host(const struct view *v)
{
    const struct lvn_tree *t = v->t;
    const struct lvn_exchange_stage *l = &t->level[0];
    for (int h = 0; h < t->hosts; h++) {
        const struct range piece = piece_of(v, h, t->local);
        for (int s = 0; s < l->n_sources; s++) t->source[s] = host_source(v, s, h);
        lvn_add_sources(t, l, t->hosts == 1 ? in_vector(v, v->r->x, piece.at) : NULL, piece.n,
                        (enum lvn_dtype)v->r->type);
    }
}

static void add_hosts(const struct view *v)
{
    const struct lvn_tree *t = v->t;
    const struct lvn_exchange_stage *l = &t->level[1];
    const struct range piece = piece_of(v, t->host, t->local);
    for (int s = 0; s < l->n_sources && t->hosts > 1; s++)
        t->source[s] =
            l->owner[s] == l->me ? host_sum(v, s - l->mine, t->host) : v->slot->arriving[1] + foreign(l, s) * t->piece;
    if (t->hosts > 1) lvn_add_sources(t, l, in_vector(v, v->r->x, piece.at), piece.n, (enum lvn_dtype)v->r->type);
}

/* --- messages --- */

static char *handle(const struct view *v, int index)
{
    return v->slot->handles + (int64_t)index * v->c->handle_bytes;
}

/* Ranks know requests by number, slots by order. Below 32768, which every MPI allows. */
static int tag(const struct view *v, enum lvn_transfer_kind lane)
{
    enum { WINDOW = 1023, LEGS = LVN_TRANSFERS / 2 };
    return LVN_TAGS + ((int)(v->r->number % WINDOW) * LVN_SLOTS + v->slot->turn) * LEGS + (int)lane / 2;
}

/* One message of a lane, to or from a member of a level. */
static int post(const struct view *v, enum lvn_transfer_kind lane, int member, char *x, int64_t n)
{
    const struct lvn_exchange_stage *l =
        &v->t->level[lane == LVN_A_OUT || lane == LVN_A_IN || lane >= LVN_D_OUT ? 0 : 1];
    struct lvn_exchange_transfer *q = &v->slot->lane[lane];
    const int rank = l->first + member * l->stride, index = v->t->at[lane] + q->n;
    if (!n) return 0;
    v->slot->peer[index] = rank;
    q->n++;
    q->busy++;
    return lane % 2 ? v->c->transport->receive(v->c->state, x, n * v->bytes, rank, tag(v, lane), handle(v, index))
                    : v->c->transport->send(v->c->state, x, n * v->bytes, rank, tag(v, lane), handle(v, index));
}

/* My parts of the regions of the others of this host. */
static int send_parts(const struct view *v)
{
    const struct lvn_exchange_stage *l = &v->t->level[0];
    int code = 0;
    for (int i = 1; i < l->n; i++) {
        const int to = (l->me + i) % l->n; /* everybody starts with another one */
        for (int p = 0; p < n_parts(v); p++) {
            const struct range x = region_part(v, p, to);
            for (int k = 0; k < l->n_mine && !code; k++)
                code = post(v, LVN_A_OUT, to, in_vector(v, partial(v, k), x.at), x.n);
        }
    }
    return code;
}

static int ask_parts(const struct view *v)
{
    const struct lvn_exchange_stage *l = &v->t->level[0];
    int code = 0;
    for (int p = 0; p < n_parts(v); p++) {
        const struct range x = region_part(v, p, l->me);
        for (int s = 0; s < l->n_sources && !code; s++)
            if (l->owner[s] != l->me) code = post(v, LVN_A_IN, l->owner[s], arriving(v, s, p), x.n);
    }
    return code;
}

static int send_host_sums(const struct view *v)
{
    const struct lvn_exchange_stage *l = &v->t->level[1];
    int code = 0;
    for (int i = 1; i < l->n; i++) {
        const int to = (l->me + i) % l->n;
        for (int k = 0; k < l->n_mine && !code; k++)
            code = post(v, LVN_B_OUT, to, host_sum(v, k, to), piece_of(v, to, v->t->local).n);
    }
    return code;
}

static int ask_host_sums(const struct view *v)
{
    const struct lvn_exchange_stage *l = &v->t->level[1];
    const int64_t n = piece_of(v, l->me, v->t->local).n;
    int code = 0;
    for (int s = 0; s < l->n_sources && !code; s++)
        if (l->owner[s] != l->me)
            code = post(v, LVN_B_IN, l->owner[s], v->slot->arriving[1] + foreign(l, s) * v->t->piece, n);
    return code;
}

/* The total of my piece to the other hosts, or theirs. */
static int move_totals(const struct view *v, enum lvn_transfer_kind lane)
{
    const struct lvn_exchange_stage *l = &v->t->level[1];
    int code = 0;
    for (int i = 1; i < l->n && !code; i++) {
        const int member = (l->me + i) % l->n;
        const struct range x = piece_of(v, lane == LVN_C_OUT ? l->me : member, v->t->local);
        code = post(v, lane, member, in_vector(v, v->r->x, x.at), x.n);
    }
    return code;
}

/* All totals of my region to the others of this host, or theirs. */
static int move_regions(const struct view *v, enum lvn_transfer_kind lane)
{
    const struct lvn_exchange_stage *l = &v->t->level[0];
    int code = 0;
    for (int i = 1; i < l->n; i++) {
        const int member = (l->me + i) % l->n;
        for (int p = 0; p < n_parts(v) && !code; p++) {
            const struct range x = region_part(v, p, lane == LVN_D_OUT ? l->me : member);
            code = post(v, lane, member, in_vector(v, v->r->x, x.at), x.n);
        }
    }
    return code;
}

static int start_lane(const struct view *v, enum lvn_transfer_kind lane)
{
    v->slot->lane[lane].started = true;
    switch (lane) {
    case LVN_A_OUT:
        return send_parts(v);
    case LVN_A_IN:
        return ask_parts(v);
    case LVN_B_OUT:
        return send_host_sums(v);
    case LVN_B_IN:
        return ask_host_sums(v);
    case LVN_C_OUT:
    case LVN_C_IN:
        return move_totals(v, lane);
    default:
        return move_regions(v, lane);
    }
}

/* --- a chunk's way --- */

static bool over(const struct lvn_slot *s, enum lvn_transfer_kind lane)
{
    return s->lane[lane].started && !s->lane[lane].busy;
}

/* Can it start? What comes back is written where parts lie that must have gone first. */
static bool is_due(const struct lvn_slot *s, enum lvn_transfer_kind lane)
{
    const bool gather = s->r->gather;
    switch (lane) {
    case LVN_B_OUT:
    case LVN_B_IN:
        return s->host_added;
    case LVN_C_OUT:
        return gather && s->added;
    case LVN_C_IN:
        return gather && over(s, LVN_B_OUT);
    case LVN_D_OUT:
        return gather && s->added && over(s, LVN_C_IN);
    case LVN_D_IN:
        return gather && over(s, LVN_A_OUT);
    default:
        return true;
    }
}

/* As far as it goes now. */
static int advance(const struct view *v, bool *moved)
{
    struct lvn_slot *s = v->slot;
    int code = 0;
    for (bool more = true; more && !code; *moved |= more) {
        more = false;
        if (!s->host_added && over(s, LVN_A_IN)) add_host(v), more = s->host_added = true;
        if (s->host_added && !s->added && over(s, LVN_B_IN)) add_hosts(v), more = s->added = true;
        for (int lane = 0; lane < LVN_TRANSFERS && !code; lane++) {
            if (s->lane[lane].started || !is_due(s, (enum lvn_transfer_kind)lane)) continue;
            code = start_lane(v, (enum lvn_transfer_kind)lane);
            more = true;
        }
    }
    return code;
}

static bool is_over(const struct lvn_slot *s)
{
    for (int lane = 0; lane < LVN_TRANSFERS; lane++)
        if ((lane < LVN_C_OUT || s->r->gather) && !over(s, (enum lvn_transfer_kind)lane)) return false;
    return s->added;
}

/* Put the request's next chunk into a slot: the first free one, whose memory is the likeliest to be in the cache. */
static struct lvn_slot *take_chunk(struct lvn_engine *c, struct lvn_request *r)
{
    struct lvn_tree *t = r->tree;
    struct lvn_slot *slot = t->slot;
    const bool sum = r->kind != LVN_REQUEST_ALL_GATHER;
    while (slot->r) slot++;
    slot->turn = (int)(t->taken++ % LVN_SLOTS);
    t->turn[slot->turn] = slot;
    slot->r = r;
    slot->chunk = r->at++;
    slot->host_added = slot->added = !sum;
    for (int lane = 0; lane < LVN_TRANSFERS; lane++)
        slot->lane[lane] = (struct lvn_exchange_transfer){.started = !sum && lane < LVN_C_OUT};
    for (int h = 0; h < t->n_handles; h++) c->transport->clear(c->state, slot->handles + (int64_t)h * c->handle_bytes);
    r->busy++;
    return slot;
}

static void give_back(struct lvn_tree *t, struct lvn_slot *slot)
{
    slot->r->busy--;
    slot->r = NULL;
    t->turn[slot->turn] = NULL;
}

/* The chunk of this request that is the k-th of those under way, the oldest first; NULL: that is over, or another's. */
static struct lvn_slot *chunk_in_turn(const struct lvn_tree *t, const struct lvn_request *r, int k)
{
    struct lvn_slot *slot = t->turn[(t->taken + k) % LVN_SLOTS];
    return slot && slot->r == r ? slot : NULL;
}

/* Which of the messages of a slot are done? One question for all. */
static int poll_slot(const struct view *v, bool *moved)
{
    struct lvn_slot *s = v->slot;
    const int *at = v->t->at;
    int first = LVN_TRANSFERS, end = 0, n = 0;
    for (int lane = 0; lane < LVN_TRANSFERS; lane++)
        if (s->lane[lane].busy) first = lane < first ? lane : first, end = lane + 1;
    if (!end) return 0;
    int code = v->c->transport->test(v->c->state, handle(v, at[first]), at[end] - at[first], &n, v->t->done);
    for (int k = 0; k < n && !code; k++) {
        int lane = first;
        while (v->t->done[k] + at[first] >= at[lane + 1]) lane++;
        s->lane[lane].busy--;
    }
    *moved |= n > 0;
    return code;
}

int lvn_exchange_step(struct lvn_engine *c, struct lvn_request *r, bool *moved, bool *issued, bool *finished)
{
    struct lvn_tree *t = r->tree;
    struct view v = {.c = c, .r = r, .t = t, .bytes = lvn_dtype_bytes((enum lvn_dtype)r->type)};
    const int64_t chunks = n_chunks(r, v.bytes);
    *finished = false;
    for (int k = 0; k < LVN_SLOTS; k++) {
        v.slot = chunk_in_turn(t, r, k);
        int code = v.slot ? poll_slot(&v, moved) : 0;
        if (v.slot && !code) code = advance(&v, moved);
        if (code) return code;
        if (v.slot && is_over(v.slot)) give_back(t, v.slot);
    }
    while (r->at < chunks && !t->turn[t->taken % LVN_SLOTS]) {
        v.slot = take_chunk(c, r);
        int code = advance(&v, moved);
        if (code) return code;
    }
    *issued = r->at == chunks;
    *finished = *issued && !r->busy;
    return 0;
}

int lvn_exchange_awaits(const struct lvn_engine *c, const struct lvn_request *r)
{
    static const enum lvn_transfer_kind order[] = {LVN_A_IN,  LVN_B_IN,  LVN_C_IN,  LVN_D_IN,
                                                   LVN_A_OUT, LVN_B_OUT, LVN_C_OUT, LVN_D_OUT};
    struct lvn_tree *t = r->tree;
    char none[8];
    c->transport->clear(c->state, none);
    for (int k = 0; k < LVN_SLOTS; k++) {
        const struct lvn_slot *s = chunk_in_turn(t, r, k);
        for (int o = 0; o < LVN_TRANSFERS && s; o++)
            for (int i = 0, at = t->at[order[o]]; i < s->lane[order[o]].n; i++)
                if (memcmp(s->handles + (int64_t)(at + i) * c->handle_bytes, none, (size_t)c->handle_bytes))
                    return s->peer[at + i];
    }
    return -1;
}
