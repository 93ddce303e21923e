/* endpoints.c - see endpoints.h.
 *
 * A host has several addresses, and this process cannot know which of them another host can reach. So all are
 * published, and tried in turn; a token proves that the right process answered. */
#include "cluster/rendezvous/endpoints.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { ENDPOINTS_MAX = 32, HOST_TEXT = 256 };
static const double CONNECT_SECONDS = 5; /* one attempt at one address */

struct endpoint_list {
    char host[ENDPOINTS_MAX][HOST_TEXT], port[16];
    int n;
};

static void add_host(struct endpoint_list *list, const char *host, size_t n)
{
    if (list->n < ENDPOINTS_MAX && n > 0 && n < HOST_TEXT)
        snprintf(list->host[list->n++], HOST_TEXT, "%.*s", (int)n, host);
}

static enum lvn_status parse_endpoint(const char *address, struct endpoint_list *list)
{
    char *end;
    const char *colon = strrchr(address, ':'), *comma = strchr(address, ',');
    list->n = 0;
    const char *port = comma ? address : colon ? colon + 1 : "";
    long number = strtol(port, &end, 10);
    LVN_CHECK(end != port && number > 0 && number < 65536 && *end == (comma ? ',' : '\0'), ARG,
              "'%.200s' is not the address of a rendezvous; expected HOST:PORT", address);
    snprintf(list->port, sizeof list->port, "%ld", number);
    if (comma) {
        char own_name[HOST_TEXT];
        const char *name = comma + 1;
        size_t n = strcspn(name, ",");
        if (!gethostname(own_name, sizeof own_name) && strlen(own_name) == n && !strncmp(own_name, name, n)) {
            add_host(list, "127.0.0.1", 9);
            add_host(list, "::1", 3);
        }
        for (const char *a = name + n; *a; a += strcspn(a, ",")) add_host(list, a + 1, strcspn(a + 1, ",")), a++;
        add_host(list, name, n);
    } else if (address[0] == '[' && colon > address + 1 && colon[-1] == ']') {
        add_host(list, address + 1, (size_t)(colon - address) - 2);
    } else {
        add_host(list, address, (size_t)(colon - address));
    }
    LVN_CHECK(list->n > 0, ARG, "'%.200s' is not the address of a rendezvous; expected HOST:PORT", address);
    return LVN_OK;
}

/* --- connecting --- */

void lvn_connect_begin(struct lvn_connection_attempt *attempt, const char *address, double timeout, int skip)
{
    *attempt = (struct lvn_connection_attempt){.address = address,
                                               .fd = -1,
                                               .at = skip - 1,
                                               .skip = skip,
                                               .end = lvn_seconds() + timeout,
                                               .pause = 0.02,
                                               .reason = "all addresses were tried"};
}

void lvn_connect_end(struct lvn_connection_attempt *attempt)
{
    if (attempt->fd >= 0) close(attempt->fd);
    if (attempt->list) freeaddrinfo(attempt->list);
    attempt->fd = -1;
    attempt->list = attempt->next = NULL;
}

static void set_reason(struct lvn_connection_attempt *attempt, const char *reason_text)
{
    struct endpoint_list list;
    if (parse_endpoint(attempt->address, &list) == LVN_OK)
        snprintf(attempt->reason, sizeof attempt->reason, "%s port %s: %s", list.host[attempt->at], list.port,
                 reason_text);
}

void lvn_connect_refuse(struct lvn_connection_attempt *attempt, const char *reason_text)
{
    set_reason(attempt, reason_text);
    close(attempt->fd);
    attempt->fd = -1;
    attempt->retry = true;
    attempt->until = 0;
}

/* The attempt at this address failed with `error`; records whether a later one may succeed. */
static void fail_attempt(struct lvn_connection_attempt *attempt, int error)
{
    const bool retry =
        attempt->retry || error == ECONNREFUSED || error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
    lvn_connect_refuse(attempt, strerror(error));
    attempt->retry = retry;
}

/* Select the next address, resolving the next host if needed; false: all have been tried. */
static bool next_address(struct lvn_connection_attempt *attempt)
{
    struct endpoint_list list;
    if (attempt->next) attempt->next = attempt->next->ai_next;
    while (!attempt->next) {
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
        if (attempt->list) freeaddrinfo(attempt->list);
        attempt->list = NULL;
        if (parse_endpoint(attempt->address, &list) || ++attempt->at >= list.n) return false;
        int bad = getaddrinfo(list.host[attempt->at], list.port, &hints, &attempt->list);
        if (bad) snprintf(attempt->reason, sizeof attempt->reason, "%s: %s", list.host[attempt->at], gai_strerror(bad));
        if (bad) attempt->list = NULL;
        if (bad == EAI_AGAIN || bad == EAI_NONAME || bad == EAI_NODATA || bad == EAI_FAIL)
            attempt->retry = true; /* a pod's name may be published later */
        attempt->next = attempt->list;
    }
    return true;
}

/* Start a nonblocking connection. */
static void start_connect(struct lvn_connection_attempt *attempt, double now)
{
    const double left = attempt->end - now;
    attempt->fd = socket(attempt->next->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    attempt->tries++;
    attempt->until = now + (left < 0.5 ? 0.5 : left < CONNECT_SECONDS ? left : CONNECT_SECONDS);
    if (attempt->fd < 0 ||
        (connect(attempt->fd, attempt->next->ai_addr, attempt->next->ai_addrlen) && errno != EINPROGRESS))
        fail_attempt(attempt, errno);
}

static bool writable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return fd >= 0 && poll(&p, 1, 0) > 0;
}

enum lvn_connect_state lvn_connect_step(struct lvn_connection_attempt *attempt, bool ready, double now)
{
    for (;; ready = writable(attempt->fd)) { /* on the same host the connection is established immediately */
        int error = ETIMEDOUT;
        socklen_t size = sizeof error;
        if (attempt->fd >= 0 && ready && getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &error, &size)) error = errno;
        if (attempt->fd >= 0 && ready && !error) return LVN_CONNECT_DONE;
        if (!ready && now < attempt->until) return LVN_CONNECT_PENDING; /* connecting, or pausing between rounds */
        if (attempt->fd >= 0) fail_attempt(attempt, error);
        if (next_address(attempt)) {
            start_connect(attempt, now);
            continue;
        }
        if (!attempt->retry || now >= attempt->end) return LVN_CONNECT_FAILED;
        attempt->until = now + (attempt->pause < attempt->end - now ? attempt->pause : attempt->end - now);
        attempt->pause = attempt->pause < 0.5 ? 2 * attempt->pause : 0.5;
        attempt->at = attempt->skip - 1;
        attempt->retry = false;
        return LVN_CONNECT_PENDING;
    }
}

enum lvn_status lvn_connect_fail(const struct lvn_connection_attempt *attempt, const char *peer_name)
{
    LVN_FAIL(COMM,
             "cannot reach %s (%s); check that it is running, and that no firewall separates the hosts: ranks connect "
             "in both directions and at any port",
             peer_name, attempt->reason);
}

enum lvn_status lvn_endpoint_connect(const char *address, const char *peer_name, double timeout, int skip, int *index,
                                     int *fd)
{
    struct endpoint_list list;
    struct lvn_connection_attempt attempt;
    enum lvn_connect_state state;
    bool ready = false;
    LVN_TRY(parse_endpoint(address, &list));
    lvn_connect_begin(&attempt, address, timeout, skip);
    for (double now; (state = lvn_connect_step(&attempt, ready, now = lvn_seconds())) == LVN_CONNECT_PENDING;) {
        struct pollfd one = {.fd = attempt.fd, .events = POLLOUT};
        ready = poll(&one, 1, attempt.until > now ? (int)(1000 * (attempt.until - now)) + 1 : 0) > 0;
    }
    if (state == LVN_CONNECT_DONE) {
        *index = attempt.at;
        *fd = attempt.fd;
        attempt.fd = -1;
    }
    lvn_connect_end(&attempt);
    return state == LVN_CONNECT_DONE ? LVN_OK : lvn_connect_fail(&attempt, peer_name);
}

/* --- listening --- */

enum lvn_status lvn_listen(const char *host, int at, int *out)
{
    char port[16];
    int off = 0, on = 1;
    struct addrinfo *list = NULL, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    *out = -1;
    snprintf(port, sizeof port, "%d", at);
    LVN_CHECK(at >= 0 && at < 65536, ARG, "port %d is not between 0 and 65535", at);
    int bad = getaddrinfo(host, port, &hints, &list);
    LVN_CHECK(!bad, IO, "cannot listen on '%s': %s", host ? host : "all addresses", gai_strerror(bad));
    bad = EADDRNOTAVAIL;
    for (int family = 0; family < 2 && *out < 0; family++) { /* IPv6 first: such a socket accepts IPv4 as well */
        for (struct addrinfo *a = list; a && *out < 0; a = a->ai_next) {
            if (a->ai_family != (family ? AF_INET : AF_INET6)) continue;
            int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
            if (fd < 0) continue;
            if (!family) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
            if (at) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
            if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, SOMAXCONN)) {
                *out = fd;
            } else {
                bad = errno;
                close(fd);
            }
        }
    }
    freeaddrinfo(list);
    LVN_CHECK(*out >= 0, IO, "cannot listen on port %d: %s%s", at, strerror(bad),
              bad == EADDRINUSE ? "; stop the other program, or set another MASTER_PORT" : "");
    return LVN_OK;
}

enum lvn_status lvn_allow_files(int ranks, int files)
{
    enum { OTHERS = 200 };
    struct rlimit r;
    const rlim_t required = (rlim_t)files + OTHERS;
    if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= required) return LVN_OK;
    r.rlim_cur = r.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &r);
    LVN_CHECK(r.rlim_cur >= required, IO,
              "the limit of %lld open files is below the %lld that %d ranks require; raise it (ulimit -Hn, or "
              "LimitNOFILE of the service that starts the job)",
              (long long)r.rlim_cur, (long long)required, ranks);
    return LVN_OK;
}

static bool is_loopback(const struct sockaddr_storage *at)
{
    const struct sockaddr_in *four = (const void *)at;
    return at->ss_family == AF_INET && ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

void lvn_endpoint_name(int listening, char *out, size_t bytes)
{
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof at;
    char host[256], text[INET6_ADDRSTRLEN + 32], port[16] = "0";
    if (!getsockname(listening, (struct sockaddr *)&at, &size))
        getnameinfo((struct sockaddr *)&at, size, NULL, 0, port, sizeof port, NI_NUMERICSERV);
    if (gethostname(host, sizeof host)) snprintf(host, sizeof host, "localhost");
    host[sizeof host - 1] = '\0';
    size_t n = (size_t)snprintf(out, bytes, "%s,%s", port, host);
    struct ifaddrs *list = NULL;
    if (is_loopback(&at))
        n += (size_t)snprintf(out + n, bytes - n, ",127.0.0.1");
    else if (getifaddrs(&list))
        list = NULL;
    for (struct ifaddrs *a = list; a; a = a->ifa_next) {
        if (!a->ifa_addr || !(a->ifa_flags & IFF_UP) || (a->ifa_flags & IFF_LOOPBACK)) continue;
        int family = a->ifa_addr->sa_family;
        if (family != AF_INET && family != AF_INET6) continue;
        socklen_t length = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        if (getnameinfo(a->ifa_addr, length, text, sizeof text, NULL, 0, NI_NUMERICHOST) || strchr(text, '%')) continue;
        if (n + strlen(text) + 2 > bytes) break;
        n += (size_t)snprintf(out + n, bytes - n, ",%s", text);
    }
    if (list) freeifaddrs(list);
}
