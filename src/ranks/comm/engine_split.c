/* engine_split.c - groups of the ranks of an engine, for lvn_comm_split(). engine_open.c calls it.
 *
 * A group shares the thread and queues of its engine. It has its own transport state, which separates its messages, and
 * its own tree for plain sums. engine.c and exchange.c use ranks of the group, so its sums have the bits of an engine
 * with that number of ranks. */

#include "base/arena.h"
#include "comm/engine.h"
#include "comm/tree.h"

/* One call of lvn_comm_split() on this rank. */
struct division {
    struct lvn_engine *engine;
    struct lvn_comm *comm; /* that is divided */
    struct lvn_group_split split;
    void *state; /* of the transport, for the new group */
    enum lvn_status status;
    char text[300]; /* error message, from the engine's thread */
};

/* The arguments of one rank. Exchanged as int64_t: see choose(). */
struct choice {
    int64_t color, key;
    int64_t number; /* this rank's next group number */
};

/* True if rank a precedes rank b in their group. */
static bool precedes(const struct choice *all, int a, int b)
{
    return all[a].key != all[b].key ? all[a].key < all[b].key : a < b;
}

/* Fill in the members of the group with this rank's color, in order, and the number of the call: the maximum of
 * all ranks' proposals, so it is unused on each of them. */
static enum lvn_status make_members(struct lvn_group_split *split, const struct choice *all, int size, int rank)
{
    *split = (struct lvn_group_split){0};
    for (int i = 0; i < size; i++) split->number = all[i].number > split->number ? (int)all[i].number : split->number;
    if (all[rank].color < 0) return LVN_OK;
    split->member = lvn_calloc((size_t)size, sizeof *split->member);
    if (!split->member) return LVN_MEMORY;
    for (int i = 0; i < size; i++) {
        if (all[i].color != all[rank].color) continue;
        int at = split->n++;
        for (; at > 0 && precedes(all, i, split->member[at - 1]); at--) split->member[at] = split->member[at - 1];
        split->member[at] = i;
    }
    while (split->member[split->rank] != rank) split->rank++;
    return LVN_OK;
}

/* Either all ranks continue or none: a rank without memory would block the others. */
static enum lvn_status agree(struct lvn_comm *comm, enum lvn_status mine)
{
    int32_t lowest = mine == LVN_OK ? comm->size : comm->rank;
    lvn_error_save();
    enum lvn_status status = lvn_comm_all_reduce_now(comm, &lowest, 1, LVN_I32, LVN_MIN);
    if (mine != LVN_OK) lvn_error_restore();
    if (mine != LVN_OK) return mine;
    LVN_TRY(status);
    LVN_CHECK(lowest == comm->size, COMM, "rank %d could not create a group of ranks", lowest);
    return LVN_OK;
}

/* Exchange the arguments of all ranks: a gather, as a sum in which all addends but one are 0. */
static enum lvn_status choose(struct division *division, int color, int key)
{
    const int size = division->comm->size, rank = division->comm->rank;
    struct choice *all = lvn_calloc((size_t)size, sizeof *all);
    enum lvn_status status = agree(division->comm, all ? LVN_OK : LVN_MEMORY);
    if (!all || status != LVN_OK) {
        free(all);
        return status;
    }
    all[rank] = (struct choice){.color = color, .key = key, .number = division->engine->next_group};
    status =
        lvn_comm_all_reduce_now(division->comm, all, size * (int64_t)(sizeof *all / sizeof(int64_t)), LVN_I64, LVN_SUM);
    if (status == LVN_OK) status = agree(division->comm, make_members(&division->split, all, size, rank));
    free(all);
    if (status != LVN_OK) free(division->split.member);
    return status;
}

/* In the engine's thread. */
static void split_transport(void *state, void *argument)
{
    struct division *division = argument;
    division->status = division->engine->error != LVN_OK
                           ? lvn_fail(LVN_COMM, "%s", division->engine->whole.comm.text)
                           : division->engine->transport->split(state, &division->split, &division->state);
    if (division->status != LVN_OK) snprintf(division->text, sizeof division->text, "%s", levin_error_text());
}

static void release_transport(void *state, void *argument)
{
    struct lvn_engine_group *group = argument;
    (void)state;
    if (group->state) group->engine->transport->release_group(group->state, group->engine->error != LVN_OK);
}

/* The ranks of the new group among all ranks of the engine; NULL if memory is exhausted. */
static int *members_among_all(const struct division *division)
{
    const int *outer = ((const struct lvn_engine_group *)division->comm)->member;
    int *member = lvn_calloc((size_t)division->split.n, sizeof *member);
    for (int i = 0; member && i < division->split.n; i++)
        member[i] = outer ? outer[division->split.member[i]] : division->split.member[i];
    return member;
}

void lvn_engine_group_close(struct lvn_engine_group *group)
{
    struct lvn_request request;
    lvn_engine_call(&group->comm, &request, release_transport, group);
    if (lvn_comm_wait(&group->comm, &request) != LVN_OK) lvn_error_clear(); /* the engine's error is already reported */
    lvn_tree_free(group->flat);
    free(group->member);
    free(group);
}

/* The group that this rank joins, without the transport's state. */
static enum lvn_status group_new(struct lvn_engine_group **out, const struct division *division)
{
    const struct lvn_comm *comm = division->comm;
    struct lvn_engine_group *group = *out = lvn_calloc(1, sizeof *group);
    if (!group) return LVN_MEMORY;
    lvn_comm_init(&group->comm, comm->ops, division->split.rank, division->split.n);
    group->comm.whole = comm->whole;
    memcpy(group->comm.describe, comm->describe, sizeof group->comm.describe);
    group->engine = division->engine;
    group->member = members_among_all(division);
    if (!group->member) return LVN_MEMORY;
    return lvn_tree_new_for(&group->flat, division->split.n, division->split.rank, 1, NULL);
}

static enum lvn_status make_states(struct division *division)
{
    struct lvn_request request;
    lvn_engine_call(division->comm, &request, split_transport, division);
    LVN_TRY(lvn_comm_wait(division->comm, &request));
    if (division->status == LVN_OK) return LVN_OK;
    return lvn_fail(division->status, "rank %d could not create a group of ranks: %s", division->comm->rank,
                    division->text);
}

enum lvn_status lvn_engine_split(struct lvn_comm *comm, struct lvn_comm **out, int color, int key)
{
    struct lvn_engine_group *group = NULL;
    struct division division = {.engine = ((struct lvn_engine_group *)comm)->engine, .comm = comm};
    LVN_CHECK(division.engine->transport->split, UNSUPPORTED, "%s does not support groups of ranks", comm->describe);
    LVN_TRY(choose(&division, color, key));
    enum lvn_status status = agree(comm, division.split.n ? group_new(&group, &division) : LVN_OK);
    if (status == LVN_OK && division.split.number >= LVN_GROUPS)
        status = lvn_fail(LVN_UNSUPPORTED, "a run can create at most %d groups of ranks", LVN_GROUPS);
    if (status == LVN_OK) {
        division.engine->next_group = division.split.number + 1;
        status = agree(comm, make_states(&division));
    }
    if (group) group->state = division.state;
    if (group && status != LVN_OK) lvn_engine_group_close(group);
    free(division.split.member);
    if (status == LVN_OK && group) *out = &group->comm;
    return status;
}
