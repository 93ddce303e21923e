/* gradient_accumulation.c - in which order the gradients of micro-batches are summed.
 *
 * Without a tree each micro-batch adds to the one flat gradient. With it (trainer.deterministic) each writes a gradient
 * of its own, and they are summed in one binary tree over their numbers in the global batch, split at the largest power
 * of two below its size, whichever rank computes them. A binary counter needs the fewest buffers: after micro-batches
 * first..m the largest whole nodes of the tree over all of them are held, and two that make up a third are added into
 * the place of the left one. Which buffer a micro-batch writes and which are then added is known now, so the sums are
 * ordinary instructions, and every backend has them. All nodes are of p->gradients: fp32 where many pieces meet, for
 * each level of the tree would round again. What is held at the end is this rank's part of the whole; where that is all
 * of it, it lies in buffer 0. */
#include "passes/program.h"

struct counter {
    int64_t n_leaves;
    struct lvn_pending_node node[LVN_MAX_PENDING]; /* from left to right */
    int n;
    int slots; /* buffers that were ever in use */
};

static int free_slot(const struct counter *c)
{
    for (int s = 0;; s++) {
        bool taken = false;
        for (int i = 0; i < c->n; i++) taken |= c->node[i].buffer == s;
        if (!taken) return s;
    }
}

static int push(struct counter *c, int64_t leaf)
{
    int slot = free_slot(c);
    c->node[c->n++] = (struct lvn_pending_node){leaf, leaf + 1, slot};
    if (slot >= c->slots) c->slots = slot + 1;
    return slot;
}

/* Do the two rightmost nodes make up a third? The left half of a node is a whole power of two. */
static bool siblings(const struct counter *c)
{
    if (c->n < 2) return false;
    const struct lvn_pending_node *left = &c->node[c->n - 2], *right = left + 1;
    int64_t half = left->end - left->first, end = left->first + 2 * half;
    return left->first % (2 * half) == 0 && right->end == (end < c->n_leaves ? end : c->n_leaves);
}

/* A whole flat gradient. */
static enum lvn_status gradient(struct lvn_program *p, int slot, struct lvn_operand *out)
{
    int64_t count = p->graph->params->trainable_count;
    *out = lvn_program_add_range(p, "gradients", LVN_BUFFER_GRAD, p->gradients, slot * count, count);
    return out->value < 0 ? LVN_MEMORY : LVN_OK;
}

/* Add the rightmost node to the one left of it. */
static enum lvn_status merge(struct lvn_program *p, struct counter *c, int64_t micro_batch, struct lvn_operand *slots)
{
    struct lvn_pending_node *left = &c->node[c->n - 2], *right = left + 1;
    struct lvn_instr *i = lvn_program_add_instr(p, LVN_OP_accumulate, LVN_FORWARD);
    if (!i) return LVN_MEMORY;
    i->name = "sum over micro-batches";
    i->when = LVN_AFTER_MICRO_BATCH;
    i->micro_batch = micro_batch;
    i->in[0] = slots[right->buffer];
    i->out[0] = slots[left->buffer];
    left->end = right->end;
    c->n--;
    return LVN_OK;
}

enum lvn_status lvn_pass_accumulate(struct lvn_program *p, const struct lvn_tree_leaves *tree)
{
    struct lvn_operand slots[LVN_MAX_PENDING];
    int known = 0;
    p->grad_buffer_bytes = p->graph->params->trainable_count * lvn_dtype_bytes(p->gradients);
    p->n_grad_buffers = 1;
    if (!tree) return LVN_OK;
    struct counter c = {.n_leaves = tree->total};
    p->grad_buffer_of = lvn_arena_alloc(&p->arena, sizeof *p->grad_buffer_of * (size_t)(tree->n + 1));
    if (!p->grad_buffer_of) return LVN_MEMORY;
    for (int64_t m = 0; m < tree->n; m++) {
        p->grad_buffer_of[m] = push(&c, tree->first + m);
        for (; known < c.slots; known++) LVN_TRY(gradient(p, known, &slots[known]));
        while (siblings(&c)) LVN_TRY(merge(p, &c, m, slots));
    }
    p->n_grad_buffers = c.slots;
    p->n_pending = c.n;
    for (int i = 0; i < c.n; i++) p->pending[i] = c.node[i];
    return LVN_OK;
}
