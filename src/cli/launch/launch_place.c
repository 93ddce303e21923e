/* launch_place.c - see launch_place.h. */
#include "cli/launch/launch_place.h"

#include <ctype.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/getenv.h"
#include "cli/launch/launch.h"
#include "cluster/identity/launcher_env.h"

enum { MAX_NODES = 100000, MAX_RANKS = 65536 };

/* Names of variables, of which the first that is set counts. RANK and WORLD_SIZE are those of a PyTorchJob's pod; below
 * torchrun, which sets LOCAL_RANK, they count ranks. */
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

/* A whole number from `min` to `max` in the variable. */
static enum lvn_status read_number(const char *name, int min, int max, const char *wanted, int *out)
{
    const char *text = lvn_getenv(name);
    LVN_CHECK(lvn_whole_number(text, min, out) && *out <= max, ARG, "%s is '%.40s'; wanted %s: correct it, or unset it",
              name, text, wanted);
    return LVN_OK;
}

/* PET_NNODES may be a range, as torchrun has it: "2:2" is a number. */
static enum lvn_status read_nodes(const char *name, int *out)
{
    const char *text = lvn_getenv(name), *colon = strchr(text, ':');
    char first[16];
    snprintf(first, sizeof first, "%.*s", colon ? (int)(colon - text) : 0, text);
    if (colon && !strcmp(first, colon + 1) && lvn_whole_number(first, 1, out) && *out <= MAX_NODES) return LVN_OK;
    LVN_CHECK(
        !colon, ARG,
        "%s is '%.40s', and levin launch starts one number of nodes: give it by --nodes, and --min-ranks to go on "
        "with fewer",
        name, text);
    return read_number(name, 1, MAX_NODES, "a number of nodes, from 1 on", out);
}

/* "auto" and "gpu": a rank on each device; 0 is taken for 1, on the processor. */
static enum lvn_status read_ranks(const char *name, int *out)
{
    const char *text = lvn_getenv(name);
    const bool automatic = !strcmp(text, "auto"), gpu = !strcmp(text, "gpu");
    if (automatic || gpu) {
        const struct lvn_backend *b = lvn_backend_find(text);
        const int devices = b && b->describe ? lvn_backend_devices(b) : 0;
        LVN_CHECK(
            devices || automatic, ARG,
            "%s is gpu, and this machine has none that levin finds: see `levin doctor`, or give a number of ranks "
            "by --nproc-per-node",
            name);
        *out = devices ? devices : 1;
        return LVN_OK;
    }
    LVN_TRY(read_number(name, 0, MAX_RANKS, "the ranks of a node: a whole number, auto or gpu", out));
    if (!*out) *out = 1;
    return LVN_OK;
}

/* --- names --- */

/* "job-" where the name of this machine, up to its first dot, is "job-2" and this is node 2. */
static const char *name_pattern(const char *host, int node, struct lvn_arena *a)
{
    char number[16];
    const int digits = snprintf(number, sizeof number, "-%d", node), n = (int)strcspn(host, ".");
    if (n <= digits || strncmp(host + n - digits, number, (size_t)digits) != 0) return NULL;
    return lvn_arena_printf(a, "%.*s-", n - digits, host);
}

/* The name of node 0 by that of this machine: "job-0.trainer.default.svc" where this is job-2.trainer.default.svc. */
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
static const char *name_of(const struct lvn_launch_place *p, struct lvn_arena *a, int i)
{
    return lvn_arena_printf(a, "%s%d", p->pattern ? p->pattern : "node ", i);
}

static enum lvn_status find_master(struct lvn_launch_place *p, struct lvn_arena *a)
{
    static const char *const loopback[] = {"localhost", "127.*", "::1", NULL};
    const char *name = first_set(address_variables), *port = first_set(port_variables);
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    p->pattern = name_pattern(host, p->node, a);
    p->port = LVN_NODE_PORT;
    if (port) LVN_TRY(read_number(port, 1, 65535, "a port, 1 to 65535", &p->port));
    p->master = name ? lvn_arena_strdup(a, lvn_getenv(name)) : p->pattern ? first_name(host, p->pattern, a) : "";
    if (!p->master) return LVN_MEMORY;
    for (const char *s = p->master; *s; s++)
        LVN_CHECK(isalnum((unsigned char)*s) || strchr("-._:%", *s), ARG,
                  "%s is '%.200s', which is no name of a host: correct it", name ? name : "the name of node 0",
                  p->master);
    LVN_CHECK(*p->master || !p->node, ARG,
              "this is node %d of %d, and MASTER_ADDR is not set: set it to the name or address of node 0's machine",
              p->node, p->nodes);
    p->loopback = lvn_is_among(loopback, p->master);
    return LVN_OK;
}

/* --- the place --- */

static bool given(const struct lvn_cli *c, enum lvn_flag_id id)
{
    return c->given[id];
}

/* Do variables alone make this a launch by nodes? Not within a batch system, whose hosts are its own. */
static bool is_meant_by_variables(const struct lvn_cli *c)
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
    LVN_CHECK(
        !given(c, LVN_FLAG_launch_hostfile), ARG,
        "--hostfile names hosts that this machine reaches by ssh, and with --nodes each node starts its own levin "
        "launch: leave one of the two out");
    LVN_CHECK(!strcmp(launcher, "auto") || !strcmp(launcher, "levin"), ARG,
              "--launcher=%s starts ranks on all hosts, and with --nodes each node starts its own: leave it out",
              launcher);
    return LVN_OK;
}

enum lvn_status lvn_launch_place_find(struct lvn_launch_place *p, const struct lvn_cli *c, struct lvn_arena *a)
{
    const bool by_option = given(c, LVN_FLAG_launch_node_rank) || given(c, LVN_FLAG_launch_nodes);
    const int64_t n = c->flag[LVN_FLAG_launch_n].i;
    const char *node = first_set(node_variables), *nodes = first_set(nodes_variables),
               *ranks = first_set(ranks_variables);
    const char *node_name = given(c, LVN_FLAG_launch_node_rank) ? "--node-rank" : node,
               *nodes_name = given(c, LVN_FLAG_launch_nodes) ? "--nodes" : nodes;
    *p = (struct lvn_launch_place){.node = (int)c->flag[LVN_FLAG_launch_node_rank].i,
                                   .nodes = (int)c->flag[LVN_FLAG_launch_nodes].i,
                                   .ranks = (int)c->flag[LVN_FLAG_launch_nproc_per_node].i};
    if (!by_option && !is_meant_by_variables(c)) return LVN_OK;
    LVN_TRY(check_options(c));
    p->on = true;
    if (!given(c, LVN_FLAG_launch_nodes) && nodes) LVN_TRY(read_nodes(nodes, &p->nodes));
    LVN_CHECK(p->nodes > 0, ARG, "--node-rank %d of how many nodes? Give --nodes, or set NNODES", p->node);
    if (!given(c, LVN_FLAG_launch_node_rank) && !node && p->nodes == 1) node_name = "--node-rank";
    LVN_CHECK(node_name, ARG, "which of the %d nodes is this? Give --node-rank, from 0 to %d, or set NODE_RANK",
              p->nodes, p->nodes - 1);
    if (!given(c, LVN_FLAG_launch_node_rank) && node)
        LVN_TRY(read_number(node, 0, 1 << 24, "the number of this node, from 0 on", &p->node));
    LVN_CHECK(p->node < p->nodes, ARG, "%s is %d, and of the %d node%s of %s the last is %d: correct one of the two",
              node_name, p->node, p->nodes, p->nodes == 1 ? "" : "s", nodes_name, p->nodes - 1);
    if (!p->ranks && n) {
        LVN_CHECK(n % p->nodes == 0, ARG,
                  "-n %lld ranks are not evenly many on %d nodes: give --nproc-per-node instead", (long long)n,
                  p->nodes);
        p->ranks = (int)(n / p->nodes);
    }
    if (!p->ranks && ranks) LVN_TRY(read_ranks(ranks, &p->ranks));
    if (!p->ranks) p->ranks = 1;
    LVN_CHECK(!n || n == (int64_t)p->nodes * p->ranks, ARG,
              "-n is %lld, and %d nodes of %d rank%s make %lld: leave -n out", (long long)n, p->nodes, p->ranks,
              p->ranks == 1 ? "" : "s", (long long)p->nodes * p->ranks);
    LVN_CHECK((int64_t)p->nodes * p->ranks <= 1 << 20, ARG, "%d nodes of %d ranks are more than levin starts: %d",
              p->nodes, p->ranks, 1 << 20);
    return p->nodes > 1 ? find_master(p, a) : LVN_OK;
}

enum lvn_status lvn_launch_place_hosts(struct lvn_launch *l)
{
    const struct lvn_launch_place *p = &l->place;
    struct lvn_host *hosts = lvn_arena_alloc(l->arena, sizeof *hosts * (size_t)p->nodes);
    if (!hosts) return LVN_MEMORY;
    for (int i = 0; i < p->nodes; i++) {
        hosts[i] = (struct lvn_host){
            .name = name_of(p, l->arena, i), .slots = p->ranks, .ranks = p->ranks, .here = i == p->node};
        if (!hosts[i].name) return LVN_MEMORY;
    }
    l->resources.hosts = hosts;
    l->resources.n_hosts = p->nodes;
    l->resources.per_node = p->ranks;
    l->attempt.ranks = p->nodes * p->ranks;
    return LVN_OK;
}
