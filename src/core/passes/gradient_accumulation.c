/* gradient_accumulation.c - the pass that sets the order in which gradients of micro-batches are summed.
 *
 * By default each micro-batch adds to one flat gradient. With trainer.deterministic, gradients are summed in the order
 * of a binary tree over the indices of the micro-batches in the global batch, so the result does not depend on which
 * rank computes them. The tree is split at the largest power of two below its size. A binary counter needs the fewest
 * buffers: after micro-batches first..m the largest complete nodes of the tree are pending, and two nodes that complete
 * their parent are summed into the buffer of the left one. The buffer that a micro-batch writes and the buffers to sum
 * are known at planning time, so the sums are ordinary instructions, which every backend runs. All nodes have type
 * p->gradients: fp32 above LVN_BF16_PARTIAL_SUMS_MAX partial sums, since each level of the tree rounds. The nodes
 * pending at the end are this rank's part of the sum; a sum over all micro-batches is in buffer 0.
 *
 * Not here: sums over ranks (data_parallel.c). */
#include "passes/pass.h"

/* The binary counter: the pending nodes of the tree. */
struct counter {
    int64_t n_leaves;                              /* micro-batches of the global batch */
    struct lvn_pending_node node[LVN_MAX_PENDING]; /* from left to right */
    int n;
    int n_buffers; /* number of buffers ever used */
};

static int free_buffer(const struct counter *c)
{
    for (int s = 0;; s++) {
        bool in_use = false;
        for (int i = 0; i < c->n; i++) in_use |= c->node[i].buffer == s;
        if (!in_use) return s;
    }
}

/* Add a micro-batch as a pending node. Returns the buffer that it writes. */
static int push(struct counter *c, int64_t leaf)
{
    int buffer = free_buffer(c);
    c->node[c->n++] = (struct lvn_pending_node){leaf, leaf + 1, buffer};
    if (buffer >= c->n_buffers) c->n_buffers = buffer + 1;
    return buffer;
}

/* Do the two rightmost nodes complete their parent? The left child of a node is a complete tree of a power of two. */
static bool complete_pair(const struct counter *c)
{
    if (c->n < 2) return false;
    const struct lvn_pending_node *left = &c->node[c->n - 2], *right = left + 1;
    int64_t size = left->end - left->first, end = left->first + 2 * size;
    return left->first % (2 * size) == 0 && right->end == (end < c->n_leaves ? end : c->n_leaves);
}

/* The operand of a gradient buffer. */
static enum lvn_status gradient(struct lvn_program *p, int buffer, struct lvn_operand *out)
{
    int64_t count = p->graph->params->trainable_count;
    *out = lvn_program_add_range(p, "gradients", LVN_BUFFER_GRAD, p->gradients, buffer * count, count);
    return out->value < 0 ? LVN_MEMORY : LVN_OK;
}

/* Append the sum of the two rightmost nodes, written to the left node's buffer. */
static enum lvn_status merge(struct lvn_program *p, struct counter *c, int64_t micro_batch, struct lvn_operand *buffers)
{
    struct lvn_pending_node *left = &c->node[c->n - 2], *right = left + 1;
    struct lvn_instr *i = lvn_program_add_instr(p, LVN_OP_accumulate, LVN_FORWARD);
    if (!i) return LVN_MEMORY;
    i->name = "sum over micro-batches";
    i->when = LVN_AFTER_MICRO_BATCH;
    i->micro_batch = micro_batch;
    i->in[0] = buffers[right->buffer];
    i->out[0] = buffers[left->buffer];
    left->end = right->end;
    c->n--;
    return LVN_OK;
}

enum lvn_status lvn_pass_gradient_accumulation(struct lvn_program *p, const struct lvn_tree_leaves *tree)
{
    struct lvn_operand buffers[LVN_MAX_PENDING];
    int n_known = 0;
    p->grad_buffer_bytes = p->graph->params->trainable_count * lvn_dtype_bytes(p->gradients);
    p->n_grad_buffers = 1;
    if (!tree) return LVN_OK;
    struct counter c = {.n_leaves = tree->total};
    p->grad_buffer_of = lvn_arena_alloc(&p->arena, sizeof *p->grad_buffer_of * (size_t)(tree->n + 1));
    if (!p->grad_buffer_of) return LVN_MEMORY;
    for (int64_t m = 0; m < tree->n; m++) {
        p->grad_buffer_of[m] = push(&c, tree->first + m);
        for (; n_known < c.n_buffers; n_known++) LVN_TRY(gradient(p, n_known, &buffers[n_known]));
        while (complete_pair(&c)) LVN_TRY(merge(p, &c, m, buffers));
    }
    p->n_grad_buffers = c.n_buffers;
    p->n_pending = c.n;
    for (int i = 0; i < c.n; i++) p->pending[i] = c.node[i];
    return LVN_OK;
}
