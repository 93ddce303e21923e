/* ranks.c - levin ranks: the launcher where there is no MPI. It starts ranks and marks their lines with "[3] "; they
 * find each other by variables alone.
 *
 * Ranks of this machine are its children. On each other host the remote shell starts one more of it, which is told by
 * its standard input what to do, and then which signals to pass on: nothing secret stands on a command line. The end of
 * that input is the end of its ranks, so nothing outlives a launcher that died. Whoever is first to fail ends all,
 * after some seconds in which the others may end by themselves; its code is that of this program. */
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
#include "cluster/rendezvous/endpoints.h"
#include "cluster/rendezvous/local_ranks.h"

extern char **environ;

/* Seconds for the others after the first has failed, after TERM, and for output that is still on its way. */
static const double FAIL_SECONDS = 5, TERM_SECONDS = 2, LAST_SECONDS = 1;
enum { LINE = 1 << 16, ORDER_BYTES = 16 << 20, PIPES = 3 /* of a child */ };

static volatile sig_atomic_t came[NSIG];
static sigset_t during;

static void on_signal(int number)
{
    came[number]++;
}

/* A rank, or levin ranks on another host. */
struct child {
    pid_t pid;
    int rank;    /* -1: it is no rank */
    int pipe[2]; /* its stdout and stderr; -1: at their end */
    int control; /* its stdin; -1: a rank, or closed */
    struct lvn_text line[2];
};

/* The part of one host. */
struct order {
    int first, n, size, node, nodes;
    struct lvn_words command, variables;
};

struct ranks {
    struct lvn_arena *arena;
    struct child *child;
    int n, alive, code;
    bool obeys;             /* orders come by stdin */
    double end_at, gone_at; /* when to go further in ending all; 0: not to */
    double look_at;         /* when to look for stopped ranks again */
    const char *place;      /* where ranks meet, LEVIN_RENDEZVOUS; NULL: they do not */
    const char *token;
    int urgency; /* 0: TERM comes next; 1: KILL; 2: no more can be done */
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
    execve(words[0], words, environment);
    fprintf(stderr, "error: '%s' does not start: %s\n", words[0], strerror(errno));
    _exit(127);
}

static enum lvn_status begin(struct ranks *r, int rank, char *const *words, char *const *environment)
{
    struct child *c = &r->child[r->n];
    int in[2] = {-1, -1}, out[2], err[2];
    *c = (struct child){.rank = rank, .pipe = {-1, -1}, .control = -1};
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

/* Whole lines, in one piece each: several write into the same pipe. */
static void show(struct child *c, int pipe)
{
    struct lvn_text *t = &c->line[pipe], marked = {0};
    if (c->rank >= 0) lvn_text_printf(&marked, "[%d] ", c->rank);
    lvn_text_add_bytes(&marked, t->p ? t->p : "", t->n);
    lvn_text_add(&marked, "\n");
    if (marked.p) (void)lvn_fd_write(pipe ? STDERR_FILENO : STDOUT_FILENO, marked.p, marked.n);
    lvn_text_release(&marked);
    lvn_text_clear(t);
}

static void hear(struct child *c, int pipe)
{
    char text[8192];
    ssize_t n = read(c->pipe[pipe], text, sizeof text);
    if (n < 0 && errno == EINTR) return;
    for (char *at = text, *end; n > 0 && at < text + n; at = end + 1) {
        end = memchr(at, '\n', (size_t)(text + n - at));
        lvn_text_add_bytes(&c->line[pipe], at, (end ? end : text + n) - at);
        if (end || c->line[pipe].n > LINE) show(c, pipe);
        if (!end) break;
    }
    if (n > 0) return;
    if (c->line[pipe].n) show(c, pipe);
    lvn_text_release(&c->line[pipe]);
    close(c->pipe[pipe]);
    c->pipe[pipe] = -1;
}

/* --- all of them --- */

static void pass_on(struct ranks *r, int number)
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

/* TERM, and later KILL, for what lives still. */
static void press(struct ranks *r)
{
    for (int i = 0; i < r->n; i++) {
        struct child *c = &r->child[i];
        if (c->control >= 0) close(c->control);
        c->control = -1;
        if (c->pid && (c->rank >= 0 || r->urgency)) kill(c->pid, r->urgency ? SIGKILL : SIGTERM);
    }
    /* other hosts do the same by themselves, from the first of these on */
    r->end_at = ++r->urgency < 2 ? lvn_seconds() + TERM_SECONDS + (r->obeys ? 0 : 1) : 0;
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
        if (code && code != LVN_EXIT_STOPPED && !r->end_at && !r->urgency) r->end_at = lvn_seconds() + FAIL_SECONDS;
    }
}

/* Signals that came here, and those that the other side sends. */
static void heed(struct ranks *r, bool orders)
{
    char byte[64];
    for (int i = 1; i < NSIG; i++) {
        if (i == SIGCHLD || !came[i]) continue;
        came[i] = 0;
        pass_on(r, i);
    }
    ssize_t n = orders ? read(STDIN_FILENO, byte, sizeof byte) : 1;
    if (n < 0 && errno == EINTR) return;
    for (ssize_t i = 0; orders && i < n; i++) pass_on(r, byte[i]);
    if (n > 0) return;
    r->obeys = false; /* there is nobody any more */
    if (!r->urgency) press(r);
}

/* A rank that is stopped before it has met the others: on a host with one rank nobody else sees it. */
static void look_for_stopped(struct ranks *r)
{
    const double now = lvn_seconds(), pause = 1;
    if (!r->place || !r->token || r->urgency || now < r->look_at) return;
    r->look_at = now + pause;
    for (int i = 0; i < r->n; i++) {
        const struct child *c = &r->child[i];
        if (c->pid && c->rank >= 0 && lvn_process_stopped(c->pid))
            lvn_local_ranks_report(r->place, r->token, c->rank, c->pid);
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
        p[2 * r->n] = (struct pollfd){.fd = r->obeys ? STDIN_FILENO : -1, .events = POLLIN};
        bool ready = ppoll(p, (nfds_t)(2 * r->n + 1), &tick, &during) > 0;
        heed(r, ready && p[2 * r->n].revents);
        open = 0;
        for (int i = 0; i < 2 * r->n; i++) {
            if (ready && p[i].fd >= 0 && p[i].revents) hear(&r->child[i / 2], i % 2);
            open += r->child[i / 2].pipe[i % 2] >= 0;
        }
        reap(r);
        look_for_stopped(r);
        if (r->end_at > 0 && lvn_seconds() > r->end_at) press(r);
    }
    return LVN_OK;
}

/* Signals come in while ppoll() waits, and nowhere else; a reader that went away ends nothing. */
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
    sigprocmask(SIG_BLOCK, &block, &during);
}

/* --- the part of this machine --- */

static enum lvn_status start_here(struct ranks *r, const struct order *o)
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
        LVN_TRY(begin(r, o->first + i, o->command.word, env.word));
    }
    return LVN_OK;
}

/* --- orders for other hosts: words, each with its zero; an empty one behind the variables --- */

static void add_order(struct lvn_text *t, const char *word)
{
    lvn_text_add_bytes(t, word, (int64_t)strlen(word) + 1);
}

static enum lvn_status send_order(const struct child *c, const struct order *o)
{
    LVN_LOCAL_TEXT(t);
    char numbers[100], folder[4096];
    if (!getcwd(folder, sizeof folder)) snprintf(folder, sizeof folder, "/");
    snprintf(numbers, sizeof numbers, "%d %d %d %d %d %d", o->first, o->n, o->size, o->node, o->nodes,
             o->command.n - 1);
    add_order(&t, numbers);
    add_order(&t, folder);
    for (int i = 0; i < o->variables.n; i++)
        if (lvn_launch_exported(o->variables.word[i])) add_order(&t, o->variables.word[i]);
    add_order(&t, "");
    for (int i = 1; i < o->command.n; i++) add_order(&t, o->command.word[i]);
    bool sent = lvn_text_string(&t) && lvn_fd_write(c->control, t.p, t.n);
    LVN_CHECK(sent || errno == EPIPE, IO, "a rank's host cannot be told what to do: %s", strerror(errno));
    return LVN_OK;
}

/* Where a variable stands twice the first one counts. */
static void add_environment(struct order *o)
{
    for (char **e = environ; *e; e++) lvn_words_add(&o->variables, "%s", *e);
}

/* The value of the first NAME= that there is; NULL: there is none. */
static const char *variable_of(const struct order *o, const char *name)
{
    const size_t n = strlen(name);
    for (int i = 0; i < o->variables.n; i++)
        if (!strncmp(o->variables.word[i], name, n)) return o->variables.word[i] + n;
    return NULL;
}

/* The next word of stdin. Byte by byte: what follows the order is not to be touched. */
static enum lvn_status next_word(struct ranks *r, int64_t *capacity, char **word)
{
    LVN_LOCAL_TEXT(t);
    char c = 0;
    ssize_t n;
    while ((n = read(STDIN_FILENO, &c, 1)) > 0 && c && --*capacity > 0) lvn_text_add_bytes(&t, &c, 1);
    *word = n > 0 && !c ? lvn_arena_strdup(r->arena, t.p ? t.p : "") : NULL;
    LVN_CHECK(*word, ARG, "`levin ranks --part` is told what to do by the levin ranks of another host, which has not");
    return LVN_OK;
}

static enum lvn_status read_order(struct ranks *r, struct order *o)
{
    int64_t capacity = ORDER_BYTES;
    int words;
    char *word;
    LVN_TRY(next_word(r, &capacity, &word));
    LVN_CHECK(sscanf(word, "%d %d %d %d %d %d", &o->first, &o->n, &o->size, &o->node, &o->nodes, &words) == 6 &&
                  o->n > 0 && o->first >= 0 && o->size <= 1 << 20 && o->n <= o->size - o->first && words > 0,
              ARG, "`levin ranks --part` was told '%.80s', which is no part of a run", word);
    LVN_TRY(next_word(r, &capacity, &word));
    LVN_CHECK(!chdir(word), ARG, "there is no folder '%s' on this host (%s): share it, or make it", word,
              strerror(errno));
    for (;;) {
        LVN_TRY(next_word(r, &capacity, &word));
        if (!*word) break;
        lvn_words_add(&o->variables, "%s", word);
    }
    add_environment(o);
    for (int i = 0; i < words; i++) {
        LVN_TRY(next_word(r, &capacity, &word));
        lvn_words_add(&o->command, "%s", word);
    }
    return lvn_words_status(&o->command);
}

static enum lvn_status start_there(struct ranks *r, const struct order *o, const char *ssh, const char *host)
{
    struct lvn_words words = {.arena = r->arena};
    LVN_TRY(lvn_launch_remote(&words, ssh, host));
    lvn_words_add(&words, "'%s' ranks --part", o->command.word[0]);
    LVN_TRY(lvn_words_status(&words));
    LVN_TRY(begin(r, -1, words.word, environ));
    return send_order(&r->child[r->n - 1], o);
}

/* --- the command --- */

struct part {
    const char *host;
    int n;
    bool here;
};

static enum lvn_status start_all(struct ranks *r, struct order *o, const char *hosts, const char *ssh)
{
    char *rest = NULL, *list = lvn_arena_strdup(r->arena, hosts);
    struct part *part;
    int children = 0;
    for (const char *p = hosts; *p; p++) o->nodes += *p == ',';
    part = lvn_arena_alloc(r->arena, sizeof *part * (size_t)++o->nodes);
    if (!list || !part) return LVN_MEMORY;
    for (int i = 0; i < o->nodes; i++) {
        char *host = strtok_r(i ? NULL : list, ",", &rest), *colon = host ? strrchr(host, ':') : NULL, *end = NULL;
        long ranks = colon ? strtol(colon + 1, &end, 10) : 0;
        LVN_CHECK(colon && !*end && ranks > 0 && ranks <= 65536 && o->size + ranks <= 1 << 20, ARG,
                  "--hosts wants a name with a number of ranks for each host, as in node1:2,node2:2, not '%s'", hosts);
        *colon = '\0';
        part[i] = (struct part){.host = host, .n = (int)ranks, .here = lvn_launch_here(host)};
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
        else
            LVN_TRY(start_there(r, o, ssh, part[o->node].host));
    }
    return LVN_OK;
}

static enum lvn_status start_part(struct ranks *r, struct order *o)
{
    LVN_TRY(read_order(r, o));
    r->obeys = true;
    LVN_TRY(lvn_allow_files(o->n, PIPES * o->n));
    r->child = lvn_arena_alloc(r->arena, sizeof *r->child * (size_t)o->n);
    return r->child ? start_here(r, o) : LVN_MEMORY;
}

/* Can this host reach the place where ranks will meet? */
static enum lvn_status call(const char *place)
{
    const double patience = 3;
    int at, fd = -1;
    LVN_TRY(lvn_endpoint_connect(place, LVN_MEETING, patience, 0, &at, &fd));
    close(fd);
    return LVN_OK;
}

enum lvn_status lvn_command_ranks(struct lvn_cli *c)
{
    struct lvn_arena *arena = &c->settings.arena;
    struct ranks r = {.arena = arena};
    struct order o = {.command = {.arena = arena}, .variables = {.arena = arena}};
    const char *hosts = c->flag[LVN_FLAG_ranks_hosts].t, *place = c->flag[LVN_FLAG_ranks_call].t;
    const bool part = lvn_cli_on(c, LVN_FLAG_ranks_part);
    char self[4096];
    if (*place) return call(place);
    LVN_CHECK(part || (c->n_rest && *hosts), ARG,
              "levin ranks wants hosts and a command, as `levin launch --dry-run` shows it; use levin launch");
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    lvn_words_add(&o.command, "%s", self);
    for (int i = 0; i < c->n_rest; i++) lvn_words_add(&o.command, "%s", c->rest[i]);
    if (!part) add_environment(&o);
    unsetenv("LEVIN_LAUNCH"); /* this is no rank, and tells its code in no other way */
    LVN_TRY(lvn_words_status(&o.command));
    LVN_TRY(lvn_words_status(&o.variables));
    catch_signals();
    enum lvn_status status = part ? start_part(&r, &o) : start_all(&r, &o, hosts, c->flag[LVN_FLAG_ranks_ssh].t);
    if (status) r.urgency = 1;
    if (status) press(&r);
    LVN_TRY(status);
    r.place = variable_of(&o, "LEVIN_RENDEZVOUS=");
    r.token = variable_of(&o, "LEVIN_RENDEZVOUS_TOKEN=");
    LVN_TRY(watch(&r));
    c->code = r.code;
    return LVN_OK;
}
