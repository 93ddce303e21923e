/* rank_groups.c - see rank_groups.h. */
#include "engine/rank_groups.h"

struct lvn_rank_groups {
    /* [between devices][scope]; NULL: none */
    struct lvn_comm *comm[2][LVN_SCOPE_REPLICAS + 1];
};

/* Set the number of hosts of a communicator of ranks first, first + step, ... if each host has the same number of
 * consecutive ones, as lvn_ranks_open() does for all ranks. */
static enum lvn_status set_hosts(const struct lvn_ranks *r, struct lvn_comm *c, int first, int step)
{
    const int n = lvn_comm_size(c);
    int each = 1, hosts;
    while (each < n && !strcmp(r->host[first + each * step], r->host[first])) each++;
    hosts = n / each;
    if (n % each || hosts == 1) return LVN_OK;
    for (int i = 0; i < n; i++)
        if (strcmp(r->host[first + i * step], r->host[first + i / each * each * step]) != 0) return LVN_OK;
    for (int i = each; i < n; i += each)
        if (!strcmp(r->host[first + i * step], r->host[first + (i - each) * step])) return LVN_OK;
    return lvn_comm_set_hosts(c, hosts);
}

static enum lvn_status divide(struct lvn_ranks *r, struct lvn_comm *all, struct lvn_comm **comm, int group)
{
    const int mine = r->rank / group, number = r->rank % group;
    LVN_TRY(lvn_comm_split(all, &comm[LVN_SCOPE_GROUP], mine, r->rank));
    LVN_TRY(lvn_comm_split(all, &comm[LVN_SCOPE_REPLICAS], number, r->rank));
    LVN_TRY(set_hosts(r, comm[LVN_SCOPE_GROUP], mine * group, 1));
    return set_hosts(r, comm[LVN_SCOPE_REPLICAS], number, group);
}

enum lvn_status lvn_ranks_divide(struct lvn_ranks *r, int group)
{
    if (!group) return LVN_OK;
    lvn_ranks_undivide(r);
    struct lvn_rank_groups *g = lvn_calloc(1, sizeof *g);
    LVN_TRY(lvn_ranks_agree(r, g ? LVN_OK : LVN_MEMORY));
    lvn_member_set_operation(r->member, "making groups of ranks");
    enum lvn_status status = divide(r, r->comm, g->comm[0], group);
    if (status == LVN_OK && r->device_comm) status = divide(r, r->device_comm, g->comm[1], group);
    lvn_member_set_operation(r->member, NULL);
    pthread_mutex_lock(&r->close_lock);
    r->groups = g;
    pthread_mutex_unlock(&r->close_lock);
    return lvn_ranks_agree(r, status);
}

void lvn_ranks_undivide(struct lvn_ranks *r)
{
    pthread_mutex_lock(&r->close_lock);
    struct lvn_rank_groups *g = r->groups;
    r->groups = NULL;
    pthread_mutex_unlock(&r->close_lock);
    for (int i = 0; g && i <= LVN_SCOPE_REPLICAS; i++) {
        lvn_comm_close(g->comm[1][i]);
        lvn_comm_close(g->comm[0][i]);
    }
    free(g);
}

struct lvn_comm *lvn_ranks_comm(const struct lvn_ranks *r, enum lvn_scope scope, bool device)
{
    struct lvn_comm *all = device ? r->device_comm : r->comm;
    return scope == LVN_SCOPE_ALL || !r->groups ? all : r->groups->comm[device][scope];
}

void lvn_rank_groups_cancel(const struct lvn_rank_groups *g)
{
    for (int i = 0; i <= LVN_SCOPE_REPLICAS; i++)
        if (g->comm[1][i]) lvn_comm_cancel(g->comm[1][i]);
}
