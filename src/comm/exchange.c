/* exchange.c - sums and gathers of long vectors, built of messages, always in the same order of additions. engine.c
 * calls lvn_exchange_step() for each exchange in its queue.
 *
 * The vector is divided into one shard per rank. Within a host, rank j receives everybody's parts of the shards of
 * the ranks with local number j on all hosts (its partition), and adds them. The ranks with the same local number
 * exchange the sums of their hosts, and add them, each for its own shard. Where all ranks shall have the result, the
 * totals go back the same way. With one host, or one rank on each, that is the direct algorithm: each rank sends and
 * receives about twice the vector, which is optimal. Between hosts every number is sent once each way, not once for
 * each rank.
 *
 * Vectors are processed in chunks, each of which holds a segment of every shard. A few chunks are in progress at a
 * time, those of the next vector behind those of the last one, so memory is bounded, and sending, adding and sending
 * back overlap. All ranks process chunks in the same order; a chunk's sequence number is part of its tags.
 *
 * A rank contributes the sums of its subtrees (tree.h), which are added in the order of the tree, so the bits depend
 * on the leaves alone. Plain sums are the case of one leaf per rank. bf16 is converted and added in fp32. Plain sums
 * are rounded once within each host and once between hosts; those of a tree at every node, because with another
 * division a node is a partial sum that some rank holds.
 *
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005
 * (reduce-scatter by pairwise exchange, then all-gather). */
#include "comm/exchange.h"

#include <string.h>

/* --- layout --- */

/* A chunk in progress, and what it belongs to. */
struct view {
    struct lvn_engine *c;
    struct lvn_request *r;
    struct lvn_tree *t;
    struct lvn_slot *slot;
    int64_t bytes; /* of an element */
};

/* May the shards be any equal division of the vector? Yes where all ranks receive the whole sum; then the shards of
 * a partition are contiguous. */
static bool is_free(const struct lvn_request *r)
{
    return r->kind != LVN_REQUEST_ALL_GATHER && r->gather;
}

static int64_t n_chunks(const struct lvn_request *r, int64_t bytes)
{
    const struct lvn_tree *t = r->tree;
    const int64_t segment = t->segment / bytes, chunk = segment * t->size;
    int64_t max = 0;
    if (is_free(r)) return (r->count + chunk - 1) / chunk;
    for (int i = 0; i < t->size; i++) {
        int64_t n = (r->first[i + 1] - r->first[i] + segment - 1) / segment;
        max = n > max ? n : max;
    }
    return max;
}

/* A range of elements of the vector. */
struct range {
    int64_t at, n;
};

/* The range of shards [q, q + n) of a free chunk: divided evenly in multiples of LVN_LINE. */
static struct range free_range(const struct view *v, int q, int n)
{
    const struct lvn_tree *t = v->t;
    const int64_t chunk = t->segment / v->bytes * t->size, from = v->slot->chunk * chunk, left = v->r->count - from,
                  m = left < chunk ? left : chunk, lines = (m + LVN_LINE - 1) / LVN_LINE;
    int64_t a = lines * q / t->size * LVN_LINE, b = lines * (q + n) / t->size * LVN_LINE;
    if (a > m) a = m;
    if (b > m) b = m;
    return (struct range){from + a, b - a};
}

/* The segment of rank `local` of `host`. */
static struct range segment_of(const struct view *v, int host, int local)
{
    const struct lvn_tree *t = v->t;
    const int rank = host * t->per_host + local;
    if (is_free(v->r)) return free_range(v, local * t->hosts + host, 1);
    const int64_t segment = t->segment / v->bytes, at = v->r->first[rank] + v->slot->chunk * segment,
                  left = v->r->first[rank + 1] - at;
    return (struct range){at, left < 0 ? 0 : left < segment ? left : segment};
}

/* Messages per partition: one if it is contiguous, else one per host. */
static int n_parts(const struct view *v)
{
    return is_free(v->r) ? 1 : v->t->hosts;
}

static struct range partition_part(const struct view *v, int part, int local)
{
    return is_free(v->r) ? free_range(v, local * v->t->hosts, v->t->hosts) : segment_of(v, part, local);
}

static char *in_vector(const struct view *v, const void *x, int64_t at)
{
    union {
        const void *in;
        char *out;
    } p = {.in = x};
    return p.out + at * v->bytes;
}

/* This rank's k-th partial sum. */
static void *partial(const struct view *v, int k)
{
    return v->r->partial ? v->r->partial[k] : v->r->x;
}

/* Index of a source among those of other ranks. */
static int remote_index(const struct lvn_exchange_stage *l, int s)
{
    return s < l->mine ? s : s - l->n_mine;
}

/* Receive buffer for part `part` of source s of my partition. */
static char *received(const struct view *v, int s, int part)
{
    const struct lvn_tree *t = v->t;
    return v->slot->received[0] + ((int64_t)remote_index(&t->stage[0], s) * t->hosts + part) * t->segment;
}

/* Source s of the stage within the host, at the segment of my local number on `host`. */
static char *host_source(const struct view *v, int s, int host)
{
    const struct lvn_tree *t = v->t;
    const struct lvn_exchange_stage *l = &t->stage[0];
    const struct range segment = segment_of(v, host, t->local);
    if (l->owner[s] == l->me) return in_vector(v, partial(v, s - l->mine), segment.at);
    if (!is_free(v->r)) return received(v, s, host);
    return received(v, s, 0) + (segment.at - partition_part(v, 0, t->local).at) * v->bytes;
}

/* This host's k-th sum of that segment. */
static char *host_sum(const struct view *v, int k, int host)
{
    return host_source(v, v->t->stage[0].result[k], host);
}

static void add_within(const struct view *v)
{
    const struct lvn_tree *t = v->t;
    const struct lvn_exchange_stage *l = &t->stage[0];
    for (int h = 0; h < t->hosts; h++) {
        const struct range segment = segment_of(v, h, t->local);
        for (int s = 0; s < l->n_sources; s++) t->source[s] = host_source(v, s, h);
        lvn_add_sources(t, l, t->hosts == 1 ? in_vector(v, v->r->x, segment.at) : NULL, segment.n,
                        (enum lvn_dtype)v->r->type);
    }
}

static void add_between(const struct view *v)
{
    const struct lvn_tree *t = v->t;
    const struct lvn_exchange_stage *l = &t->stage[1];
    const struct range segment = segment_of(v, t->host, t->local);
    for (int s = 0; s < l->n_sources && t->hosts > 1; s++)
        t->source[s] = l->owner[s] == l->me ? host_sum(v, s - l->mine, t->host)
                                            : v->slot->received[1] + remote_index(l, s) * t->segment;
    if (t->hosts > 1) lvn_add_sources(t, l, in_vector(v, v->r->x, segment.at), segment.n, (enum lvn_dtype)v->r->type);
}

/* --- messages --- */

static char *handle(const struct view *v, int index)
{
    return v->slot->handles + (int64_t)index * v->c->handle_bytes;
}

/* Tags hold the number of the request and the sequence number of the chunk. Below 32768, which every MPI allows. */
static int tag(const struct view *v, enum lvn_transfer_kind transfer)
{
    enum { WINDOW = 1023, LEGS = LVN_TRANSFERS / 2 };
    return LVN_TAGS + ((int)(v->r->number % WINDOW) * LVN_SLOTS + v->slot->sequence) * LEGS + (int)transfer / 2;
}

/* Start one message of a transfer, to or from a member of its stage. */
static int post(const struct view *v, enum lvn_transfer_kind transfer, int member, char *x, int64_t n)
{
    const struct lvn_exchange_stage *l =
        &v->t->stage[transfer == LVN_REDUCE_WITHIN_SEND || transfer == LVN_REDUCE_WITHIN_RECEIVE ||
                             transfer >= LVN_GATHER_WITHIN_SEND
                         ? 0
                         : 1];
    struct lvn_exchange_transfer *q = &v->slot->transfer[transfer];
    const int rank = l->first + member * l->stride, index = v->t->at[transfer] + q->n;
    if (!n) return 0;
    v->slot->peer[index] = rank;
    q->n++;
    q->busy++;
    return transfer % 2
               ? v->c->transport->receive(v->r->group->state, x, n * v->bytes, rank, tag(v, transfer), handle(v, index))
               : v->c->transport->send(v->r->group->state, x, n * v->bytes, rank, tag(v, transfer), handle(v, index));
}

/* Send my partial sums of the partitions of the other ranks of this host. */
static int send_parts(const struct view *v)
{
    const struct lvn_exchange_stage *l = &v->t->stage[0];
    int code = 0;
    for (int i = 1; i < l->n; i++) {
        const int to = (l->me + i) % l->n; /* each rank starts with a different one */
        for (int p = 0; p < n_parts(v); p++) {
            const struct range x = partition_part(v, p, to);
            for (int k = 0; k < l->n_mine && !code; k++)
                code = post(v, LVN_REDUCE_WITHIN_SEND, to, in_vector(v, partial(v, k), x.at), x.n);
        }
    }
    return code;
}

static int receive_parts(const struct view *v)
{
    const struct lvn_exchange_stage *l = &v->t->stage[0];
    int code = 0;
    for (int p = 0; p < n_parts(v); p++) {
        const struct range x = partition_part(v, p, l->me);
        for (int s = 0; s < l->n_sources && !code; s++)
            if (l->owner[s] != l->me) code = post(v, LVN_REDUCE_WITHIN_RECEIVE, l->owner[s], received(v, s, p), x.n);
    }
    return code;
}

static int send_host_sums(const struct view *v)
{
    const struct lvn_exchange_stage *l = &v->t->stage[1];
    int code = 0;
    for (int i = 1; i < l->n; i++) {
        const int to = (l->me + i) % l->n;
        for (int k = 0; k < l->n_mine && !code; k++)
            code = post(v, LVN_REDUCE_BETWEEN_SEND, to, host_sum(v, k, to), segment_of(v, to, v->t->local).n);
    }
    return code;
}

static int receive_host_sums(const struct view *v)
{
    const struct lvn_exchange_stage *l = &v->t->stage[1];
    const int64_t n = segment_of(v, l->me, v->t->local).n;
    int code = 0;
    for (int s = 0; s < l->n_sources && !code; s++)
        if (l->owner[s] != l->me)
            code = post(v, LVN_REDUCE_BETWEEN_RECEIVE, l->owner[s],
                        v->slot->received[1] + remote_index(l, s) * v->t->segment, n);
    return code;
}

/* Send the total of my segment to the other hosts, or receive theirs. */
static int move_totals(const struct view *v, enum lvn_transfer_kind transfer)
{
    const struct lvn_exchange_stage *l = &v->t->stage[1];
    int code = 0;
    for (int i = 1; i < l->n && !code; i++) {
        const int member = (l->me + i) % l->n;
        const struct range x = segment_of(v, transfer == LVN_GATHER_BETWEEN_SEND ? l->me : member, v->t->local);
        code = post(v, transfer, member, in_vector(v, v->r->x, x.at), x.n);
    }
    return code;
}

/* Send all totals of my partition to the other ranks of this host, or receive theirs. */
static int move_partitions(const struct view *v, enum lvn_transfer_kind transfer)
{
    const struct lvn_exchange_stage *l = &v->t->stage[0];
    int code = 0;
    for (int i = 1; i < l->n; i++) {
        const int member = (l->me + i) % l->n;
        for (int p = 0; p < n_parts(v) && !code; p++) {
            const struct range x = partition_part(v, p, transfer == LVN_GATHER_WITHIN_SEND ? l->me : member);
            code = post(v, transfer, member, in_vector(v, v->r->x, x.at), x.n);
        }
    }
    return code;
}

static int start_transfer(const struct view *v, enum lvn_transfer_kind transfer)
{
    v->slot->transfer[transfer].started = true;
    switch (transfer) {
    case LVN_REDUCE_WITHIN_SEND:
        return send_parts(v);
    case LVN_REDUCE_WITHIN_RECEIVE:
        return receive_parts(v);
    case LVN_REDUCE_BETWEEN_SEND:
        return send_host_sums(v);
    case LVN_REDUCE_BETWEEN_RECEIVE:
        return receive_host_sums(v);
    case LVN_GATHER_BETWEEN_SEND:
    case LVN_GATHER_BETWEEN_RECEIVE:
        return move_totals(v, transfer);
    default:
        return move_partitions(v, transfer);
    }
}

/* --- processing a chunk --- */

static bool is_complete(const struct lvn_slot *s, enum lvn_transfer_kind transfer)
{
    return s->transfer[transfer].started && !s->transfer[transfer].busy;
}

/* May it start? Totals are received into the memory of parts that must have been sent first. */
static bool is_due(const struct lvn_slot *s, enum lvn_transfer_kind transfer)
{
    const bool gather = s->r->gather;
    switch (transfer) {
    case LVN_REDUCE_BETWEEN_SEND:
    case LVN_REDUCE_BETWEEN_RECEIVE:
        return s->host_added;
    case LVN_GATHER_BETWEEN_SEND:
        return gather && s->added;
    case LVN_GATHER_BETWEEN_RECEIVE:
        return gather && is_complete(s, LVN_REDUCE_BETWEEN_SEND);
    case LVN_GATHER_WITHIN_SEND:
        return gather && s->added && is_complete(s, LVN_GATHER_BETWEEN_RECEIVE);
    case LVN_GATHER_WITHIN_RECEIVE:
        return gather && is_complete(s, LVN_REDUCE_WITHIN_SEND);
    default:
        return true;
    }
}

/* Advance the chunk as far as possible now. */
static int advance(const struct view *v, bool *moved)
{
    struct lvn_slot *s = v->slot;
    int code = 0;
    for (bool more = true; more && !code; *moved |= more) {
        more = false;
        if (!s->host_added && is_complete(s, LVN_REDUCE_WITHIN_RECEIVE)) add_within(v), more = s->host_added = true;
        if (s->host_added && !s->added && is_complete(s, LVN_REDUCE_BETWEEN_RECEIVE))
            add_between(v), more = s->added = true;
        for (int transfer = 0; transfer < LVN_TRANSFERS && !code; transfer++) {
            if (s->transfer[transfer].started || !is_due(s, (enum lvn_transfer_kind)transfer)) continue;
            code = start_transfer(v, (enum lvn_transfer_kind)transfer);
            more = true;
        }
    }
    return code;
}

static bool chunk_is_complete(const struct lvn_slot *s)
{
    for (int transfer = 0; transfer < LVN_TRANSFERS; transfer++)
        if ((transfer < LVN_GATHER_BETWEEN_SEND || s->r->gather) && !is_complete(s, (enum lvn_transfer_kind)transfer))
            return false;
    return s->added;
}

/* Put the request's next chunk into the first free slot, whose memory is most likely to be in the cache. */
static struct lvn_slot *start_chunk(struct lvn_engine *c, struct lvn_request *r)
{
    struct lvn_tree *t = r->tree;
    struct lvn_slot *slot = t->slot;
    const bool sum = r->kind != LVN_REQUEST_ALL_GATHER;
    while (slot->r) slot++;
    slot->sequence = (int)(t->n_started++ % LVN_SLOTS);
    t->in_order[slot->sequence] = slot;
    slot->r = r;
    slot->chunk = r->at++;
    slot->host_added = slot->added = !sum;
    for (int transfer = 0; transfer < LVN_TRANSFERS; transfer++)
        slot->transfer[transfer] =
            (struct lvn_exchange_transfer){.started = !sum && transfer < LVN_GATHER_BETWEEN_SEND};
    for (int h = 0; h < t->n_handles; h++)
        c->transport->clear(r->group->state, slot->handles + (int64_t)h * c->handle_bytes);
    r->busy++;
    return slot;
}

static void release_slot(struct lvn_tree *t, struct lvn_slot *slot)
{
    slot->r->busy--;
    slot->r = NULL;
    t->in_order[slot->sequence] = NULL;
}

/* The k-th oldest chunk in progress, if it belongs to this request; else NULL. */
static struct lvn_slot *chunk_in_order(const struct lvn_tree *t, const struct lvn_request *r, int k)
{
    struct lvn_slot *slot = t->in_order[(t->n_started + k) % LVN_SLOTS];
    return slot && slot->r == r ? slot : NULL;
}

/* Poll all messages of a slot with one call. */
static int poll_slot(const struct view *v, bool *moved)
{
    struct lvn_slot *s = v->slot;
    const int *at = v->t->at;
    int first = LVN_TRANSFERS, end = 0, n = 0;
    for (int transfer = 0; transfer < LVN_TRANSFERS; transfer++)
        if (s->transfer[transfer].busy) first = transfer < first ? transfer : first, end = transfer + 1;
    if (!end) return 0;
    int code = v->c->transport->test(v->r->group->state, handle(v, at[first]), at[end] - at[first], &n, v->t->done);
    for (int k = 0; k < n && !code; k++) {
        int transfer = first;
        while (v->t->done[k] + at[first] >= at[transfer + 1]) transfer++;
        s->transfer[transfer].busy--;
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
        v.slot = chunk_in_order(t, r, k);
        int code = v.slot ? poll_slot(&v, moved) : 0;
        if (v.slot && !code) code = advance(&v, moved);
        if (code) return code;
        if (v.slot && chunk_is_complete(v.slot)) release_slot(t, v.slot);
    }
    while (r->at < chunks && !t->in_order[t->n_started % LVN_SLOTS]) {
        v.slot = start_chunk(c, r);
        int code = advance(&v, moved);
        if (code) return code;
    }
    *issued = r->at == chunks;
    *finished = *issued && !r->busy;
    return 0;
}

int lvn_exchange_waits_for(const struct lvn_engine *c, const struct lvn_request *r)
{
    static const enum lvn_transfer_kind order[] = {
        LVN_REDUCE_WITHIN_RECEIVE, LVN_REDUCE_BETWEEN_RECEIVE, LVN_GATHER_BETWEEN_RECEIVE, LVN_GATHER_WITHIN_RECEIVE,
        LVN_REDUCE_WITHIN_SEND,    LVN_REDUCE_BETWEEN_SEND,    LVN_GATHER_BETWEEN_SEND,    LVN_GATHER_WITHIN_SEND};
    struct lvn_tree *t = r->tree;
    char none[8];
    c->transport->clear(r->group->state, none);
    for (int k = 0; k < LVN_SLOTS; k++) {
        const struct lvn_slot *s = chunk_in_order(t, r, k);
        for (int o = 0; o < LVN_TRANSFERS && s; o++)
            for (int i = 0, at = t->at[order[o]]; i < s->transfer[order[o]].n; i++)
                if (memcmp(s->handles + (int64_t)(at + i) * c->handle_bytes, none, (size_t)c->handle_bytes))
                    return s->peer[at + i];
    }
    return -1;
}
