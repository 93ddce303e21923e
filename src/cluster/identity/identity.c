/* identity.c - finds the innermost launcher, and reads its variables.
 *
 * Variables show that a launcher ran, but not which one is the innermost, because they are inherited. The ancestors
 * of this process show that: a rank of Open MPI has orted or mpirun above it, one of hydra hydra_pmi_proxy, one of
 * srun slurmstepd; the nearest of them has started it. Variables without such an ancestor are accepted if their
 * launcher can show that they are alive (an open connection to its server), or if it cannot be known (in a container
 * the launcher is not visible); otherwise they are stale, ignored, and reported. Variables that no launcher would
 * have set (a rank that is no number, a rank without a size) are errors, unless a running launcher makes them
 * irrelevant. */
#include "cluster/identity/identity.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cluster/identity/launcher_env.h"

enum { FAR = 1000 };

/* The first of the names that is set; NULL: none. */
static const char *first_set(const struct lvn_environment *s, const char *const names[3])
{
    for (int i = 0; i < 3 && names[i]; i++) {
        if (lvn_variable(s, names[i])) return names[i];
    }
    return NULL;
}

static int optional(const struct lvn_environment *s, const char *const names[3])
{
    int n;
    const char *name = first_set(s, names);
    return name && lvn_whole_number(lvn_variable(s, name), 0, &n) ? n : -1;
}

/* Read rank and size of one launcher. */
static enum lvn_status read_launcher_env(const struct lvn_launcher_env *f, const struct lvn_environment *s,
                                         struct lvn_identity *out)
{
    const char *rank = first_set(s, f->rank), *size = first_set(s, f->size);
    char refusal[LVN_REFUSAL];
    LVN_CHECK(!f->refuse || !f->refuse(s, refusal), ARG, "%s", refusal);
    LVN_CHECK(rank, ARG, "%s is set, but %s is not: %s sets both; start levin by it, or unset %s", size, f->rank[0],
              f->title, size);
    LVN_CHECK(size, ARG, "%s is set, but %s is not: %s sets both; start levin by it, or unset %s", rank, f->size[0],
              f->title, rank);
    const char *r = lvn_variable(s, rank), *n = lvn_variable(s, size);
    LVN_CHECK(lvn_whole_number(r, 0, &out->rank), ARG,
              "%s is '%.40s', and a rank is a whole number from 0 on: start levin by %s, or unset it", rank, r,
              f->title);
    LVN_CHECK(lvn_whole_number(n, 1, &out->size), ARG,
              "%s is '%.40s', and a number of ranks is a whole number from 1 on: start levin by %s, or unset it", size,
              n, f->title);
    LVN_CHECK(out->rank < out->size, ARG,
              "%s is %d and %s is %d, but ranks go from 0 to %d: start levin by %s, or unset both", rank, out->rank,
              size, out->size, out->size - 1, f->title);
    out->launcher = f->name;
    out->title = f->title;
    out->rank_from = rank;
    out->size_from = size;
    out->local_rank = optional(s, f->local_rank);
    out->local_size = optional(s, f->local_size);
    out->node = optional(s, f->node);
    out->nodes = optional(s, f->nodes);
    if (f->more) f->more(s, out);
    if (out->local_size == 0 || out->local_rank >= out->local_size) out->local_size = -1;
    return LVN_OK;
}

static bool is_loopback(const char *host)
{
    static const char *const names[] = {"localhost", "localhost:*", "127.*", "::1", "[::1]*", NULL};
    return host && lvn_is_among(names, host);
}

/* From the launcher's numbers; if it gives none, from the address at which other hosts would have to reach rank 0. */
static bool is_on_one_host(const struct lvn_identity *id, const struct lvn_environment *s)
{
    const char *endpoint = *id->endpoint ? id->endpoint : lvn_variable(s, "MASTER_ADDR");
    if (id->local_size > 0) return id->local_size == id->size;
    return id->nodes == 1 || (id->without_mpi && is_loopback(endpoint));
}

/* Evidence for one launcher; a smaller depth is nearer to this process. */
struct claim {
    enum lvn_evidence evidence;
    int depth;
    char reason[160];
};

static void evaluate(struct claim *c, const struct lvn_launcher_env *f, const struct lvn_environment *s)
{
    c->reason[0] = '\0';
    c->evidence = f->evidence                                      ? f->evidence(s, c->reason)
                  : first_set(s, f->rank) || first_set(s, f->size) ? LVN_UNKNOWN
                                                                   : LVN_ABSENT;
    int ancestors = lvn_launcher_env_depth(f, s);
    c->depth = 3 * FAR;
    if (c->evidence >= LVN_UNKNOWN && ancestors) {
        c->evidence = LVN_ALIVE;
        c->depth = ancestors;
        snprintf(c->reason, sizeof c->reason, "started by %s (pid %d)", s->ancestors[ancestors - 1].name,
                 s->ancestors[ancestors - 1].pid);
    } else if (c->evidence == LVN_ALIVE) {
        c->depth = FAR;
    } else if (c->evidence == LVN_UNKNOWN) {
        c->depth = 2 * FAR;
    }
}

static void add_ignored(struct lvn_identity *out, const struct lvn_launcher_env *f, const struct lvn_environment *s,
                        const char *reason)
{
    const char *rank = first_set(s, f->rank), *size = first_set(s, f->size);
    lvn_print_append(out->ignored, sizeof out->ignored, "%s%s%s%s passed over: %s", *out->ignored ? "; " : "",
                     rank ? rank : "", rank && size ? " and " : "", size ? size : "", reason);
}

static void set_single(struct lvn_identity *out)
{
    out->launcher = "local";
    out->title = "no launcher";
    out->size = 1;
    out->rank = out->local_rank = out->node = 0;
    out->local_size = out->nodes = 1;
    out->rank_from = out->size_from = "";
    snprintf(out->evidence, sizeof out->evidence, "no launcher's variables");
}

/* If variables are wrong, all ranks fail alike, and one of them reports. Without a common launcher, as in pods, no
 * rank sees the output of another. */
static bool is_first(const struct lvn_environment *s, const struct claim *claims)
{
    bool first = true;
    for (int i = 0; i < LVN_LAUNCHER_ENVS; i++) {
        const struct lvn_launcher_env *f = lvn_launcher_envs[i];
        if (!f->processes[0] || claims[i].evidence < LVN_UNKNOWN) continue;
        first = first && optional(s, f->rank) <= 0 && optional(s, f->local_rank) <= 0 && optional(s, f->node) <= 0;
    }
    return first;
}

enum lvn_status lvn_identity_find_in(struct lvn_identity *out, const struct lvn_environment *s)
{
    struct claim claims[LVN_LAUNCHER_ENVS];
    int best = -1;
    *out = (struct lvn_identity){0};
    if (gethostname(out->host, sizeof out->host - 1)) snprintf(out->host, sizeof out->host, "unknown");
    for (int i = 0; i < LVN_LAUNCHER_ENVS; i++) {
        evaluate(&claims[i], lvn_launcher_envs[i], s);
        if (claims[i].evidence >= LVN_UNKNOWN && (best < 0 || claims[i].depth < claims[best].depth)) best = i;
    }
    out->first = is_first(s, claims);
    bool alive = best >= 0 && claims[best].evidence == LVN_ALIVE;
    for (int i = 0; i < LVN_LAUNCHER_ENVS && !alive; i++) { /* invalid values are errors even in stale variables */
        struct lvn_identity other = {0};
        if (claims[i].evidence == LVN_DEAD) LVN_TRY(read_launcher_env(lvn_launcher_envs[i], s, &other));
    }
    if (best < 0) {
        set_single(out);
    } else {
        out->launched = claims[best].evidence == LVN_ALIVE; /* even if its variables are wrong */
        LVN_TRY(read_launcher_env(lvn_launcher_envs[best], s, out));
        snprintf(out->evidence, sizeof out->evidence, "%s",
                 claims[best].reason[0] ? claims[best].reason : "its variables are set");
    }
    for (int i = 0; i < LVN_LAUNCHER_ENVS; i++) {
        if (i == best || claims[i].evidence == LVN_ABSENT) continue;
        add_ignored(out, lvn_launcher_envs[i], s,
                    claims[i].evidence == LVN_DEAD ? claims[i].reason
                                                   : "another launcher is a closer ancestor of this process");
    }
    if (best >= 0 && lvn_launcher_envs[best]->without_mpi) out->without_mpi = lvn_launcher_envs[best]->without_mpi;
    out->one_host = is_on_one_host(out, s);
    return LVN_OK;
}

enum lvn_status lvn_identity_find(struct lvn_identity *out)
{
    struct lvn_environment s;
    lvn_environment_read(&s);
    return lvn_identity_find_in(out, &s);
}
