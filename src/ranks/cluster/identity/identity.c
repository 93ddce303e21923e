/* identity.c - finds the innermost launcher, and reads its variables.
 *
 * Variables show that a launcher ran, but they are inherited, so they do not show which launcher is the innermost. The
 * ancestors of this process show that: a rank of Open MPI is a descendant of orted or mpirun, one of hydra of
 * hydra_pmi_proxy, one of srun of slurmstepd; the nearest of them started it. Variables without such an ancestor are
 * accepted if their launcher can prove that they are valid (an open connection to its server), or if this cannot be
 * determined (in a container the launcher is not visible). Otherwise they are stale: they are ignored and reported.
 * Variables that no launcher sets (a rank that is not a number, a rank without a size) are errors, unless a running
 * launcher makes them irrelevant. */
#include "cluster/identity/identity.h"

#include <unistd.h>

#include "base/text.h"
#include "cluster/identity/launcher_env.h"

enum { NO_ANCESTOR_DEPTH = 1000 }; /* larger than any depth of an ancestor */

/* The first of the names that is set; NULL: none. */
static const char *first_set(const struct lvn_environment *environment, const char *const names[3])
{
    for (int i = 0; i < 3 && names[i]; i++) {
        if (lvn_variable(environment, names[i])) return names[i];
    }
    return NULL;
}

static int optional(const struct lvn_environment *environment, const char *const names[3])
{
    int n;
    const char *name = first_set(environment, names);
    return name && lvn_whole_number(lvn_variable(environment, name), 0, &n) ? n : -1;
}

/* Read rank and size of one launcher. */
static enum lvn_status read_launcher_env(const struct lvn_launcher_env *launcher,
                                         const struct lvn_environment *environment, struct lvn_identity *out)
{
    const char *rank = first_set(environment, launcher->rank), *size = first_set(environment, launcher->size);
    char refusal[LVN_REFUSAL];
    LVN_CHECK(!launcher->refuse || !launcher->refuse(environment, refusal), ARG, "%s", refusal);
    LVN_CHECK(rank, ARG, "%s is set, but %s is not; %s sets both: start levin with it, or unset %s", size,
              launcher->rank[0], launcher->title, size);
    LVN_CHECK(size, ARG, "%s is set, but %s is not; %s sets both: start levin with it, or unset %s", rank,
              launcher->size[0], launcher->title, rank);
    const char *r = lvn_variable(environment, rank), *n = lvn_variable(environment, size);
    LVN_CHECK(lvn_whole_number(r, 0, &out->rank), ARG,
              "%s is '%.40s'; a rank is an integer, at least 0: start levin with %s, or unset it", rank, r,
              launcher->title);
    LVN_CHECK(lvn_whole_number(n, 1, &out->size), ARG,
              "%s is '%.40s'; a number of ranks is an integer, at least 1: start levin with %s, or unset it", size, n,
              launcher->title);
    LVN_CHECK(out->rank < out->size, ARG,
              "%s is %d and %s is %d, but ranks are 0 to %d: start levin with %s, or unset both", rank, out->rank, size,
              out->size, out->size - 1, launcher->title);
    out->launcher = launcher->name;
    out->title = launcher->title;
    out->rank_from = rank;
    out->size_from = size;
    out->local_rank = optional(environment, launcher->local_rank);
    out->local_size = optional(environment, launcher->local_size);
    out->node = optional(environment, launcher->node);
    out->nodes = optional(environment, launcher->nodes);
    if (launcher->more) launcher->more(environment, out);
    if (out->local_size == 0 || out->local_rank >= out->local_size) out->local_size = -1;
    return LVN_OK;
}

static bool is_loopback(const char *host)
{
    static const char *const names[] = {"localhost", "localhost:*", "127.*", "::1", "[::1]*", NULL};
    return host && lvn_is_among(names, host);
}

/* Determined from the launcher's variables; without them, from the address at which other hosts would reach rank 0. */
static bool is_on_one_host(const struct lvn_identity *identity, const struct lvn_environment *environment)
{
    const char *endpoint = *identity->endpoint ? identity->endpoint : lvn_variable(environment, "MASTER_ADDR");
    if (identity->local_size > 0) return identity->local_size == identity->size;
    return identity->nodes == 1 || (identity->without_mpi && is_loopback(endpoint));
}

/* Evidence for one launcher; a smaller depth is closer to this process. */
struct claim {
    enum lvn_evidence evidence;
    int depth;
    char reason[160];
};

static void evaluate(struct claim *claim, const struct lvn_launcher_env *launcher,
                     const struct lvn_environment *environment)
{
    claim->reason[0] = '\0';
    claim->evidence = launcher->evidence ? launcher->evidence(environment, claim->reason)
                      : first_set(environment, launcher->rank) || first_set(environment, launcher->size) ? LVN_UNKNOWN
                                                                                                         : LVN_ABSENT;
    int ancestors = lvn_launcher_env_depth(launcher, environment);
    claim->depth = 3 * NO_ANCESTOR_DEPTH;
    if (claim->evidence >= LVN_UNKNOWN && ancestors) {
        claim->evidence = LVN_ALIVE;
        claim->depth = ancestors;
        snprintf(claim->reason, sizeof claim->reason, "started by %s (pid %d)",
                 environment->ancestors[ancestors - 1].name, environment->ancestors[ancestors - 1].pid);
    } else if (claim->evidence == LVN_ALIVE) {
        claim->depth = NO_ANCESTOR_DEPTH;
    } else if (claim->evidence == LVN_UNKNOWN) {
        claim->depth = 2 * NO_ANCESTOR_DEPTH;
    }
}

static void add_ignored(struct lvn_identity *out, const struct lvn_launcher_env *launcher,
                        const struct lvn_environment *environment, const char *reason)
{
    const char *rank = first_set(environment, launcher->rank), *size = first_set(environment, launcher->size);
    lvn_print_append(out->ignored, sizeof out->ignored, "%s%s%s%s ignored: %s", *out->ignored ? "; " : "",
                     rank ? rank : "", rank && size ? " and " : "", size ? size : "", reason);
}

/* Find variables that number this process among several, although it runs by itself. Some platforms set the index of a
 * machine or task, which is not the rank of a run; or only one of a launcher's two variables is set, which may be stale
 * or have another meaning. */
static void find_unconnected(struct lvn_identity *out, const struct lvn_environment *environment)
{
    static const char *const names[][2] = {{"RANK", "WORLD_SIZE"},
                                           {"PALS_RANKID", "PMI_SIZE"},
                                           {"NODE_RANK", "NNODES"},
                                           {"PET_NODE_RANK", "PET_NNODES"},
                                           {"SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES"},
                                           {"AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_NUM_NODES"}};
    enum { OF_LAUNCHERS = 2 }; /* the first rows, which are read elsewhere if both are set */
    for (size_t i = 0; i < sizeof names / sizeof *names && !*out->unconnected; i++) {
        int index, n;
        const char *of_index = lvn_variable(environment, names[i][0]), *of_n = lvn_variable(environment, names[i][1]);
        const bool several = of_n && lvn_whole_number(of_n, 2, &n) &&
                             (of_index || strcmp(names[i][1], "PMI_SIZE") != 0); /* which other launchers set, too */
        if (of_index ? !of_n : several)
            snprintf(out->unconnected, sizeof out->unconnected,
                     "%s is %.40s, but %s is not set, so this process runs by itself: set both for the ranks of one "
                     "run, or unset %s",
                     names[i][!of_index], of_index ? of_index : of_n, names[i][of_index != NULL], names[i][!of_index]);
        else if (i >= OF_LAUNCHERS && several && lvn_whole_number(of_index, 0, &index))
            snprintf(
                out->unconnected, sizeof out->unconnected,
                "%s is %d of %s %d, but nothing connects them, so each runs by itself: start `levin launch --nodes "
                "%d --node-rank %d --nproc-per-node=RANKS -- COMMAND`, with MASTER_ADDR set",
                names[i][0], index, names[i][1], n, n, index);
    }
}

static void set_single(struct lvn_identity *out)
{
    out->launcher = "local";
    out->title = "no launcher";
    out->size = 1;
    out->rank = out->local_rank = out->node = 0;
    out->local_size = out->nodes = 1;
    out->rank_from = out->size_from = "";
    snprintf(out->evidence, sizeof out->evidence, "no variables of a launcher");
}

/* True if this process should report errors in the variables: it has rank 0 in all of them. All ranks fail in the same
 * way then. Without a common launcher, as in pods, it may be several, as no rank sees the output of another. */
static bool is_first(const struct lvn_environment *environment, const struct claim *claims)
{
    bool first = true;
    for (int i = 0; i < LVN_LAUNCHER_ENVS; i++) {
        const struct lvn_launcher_env *launcher = lvn_launcher_envs[i];
        if (!launcher->processes[0] || claims[i].evidence < LVN_UNKNOWN) continue;
        first = first && optional(environment, launcher->rank) <= 0 &&
                optional(environment, launcher->local_rank) <= 0 && optional(environment, launcher->node) <= 0;
    }
    return first;
}

enum lvn_status lvn_identity_find_in(struct lvn_identity *out, const struct lvn_environment *environment)
{
    struct claim claims[LVN_LAUNCHER_ENVS];
    int best = -1;
    *out = (struct lvn_identity){0};
    if (gethostname(out->host, sizeof out->host - 1)) snprintf(out->host, sizeof out->host, "unknown");
    for (int i = 0; i < LVN_LAUNCHER_ENVS; i++) {
        evaluate(&claims[i], lvn_launcher_envs[i], environment);
        if (claims[i].evidence >= LVN_UNKNOWN && (best < 0 || claims[i].depth < claims[best].depth)) best = i;
    }
    out->first = is_first(environment, claims);
    bool alive = best >= 0 && claims[best].evidence == LVN_ALIVE;
    for (int i = 0; i < LVN_LAUNCHER_ENVS && !alive; i++) { /* invalid values are errors even in stale variables */
        struct lvn_identity other = {0};
        if (claims[i].evidence == LVN_DEAD) LVN_TRY(read_launcher_env(lvn_launcher_envs[i], environment, &other));
    }
    if (best < 0) {
        set_single(out);
        find_unconnected(out, environment);
    } else {
        out->launched = claims[best].evidence == LVN_ALIVE; /* even if its variables are wrong */
        LVN_TRY(read_launcher_env(lvn_launcher_envs[best], environment, out));
        snprintf(out->evidence, sizeof out->evidence, "%s",
                 claims[best].reason[0] ? claims[best].reason : "its variables are set");
    }
    for (int i = 0; i < LVN_LAUNCHER_ENVS; i++) {
        if (i == best || claims[i].evidence == LVN_ABSENT) continue;
        add_ignored(out, lvn_launcher_envs[i], environment,
                    claims[i].evidence == LVN_DEAD ? claims[i].reason
                                                   : "another launcher is a closer ancestor of this process");
    }
    if (best >= 0 && lvn_launcher_envs[best]->without_mpi) out->without_mpi = lvn_launcher_envs[best]->without_mpi;
    out->one_host = is_on_one_host(out, environment);
    return LVN_OK;
}

enum lvn_status lvn_identity_find(struct lvn_identity *out)
{
    struct lvn_environment environment;
    lvn_environment_read(&environment);
    return lvn_identity_find_in(out, &environment);
}
