/* ranks.c - levin ranks: the launcher that levin launch uses where there is no MPI. It starts ranks and prefixes their
 * lines with "[3] "; ranks find each other by environment variables. Restarts and messages are levin launch's work.
 *
 * Ranks of this machine are its children. On each other host the remote shell starts another levin ranks (--part),
 * which reads its order (which ranks, command, variables) and then the numbers of signals to forward from standard
 * input: no secret stands on a command line. End of file there ends its ranks, so nothing outlives a launcher that
 * died. Where a node's own launcher has joined levin launch (nodes.h), a relay (ranks_relay.h) over its connection
 * takes the place of the remote shell. The first rank that fails ends all others after some seconds in which they may
 * end by themselves; its code is that of this program. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "cli/launch/launch.h"
#include "cli/launch/ranks_order.h"
#include "cli/launch/ranks_relay.h"
#include "cluster/identity/launcher_env.h"
#include "cluster/rendezvous/endpoints.h"
#include "cluster/rendezvous/local_ranks.h"

extern char **environ;

static const double FAIL_SECONDS = 5; /* for the other ranks after the first has failed */
static const double TERM_SECONDS = 2; /* between TERM and KILL */
static const double LAST_SECONDS = 1; /* for output that is still in a pipe after the last rank has exited */
enum { PIPES = 3 /* of a child */ };

static volatile sig_atomic_t pending[NSIG]; /* signals that have arrived, by number */
static sigset_t signals_open;               /* the mask with which ppoll() waits */

static void on_signal(int number)
{
    pending[number]++;
}

/* A rank, or levin ranks on another host. */
struct child {
    pid_t pid;               /* 0: exited */
    int rank;                /* -1: levin ranks on another host */
    int connection;          /* that a relay inherits; 0: none */
    int pipe[2];             /* its stdout and stderr; -1: at end of file */
    int control;             /* its stdin; -1: a rank, or closed */
    struct lvn_text line[2]; /* the unfinished line of each pipe */
};

struct ranks {
    struct lvn_arena *arena;
    struct child *child;
    int n;                  /* children */
    int alive;              /* of these */
    int code;               /* of the first child that failed; 0: none has */
    bool remote_controlled; /* --part: signals come by stdin */
    bool kills_at_end;   /* at the end of stdin KILL, not TERM, on which the ranks of all nodes would save and stop */
    double next_kill_at; /* when to send the next signal of terminate(); 0: none is planned */
    double gone_at;      /* when the last child exited */
    double check_at;     /* when to look for stopped ranks again */
    const char *rendezvous; /* LEVIN_RENDEZVOUS; NULL: ranks do not meet */
    const char *token;      /* LEVIN_RENDEZVOUS_TOKEN */
    int signals_sent;       /* by terminate(): 0: TERM is next; 1: KILL is next; 2: none is left */
};

/* --- one child --- */

static void start_child(const struct child *c, char *const *words, char *const *environment, const int pipes[3])
{
    sigset_t none;
    sigemptyset(&none);
    for (int i = 1; i < 32; i++) signal(i, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, c->rank < 0 ? SIGTERM : SIGKILL);
    for (int i = 0; i < 3; i++) dup2(pipes[i], i);
    if (c->connection) fcntl(c->connection, F_SETFD, 0);
    execve(words[0], words, environment);
    fprintf(stderr, "error: '%s' does not start: %s\n", words[0], strerror(errno));
    _exit(127);
}

static enum lvn_status add_child(struct ranks *r, int rank, int connection, char *const *words,
                                 char *const *environment)
{
    struct child *c = &r->child[r->n];
    int in[2] = {-1, -1}, out[2], err[2];
    *c = (struct child){.rank = rank, .connection = connection, .pipe = {-1, -1}, .control = -1};
    if (rank < 0)
        LVN_CHECK(!pipe2(in, O_CLOEXEC), IO, "no pipe: %s", strerror(errno));
    else
        in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    LVN_CHECK(!pipe2(out, O_CLOEXEC), IO, "no pipe: %s", strerror(errno));
    LVN_CHECK(!pipe2(err, O_CLOEXEC), IO, "no pipe: %s", strerror(errno));
    fflush(NULL);
    c->pid = fork();
    if (c->pid == 0) start_child(c, words, environment, (int[3]){in[0], out[1], err[1]});
    close(in[0]);
    close(out[1]);
    close(err[1]);
    c->control = in[1];
    c->pipe[0] = out[0];
    c->pipe[1] = err[0];
    LVN_CHECK(c->pid > 0, IO, "no process for a rank: %s", strerror(errno));
    r->n++;
    r->alive++;
    return LVN_OK;
}

/* Print the child's line in one write: several processes write into the same pipe. */
static void print_line(struct child *c, int pipe)
{
    struct lvn_text *t = &c->line[pipe], prefixed = {0};
    if (c->rank >= 0) lvn_text_printf(&prefixed, "[%d] ", c->rank);
    lvn_text_add_bytes(&prefixed, t->p ? t->p : "", t->n);
    lvn_text_add(&prefixed, "\n");
    if (prefixed.p) (void)lvn_fd_write(pipe ? STDERR_FILENO : STDOUT_FILENO, prefixed.p, prefixed.n);
    lvn_text_release(&prefixed);
    lvn_text_clear(t);
}

static void read_output(struct child *c, int pipe)
{
    char text[8192];
    ssize_t n = read(c->pipe[pipe], text, sizeof text);
    if (n < 0 && errno == EINTR) return;
    for (char *at = text, *end; n > 0 && at < text + n; at = end + 1) {
        end = memchr(at, '\n', (size_t)(text + n - at));
        lvn_text_add_bytes(&c->line[pipe], at, (end ? end : text + n) - at);
        if (end || c->line[pipe].n > LVN_LAUNCH_MAX_LINE) print_line(c, pipe);
        if (!end) break;
    }
    if (n > 0) return;
    if (c->line[pipe].n) print_line(c, pipe);
    lvn_text_release(&c->line[pipe]);
    close(c->pipe[pipe]);
    c->pipe[pipe] = -1;
}

/* --- all of them --- */

/* Send a signal to each rank; other hosts get its number by the control pipe. */
static void forward_signal(struct ranks *r, int number)
{
    const char byte = (char)number;
    for (int i = 0; i < r->n; i++) {
        struct child *c = &r->child[i];
        if (c->pid && c->rank >= 0) kill(c->pid, number);
        if (c->pid && c->control >= 0 && write(c->control, &byte, 1) < 0 && errno == EPIPE) {
            close(c->control);
            c->control = -1;
        }
    }
}

/* Send TERM, and in the next call KILL, to all children that are alive. */
static void terminate(struct ranks *r)
{
    for (int i = 0; i < r->n; i++) {
        struct child *c = &r->child[i];
        if (c->control >= 0) close(c->control);
        c->control = -1;
        if (c->pid && (c->rank >= 0 || r->signals_sent)) kill(c->pid, r->signals_sent ? SIGKILL : SIGTERM);
    }
    /* levin ranks on other hosts begin the same when their control pipe is closed: give them a second more */
    r->signals_sent++;
    r->next_kill_at = r->signals_sent < 2 ? lvn_seconds() + TERM_SECONDS + (r->remote_controlled ? 0 : 1) : 0;
}

static void reap(struct ranks *r)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        struct child *c = r->child;
        while (c < r->child + r->n && c->pid != pid) c++;
        if (c == r->child + r->n) continue;
        c->pid = 0;
        if (c->control >= 0) close(c->control);
        c->control = -1;
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (code && !r->code) r->code = code;
        if (!--r->alive) r->gone_at = lvn_seconds();
        if (code && code != LVN_EXIT_STOPPED && !r->next_kill_at && !r->signals_sent)
            r->next_kill_at = lvn_seconds() + FAIL_SECONDS;
    }
}

/* Forward signals that arrived here, and with `readable` those that came by standard input. */
static void handle_signals(struct ranks *r, bool readable)
{
    char byte[64];
    for (int i = 1; i < NSIG; i++) {
        if (i == SIGCHLD || !pending[i]) continue;
        pending[i] = 0;
        forward_signal(r, i);
    }
    ssize_t n = readable ? read(STDIN_FILENO, byte, sizeof byte) : 1;
    if (n < 0 && errno == EINTR) return;
    for (ssize_t i = 0; readable && i < n; i++) forward_signal(r, byte[i]);
    if (n > 0) return;
    r->remote_controlled = false; /* the other side is gone */
    if (r->kills_at_end && !r->signals_sent) r->signals_sent = 1;
    if (r->signals_sent < 2) terminate(r);
}

/* Report ranks that were stopped (SIGSTOP) before they joined the rendezvous: on a host with one rank no other rank can
 * notice it. */
static void report_stopped(struct ranks *r)
{
    const double now = lvn_seconds(), pause = 1;
    if (!r->rendezvous || !r->token || r->signals_sent || now < r->check_at) return;
    r->check_at = now + pause;
    for (int i = 0; i < r->n; i++) {
        const struct child *c = &r->child[i];
        if (c->pid && c->rank >= 0 && lvn_process_stopped(c->pid))
            lvn_local_ranks_report(r->rendezvous, r->token, c->rank, c->pid);
    }
}

static enum lvn_status watch(struct ranks *r)
{
    struct pollfd *p = lvn_arena_alloc(r->arena, sizeof *p * (size_t)(2 * r->n + 1));
    int open = 2 * r->n;
    if (!p) return LVN_MEMORY;
    while (r->alive || (open && lvn_seconds() - r->gone_at < LAST_SECONDS)) {
        const struct timespec tick = {.tv_nsec = 100000000};
        for (int i = 0; i < 2 * r->n; i++) p[i] = (struct pollfd){.fd = r->child[i / 2].pipe[i % 2], .events = POLLIN};
        p[2 * r->n] = (struct pollfd){.fd = r->remote_controlled ? STDIN_FILENO : -1, .events = POLLIN};
        bool ready = ppoll(p, (nfds_t)(2 * r->n + 1), &tick, &signals_open) > 0;
        handle_signals(r, ready && p[2 * r->n].revents);
        open = 0;
        for (int i = 0; i < 2 * r->n; i++) {
            if (ready && p[i].fd >= 0 && p[i].revents) read_output(&r->child[i / 2], i % 2);
            open += r->child[i / 2].pipe[i % 2] >= 0;
        }
        reap(r);
        report_stopped(r);
        if (r->next_kill_at > 0 && lvn_seconds() > r->next_kill_at) terminate(r);
    }
    return LVN_OK;
}

/* Signals are delivered while ppoll() waits, and nowhere else. SIGPIPE is ignored: a closed pipe ends nothing. */
static void catch_signals(void)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t block;
    sigemptyset(&action.sa_mask);
    sigemptyset(&block);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) {
        sigaddset(&block, caught[i]);
        sigaction(caught[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &block, &signals_open);
}

/* --- ranks of this machine --- */

static enum lvn_status start_here(struct ranks *r, const struct lvn_ranks_order *o)
{
    for (int i = 0; i < o->n; i++) {
        struct lvn_words env = {.arena = r->arena};
        lvn_words_add(&env, "LEVIN_RANK=%d", o->first + i);
        lvn_words_add(&env, "LEVIN_SIZE=%d", o->size);
        lvn_words_add(&env, "LEVIN_LOCAL_RANK=%d", i);
        lvn_words_add(&env, "LEVIN_LOCAL_SIZE=%d", o->n);
        lvn_words_add(&env, "LEVIN_NODE=%d", o->node);
        lvn_words_add(&env, "LEVIN_NODES=%d", o->nodes);
        for (int k = 0; k < o->variables.n; k++) lvn_words_add(&env, "%s", o->variables.word[k]);
        LVN_TRY(lvn_words_status(&env));
        LVN_TRY(add_child(r, o->first + i, 0, o->command.word, env.word));
    }
    return LVN_OK;
}

static enum lvn_status start_on_host(struct ranks *r, const struct lvn_ranks_order *o, const char *ssh,
                                     const char *host)
{
    struct lvn_words words = {.arena = r->arena};
    LVN_TRY(lvn_launch_add_remote_shell(&words, ssh, host));
    lvn_words_add(&words, "'%s' ranks --part", o->command.word[0]);
    LVN_TRY(lvn_words_status(&words));
    LVN_TRY(add_child(r, -1, 0, words.word, environ));
    return lvn_ranks_order_send(r->child[r->n - 1].control, o);
}

static enum lvn_status start_on_node(struct ranks *r, const struct lvn_ranks_order *o, int connection)
{
    struct lvn_words words = {.arena = r->arena};
    lvn_words_add(&words, "%s", o->command.word[0]);
    lvn_words_add(&words, "ranks");
    lvn_words_add(&words, "--relay=%d", connection);
    LVN_TRY(lvn_words_status(&words));
    LVN_TRY(add_child(r, -1, connection, words.word, environ));
    close(connection); /* the relay's end is the connection's */
    return lvn_ranks_order_send(r->child[r->n - 1].control, o);
}

/* --- the command --- */

struct part {
    const char *host;
    int n;          /* ranks */
    bool here;      /* the host is this machine */
    int connection; /* to the launcher of the node; 0: it is a host */
};

/* "@7": the node whose launcher is at the other end of descriptor 7; 0: none. No other child inherits it. */
static int connection_of(const char *host)
{
    int connection = 0;
    if (*host != '@' || !lvn_whole_number(host + 1, 3, &connection)) return 0;
    return fcntl(connection, F_SETFD, FD_CLOEXEC) ? 0 : connection;
}

/* Without --part: start the ranks of all hosts ("node1:2,node2:2"). */
static enum lvn_status start_all(struct ranks *r, struct lvn_ranks_order *o, const char *hosts, const char *ssh)
{
    char *rest = NULL, *list = lvn_arena_strdup(r->arena, hosts);
    struct part *part;
    int children = 0;
    o->nodes = 1;
    for (const char *p = hosts; *p; p++) o->nodes += *p == ',';
    part = lvn_arena_alloc(r->arena, sizeof *part * (size_t)o->nodes);
    if (!list || !part) return LVN_MEMORY;
    for (int i = 0; i < o->nodes; i++) {
        char *host = strtok_r(i ? NULL : list, ",", &rest), *colon = host ? strrchr(host, ':') : NULL, *end = NULL;
        long ranks = colon ? strtol(colon + 1, &end, 10) : 0;
        LVN_CHECK(colon && !*end && ranks > 0 && ranks <= 65536 && o->size + ranks <= 1 << 20, ARG,
                  "--hosts wants a name with a number of ranks for each host, as in node1:2,node2:2, not '%s'", hosts);
        *colon = '\0';
        part[i] = (struct part){.host = host, .n = (int)ranks, .connection = connection_of(host)};
        part[i].here = *host != '@' && lvn_launch_is_this_host(host);
        LVN_CHECK(*host != '@' || part[i].connection, ARG, "--hosts names a node by '%s', which is no connection",
                  host);
        o->size += part[i].n;
        children += part[i].here ? part[i].n : 1;
    }
    LVN_TRY(lvn_allow_files(o->size, PIPES * children));
    r->child = lvn_arena_alloc(r->arena, sizeof *r->child * (size_t)o->size);
    if (!r->child) return LVN_MEMORY;
    for (o->node = 0; o->node < o->nodes; o->first += o->n, o->node++) {
        o->n = part[o->node].n;
        if (part[o->node].here)
            LVN_TRY(start_here(r, o));
        else if (part[o->node].connection)
            LVN_TRY(start_on_node(r, o, part[o->node].connection));
        else
            LVN_TRY(start_on_host(r, o, ssh, part[o->node].host));
    }
    return LVN_OK;
}

/* With --part: start the ranks of this host, as the order on standard input says, but a command that is given here. */
static enum lvn_status start_part(struct ranks *r, struct lvn_ranks_order *o)
{
    const bool own = o->command.n > 1;
    LVN_TRY(lvn_ranks_order_read(r->arena, o));
    r->remote_controlled = true;
    r->kills_at_end = own;
    LVN_TRY(lvn_allow_files(o->n, PIPES * o->n));
    r->child = lvn_arena_alloc(r->arena, sizeof *r->child * (size_t)o->n);
    return r->child ? start_here(r, o) : LVN_MEMORY;
}

/* --call: can this host connect to `address`? */
static enum lvn_status check_connection(const char *address)
{
    const double seconds = 3;
    int index, fd = -1;
    LVN_TRY(lvn_endpoint_connect(address, LVN_MEETING, seconds, 0, &index, &fd));
    close(fd);
    return LVN_OK;
}

enum lvn_status lvn_command_ranks(struct lvn_cli *c)
{
    struct lvn_arena *arena = &c->settings.arena;
    struct ranks r = {.arena = arena};
    struct lvn_ranks_order o = {.command = {.arena = arena}, .variables = {.arena = arena}};
    const char *hosts = c->flag[LVN_FLAG_ranks_hosts].t, *address = c->flag[LVN_FLAG_ranks_call].t;
    const bool part = lvn_cli_on(c, LVN_FLAG_ranks_part);
    char self[4096];
    if (*address) return check_connection(address);
    if (c->given[LVN_FLAG_ranks_relay]) {
        c->code = lvn_ranks_relay((int)c->flag[LVN_FLAG_ranks_relay].i);
        return LVN_OK;
    }
    LVN_CHECK(part || (c->n_rest && *hosts), ARG,
              "levin ranks wants hosts and a command, as `levin launch --dry-run` shows it; use levin launch");
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    lvn_words_add(&o.command, "%s", self);
    for (int i = 0; i < c->n_rest; i++) lvn_words_add(&o.command, "%s", c->rest[i]);
    if (!part) lvn_ranks_order_add_environment(&o);
    unsetenv("LEVIN_LAUNCH"); /* this process is no rank: it must not report an exit code as one (main.c) */
    LVN_TRY(lvn_words_status(&o.command));
    LVN_TRY(lvn_words_status(&o.variables));
    catch_signals();
    enum lvn_status status = part ? start_part(&r, &o) : start_all(&r, &o, hosts, c->flag[LVN_FLAG_ranks_ssh].t);
    if (status) r.signals_sent = 1; /* KILL at once */
    if (status) terminate(&r);
    LVN_TRY(status);
    r.rendezvous = lvn_ranks_order_variable(&o, "LEVIN_RENDEZVOUS=");
    r.token = lvn_ranks_order_variable(&o, "LEVIN_RENDEZVOUS_TOKEN=");
    LVN_TRY(watch(&r));
    c->code = r.code;
    return LVN_OK;
}
