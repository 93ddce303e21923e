/* traffic.c - see traffic.h. */
#include "engine/traffic.h"

#include "comm/tree.h"

/* The largest number of subtrees of the tree over all micro-batches that a rank holds. */
static int max_subtrees(const struct lvn_train_programs *programs)
{
    struct lvn_subtree some[LVN_MAX_SUBTREES];
    const int ranks = programs->collectives.sharding.size;
    int max = 1;
    for (int i = 0; i < ranks; i++) {
        int n = lvn_subtrees(programs->leaf[ranks], programs->leaf[i], programs->leaf[i + 1], some);
        if (n > max) max = n;
    }
    return max;
}

static void add_part(struct lvn_traffic_part *sum, const struct lvn_traffic_part *p, int64_t times)
{
    sum->messages += times * p->messages;
    sum->bytes += times * p->bytes;
    sum->steps += (int)times * p->steps;
}

static void add(struct lvn_traffic *sum, const struct lvn_traffic *t, int64_t times)
{
    add_part(&sum->within, &t->within, times);
    add_part(&sum->between, &t->between, times);
}

/* The ranks of a collective. *hosts: over which all ranks are divided; set to those of these ranks. */
static int ranks_of(const struct lvn_sharding *s, enum lvn_scope scope, int *hosts)
{
    const int owners = lvn_sharding_owners(s), groups = s->size / owners, on_host = s->size / *hosts;
    if (scope == LVN_SCOPE_REPLICAS) {
        if (*hosts > groups) *hosts = groups;
        return groups;
    }
    if (scope == LVN_SCOPE_ALL || groups == 1) return s->size;
    *hosts = owners % on_host == 0 ? owners / on_host : 1;
    return owners;
}

void lvn_train_programs_traffic(const struct lvn_train_programs *programs, int hosts, struct lvn_step_traffic *out)
{
    const struct lvn_program *p = programs->step_session->program;
    const struct lvn_sharding *s = &programs->collectives.sharding;
    const bool sharded = s->sharded & LVN_SHARDS_STATE;
    const int subtrees = s->tree ? max_subtrees(programs) : 0;
    *out = (struct lvn_step_traffic){.last_bytes = p->graph->params->trainable_count * lvn_dtype_bytes(p->gradients)};
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        if (!i->op->collective || i->id == LVN_OP_wait) continue;
        const bool gather = i->id == LVN_OP_all_gather, replicas = i->scope == LVN_SCOPE_REPLICAS;
        const bool norm = i->id == LVN_OP_all_reduce && sharded && !replicas;
        const bool matrices = i->when == LVN_AFTER_BACKWARD && p->values[i->out[0].value].buffer == LVN_BUFFER_ARENA;
        int within = hosts, ranks = ranks_of(s, i->scope, &within);
        const struct lvn_sum_question q = {
            .ranks = ranks,
            .hosts = within,
            .bytes = lvn_desc_count(&i->out[0].desc) * lvn_dtype_bytes(i->out[0].desc.dtype),
            .partials = i->id == LVN_OP_tree_reduce ? subtrees : 0,
            .reduce = !gather,
            .gather = gather || norm || replicas || !sharded}; /* all ranks get the sums */
        struct lvn_traffic one;
        lvn_sum_traffic(&q, &one);
        add(norm       ? &out->norm
            : matrices ? &out->matrices
            : gather   ? &out->parameters
                       : &out->gradients,
            &one, i->when == LVN_EVERY_MICRO_BATCH ? programs->accumulation : 1);
        if (gather || norm || matrices || i->id == LVN_OP_tree_reduce) continue;
        out->last = one;
        out->last_bytes = q.bytes;
    }
}
