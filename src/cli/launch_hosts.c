/* launch_hosts.c - the hosts file, and whether its hosts are there.
 *
 * A line is a name with the ranks that it may take: "node1", "node1:2", "node1 slots=2" (what the families of MPI
 * write); # begins a comment. Ranks are given out in the order of the lines; hosts for which none is left are spare
 * ones, which take the place of hosts that are lost. Every mistake is one sentence, before anything has started. The
 * nodes of a Slurm job, with which a restart has to do, are hosts as well; srun reaches them. */
#include <arpa/inet.h>
#include <ctype.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/files.h"
#include "base/threads.h"
#include "cli/launch.h"

enum { FILE_BYTES = 16 << 20, AT_ONCE = 32 };

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
    LVN_CHECK(end != text && !*end && n >= 1 && n <= 65536, ARG,
              "%s:%d: the ranks of host '%s' are a whole number from 1, not '%s'", path, h->line, h->name, text);
    h->slots = (int)n;
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
    for (const char *p = name; *p; p++) {
        LVN_CHECK(isalnum((unsigned char)*p) || strchr("-._:%", *p), ARG, "%s:%d: '%s' is not the name of a host", path,
                  number, name);
    }
    LVN_CHECK(*name && *name != '-', ARG, "%s:%d: '%s' is not the name of a host", path, number, name);
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
    char *text;
    int64_t bytes;
    int lines = 1, number = 0;
    LVN_CHECK(lvn_path_exists(path), ARG, "there is no hosts file '%s'", path);
    LVN_TRY(lvn_file_read(path, FILE_BYTES, &text, &bytes));
    char *kept = lvn_arena_strdup(l->arena, text + lvn_utf8_mark(text, bytes));
    free(text);
    if (!kept) return LVN_MEMORY;
    for (const char *p = kept; *p; p++) lines += *p == '\n';
    l->hosts = lvn_arena_alloc(l->arena, sizeof *l->hosts * (size_t)(lines + 1));
    if (!l->hosts) return LVN_MEMORY;
    for (char *line = kept, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        line[strcspn(line, "#")] = '\0';
        LVN_TRY(parse_line(l, line, ++number, path));
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

/* --- does it answer? --- */

struct visit {
    const struct lvn_launch *l;
    struct lvn_host *host;
    const char *ssh;
    pthread_t thread;
    bool started;
    int code;
    struct lvn_text said;
};

static bool is_ssh(const struct visit *v)
{
    return !strcmp(lvn_path_name(v->ssh), "ssh");
}

static void *pay_visit(void *argument)
{
    static const char *const step[] = {"--nodes=1",     "--ntasks=1", "--overlap",     "--mpi=none",
                                       "--immediate=5", "--quiet",    "/usr/bin/test", "-x"};
    struct visit *v = argument;
    const double LEAST = 5, MOST = 20;
    struct lvn_arena arena;
    lvn_arena_init(&arena);
    struct lvn_words w = {.arena = &arena};
    lvn_words_add(&w, "%s", v->ssh);
    if (v->l->allocation) {
        lvn_words_add(&w, "--nodelist=%s", v->host->name);
        for (int i = 0; i < (int)(sizeof step / sizeof *step); i++) lvn_words_add(&w, "%s", step[i]);
        lvn_words_add(&w, "%s", v->l->self);
    } else {
        if (is_ssh(v)) lvn_words_add(&w, "-oBatchMode=yes");
        if (is_ssh(v)) lvn_words_add(&w, "-oConnectTimeout=5");
        lvn_words_add(&w, "%s", v->host->name);
        lvn_words_add(&w, "test -x '%s' || exit 3", v->l->self);
    }
    /* ssh knows when nobody answers, srun waits; who would be taken for lost in a run is taken for lost here */
    double most = !v->l->allocation || v->l->rank_timeout > MOST ? MOST
                  : v->l->rank_timeout < LEAST                   ? LEAST
                                                                 : v->l->rank_timeout;
    v->code = w.failed ? -1 : lvn_process_run(w.word, most, &v->said);
    lvn_arena_release(&arena);
    return NULL;
}

static enum lvn_status judge(struct visit *v, const char *path)
{
    const struct lvn_host *h = v->host;
    const char *said = lvn_text_string(&v->said);
    if (v->code == 0) return LVN_OK;
    const char *what = h->ranks ? "host" : "spare host";
    LVN_CHECK(v->code != 3, ARG,
              "%s:%d: the %s '%s' has no '%s'; install levin there under the same path, or share the folder", path,
              h->line, what, h->name, v->l->self);
    LVN_CHECK(v->code != -2, ARG, "%s:%d: the %s '%s' does not answer; check that it is up, or take it out of the file",
              path, h->line, what, h->name);
    const char *end = said ? said + strlen(said) : "", *last = end;
    while (end > said && (end[-1] == '\n' || end[-1] == '\r')) end--;
    for (last = end; last > said && last[-1] != '\n';) last--;
    LVN_FAIL(ARG, "%s:%d: the %s '%s' cannot be reached by %s without a password (%.*s); try `%s %s true`", path,
             h->line, what, h->name, lvn_path_name(v->ssh), (int)(end - last), last, lvn_path_name(v->ssh), h->name);
}

/* Visit those that are not this machine, many at once; `met` is told what came of each. */
static enum lvn_status visit_all(struct lvn_launch *l, void (*met)(struct visit *v, enum lvn_status *status))
{
    const char *name = l->allocation ? "srun" : l->c->flag[LVN_FLAG_launch_ssh].t;
    const char *ssh = lvn_process_find(l->arena, name);
    enum lvn_status status = LVN_OK;
    struct visit *visits = lvn_arena_alloc(l->arena, sizeof *visits * (size_t)(l->n_hosts + 1));
    if (!visits) return LVN_MEMORY;
    for (int first = 0; first < l->n_hosts && !status; first += AT_ONCE) {
        int end = first + AT_ONCE < l->n_hosts ? first + AT_ONCE : l->n_hosts;
        for (int i = first; i < end; i++) {
            if (l->hosts[i].here) continue;
            LVN_CHECK(ssh, ARG, "'%s' is not installed, which reaches other hosts: apt install openssh-client", name);
            visits[i] = (struct visit){.l = l, .host = &l->hosts[i], .ssh = ssh, .code = -1};
            visits[i].started = !lvn_thread_start(&visits[i].thread, pay_visit, &visits[i]);
        }
        for (int i = first; i < end; i++) {
            if (!visits[i].started) continue;
            pthread_join(visits[i].thread, NULL);
            met(&visits[i], &status);
            lvn_text_release(&visits[i].said);
        }
    }
    return status;
}

static void refuse(struct visit *v, enum lvn_status *status)
{
    if (!*status) *status = judge(v, v->l->c->flag[LVN_FLAG_launch_hostfile].t);
}

static void remember(struct visit *v, enum lvn_status *status)
{
    (void)status;
    v->host->down = v->code != 0;
}

enum lvn_status lvn_launch_reach(struct lvn_launch *l)
{
    return visit_all(l, refuse);
}

void lvn_launch_look(struct lvn_launch *l)
{
    if (visit_all(l, remember)) lvn_error_clear(); /* those that were not visited are tried */
}

int lvn_launch_place(struct lvn_launch *l, int ranks)
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
    struct lvn_text said = {0};
    int code = words[0] && list ? lvn_process_run(words, 60, &said) : -1, n = 1;
    char *names = code == 0 ? lvn_arena_strdup(l->arena, said.p ? said.p : "") : NULL;
    lvn_text_release(&said);
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

enum lvn_status lvn_launch_address(const struct lvn_launch *l, const char *host, char address[64], char network[64])
{
    snprintf(address, 64, "127.0.0.1");
    network[0] = '\0';
    for (int i = 0; i < l->n_hosts && !host && !l->allocation; i++) {
        if (l->hosts[i].ranks && !l->hosts[i].here) host = l->hosts[i].name;
    }
    if (!host) return LVN_OK;
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM}, *found = NULL;
    int failed = getaddrinfo(host, "9", &hints, &found);
    LVN_CHECK(!failed, ARG, "the host '%s' has no address (%s)", host, gai_strerror(failed));
    struct sockaddr_in mine = {0};
    socklen_t length = sizeof mine;
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* connecting sends nothing: it only asks for the route */
    bool known =
        s >= 0 && !connect(s, found->ai_addr, found->ai_addrlen) && !getsockname(s, (struct sockaddr *)&mine, &length);
    if (s >= 0) close(s);
    freeaddrinfo(found);
    LVN_CHECK(known, IO, "this machine has no route to the host '%s'", host);
    inet_ntop(AF_INET, &mine.sin_addr, address, 64);
    network_of(&mine, network);
    return LVN_OK;
}
