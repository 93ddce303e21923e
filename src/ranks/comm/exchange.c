/* exchange.c - sums and gathers of long vectors, implemented with messages and a fixed order of additions. engine.c
 * calls lvn_exchange_step() for each exchange in its queue.
 *
 * The vector is divided into one shard per rank. The partition of a rank consists of the shards of the ranks that have
 * its local rank, one on each host. First, each rank receives the contributions of the other ranks of its host to its
 * partition, and adds them. Then ranks with the same local rank exchange the sums of their hosts, and each adds those
 * of its own shard. If all ranks need the result, the totals return the same way. With one host, or one rank per host,
 * this is the direct algorithm: each rank sends and receives about twice the vector, which is optimal. Each
 * element crosses the network between two hosts once in each direction, not once per rank.
 *
 * Vectors are processed in chunks, each of which contains a segment of every shard. At most LVN_SLOTS chunks are in
 * progress, which may belong to consecutive vectors. This bounds memory, and overlaps sending, adding and returning
 * totals. All ranks process chunks in the same order; a chunk's sequence number is part of its tags.
 *
 * A rank contributes the sums of its subtrees (tree.h), which are added in the order of the tree, so the bits depend
 * only on the leaves. A plain sum has one leaf per rank. bf16 is converted and added in fp32. Plain sums are rounded
 * once within each host and once between hosts. Sums in tree order are rounded at every node, because with another
 * division of the leaves the node is a partial sum that a rank sends.
 *
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005
 * (reduce-scatter by pairwise exchange, then all-gather). */
#include "comm/exchange.h"

/* --- layout --- */

/* A chunk in progress, with its engine and request. */
struct chunk_view {
    struct lvn_engine *engine;
    struct lvn_request *request;
    struct lvn_tree *tree;
    struct lvn_slot *slot;
    int64_t bytes; /* of an element */
};

/* True if the caller does not prescribe the shards, because all ranks receive the whole sum. Each chunk is then divided
 * evenly, so that the shards of a partition are contiguous. */
static bool divides_evenly(const struct lvn_request *request)
{
    return request->kind != LVN_REQUEST_ALL_GATHER && request->gather;
}

static int64_t n_chunks(const struct lvn_request *request, int64_t bytes)
{
    const struct lvn_tree *tree = request->tree;
    const int64_t segment = tree->segment / bytes, chunk = segment * tree->size;
    int64_t max = 0;
    if (divides_evenly(request)) return (request->count + chunk - 1) / chunk;
    for (int i = 0; i < tree->size; i++) {
        int64_t n = (request->first[i + 1] - request->first[i] + segment - 1) / segment;
        max = n > max ? n : max;
    }
    return max;
}

/* A range of elements of the vector. */
struct range {
    int64_t at, n;
};

/* Elements of shards [q, q + n) of an evenly divided chunk; boundaries are multiples of LVN_LINE. */
static struct range even_range(const struct chunk_view *view, int q, int n)
{
    const struct lvn_tree *tree = view->tree;
    const int64_t chunk = tree->segment / view->bytes * tree->size, from = view->slot->chunk * chunk,
                  left = view->request->count - from, m = left < chunk ? left : chunk,
                  lines = (m + LVN_LINE - 1) / LVN_LINE;
    int64_t a = lines * q / tree->size * LVN_LINE, b = lines * (q + n) / tree->size * LVN_LINE;
    if (a > m) a = m;
    if (b > m) b = m;
    return (struct range){from + a, b - a};
}

/* The segment of rank `local` of `host`. */
static struct range segment_of(const struct chunk_view *view, int host, int local)
{
    const struct lvn_tree *tree = view->tree;
    const int rank = host * tree->per_host + local;
    if (divides_evenly(view->request)) return even_range(view, local * tree->hosts + host, 1);
    const int64_t segment = tree->segment / view->bytes, at = view->request->first[rank] + view->slot->chunk * segment,
                  left = view->request->first[rank + 1] - at;
    return (struct range){at, left < 0 ? 0 : left < segment ? left : segment};
}

/* Messages per partition: one if the partition is contiguous, else one per host. */
static int n_parts(const struct chunk_view *view)
{
    return divides_evenly(view->request) ? 1 : view->tree->hosts;
}

static struct range partition_part(const struct chunk_view *view, int part, int local)
{
    return divides_evenly(view->request) ? even_range(view, local * view->tree->hosts, view->tree->hosts)
                                         : segment_of(view, part, local);
}

static char *in_vector(const struct chunk_view *view, const void *x, int64_t at)
{
    union {
        const void *in;
        char *out;
    } p = {.in = x};
    return p.out + at * view->bytes;
}

/* This rank's k-th partial sum. */
static void *partial(const struct chunk_view *view, int k)
{
    return view->request->partial ? view->request->partial[k] : view->request->x;
}

/* Index of a source among the sources of other ranks. */
static int remote_index(const struct lvn_exchange_stage *stage, int s)
{
    return s < stage->mine ? s : s - stage->n_mine;
}

/* Receive buffer for part `part` of this rank's partition, from source s. */
static char *received(const struct chunk_view *view, int s, int part)
{
    const struct lvn_tree *tree = view->tree;
    return view->slot->received[0] + ((int64_t)remote_index(&tree->stage[0], s) * tree->hosts + part) * tree->segment;
}

/* Source s of the stage within the host, for the segment of the rank on `host` that has this local rank. */
static char *host_source(const struct chunk_view *view, int s, int host)
{
    const struct lvn_tree *tree = view->tree;
    const struct lvn_exchange_stage *stage = &tree->stage[0];
    const struct range segment = segment_of(view, host, tree->local);
    if (stage->owner[s] == stage->me) return in_vector(view, partial(view, s - stage->mine), segment.at);
    if (!divides_evenly(view->request)) return received(view, s, host);
    return received(view, s, 0) + (segment.at - partition_part(view, 0, tree->local).at) * view->bytes;
}

/* This host's k-th sum for that segment. */
static char *host_sum(const struct chunk_view *view, int k, int host)
{
    return host_source(view, view->tree->stage[0].result[k], host);
}

static void add_within(const struct chunk_view *view)
{
    const struct lvn_tree *tree = view->tree;
    const struct lvn_exchange_stage *stage = &tree->stage[0];
    for (int h = 0; h < tree->hosts; h++) {
        const struct range segment = segment_of(view, h, tree->local);
        for (int s = 0; s < stage->n_sources; s++) tree->source[s] = host_source(view, s, h);
        lvn_add_sources(tree, stage, tree->hosts == 1 ? in_vector(view, view->request->x, segment.at) : NULL, segment.n,
                        (enum lvn_dtype)view->request->type);
    }
}

static void add_between(const struct chunk_view *view)
{
    const struct lvn_tree *tree = view->tree;
    const struct lvn_exchange_stage *stage = &tree->stage[1];
    const struct range segment = segment_of(view, tree->host, tree->local);
    for (int s = 0; s < stage->n_sources && tree->hosts > 1; s++)
        tree->source[s] = stage->owner[s] == stage->me
                              ? host_sum(view, s - stage->mine, tree->host)
                              : view->slot->received[1] + remote_index(stage, s) * tree->segment;
    if (tree->hosts > 1)
        lvn_add_sources(tree, stage, in_vector(view, view->request->x, segment.at), segment.n,
                        (enum lvn_dtype)view->request->type);
}

/* --- messages --- */

static char *handle(const struct chunk_view *view, int index)
{
    return view->slot->handles + (int64_t)index * view->engine->handle_bytes;
}

/* A tag encodes the number of the request and the sequence number of the chunk. It is at most 32767, the smallest upper
 * bound that MPI permits. */
static int tag(const struct chunk_view *view, enum lvn_transfer_kind transfer)
{
    enum { WINDOW = 1023, PAIRS = LVN_TRANSFERS / 2 };
    return LVN_TAGS + ((int)(view->request->number % WINDOW) * LVN_SLOTS + view->slot->sequence) * PAIRS +
           (int)transfer / 2;
}

/* Start one message of a transfer, to or from a member of its stage. Even transfers send, odd ones receive. */
static int post(const struct chunk_view *view, enum lvn_transfer_kind transfer, int member, char *x, int64_t n)
{
    const struct lvn_exchange_stage *stage =
        &view->tree->stage[transfer == LVN_REDUCE_WITHIN_SEND || transfer == LVN_REDUCE_WITHIN_RECEIVE ||
                                   transfer >= LVN_GATHER_WITHIN_SEND
                               ? 0
                               : 1];
    struct lvn_exchange_transfer *q = &view->slot->transfer[transfer];
    const int rank = stage->first + member * stage->stride, index = view->tree->at[transfer] + q->n;
    if (!n) return 0;
    view->slot->peer[index] = rank;
    q->n++;
    q->busy++;
    return transfer % 2 ? view->engine->transport->receive(view->request->group->state, x, n * view->bytes, rank,
                                                           tag(view, transfer), handle(view, index))
                        : view->engine->transport->send(view->request->group->state, x, n * view->bytes, rank,
                                                        tag(view, transfer), handle(view, index));
}

/* Send this rank's partial sums of the partitions of the other ranks of its host. */
static int send_parts(const struct chunk_view *view)
{
    const struct lvn_exchange_stage *stage = &view->tree->stage[0];
    int code = 0;
    for (int i = 1; i < stage->n; i++) {
        const int to = (stage->me + i) % stage->n; /* each rank starts with a different peer */
        for (int p = 0; p < n_parts(view); p++) {
            const struct range x = partition_part(view, p, to);
            for (int k = 0; k < stage->n_mine && !code; k++)
                code = post(view, LVN_REDUCE_WITHIN_SEND, to, in_vector(view, partial(view, k), x.at), x.n);
        }
    }
    return code;
}

static int receive_parts(const struct chunk_view *view)
{
    const struct lvn_exchange_stage *stage = &view->tree->stage[0];
    int code = 0;
    for (int p = 0; p < n_parts(view); p++) {
        const struct range x = partition_part(view, p, stage->me);
        for (int s = 0; s < stage->n_sources && !code; s++)
            if (stage->owner[s] != stage->me)
                code = post(view, LVN_REDUCE_WITHIN_RECEIVE, stage->owner[s], received(view, s, p), x.n);
    }
    return code;
}

static int send_host_sums(const struct chunk_view *view)
{
    const struct lvn_exchange_stage *stage = &view->tree->stage[1];
    int code = 0;
    for (int i = 1; i < stage->n; i++) {
        const int to = (stage->me + i) % stage->n;
        for (int k = 0; k < stage->n_mine && !code; k++)
            code = post(view, LVN_REDUCE_BETWEEN_SEND, to, host_sum(view, k, to),
                        segment_of(view, to, view->tree->local).n);
    }
    return code;
}

static int receive_host_sums(const struct chunk_view *view)
{
    const struct lvn_exchange_stage *stage = &view->tree->stage[1];
    const int64_t n = segment_of(view, stage->me, view->tree->local).n;
    int code = 0;
    for (int s = 0; s < stage->n_sources && !code; s++)
        if (stage->owner[s] != stage->me)
            code = post(view, LVN_REDUCE_BETWEEN_RECEIVE, stage->owner[s],
                        view->slot->received[1] + remote_index(stage, s) * view->tree->segment, n);
    return code;
}

/* Send the total of this rank's segment to the other hosts, or receive their totals. */
static int post_totals(const struct chunk_view *view, enum lvn_transfer_kind transfer)
{
    const struct lvn_exchange_stage *stage = &view->tree->stage[1];
    int code = 0;
    for (int i = 1; i < stage->n && !code; i++) {
        const int member = (stage->me + i) % stage->n;
        const struct range x =
            segment_of(view, transfer == LVN_GATHER_BETWEEN_SEND ? stage->me : member, view->tree->local);
        code = post(view, transfer, member, in_vector(view, view->request->x, x.at), x.n);
    }
    return code;
}

/* Send all totals of this rank's partition to the other ranks of the host, or receive theirs. */
static int post_partitions(const struct chunk_view *view, enum lvn_transfer_kind transfer)
{
    const struct lvn_exchange_stage *stage = &view->tree->stage[0];
    int code = 0;
    for (int i = 1; i < stage->n; i++) {
        const int member = (stage->me + i) % stage->n;
        for (int p = 0; p < n_parts(view) && !code; p++) {
            const struct range x = partition_part(view, p, transfer == LVN_GATHER_WITHIN_SEND ? stage->me : member);
            code = post(view, transfer, member, in_vector(view, view->request->x, x.at), x.n);
        }
    }
    return code;
}

static int start_transfer(const struct chunk_view *view, enum lvn_transfer_kind transfer)
{
    view->slot->transfer[transfer].started = true;
    switch (transfer) {
    case LVN_REDUCE_WITHIN_SEND:
        return send_parts(view);
    case LVN_REDUCE_WITHIN_RECEIVE:
        return receive_parts(view);
    case LVN_REDUCE_BETWEEN_SEND:
        return send_host_sums(view);
    case LVN_REDUCE_BETWEEN_RECEIVE:
        return receive_host_sums(view);
    case LVN_GATHER_BETWEEN_SEND:
    case LVN_GATHER_BETWEEN_RECEIVE:
        return post_totals(view, transfer);
    default:
        return post_partitions(view, transfer);
    }
}

/* --- processing a chunk --- */

static bool is_complete(const struct lvn_slot *slot, enum lvn_transfer_kind transfer)
{
    return slot->transfer[transfer].started && !slot->transfer[transfer].busy;
}

/* True if the transfer may start. Totals are received into the memory of parts that must have been sent before. */
static bool is_due(const struct lvn_slot *slot, enum lvn_transfer_kind transfer)
{
    const bool gather = slot->request->gather;
    switch (transfer) {
    case LVN_REDUCE_BETWEEN_SEND:
    case LVN_REDUCE_BETWEEN_RECEIVE:
        return slot->host_added;
    case LVN_GATHER_BETWEEN_SEND:
        return gather && slot->added;
    case LVN_GATHER_BETWEEN_RECEIVE:
        return gather && is_complete(slot, LVN_REDUCE_BETWEEN_SEND);
    case LVN_GATHER_WITHIN_SEND:
        return gather && slot->added && is_complete(slot, LVN_GATHER_BETWEEN_RECEIVE);
    case LVN_GATHER_WITHIN_RECEIVE:
        return gather && is_complete(slot, LVN_REDUCE_WITHIN_SEND);
    default:
        return true;
    }
}

/* Advance the chunk as far as possible now. */
static int advance(const struct chunk_view *view, bool *moved)
{
    struct lvn_slot *slot = view->slot;
    int code = 0;
    for (bool more = true; more && !code; *moved |= more) {
        more = false;
        if (!slot->host_added && is_complete(slot, LVN_REDUCE_WITHIN_RECEIVE))
            add_within(view), more = slot->host_added = true;
        if (slot->host_added && !slot->added && is_complete(slot, LVN_REDUCE_BETWEEN_RECEIVE))
            add_between(view), more = slot->added = true;
        for (int transfer = 0; transfer < LVN_TRANSFERS && !code; transfer++) {
            if (slot->transfer[transfer].started || !is_due(slot, (enum lvn_transfer_kind)transfer)) continue;
            code = start_transfer(view, (enum lvn_transfer_kind)transfer);
            more = true;
        }
    }
    return code;
}

static bool chunk_is_complete(const struct lvn_slot *slot)
{
    for (int transfer = 0; transfer < LVN_TRANSFERS; transfer++)
        if ((transfer < LVN_GATHER_BETWEEN_SEND || slot->request->gather) &&
            !is_complete(slot, (enum lvn_transfer_kind)transfer))
            return false;
    return slot->added;
}

/* Put the request's next chunk into the first free slot, whose memory is most likely in the cache. */
static struct lvn_slot *start_chunk(struct lvn_engine *engine, struct lvn_request *request)
{
    struct lvn_tree *tree = request->tree;
    struct lvn_slot *slot = tree->slot;
    const bool sum = request->kind != LVN_REQUEST_ALL_GATHER;
    while (slot->request) slot++;
    slot->sequence = (int)(tree->n_started++ % LVN_SLOTS);
    tree->in_order[slot->sequence] = slot;
    slot->request = request;
    slot->chunk = request->at++;
    slot->host_added = slot->added = !sum;
    for (int transfer = 0; transfer < LVN_TRANSFERS; transfer++)
        slot->transfer[transfer] =
            (struct lvn_exchange_transfer){.started = !sum && transfer < LVN_GATHER_BETWEEN_SEND};
    for (int h = 0; h < tree->n_handles; h++)
        engine->transport->clear(request->group->state, slot->handles + (int64_t)h * engine->handle_bytes);
    request->busy++;
    return slot;
}

static void release_slot(struct lvn_tree *tree, struct lvn_slot *slot)
{
    slot->request->busy--;
    slot->request = NULL;
    tree->in_order[slot->sequence] = NULL;
}

/* The k-th oldest chunk in progress, if it belongs to this request; else NULL. */
static struct lvn_slot *chunk_in_order(const struct lvn_tree *tree, const struct lvn_request *request, int k)
{
    struct lvn_slot *slot = tree->in_order[(tree->n_started + k) % LVN_SLOTS];
    return slot && slot->request == request ? slot : NULL;
}

/* Poll all messages of a slot with one call. */
static int poll_slot(const struct chunk_view *view, bool *moved)
{
    struct lvn_slot *slot = view->slot;
    const int *at = view->tree->at;
    int first = LVN_TRANSFERS, end = 0, n = 0;
    for (int transfer = 0; transfer < LVN_TRANSFERS; transfer++)
        if (slot->transfer[transfer].busy) first = transfer < first ? transfer : first, end = transfer + 1;
    if (!end) return 0;
    int code = view->engine->transport->test(view->request->group->state, handle(view, at[first]), at[end] - at[first],
                                             &n, view->tree->done);
    for (int k = 0; k < n && !code; k++) {
        int transfer = first;
        while (view->tree->done[k] + at[first] >= at[transfer + 1]) transfer++;
        slot->transfer[transfer].busy--;
    }
    *moved |= n > 0;
    return code;
}

int lvn_exchange_step(struct lvn_engine *engine, struct lvn_request *request, bool *moved, bool *issued, bool *finished)
{
    struct lvn_tree *tree = request->tree;
    struct chunk_view view = {
        .engine = engine, .request = request, .tree = tree, .bytes = lvn_dtype_bytes((enum lvn_dtype)request->type)};
    const int64_t chunks = n_chunks(request, view.bytes);
    *finished = false;
    for (int k = 0; k < LVN_SLOTS; k++) {
        view.slot = chunk_in_order(tree, request, k);
        int code = view.slot ? poll_slot(&view, moved) : 0;
        if (view.slot && !code) code = advance(&view, moved);
        if (code) return code;
        if (view.slot && chunk_is_complete(view.slot)) release_slot(tree, view.slot);
    }
    while (request->at < chunks && !tree->in_order[tree->n_started % LVN_SLOTS]) {
        view.slot = start_chunk(engine, request);
        int code = advance(&view, moved);
        if (code) return code;
    }
    *issued = request->at == chunks;
    *finished = *issued && !request->busy;
    return 0;
}

int lvn_exchange_waits_for(const struct lvn_engine *engine, const struct lvn_request *request)
{
    static const enum lvn_transfer_kind order[] = {
        LVN_REDUCE_WITHIN_RECEIVE, LVN_REDUCE_BETWEEN_RECEIVE, LVN_GATHER_BETWEEN_RECEIVE, LVN_GATHER_WITHIN_RECEIVE,
        LVN_REDUCE_WITHIN_SEND,    LVN_REDUCE_BETWEEN_SEND,    LVN_GATHER_BETWEEN_SEND,    LVN_GATHER_WITHIN_SEND};
    struct lvn_tree *tree = request->tree;
    char none[LVN_HANDLE_BYTES];
    engine->transport->clear(request->group->state, none);
    for (int k = 0; k < LVN_SLOTS; k++) {
        const struct lvn_slot *slot = chunk_in_order(tree, request, k);
        for (int o = 0; o < LVN_TRANSFERS && slot; o++)
            for (int i = 0, at = tree->at[order[o]]; i < slot->transfer[order[o]].n; i++)
                if (memcmp(slot->handles + (int64_t)(at + i) * engine->handle_bytes, none,
                           (size_t)engine->handle_bytes))
                    return slot->peer[at + i];
    }
    return -1;
}
