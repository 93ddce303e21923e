/* regex_write.c - see regex_private.h: compiles the tree of an expression to a program. A repeated part is written
 * once for each required repetition, and once for each optional or unbounded one. */
#include "tokenizers/regex/regex_private.h"

static enum lvn_status add_step(struct parser *r, struct step step, int *number)
{
    if (r->n_steps == MAX_STEPS) REFUSE(r, "too many repetitions");
    if (number) *number = r->n_steps;
    r->step[r->n_steps++] = step;
    return LVN_OK;
}

static enum lvn_status write_node(struct parser *r, int number);

/* Write an enclosing step (lookahead, atomic group), the steps of a node, and DONE. */
static enum lvn_status write_enclosed(struct parser *r, struct step enclosing,
                                      enum lvn_status (*write)(struct parser *, int), int number)
{
    int at;
    LVN_TRY(add_step(r, enclosing, &at));
    LVN_TRY(write(r, number));
    LVN_TRY(add_step(r, (struct step){.kind = STEP_DONE}, NULL));
    r->step[at].a = r->n_steps;
    return LVN_OK;
}

static bool may_be_empty(const struct parser *r, int number)
{
    const struct node *n = &r->node[number];
    bool all = true, any = false;
    for (int child = n->child; child; child = r->node[child].next) {
        bool empty = may_be_empty(r, child);
        all = all && empty;
        any = any || empty;
        if (n->kind == NODE_REPEAT) break;
    }
    switch (n->kind) {
    case NODE_SET:
        return false;
    case NODE_ALTERNATIVES:
        return any;
    case NODE_REPEAT:
        return all || !n->min;
    case NODE_LOOKAHEAD:
        return true;
    case NODE_REFERENCE:
        return may_be_empty(r, r->group[n->set]);
    default:
        return all;
    }
}

static enum lvn_status write_loop(struct parser *r, int number)
{
    const struct node *n = &r->node[number];
    bool lazy = n->greed == LAZY;
    int split, last = -1;
    if (n->max < 0 && may_be_empty(r, n->child)) REFUSE(r, "an endless repetition of what may be empty");
    for (int i = 0; i < n->min; i++) LVN_TRY(write_node(r, n->child));
    for (int i = n->min; i < n->max || (n->max < 0 && i == n->min); i++) {
        LVN_TRY(add_step(r, (struct step){.kind = STEP_SPLIT, .b = last}, &split));
        LVN_TRY(write_node(r, n->child));
        if (n->max < 0) LVN_TRY(add_step(r, (struct step){.kind = STEP_JUMP, .a = split}, NULL));
        last = split;
    }
    /* Until the end is known, the SPLIT steps of the loop are a linked list, by b. */
    for (int next; last >= 0; last = next) {
        next = r->step[last].b;
        r->step[last].a = lazy ? r->n_steps : last + 1;
        r->step[last].b = lazy ? last + 1 : r->n_steps;
    }
    return LVN_OK;
}

static enum lvn_status write_alternatives(struct parser *r, int child)
{
    int split = 0, jump, last = -1;
    for (; child; child = r->node[child].next) {
        bool more = r->node[child].next;
        if (more) LVN_TRY(add_step(r, (struct step){.kind = STEP_SPLIT, .a = r->n_steps + 1}, &split));
        LVN_TRY(write_node(r, child));
        if (!more) break;
        LVN_TRY(add_step(r, (struct step){.kind = STEP_JUMP, .a = last}, &jump));
        last = jump;
        r->step[split].b = r->n_steps;
    }
    for (int next; last >= 0; last = next) {
        next = r->step[last].a;
        r->step[last].a = r->n_steps;
    }
    return LVN_OK;
}

static enum lvn_status write_node(struct parser *r, int number)
{
    const struct node *n = &r->node[number];
    switch (n->kind) {
    case NODE_SET:
        return add_step(r, (struct step){.kind = STEP_SET, .set = n->set}, NULL);
    case NODE_BEGIN:
    case NODE_END:
        return add_step(r, (struct step){.kind = n->kind == NODE_BEGIN ? STEP_BEGIN : STEP_END}, NULL);
    case NODE_ALTERNATIVES:
        return write_alternatives(r, n->child);
    case NODE_SEQUENCE:
        for (int child = n->child; child; child = r->node[child].next) LVN_TRY(write_node(r, child));
        return LVN_OK;
    case NODE_GROUP:
        LVN_TRY(add_step(r, (struct step){.kind = STEP_PLACE, .a = 2 * n->set - 2}, NULL));
        LVN_TRY(write_node(r, n->child));
        return add_step(r, (struct step){.kind = STEP_PLACE, .a = 2 * n->set - 1}, NULL);
    case NODE_REFERENCE:
        return add_step(r, (struct step){.kind = STEP_REFERENCE, .a = n->set}, NULL);
    case NODE_LOOKAHEAD:
        return write_enclosed(r, (struct step){.kind = STEP_LOOKAHEAD, .negated = n->negated}, write_node, n->child);
    case NODE_ATOMIC:
        return write_enclosed(r, (struct step){.kind = STEP_ATOMIC}, write_node, n->child);
    case NODE_REPEAT:
        break;
    }
    if (r->node[n->child].kind == NODE_SET && n->greed != LAZY)
        return add_step(
            r,
            (struct step){
                .kind = STEP_LOOP, .set = r->node[n->child].set, .min = n->min, .max = n->max, .greed = n->greed},
            NULL);
    if (n->greed == POSSESSIVE) return write_enclosed(r, (struct step){.kind = STEP_ATOMIC}, write_loop, number);
    return write_loop(r, number);
}

enum lvn_status lvn_regex_write(struct parser *r, int root)
{
    LVN_TRY(write_node(r, root));
    return add_step(r, (struct step){.kind = STEP_DONE}, NULL);
}
