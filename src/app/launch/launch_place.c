/* launch_place.c - see launch_place.h. */
#include "launch/launch_place.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/getenv.h"
#include "cluster/identity/launcher_env.h"
#include "launch/launch.h"

enum { MAX_NODES = 100000, MAX_RANKS = 65536 };

/* Names of variables; the first that is set is used. RANK and WORLD_SIZE are those of a PyTorchJob's pod; in a worker
 * of torchrun, which sets LOCAL_RANK, they count ranks and are not used. */
static const char *const node_variables[] = {"LEVIN_NODE",           "NODE_RANK", "GROUP_RANK", "PET_NODE_RANK",
                                             "JOB_COMPLETION_INDEX", "RANK",      NULL};
static const char *const nodes_variables[] = {"LEVIN_NODES",      "NNODES",     "PET_NNODES",
                                              "GROUP_WORLD_SIZE", "WORLD_SIZE", NULL};
static const char *const ranks_variables[] = {"GPUS_PER_NODE", "PET_NPROC_PER_NODE", "LOCAL_WORLD_SIZE",
                                              "NPROC_PER_NODE", NULL};
static const char *const address_variables[] = {"MASTER_ADDR", "PET_MASTER_ADDR", NULL};
static const char *const port_variables[] = {"MASTER_PORT", "PET_MASTER_PORT", NULL};

static const char *first_set(const char *const *names)
{
    const bool worker = lvn_getenv("LOCAL_RANK") || lvn_getenv("LEVIN_RANK");
    for (const char *const *p = names; *p; p++) {
        const bool of_rank = !strcmp(*p, "RANK") || !strcmp(*p, "WORLD_SIZE") || !strncmp(*p, "LEVIN_", 6);
        if (lvn_getenv(*p) && !(worker && of_rank)) return *p;
    }
    return NULL;
}

/* An integer from `min` to `max` in the variable. */
static enum lvn_status read_number(const char *name, int min, int max, const char *expected, int *out)
{
    const char *text = lvn_getenv(name);
    LVN_CHECK(lvn_whole_number(text, min, out) && *out <= max, ARG,
              "%s is '%.40s'; expected %s: correct it, or unset it", name, text, expected);
    return LVN_OK;
}

/* PET_NNODES may be a range, as for torchrun; "2:2" is a number. */
static enum lvn_status read_nodes(const char *name, int *out)
{
    const char *text = lvn_getenv(name), *colon = strchr(text, ':');
    char first[16];
    snprintf(first, sizeof first, "%.*s", colon ? (int)(colon - text) : 0, text);
    if (colon && !strcmp(first, colon + 1) && lvn_whole_number(first, 1, out) && *out <= MAX_NODES) return LVN_OK;
    LVN_CHECK(
        !colon, ARG,
        "%s is '%.40s', but levin launch requires one number of nodes: set it with --nodes, and use --min-ranks to "
        "continue with fewer",
        name, text);
    return read_number(name, 1, MAX_NODES, "a number of nodes, from 1 on", out);
}

/* "auto" and "gpu" are one rank per device; 0 is treated as 1. */
static enum lvn_status read_ranks(const char *name, int *out)
{
    const char *text = lvn_getenv(name);
    const bool automatic = !strcmp(text, "auto"), gpu = !strcmp(text, "gpu");
    if (automatic || gpu) {
        const struct lvn_backend *b = lvn_backend_find(text);
        const int devices = b && b->describe ? lvn_backend_devices(b) : 0;
        LVN_CHECK(
            devices || automatic, ARG,
            "%s is gpu, but levin found no GPU on this machine: see `levin doctor`, or give the number of ranks with "
            "--nproc-per-node",
            name);
        *out = devices ? devices : 1;
        return LVN_OK;
    }
    LVN_TRY(read_number(name, 0, MAX_RANKS, "the ranks of a node: a whole number, auto or gpu", out));
    if (!*out) *out = 1;
    return LVN_OK;
}

/* --- names --- */

/* "job-" if the name of this machine, up to its first dot, is "job-2" and this is node 2; NULL: another name. */
static const char *name_pattern(const char *host, int node, struct lvn_arena *a)
{
    char number[16];
    const int digits = snprintf(number, sizeof number, "-%d", node), n = (int)strcspn(host, ".");
    if (n <= digits || strncmp(host + n - digits, number, (size_t)digits) != 0) return NULL;
    return lvn_arena_printf(a, "%.*s-", n - digits, host);
}

/* The name of node 0, from the name of this machine: "job-0.trainer.default.svc" for job-2.trainer.default.svc. */
static const char *first_name(const char *host, const char *pattern, struct lvn_arena *a)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_CANONNAME}, *found = NULL;
    const char *full = host, *name;
    if (!getaddrinfo(host, NULL, &hints, &found) && found->ai_canonname) full = found->ai_canonname;
    if (strncmp(full, pattern, strlen(pattern)) != 0) full = host;
    name = lvn_arena_printf(a, "%s0%s", pattern, full + strcspn(full, "."));
    if (found) freeaddrinfo(found);
    return name;
}

/* "job-2" or "node 2". */
static const char *name_of(const struct lvn_launch_place *place, struct lvn_arena *a, int i)
{
    return lvn_arena_printf(a, "%s%d", place->pattern ? place->pattern : "node ", i);
}

static enum lvn_status find_master(struct lvn_launch_place *place, struct lvn_arena *a)
{
    static const char *const loopback[] = {"localhost", "127.*", "::1", NULL};
    const char *name = first_set(address_variables), *port = first_set(port_variables);
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    place->pattern = name_pattern(host, place->node, a);
    place->port = LVN_NODE_PORT;
    if (port) LVN_TRY(read_number(port, 1, 65535, "a port, 1 to 65535", &place->port));
    place->master = name             ? lvn_arena_strdup(a, lvn_getenv(name))
                    : place->pattern ? first_name(host, place->pattern, a)
                                     : "";
    if (!place->master) return LVN_MEMORY;
    for (const char *s = place->master; *s; s++)
        LVN_CHECK(isalnum((unsigned char)*s) || strchr("-._:%", *s), ARG,
                  "%s is '%.200s', which is not a valid host name: correct it", name ? name : "the name of node 0",
                  place->master);
    LVN_CHECK(*place->master || !place->node, ARG,
              "this is node %d of %d, but MASTER_ADDR is not set: set it to the name or address of node 0's machine",
              place->node, place->nodes);
    place->loopback = lvn_is_among(loopback, place->master);
    return LVN_OK;
}

/* --- the place --- */

static bool given(const struct lvn_cli *c, enum lvn_flag_id id)
{
    return c->given[id];
}

/* True if the variables alone request a launch by nodes. False within a batch system, which assigns its own hosts. */
static bool is_requested_by_variables(const struct lvn_cli *c)
{
    static const char *const others[] = {
        "SLURM_JOB_ID", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE", "LOCAL_RANK", "LEVIN_RANK", NULL};
    const char *node = first_set(node_variables), *nodes = first_set(nodes_variables);
    if (!node || !nodes || given(c, LVN_FLAG_launch_n) || given(c, LVN_FLAG_launch_hostfile)) return false;
    const bool pods = !strcmp(node, "JOB_COMPLETION_INDEX");
    return !first_set(others) && (pods || first_set(address_variables));
}

static enum lvn_status check_options(const struct lvn_cli *c)
{
    const char *launcher = c->flag[LVN_FLAG_launch_launcher].t;
    const bool file = given(c, LVN_FLAG_launch_hostfile);
    LVN_CHECK(!file && !given(c, LVN_FLAG_launch_ssh), ARG,
              "%s is for hosts that this machine reaches with ssh, but with --nodes each node starts its own levin "
              "launch: omit one of the two",
              file ? "--hostfile" : "--ssh");
    LVN_CHECK(!strcmp(launcher, "auto") || !strcmp(launcher, "levin"), ARG,
              "--launcher=%s starts ranks on all hosts, but with --nodes each node starts its own: omit it", launcher);
    return LVN_OK;
}

enum lvn_status lvn_launch_place_find(struct lvn_launch_place *place, const struct lvn_cli *c, struct lvn_arena *a)
{
    const bool by_option = given(c, LVN_FLAG_launch_node_rank) || given(c, LVN_FLAG_launch_nodes);
    const int64_t n = c->flag[LVN_FLAG_launch_n].i;
    const char *node = first_set(node_variables), *nodes = first_set(nodes_variables),
               *ranks = first_set(ranks_variables);
    const char *node_name = given(c, LVN_FLAG_launch_node_rank) ? "--node-rank" : node,
               *nodes_name = given(c, LVN_FLAG_launch_nodes) ? "--nodes" : nodes;
    *place = (struct lvn_launch_place){.node = (int)c->flag[LVN_FLAG_launch_node_rank].i,
                                       .nodes = (int)c->flag[LVN_FLAG_launch_nodes].i,
                                       .ranks = (int)c->flag[LVN_FLAG_launch_nproc_per_node].i};
    if (!by_option && !is_requested_by_variables(c)) return LVN_OK;
    LVN_TRY(check_options(c));
    place->on = true;
    if (!given(c, LVN_FLAG_launch_nodes) && nodes) LVN_TRY(read_nodes(nodes, &place->nodes));
    LVN_CHECK(place->nodes > 0, ARG,
              "--node-rank is %d, but the number of nodes is missing: give --nodes, or set NNODES", place->node);
    if (!given(c, LVN_FLAG_launch_node_rank) && !node && place->nodes == 1) node_name = "--node-rank";
    LVN_CHECK(node_name, ARG, "the index of this node among %d is missing: give --node-rank, 0 to %d, or set NODE_RANK",
              place->nodes, place->nodes - 1);
    if (!given(c, LVN_FLAG_launch_node_rank) && node)
        LVN_TRY(read_number(node, 0, 1 << 24, "the number of this node, from 0 on", &place->node));
    LVN_CHECK(place->node < place->nodes, ARG,
              "%s is %d, but the last of the %d node%s of %s is %d: correct one of the two", node_name, place->node,
              place->nodes, place->nodes == 1 ? "" : "s", nodes_name, place->nodes - 1);
    if (!place->ranks && n) {
        LVN_CHECK(n % place->nodes == 0, ARG,
                  "-n %lld ranks cannot be divided evenly among %d nodes: give --nproc-per-node instead", (long long)n,
                  place->nodes);
        place->ranks = (int)(n / place->nodes);
    }
    if (!place->ranks && ranks) LVN_TRY(read_ranks(ranks, &place->ranks));
    if (!place->ranks) place->ranks = 1;
    LVN_CHECK(!n || n == (int64_t)place->nodes * place->ranks, ARG,
              "-n is %lld, but %d nodes of %d rank%s are %lld: omit -n", (long long)n, place->nodes, place->ranks,
              place->ranks == 1 ? "" : "s", (long long)place->nodes * place->ranks);
    LVN_CHECK((int64_t)place->nodes * place->ranks <= 1 << 20, ARG,
              "%d nodes of %d ranks are more than the maximum of %d ranks", place->nodes, place->ranks, 1 << 20);
    return place->nodes > 1 ? find_master(place, a) : LVN_OK;
}

enum lvn_status lvn_launch_place_hosts(struct lvn_launch *l)
{
    const struct lvn_launch_place *place = &l->place;
    struct lvn_host *hosts = lvn_arena_alloc(l->arena, sizeof *hosts * (size_t)place->nodes);
    if (!hosts) return LVN_MEMORY;
    for (int i = 0; i < place->nodes; i++) {
        hosts[i] = (struct lvn_host){.name = name_of(place, l->arena, i),
                                     .slots = place->ranks,
                                     .ranks = place->ranks,
                                     .here = i == place->node};
        if (!hosts[i].name) return LVN_MEMORY;
    }
    l->resources.hosts = hosts;
    l->resources.n_hosts = place->nodes;
    l->resources.per_node = place->ranks;
    l->attempt.ranks = place->nodes * place->ranks;
    return LVN_OK;
}
