/* launch_hosts.c - the hosts of a launch, from a hosts file, a batch system or a Slurm job; the mapping of ranks to
 * them; and the address of this machine that they can reach.
 *
 * A line of a hosts file has a name and the maximum number of ranks of the host: "node1", "node1:2", "node1 slots=2"
 * (as in the hostfiles of MPI launchers); # begins a comment. Ranks are mapped in the order of the lines; hosts without
 * ranks are spare and replace lost hosts in a restart. Batch systems (batch_systems.def) write files in their own
 * formats. The nodes of a Slurm job become hosts only for restarts; srun connects to them. launch_probe.c checks
 * whether hosts respond. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/files.h"
#include "launch/launch.h"

enum { FILE_BYTES = 16 << 20, MAX_SLOTS = 65536 };

/* True if the address belongs to this machine: only such an address can be bound. */
static bool is_local_address(const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_storage a = {0};
    memcpy(&a, address, length);
    if (a.ss_family == AF_INET) ((struct sockaddr_in *)&a)->sin_port = 0;
    if (a.ss_family == AF_INET6) ((struct sockaddr_in6 *)&a)->sin6_port = 0;
    int s = socket(a.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool here = s >= 0 && !bind(s, (struct sockaddr *)&a, length);
    if (s >= 0) close(s);
    return here;
}

static int resolve(const char *name, struct addrinfo **found)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    return getaddrinfo(name, NULL, &hints, found);
}

bool lvn_launch_is_this_host(const char *host)
{
    struct addrinfo *found = NULL;
    bool here = false;
    if (resolve(host, &found)) return false;
    for (const struct addrinfo *a = found; a; a = a->ai_next) here |= is_local_address(a->ai_addr, a->ai_addrlen);
    freeaddrinfo(found);
    return here;
}

static enum lvn_status resolve_host(struct lvn_host *host, const char *path)
{
    struct addrinfo *found = NULL;
    int failed = resolve(host->name, &found);
    LVN_CHECK(!failed, ARG, "%s:%d: the host '%s' cannot be resolved (%s); correct its name, or add it to /etc/hosts",
              path, host->line, host->name, gai_strerror(failed));
    for (const struct addrinfo *a = found; a; a = a->ai_next) host->here |= is_local_address(a->ai_addr, a->ai_addrlen);
    freeaddrinfo(found);
    return LVN_OK;
}

static enum lvn_status parse_slots(struct lvn_host *host, const char *text, const char *path)
{
    char *end;
    long n = strtol(text, &end, 10);
    LVN_CHECK(end != text && !*end && n >= 1 && n <= MAX_SLOTS, ARG,
              "%s:%d: the number of ranks of host '%s' must be an integer, at least 1, not '%s'", path, host->line,
              host->name, text);
    host->slots = (int)n;
    return LVN_OK;
}

static enum lvn_status check_name(const char *name, int number, const char *path)
{
    bool good = *name && *name != '-';
    for (const char *p = name; *p; p++) good &= isalnum((unsigned char)*p) || strchr("-._:%", *p);
    LVN_CHECK(good, ARG, "%s:%d: '%.200s' is not a valid host name", path, number, name);
    return LVN_OK;
}

/* One line of a batch system's file. Later lines with the same host add slots to it. */
static enum lvn_status parse_batch_line(struct lvn_launch *l, char *text, int number, const char *path)
{
    struct lvn_host *host = l->resources.hosts, one = {.line = number};
    char *rest = NULL, *name = strtok_r(text, " \t\r", &rest), *slots = strtok_r(NULL, " \t\r", &rest);
    if (!name) return LVN_OK;
    one.name = name;
    one.slots = 1;
    LVN_TRY(check_name(name, number, path));
    LVN_CHECK(slots || !l->resources.batch_system->has_slots, ARG, "%s:%d: the number of slots is missing after '%s'",
              path, number, name);
    if (l->resources.batch_system->has_slots) LVN_TRY(parse_slots(&one, slots, path));
    while (host < l->resources.hosts + l->resources.n_hosts && strcasecmp(host->name, name)) host++;
    const int before = host == l->resources.hosts + l->resources.n_hosts ? 0 : host->slots;
    LVN_CHECK(before + one.slots <= MAX_SLOTS, ARG, "%s:%d: the host '%s' has more than %d slots", path, number, name,
              MAX_SLOTS);
    if (before)
        host->slots += one.slots;
    else
        l->resources.hosts[l->resources.n_hosts++] = one;
    return LVN_OK;
}

/* One line of a hosts file, without its comment. */
static enum lvn_status parse_line(struct lvn_launch *l, char *text, int number, const char *path)
{
    char *rest = NULL, *name = strtok_r(text, " \t\r", &rest), *word;
    if (!name) return LVN_OK;
    struct lvn_host *host = &l->resources.hosts[l->resources.n_hosts];
    *host = (struct lvn_host){.line = number};
    char *colon = strchr(name, ':');
    if (colon && !strchr(colon + 1, ':')) *colon = '\0'; /* more than one colon is an IPv6 address */
    host->name = name;
    LVN_TRY(check_name(name, number, path));
    if (colon && !*colon) LVN_TRY(parse_slots(host, colon + 1, path));
    while ((word = strtok_r(NULL, " \t\r", &rest))) {
        const char *value = strchr(word, '=');
        if (!strncmp(word, "max_slots=", 10) || !strncmp(word, "max-slots=", 10)) continue;
        LVN_CHECK(value && !strncmp(word, "slots=", 6), ARG,
                  "%s:%d: unknown word '%s'; expected a host, as in `node1`, `node1:2` or `node1 slots=2`", path,
                  number, word);
        LVN_TRY(parse_slots(host, value + 1, path));
    }
    for (int i = 0; i < l->resources.n_hosts; i++) {
        LVN_CHECK(strcasecmp(l->resources.hosts[i].name, name), ARG,
                  "%s:%d: the host '%s' is already on line %d; for more ranks on it write `%s:2`", path, number, name,
                  l->resources.hosts[i].line, name);
    }
    l->resources.n_hosts++;
    return LVN_OK;
}

enum lvn_status lvn_launch_hosts(struct lvn_launch *l, const char *path)
{
    enum lvn_status (*parse)(struct lvn_launch *, char *, int, const char *) =
        l->resources.batch_system ? parse_batch_line : parse_line;
    char *text;
    int64_t bytes;
    int lines = 1, number = 0;
    LVN_CHECK(lvn_path_exists(path), ARG, "the hosts file '%s' does not exist", path);
    l->resources.hosts_path = path;
    LVN_TRY(lvn_file_read(path, FILE_BYTES, &text, &bytes));
    char *copy = lvn_arena_strdup(l->arena, text + lvn_utf8_bom(text, bytes));
    free(text);
    if (!copy) return LVN_MEMORY;
    for (const char *p = copy; *p; p++) lines += *p == '\n';
    l->resources.hosts = lvn_arena_alloc(l->arena, sizeof *l->resources.hosts * (size_t)(lines + 1));
    if (!l->resources.hosts) return LVN_MEMORY;
    for (char *line = copy, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        line[strcspn(line, "#")] = '\0';
        LVN_TRY(parse(l, line, ++number, path));
    }
    LVN_CHECK(l->resources.n_hosts, ARG, "the hosts file '%s' contains no host", path);
    for (int i = 0; i < l->resources.n_hosts; i++) LVN_TRY(resolve_host(&l->resources.hosts[i], path));
    for (int i = 0, here = -1; i < l->resources.n_hosts; i++) { /* two names of one machine would oversubscribe it */
        if (!l->resources.hosts[i].here) continue;
        LVN_CHECK(here < 0, ARG, "%s:%d: '%s' is the same machine as '%s' on line %d; remove one of them", path,
                  l->resources.hosts[i].line, l->resources.hosts[i].name, l->resources.hosts[here < 0 ? 0 : here].name,
                  l->resources.hosts[here < 0 ? 0 : here].line);
        here = i;
    }
    return LVN_OK;
}

/* --- mapping ranks to hosts --- */

int lvn_launch_map_ranks(struct lvn_launch *l, int ranks)
{
    int mapped = 0;
    for (int i = 0; i < l->resources.n_hosts; i++) {
        struct lvn_host *host = &l->resources.hosts[i];
        int left = ranks - mapped;
        host->ranks = host->down || host->faults >= LVN_HOST_FAULTS ? 0 : host->slots < left ? host->slots : left;
        mapped += host->ranks;
    }
    return mapped;
}

/* --- nodes of a Slurm job --- */

enum lvn_status lvn_launch_slurm_nodes(struct lvn_launch *l)
{
    const bool step = l->resources.in_step && l->launcher.kind == LVN_LAUNCHER_LEVIN;
    const char *list = getenv(step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST");
    const char *this_node = getenv("SLURMD_NODENAME");
    char *words[] = {lvn_process_find(l->arena, "scontrol"), "show", "hostnames", (char *)list, NULL}, *rest = NULL;
    LVN_LOCAL_TEXT(output);
    int code = words[0] && list ? lvn_process_run(words, 60, &output) : -1, n = 1;
    LVN_TRY(lvn_text_status(&output));
    char *names = code == 0 ? lvn_arena_strdup(l->arena, output.p ? output.p : "") : NULL;
    LVN_CHECK(names, IO, "`scontrol show hostnames` did not list the nodes of this job");
    for (const char *p = names; *p; p++) n += *p == '\n';
    l->resources.hosts = lvn_arena_alloc(l->arena, sizeof *l->resources.hosts * (size_t)n);
    if (!l->resources.hosts) return LVN_MEMORY;
    for (char *name = strtok_r(names, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest)) {
        l->resources.hosts[l->resources.n_hosts++] = (struct lvn_host){
            .name = name, .slots = l->resources.per_node, .here = this_node && !strcmp(name, this_node)};
    }
    return LVN_OK;
}

/* --- the address of this machine that other hosts can reach --- */

/* The network of an IPv4 address, for the option of an mpirun that selects a network (launch_command_line.c). MPIs do
 * not accept IPv6 networks there. */
static void network_of(const struct sockaddr_in *mine, char network[64])
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all)) return;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!i->ifa_addr || !i->ifa_netmask || i->ifa_addr->sa_family != AF_INET) continue;
        const struct sockaddr_in *a = (const void *)i->ifa_addr, *m = (const void *)i->ifa_netmask;
        if (a->sin_addr.s_addr != mine->sin_addr.s_addr) continue;
        struct in_addr net = {.s_addr = a->sin_addr.s_addr & m->sin_addr.s_addr};
        char text[INET_ADDRSTRLEN];
        snprintf(network, 64, "%s/%d", inet_ntop(AF_INET, &net, text, sizeof text),
                 __builtin_popcount(m->sin_addr.s_addr));
    }
    freeifaddrs(all);
}

/* The local address of the route to `to`: connecting a datagram socket sends nothing. */
static bool local_address(const struct addrinfo *to, char address[64], char network[64])
{
    struct sockaddr_storage mine = {0};
    socklen_t length = sizeof mine;
    int s = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool known = s >= 0 && !connect(s, to->ai_addr, to->ai_addrlen) &&
                 !getsockname(s, (struct sockaddr *)&mine, &length) &&
                 !getnameinfo((struct sockaddr *)&mine, length, address, 64, NULL, 0, NI_NUMERICHOST);
    if (s >= 0) close(s);
    if (known && to->ai_family == AF_INET) network_of((const struct sockaddr_in *)&mine, network);
    return known;
}

enum lvn_status lvn_launch_address(const struct lvn_launch *l, char address[64], char network[64])
{
    const char *host = NULL;
    snprintf(address, 64, "127.0.0.1");
    network[0] = '\0';
    for (int i = 0; i < l->resources.n_hosts && !host && !l->resources.in_slurm; i++) {
        if (l->resources.hosts[i].ranks && !l->resources.hosts[i].here) host = l->resources.hosts[i].name;
    }
    /* With --nodes (place.on), names of nodes only appear in messages and need no address. */
    if (!host || l->place.on) return LVN_OK;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM}, *found = NULL;
    int failed = getaddrinfo(host, "9", &hints, &found);
    LVN_CHECK(!failed, ARG, "the host '%s' has no address (%s)", host, gai_strerror(failed));
    bool known = false;
    for (int six = 0; six < 2 && !known; six++) /* IPv4 first: every MPI supports it */
        for (const struct addrinfo *a = found; a && !known; a = a->ai_next)
            known = (a->ai_family == AF_INET6) == six && local_address(a, address, network);
    freeaddrinfo(found);
    LVN_CHECK(known, IO, "this machine has no route to the host '%s'", host);
    return LVN_OK;
}
