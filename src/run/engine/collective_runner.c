/* collective_runner.c - see collective_runner.h. */
#include "engine/collective_runner.h"

#include "backend/backend.h"
#include "base/clock.h"
#include "comm/tree.h"
#include "engine/rank_groups.h"
#include "host/machine.h"
#include "passes/shard.h"

static bool is_bucket(const struct lvn_instr *i)
{
    return i->op->collective && i->when == LVN_LAST_MICRO_BATCH && i->scope != LVN_SCOPE_REPLICAS;
}

/* Does it exchange parameters or steps of whole matrices instead of gradients? */
static bool is_of_update(const struct lvn_instr *i)
{
    return i->id == LVN_OP_all_gather || (i->id == LVN_OP_reduce_scatter && i->when == LVN_AFTER_BACKWARD);
}

static void begin(struct lvn_collective_runner *runner, struct lvn_collective_work *w)
{
    const struct lvn_arg *in = &w->call->in[0], *out = &w->call->out[0];
    const struct lvn_program *p = runner->program;
    enum lvn_dtype type = out->desc->dtype;
    struct lvn_comm *c = w->comm;
    w->due = false;
    w->active = true;
    switch ((int)w->instr->id) {
    case LVN_OP_all_reduce:
        lvn_comm_all_reduce(c, &w->request, out->p, lvn_desc_count(out->desc), type, LVN_SUM);
        break;
    case LVN_OP_reduce_scatter:
        lvn_comm_reduce_scatter(c, &w->request, out->p, w->first, type);
        break;
    case LVN_OP_all_gather:
        lvn_comm_all_gather(c, &w->request, out->p, w->first, type);
        break;
    default:
        for (int k = 0; k < p->n_pending; k++)
            w->partial[k] = (char *)in->p + p->pending[k].buffer * in->desc->stride[0] * lvn_dtype_bytes(type);
        lvn_comm_tree_reduce(c, &w->request, runner->tree, w->partial, out->p, w->first, type,
                             !w->instr->attr.tree_reduce.scatter);
    }
}

/* Wait for its completion. The time is measured, and heartbeats report the collective meanwhile. */
static enum lvn_status end(struct lvn_collective_runner *runner, struct lvn_collective_work *w)
{
    double start = lvn_seconds();
    lvn_member_set_collective(runner->ranks->member, (int)(w - runner->work) + 1, runner->program->n_handles);
    enum lvn_status status = lvn_comm_wait(w->comm, &w->request);
    lvn_member_set_collective(runner->ranks->member, 0, 0);
    w->active = false;
    double seconds = lvn_seconds() - start;
    runner->waited += seconds;
    if (!is_of_update(w->instr)) runner->summed += seconds;
    if (runner->status == LVN_OK) runner->status = status;
    return status;
}

static bool supports_device(void *context, const struct lvn_device *device)
{
    const struct lvn_collective_runner *runner = context;
    return runner->ranks->device_comm && lvn_comm_device(runner->ranks->device_comm) == device;
}

static void run_start(void *context, const struct lvn_instr *i, const struct lvn_call *call,
                      const struct lvn_device *device)
{
    struct lvn_collective_runner *runner = context;
    struct lvn_collective_work *w = &runner->work[i->handle];
    w->instr = i;
    w->call = call;
    w->comm = lvn_ranks_comm(runner->ranks, i->scope, device != NULL);
    w->due = i->when == LVN_LAST_MICRO_BATCH && !runner->overlapped && !device;
    if (!w->due) begin(runner, w);
    /* Within a micro-batch a collective cannot start later, because its memory is reused; without a free CPU it
     * completes here. */
    if (i->when == LVN_EVERY_MICRO_BATCH && !runner->overlapped && !device) (void)end(runner, w);
}

static bool run_wait(void *context, const struct lvn_instr *i)
{
    struct lvn_collective_runner *runner = context;
    const int n = runner->program->n_handles;
    for (int k = 0; k < n; k++)
        if (runner->work[k].due) begin(runner, &runner->work[k]);
    struct lvn_collective_work *w = &runner->work[i->handle];
    if ((w->active ? end(runner, w) : runner->status) == LVN_OK) return true;
    for (int k = 0; k < n; k++) /* no collective may use memory that the caller frees */
        if (runner->work[k].active) end(runner, &runner->work[k]);
    return false;
}

enum lvn_status lvn_collective_runner_repeat(struct lvn_collective_runner *runner, int first)
{
    const int n = lvn_collective_runner_buckets(runner->program);
    enum lvn_status status = LVN_OK;
    for (int k = first; k < n; k++) begin(runner, &runner->work[k]);
    for (int k = first; k < n; k++) {
        enum lvn_status s = end(runner, &runner->work[k]);
        if (status == LVN_OK) status = s;
    }
    return status;
}

int lvn_collective_runner_buckets(const struct lvn_program *p)
{
    int n = 0;
    for (int i = 0; i < p->n_instrs; i++) n += is_bucket(&p->instrs[i]);
    return n;
}

void lvn_collective_runner_init(struct lvn_collective_runner *runner, struct lvn_ranks *ranks,
                                const struct lvn_sharding *sharding)
{
    *runner = (struct lvn_collective_runner){.ranks = ranks, .sharding = *sharding};
    runner->calls = (struct lvn_collectives){
        .context = runner, .supports_device = supports_device, .start = run_start, .wait = run_wait};
}

/* out[owners + 1]: boundaries of the ranks' parts of `count` elements of a block; the first is element `first` of the
 * flat parameters. ranges: of the whole block, in bytes. */
static void cut(const struct lvn_collective_runner *runner, const struct lvn_param_block *block,
                const struct lvn_extents *ranges, int64_t first, int64_t count, int64_t *out)
{
    const int owners = lvn_sharding_owners(&runner->sharding);
    for (int i = 0; i < owners; i++) {
        const int64_t element = lvn_shard_at(block, owners, i).first;
        const int64_t at = ranges ? lvn_gathered_offset(ranges, element) : element - first;
        out[i] = at < 0 ? 0 : at > count ? count : at;
    }
    out[owners] = count;
}

/* Every rank adds an equal part of all gradients. */
static void cut_evenly(const struct lvn_collective_runner *runner, int64_t count, int64_t *out)
{
    const int size = runner->sharding.size;
    for (int i = 0; i < size; i++) out[i] = lvn_norm_blocks(count) * i / size * LVN_NORM_BLOCK;
    out[size] = count;
}

static void cut_parts(struct lvn_collective_runner *runner, const struct lvn_instr *i, int64_t *first)
{
    const struct lvn_params *params = runner->program->graph->params;
    const union lvn_attr *a = &i->attr;
    const int64_t count = lvn_desc_count(&i->out[0].desc);
    if (i->id == LVN_OP_all_reduce) return;
    runner->work[i->handle].first = first;
    if (i->id == LVN_OP_tree_reduce && !a->tree_reduce.scatter) {
        cut_evenly(runner, count, first);
        return;
    }
    const bool frozen = i->id == LVN_OP_all_gather && a->all_gather.frozen;
    const int block = i->id == LVN_OP_reduce_scatter ? a->reduce_scatter.block
                      : i->id == LVN_OP_all_gather   ? a->all_gather.block
                                                     : a->tree_reduce.block;
    const struct lvn_param_block *b = &(frozen ? params->frozen : params->blocks)[lvn_block_index(block)];
    cut(runner, b, i->id == LVN_OP_all_gather ? a->all_gather.ranges : NULL,
        i->id == LVN_OP_reduce_scatter ? a->reduce_scatter.first : b->offset, count, first);
}

/* Within a host, CPUs copy and add the data. If all of them compute, overlapping with backward was 5 to 10 % slower
 * than summing afterwards. Between hosts the network transfers without the CPU. */
static bool has_spare_cpu(const struct lvn_ranks *r, int threads)
{
    struct lvn_machine m;
    lvn_machine_read(&m);
    return threads * r->cpu_sharers < m.allowed;
}

enum lvn_status lvn_collective_runner_prepare(struct lvn_collective_runner *runner, const struct lvn_program *p,
                                              const int64_t *leaf)
{
    const size_t n = (size_t)p->n_handles, parts = (size_t)runner->sharding.size + 1;
    runner->program = p;
    runner->overlapped = runner->ranks->hosts > 1 || has_spare_cpu(runner->ranks, p->device->threads);
    const size_t pending = runner->sharding.tree ? (size_t)p->n_pending : 0;
    runner->work = lvn_calloc(n + 1, sizeof *runner->work);
    runner->first = lvn_calloc((n + 1) * parts, sizeof *runner->first);
    runner->partial = lvn_calloc(n * pending + 1, sizeof *runner->partial);
    if (!runner->work || !runner->first || !runner->partial) return LVN_MEMORY;
    for (int i = 0; i < p->n_instrs; i++) {
        const struct lvn_instr *instr = &p->instrs[i];
        if (!instr->op->collective || instr->id == LVN_OP_wait) continue;
        runner->work[instr->handle].partial = runner->partial + (size_t)instr->handle * pending;
        cut_parts(runner, instr, runner->first + (size_t)instr->handle * parts);
    }
    return runner->sharding.tree ? lvn_tree_new(&runner->tree, runner->ranks->comm, leaf) : LVN_OK;
}

int64_t lvn_collective_runner_bytes(const struct lvn_sharding *s, const struct lvn_program *p, const int64_t *leaf)
{
    const int64_t parts = s->size + 1;
    const int64_t partials = s->tree ? p->n_pending * (int64_t)sizeof(void *) : 0;
    int64_t bytes =
        ((int64_t)sizeof(struct lvn_collective_work) + parts * (int64_t)sizeof(int64_t) + partials) * p->n_handles;
    if (s->size == 1) return 0;
    if (s->tree) bytes += lvn_tree_bytes(s->size, s->rank, leaf);
    return bytes + lvn_tree_bytes(s->size, s->rank, NULL);
}

void lvn_collective_runner_release(struct lvn_collective_runner *runner)
{
    lvn_tree_free(runner->tree);
    free(runner->work);
    free(runner->first);
    free(runner->partial);
    *runner = (struct lvn_collective_runner){0};
}
