/* reduction.c - see reduction.h. */
#include "train/reduction.h"

#include <stdlib.h>

#include "backend/backend.h"
#include "base/machine.h"

static bool wait_for(struct lvn_reduction *d, struct lvn_request *r)
{
    double begin = lvn_seconds();
    enum lvn_status status = lvn_comm_wait(d->ranks->comm, r);
    d->waited += lvn_seconds() - begin;
    if (d->status == LVN_OK) d->status = status;
    return status == LVN_OK;
}

/* The only one of its step at this place. */
static bool wait_alone(struct lvn_reduction *d, struct lvn_request *r)
{
    lvn_stamp_collective(d->ranks->heart, 1, 1);
    bool good = wait_for(d, r);
    lvn_stamp_collective(d->ranks->heart, 0, 0);
    return good;
}

static void start_bucket(struct lvn_reduction *d, const struct lvn_program *p, int bucket, void *gradients)
{
    const struct lvn_bucket *b = &p->buckets[bucket];
    struct lvn_request *r = &d->request[bucket];
    void *x = (char *)gradients + b->offset * lvn_dtype_bytes(p->gradients);
    enum lvn_dtype type = p->gradients;
    if (d->wire) {
        lvn_narrow(d->wire + b->offset, x, b->count);
        x = d->wire + b->offset;
        type = LVN_BF16;
    }
    if (d->sharding.zero1)
        lvn_comm_reduce_scatter(d->ranks->comm, r, x, d->bucket_shard + bucket * (d->sharding.size + 1), type);
    else
        lvn_comm_all_reduce(d->ranks->comm, r, x, b->count, type, LVN_SUM);
    d->started++;
}

/* The sum of a bucket has come. */
static void unpack_bucket(struct lvn_reduction *d, int bucket)
{
    const struct lvn_bucket *b = &d->program->buckets[bucket];
    if (d->wire) lvn_widen((float *)d->gradients + b->offset, d->wire + b->offset, b->count);
}

static void reduce_start(void *context, const struct lvn_program *p, int bucket, void *gradients)
{
    struct lvn_reduction *d = context;
    d->program = p;
    d->gradients = gradients;
    if (d->beside) start_bucket(d, p, bucket, gradients);
}

static bool reduce_wait(void *context)
{
    struct lvn_reduction *d = context;
    bool good = true;
    double before = d->waited;
    for (int i = 0; i < d->n_requests && !d->beside; i++) start_bucket(d, d->program, i, d->gradients);
    for (int i = 0; i < d->started; i++) {
        lvn_stamp_collective(d->ranks->heart, i + 1, d->started);
        good = wait_for(d, &d->request[i]) && good;
        unpack_bucket(d, i);
    }
    lvn_stamp_collective(d->ranks->heart, 0, 0);
    d->started = 0;
    d->summed += d->waited - before;
    return good;
}

static bool reduce_tree(void *context, const struct lvn_partial *held, int n, void *gradients)
{
    struct lvn_reduction *d = context;
    struct lvn_request r = {0};
    void *partial[LVN_MAX_SUBTREES];
    for (int i = 0; i < n; i++) partial[i] = held[i].gradients;
    double before = d->waited;
    lvn_comm_tree_reduce(d->ranks->comm, &r, d->tree, partial, gradients, d->shard, d->gradient_type,
                         !d->sharding.zero1);
    bool good = wait_alone(d, &r);
    d->summed += d->waited - before;
    return good;
}

static bool share_squares(void *context, double *sums, int64_t n)
{
    struct lvn_reduction *d = context;
    struct lvn_request r = {0};
    (void)n;
    lvn_comm_all_gather(d->ranks->comm, &r, sums, d->block, LVN_F64);
    return wait_alone(d, &r);
}

static bool gather_params(void *context, void *params)
{
    struct lvn_reduction *d = context;
    struct lvn_request r = {0};
    lvn_comm_all_gather(d->ranks->comm, &r, params, d->shard, d->weights);
    return wait_alone(d, &r);
}

enum lvn_status lvn_reduction_init(struct lvn_reduction *d, struct lvn_ranks *ranks,
                                   const struct lvn_sharding *sharding)
{
    *d = (struct lvn_reduction){.ranks = ranks, .sharding = *sharding};
    d->calls = (struct lvn_collectives){.context = d,
                                        .reduce_start = reduce_start,
                                        .reduce_wait = reduce_wait,
                                        .reduce_tree = reduce_tree,
                                        .share_squares = share_squares,
                                        .gather_params = gather_params};
    d->shard = lvn_calloc((size_t)sharding->size + 1, sizeof *d->shard);
    d->block = lvn_calloc((size_t)sharding->size + 1, sizeof *d->block);
    return d->shard && d->block ? LVN_OK : LVN_MEMORY;
}

/* The parts of the shards that lie in a bucket, counted from its start. */
static void cut_bucket(const struct lvn_reduction *d, const struct lvn_bucket *b, int64_t *first)
{
    for (int i = 0; i <= d->sharding.size; i++) {
        int64_t at = d->shard[i] - b->offset;
        first[i] = at < 0 ? 0 : at > b->count ? b->count : at;
    }
}

/* Within a host it is processors that move and add the data. Where all of them compute, doing that beside backward only
 * disturbs it: measured 5 to 10 % slower than doing it afterwards. Between hosts the network works by itself. */
static bool has_spare_cpu(const struct lvn_ranks *r, int threads)
{
    struct lvn_machine m;
    lvn_machine_read(&m);
    return threads * r->together < m.allowed;
}

enum lvn_status lvn_reduction_prepare(struct lvn_reduction *d, const struct lvn_program *p, const int64_t *leaf,
                                      bool bf16)
{
    const struct lvn_params *params = p->graph->params;
    int size = d->sharding.size;
    for (int i = 0; i <= size; i++) {
        d->shard[i] = lvn_shard_first(params, size, i);
        d->block[i] = lvn_norm_blocks(d->shard[i]);
    }
    d->weights = p->weights;
    d->gradient_type = p->gradients;
    d->n_requests = p->n_buckets;
    d->beside = d->ranks->hosts > 1 || has_spare_cpu(d->ranks, p->device->threads);
    d->request = lvn_calloc((size_t)p->n_buckets + 1, sizeof *d->request);
    d->bucket_shard = lvn_calloc((size_t)(p->n_buckets + 1) * (size_t)(size + 1), sizeof *d->bucket_shard);
    if (!d->request || !d->bucket_shard) return LVN_MEMORY;
    if (bf16 && size > 1 && p->gradients == LVN_F32) {
        d->wire = lvn_calloc((size_t)params->trainable_count, sizeof *d->wire);
        if (!d->wire) return LVN_MEMORY;
    }
    for (int i = 0; i < p->n_buckets; i++) cut_bucket(d, &p->buckets[i], d->bucket_shard + i * (size + 1));
    if (d->sharding.tree) LVN_TRY(lvn_tree_new(&d->tree, d->ranks->comm, leaf));
    return LVN_OK;
}

int64_t lvn_reduction_bytes(const struct lvn_sharding *s, const struct lvn_program *p, const int64_t *leaf, bool bf16)
{
    int64_t bytes = (int64_t)sizeof(struct lvn_request) * p->n_buckets;
    if (s->size == 1) return 0;
    if (bf16 && p->gradients == LVN_F32) bytes += p->graph->params->trainable_count * (int64_t)sizeof(uint16_t);
    if (s->tree) bytes += lvn_tree_bytes(s->size, s->rank, leaf);
    return bytes + lvn_tree_bytes(s->size, s->rank, NULL);
}

void lvn_reduction_release(struct lvn_reduction *d)
{
    lvn_tree_free(d->tree);
    free(d->wire);
    free(d->request);
    free(d->bucket_shard);
    free(d->shard);
    free(d->block);
    *d = (struct lvn_reduction){0};
}
