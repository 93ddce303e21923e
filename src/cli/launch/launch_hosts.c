/* launch_hosts.c - the hosts of a launch: those of a hosts file, of a site's queue, or of a Slurm job.
 *
 * A line is a name with the ranks that it may take: "node1", "node1:2", "node1 slots=2" (what the families of MPI
 * write); # begins a comment. Ranks are given out in the order of the lines; hosts for which none is left are spare
 * ones, which take the place of hosts that are lost. Every mistake is one sentence, before anything has started. Queues
 * (batch_system.h) write files of their own. The nodes of a Slurm job, with which a restart has to do, are hosts as
 * well; srun reaches them. */
#include <arpa/inet.h>
#include <ctype.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/files.h"
#include "cli/launch/batch_system.h"
#include "cli/launch/launch.h"

enum { FILE_BYTES = 16 << 20, MAX_SLOTS = 65536 };

/* Is the address one of this machine's? */
static bool is_here(const struct sockaddr *address, socklen_t length)
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

bool lvn_launch_here(const char *host)
{
    struct addrinfo *found = NULL;
    bool here = false;
    if (resolve(host, &found)) return false;
    for (const struct addrinfo *a = found; a; a = a->ai_next) here |= is_here(a->ai_addr, a->ai_addrlen);
    freeaddrinfo(found);
    return here;
}

static enum lvn_status look_up(struct lvn_host *h, const char *path)
{
    struct addrinfo *found = NULL;
    int failed = resolve(h->name, &found);
    LVN_CHECK(!failed, ARG, "%s:%d: the host '%s' is not known here (%s); correct its name, or add it to /etc/hosts",
              path, h->line, h->name, gai_strerror(failed));
    for (const struct addrinfo *a = found; a; a = a->ai_next) h->here |= is_here(a->ai_addr, a->ai_addrlen);
    freeaddrinfo(found);
    return LVN_OK;
}

static enum lvn_status slots_of(struct lvn_host *h, const char *text, const char *path)
{
    char *end;
    long n = strtol(text, &end, 10);
    LVN_CHECK(end != text && !*end && n >= 1 && n <= MAX_SLOTS, ARG,
              "%s:%d: the ranks of host '%s' are a whole number from 1, not '%s'", path, h->line, h->name, text);
    h->slots = (int)n;
    return LVN_OK;
}

static enum lvn_status check_name(const char *name, int number, const char *path)
{
    bool good = *name && *name != '-';
    for (const char *p = name; *p; p++) good &= isalnum((unsigned char)*p) || strchr("-._:%", *p);
    LVN_CHECK(good, ARG, "%s:%d: '%.200s' is not the name of a host", path, number, name);
    return LVN_OK;
}

/* One line of a queue's file. A host that stands there again has one more, or so many more, ranks. */
static enum lvn_status parse_slots(struct lvn_launch *l, char *text, int number, const char *path)
{
    struct lvn_host *h = l->hosts, one = {.line = number};
    char *rest = NULL, *name = strtok_r(text, " \t\r", &rest), *slots = strtok_r(NULL, " \t\r", &rest);
    if (!name) return LVN_OK;
    one.name = name;
    one.slots = 1;
    LVN_TRY(check_name(name, number, path));
    LVN_CHECK(slots || !l->site->counts, ARG, "%s:%d: the number of slots is missing behind '%s'", path, number, name);
    if (l->site->counts) LVN_TRY(slots_of(&one, slots, path));
    while (h < l->hosts + l->n_hosts && strcasecmp(h->name, name)) h++;
    const int before = h == l->hosts + l->n_hosts ? 0 : h->slots;
    LVN_CHECK(before + one.slots <= MAX_SLOTS, ARG, "%s:%d: the host '%s' has more than %d slots", path, number, name,
              MAX_SLOTS);
    if (before)
        h->slots += one.slots;
    else
        l->hosts[l->n_hosts++] = one;
    return LVN_OK;
}

/* One line without its comment. */
static enum lvn_status parse_line(struct lvn_launch *l, char *text, int number, const char *path)
{
    char *rest = NULL, *name = strtok_r(text, " \t\r", &rest), *word;
    if (!name) return LVN_OK;
    struct lvn_host *h = &l->hosts[l->n_hosts];
    *h = (struct lvn_host){.line = number};
    char *colon = strchr(name, ':');
    if (colon && !strchr(colon + 1, ':')) *colon = '\0'; /* more than one colon is an IPv6 address */
    h->name = name;
    LVN_TRY(check_name(name, number, path));
    if (colon && !*colon) LVN_TRY(slots_of(h, colon + 1, path));
    while ((word = strtok_r(NULL, " \t\r", &rest))) {
        const char *value = strchr(word, '=');
        if (!strncmp(word, "max_slots=", 10) || !strncmp(word, "max-slots=", 10)) continue;
        LVN_CHECK(value && !strncmp(word, "slots=", 6), ARG,
                  "%s:%d: '%s' is not understood; a line is a host, as in `node1`, `node1:2` or `node1 slots=2`", path,
                  number, word);
        LVN_TRY(slots_of(h, value + 1, path));
    }
    for (int i = 0; i < l->n_hosts; i++) {
        LVN_CHECK(strcasecmp(l->hosts[i].name, name), ARG,
                  "%s:%d: the host '%s' stands on line %d already; for more ranks on it write `%s:2`", path, number,
                  name, l->hosts[i].line, name);
    }
    l->n_hosts++;
    return LVN_OK;
}

enum lvn_status lvn_launch_hosts(struct lvn_launch *l, const char *path)
{
    enum lvn_status (*parse)(struct lvn_launch *, char *, int, const char *) = l->site ? parse_slots : parse_line;
    char *text;
    int64_t bytes;
    int lines = 1, number = 0;
    LVN_CHECK(lvn_path_exists(path), ARG, "there is no hosts file '%s'", path);
    l->hosts_path = path;
    LVN_TRY(lvn_file_read(path, FILE_BYTES, &text, &bytes));
    char *kept = lvn_arena_strdup(l->arena, text + lvn_utf8_bom(text, bytes));
    free(text);
    if (!kept) return LVN_MEMORY;
    for (const char *p = kept; *p; p++) lines += *p == '\n';
    l->hosts = lvn_arena_alloc(l->arena, sizeof *l->hosts * (size_t)(lines + 1));
    if (!l->hosts) return LVN_MEMORY;
    for (char *line = kept, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        line[strcspn(line, "#")] = '\0';
        LVN_TRY(parse(l, line, ++number, path));
    }
    LVN_CHECK(l->n_hosts, ARG, "the hosts file '%s' names no host", path);
    for (int i = 0; i < l->n_hosts; i++) LVN_TRY(look_up(&l->hosts[i], path));
    for (int i = 0, here = -1; i < l->n_hosts; i++) { /* two names of one machine would share its cores unseen */
        if (!l->hosts[i].here) continue;
        LVN_CHECK(here < 0, ARG, "%s:%d: '%s' is the same machine as '%s' on line %d; keep one of them", path,
                  l->hosts[i].line, l->hosts[i].name, l->hosts[here < 0 ? 0 : here].name,
                  l->hosts[here < 0 ? 0 : here].line);
        here = i;
    }
    return LVN_OK;
}

/* --- places for ranks --- */

int lvn_launch_map_ranks(struct lvn_launch *l, int ranks)
{
    int placed = 0;
    for (int i = 0; i < l->n_hosts; i++) {
        struct lvn_host *h = &l->hosts[i];
        int left = ranks - placed;
        h->ranks = h->down || h->faults >= LVN_HOST_FAULTS ? 0 : h->slots < left ? h->slots : left;
        placed += h->ranks;
    }
    return placed;
}

/* --- nodes --- */

enum lvn_status lvn_launch_nodes(struct lvn_launch *l)
{
    const char *list = getenv("SLURM_JOB_NODELIST"), *own = getenv("SLURMD_NODENAME");
    char *words[] = {lvn_process_find(l->arena, "scontrol"), "show", "hostnames", (char *)list, NULL}, *rest = NULL;
    LVN_LOCAL_TEXT(said);
    int code = words[0] && list ? lvn_process_run(words, 60, &said) : -1, n = 1;
    char *names = code == 0 ? lvn_arena_strdup(l->arena, said.p ? said.p : "") : NULL;
    LVN_CHECK(names, IO, "`scontrol show hostnames` does not tell the nodes of this job");
    for (const char *p = names; *p; p++) n += *p == '\n';
    l->hosts = lvn_arena_alloc(l->arena, sizeof *l->hosts * (size_t)n);
    if (!l->hosts) return LVN_MEMORY;
    for (char *name = strtok_r(names, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest)) {
        l->hosts[l->n_hosts++] =
            (struct lvn_host){.name = name, .slots = l->per_node, .here = own && !strcmp(name, own)};
    }
    return LVN_OK;
}

/* --- which of this machine's addresses the others see --- */

/* The network of an IPv4 address; MPIs want no IPv6 by that name. */
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

/* Connecting sends nothing: it only asks for the route. */
static bool way_to(const struct addrinfo *to, char address[64], char network[64])
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

enum lvn_status lvn_launch_address(const struct lvn_launch *l, const char *host, char address[64], char network[64])
{
    snprintf(address, 64, "127.0.0.1");
    network[0] = '\0';
    for (int i = 0; i < l->n_hosts && !host && !l->allocation; i++) {
        if (l->hosts[i].ranks && !l->hosts[i].here) host = l->hosts[i].name;
    }
    if (!host) return LVN_OK;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM}, *found = NULL;
    int failed = getaddrinfo(host, "9", &hints, &found);
    LVN_CHECK(!failed, ARG, "the host '%s' has no address (%s)", host, gai_strerror(failed));
    bool known = false;
    for (int six = 0; six < 2 && !known; six++) /* MPIs are surest of IPv4 */
        for (const struct addrinfo *a = found; a && !known; a = a->ai_next)
            known = (a->ai_family == AF_INET6) == six && way_to(a, address, network);
    freeaddrinfo(found);
    LVN_CHECK(known, IO, "this machine has no route to the host '%s'", host);
    return LVN_OK;
}
