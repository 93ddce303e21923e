/* engine_split.c - groups of the ranks of an engine, for lvn_comm_split(). engine_open.c calls it.
 *
 * A group has the thread and the queues of its engine, and of its own a state of the transport, which keeps its
 * messages apart, and a tree for plain sums. All that engine.c and exchange.c do with ranks is relative to the group,
 * so its sums have the bits of an engine with so many ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "comm/engine.h"
#include "comm/tree.h"

/* One call of lvn_comm_split() on this rank. */
struct division {
    struct lvn_engine *engine;
    struct lvn_comm *comm; /* whose ranks are divided */
    struct lvn_group_split split;
    void *state; /* the transport's, of the new group */
    enum lvn_status status;
    char text[300]; /* its error, of the engine's thread */
};

/* The arguments of one rank. */
struct choice {
    int64_t colour, key;
    int64_t number; /* that it would give the groups */
};

/* Does rank a come before rank b in their group? */
static bool precedes(const struct choice *all, int a, int b)
{
    return all[a].key != all[b].key ? all[a].key < all[b].key : a < b;
}

/* The members of the group with this rank's colour, in their order, and the number of the call: the highest that one of
 * all ranks would give it, so it is new on each of them. */
static enum lvn_status make_members(struct lvn_group_split *s, const struct choice *all, int size, int rank)
{
    *s = (struct lvn_group_split){0};
    for (int i = 0; i < size; i++) s->number = all[i].number > s->number ? (int)all[i].number : s->number;
    if (all[rank].colour < 0) return LVN_OK;
    s->member = lvn_calloc((size_t)size, sizeof *s->member);
    if (!s->member) return LVN_MEMORY;
    for (int i = 0; i < size; i++) {
        if (all[i].colour != all[rank].colour) continue;
        int at = s->n++;
        for (; at > 0 && precedes(all, i, s->member[at - 1]); at--) s->member[at] = s->member[at - 1];
        s->member[at] = i;
    }
    while (s->member[s->rank] != rank) s->rank++;
    return LVN_OK;
}

/* All ranks go on together or none: one that lacks memory would make the others wait. */
static enum lvn_status agree(struct lvn_comm *c, enum lvn_status mine)
{
    int32_t lowest = mine == LVN_OK ? c->size : c->rank;
    lvn_error_save();
    enum lvn_status status = lvn_comm_all_reduce_now(c, &lowest, 1, LVN_I32, LVN_MIN);
    if (mine != LVN_OK) lvn_error_restore();
    if (mine != LVN_OK) return mine;
    LVN_TRY(status);
    LVN_CHECK(lowest == c->size, COMM, "rank %d could not make a group of ranks", lowest);
    return LVN_OK;
}

/* Learn what all ranks choose: a gather, as a sum of numbers of which all but one are 0. */
static enum lvn_status choose(struct division *d, int colour, int key)
{
    const int size = d->comm->size, rank = d->comm->rank;
    struct choice *all = lvn_calloc((size_t)size, sizeof *all);
    enum lvn_status status = agree(d->comm, all ? LVN_OK : LVN_MEMORY);
    if (!all || status != LVN_OK) {
        free(all);
        return status;
    }
    all[rank] = (struct choice){.colour = colour, .key = key, .number = d->engine->next_group};
    status = lvn_comm_all_reduce_now(d->comm, all, size * (int64_t)(sizeof *all / sizeof(int64_t)), LVN_I64, LVN_SUM);
    if (status == LVN_OK) status = agree(d->comm, make_members(&d->split, all, size, rank));
    free(all);
    if (status != LVN_OK) free(d->split.member);
    return status;
}

/* In the engine's thread. */
static void split_transport(void *state, void *division)
{
    struct division *d = division;
    d->status = d->engine->transport->split(state, &d->split, &d->state);
    if (d->status != LVN_OK) snprintf(d->text, sizeof d->text, "%s", lvn_error_text());
}

static void release_transport(void *state, void *group)
{
    struct lvn_engine_group *g = group;
    (void)state;
    if (g->state) g->engine->transport->release_group(g->state);
}

/* The ranks of the new group among all ranks of the engine. */
static int *members_among_all(const struct division *d)
{
    const int *outer = ((const struct lvn_engine_group *)d->comm)->member;
    int *member = lvn_calloc((size_t)d->split.n, sizeof *member);
    for (int i = 0; member && i < d->split.n; i++) member[i] = outer ? outer[d->split.member[i]] : d->split.member[i];
    return member;
}

void lvn_engine_group_close(struct lvn_engine_group *g)
{
    struct lvn_request r;
    lvn_engine_call(&g->comm, &r, release_transport, g);
    if (lvn_comm_wait(&g->comm, &r) != LVN_OK) lvn_error_clear(); /* calls do not fail */
    lvn_tree_free(g->flat);
    free(g->member);
    free(g);
}

/* A group for this rank, before the transport has made its state. */
static enum lvn_status group_new(struct lvn_engine_group **out, const struct division *d)
{
    const struct lvn_comm *c = d->comm;
    struct lvn_engine_group *g = *out = lvn_calloc(1, sizeof *g);
    if (!g) return LVN_MEMORY;
    lvn_comm_init(&g->comm, c->ops, d->split.rank, d->split.n);
    g->comm.whole = c->whole;
    memcpy(g->comm.describe, c->describe, sizeof g->comm.describe);
    g->engine = d->engine;
    g->member = members_among_all(d);
    if (!g->member) return LVN_MEMORY;
    return lvn_tree_make(&g->flat, d->split.n, d->split.rank, 1, NULL);
}

static enum lvn_status make_states(struct division *d)
{
    struct lvn_request r;
    lvn_engine_call(d->comm, &r, split_transport, d);
    LVN_TRY(lvn_comm_wait(d->comm, &r));
    if (d->status == LVN_OK) return LVN_OK;
    return lvn_fail(d->status, "rank %d could not make a group of ranks: %s", d->comm->rank, d->text);
}

enum lvn_status lvn_engine_split(struct lvn_comm *c, struct lvn_comm **out, int colour, int key)
{
    struct lvn_engine_group *g = NULL;
    struct division d = {.engine = ((struct lvn_engine_group *)c)->engine, .comm = c};
    LVN_CHECK(d.engine->transport->split, UNSUPPORTED, "%s has no groups of ranks", c->describe);
    LVN_TRY(choose(&d, colour, key));
    enum lvn_status status = agree(c, d.split.n ? group_new(&g, &d) : LVN_OK);
    if (status == LVN_OK && d.split.number >= LVN_GROUPS)
        status = lvn_fail(LVN_UNSUPPORTED, "a run makes at most %d groups of ranks", LVN_GROUPS);
    if (status == LVN_OK) {
        d.engine->next_group = d.split.number + 1;
        status = agree(c, make_states(&d));
    }
    if (g) g->state = d.state;
    if (g && status != LVN_OK) lvn_engine_group_close(g);
    free(d.split.member);
    if (status == LVN_OK && g) *out = &g->comm;
    return status;
}
