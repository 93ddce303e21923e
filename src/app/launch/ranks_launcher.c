/* ranks_launcher.c - levin ranks: the launcher that levin launch uses if there is no MPI. It starts ranks and prefixes
 * their lines with "[3] "; ranks find each other through environment variables. Restarts and messages are done by levin
 * launch.
 *
 * Ranks of this machine are its children. On each other host the remote shell starts another levin ranks (--part). From
 * standard input that one reads its request (which ranks, command, variables), then the numbers of signals to forward,
 * so that no secret is on a command line. End of file there terminates its ranks, so nothing outlives a launcher that
 * died. If a node's own launcher has joined levin launch (nodes.h), a relay (ranks_relay.h) over its connection
 * replaces the remote shell. When the first rank fails, the others may exit within some seconds, then they are
 * terminated; the code of the first is that of this program. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/text.h"
#include "cluster/identity/launcher_env.h"
#include "cluster/rendezvous/endpoints.h"
#include "cluster/rendezvous/local_ranks.h"
#include "launch/launch.h"
#include "launch/ranks_relay.h"

extern char **environ;

static const double FAIL_SECONDS = 5; /* for the other ranks to exit after the first has failed */
static const double TERM_SECONDS = 2; /* between TERM and KILL */
static const double LAST_SECONDS = 1; /* for output that is still in a pipe after the last rank has exited */
enum { PIPES = 3 };                   /* per child */

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
    int connection;          /* descriptor that a relay inherits; 0: none */
    int pipe[2];             /* its stdout and stderr; -1: at end of file */
    int control;             /* its stdin; -1: a rank, or closed */
    struct lvn_text line[2]; /* the unfinished line of each pipe */
};

struct ranks {
    struct lvn_arena *arena;
    struct child *child;
    int n;                  /* number of children */
    int alive;              /* number of children that have not exited */
    int code;               /* of the first child that failed; 0: none has */
    bool remote_controlled; /* --part: signals arrive on stdin */
    bool kills_at_end;   /* at the end of stdin send KILL, because on TERM the ranks of all nodes would save and stop */
    double next_kill_at; /* when to send the next signal of terminate(); 0: not planned */
    double gone_at;      /* when the last child exited */
    double check_at;     /* when to check for stopped ranks next */
    const char *rendezvous; /* LEVIN_RENDEZVOUS; NULL: no rendezvous */
    const char *token;      /* LEVIN_RENDEZVOUS_TOKEN */
    int signals_sent;       /* by terminate(): 0: TERM is next; 1: KILL is next; 2: none is left */
};

/* --- one child --- */

static void start_child(const struct child *child, char *const *words, char *const *environment, const int pipes[3])
{
    sigset_t none;
    sigemptyset(&none);
    for (int i = 1; i < 32; i++) signal(i, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, child->rank < 0 ? SIGTERM : SIGKILL);
    for (int i = 0; i < 3; i++) dup2(pipes[i], i);
    if (child->connection) fcntl(child->connection, F_SETFD, 0);
    execve(words[0], words, environment);
    fprintf(stderr, "error: cannot start '%s': %s\n", words[0], strerror(errno));
    _exit(127);
}

static enum lvn_status add_child(struct ranks *ranks, int rank, int connection, char *const *words,
                                 char *const *environment)
{
    struct child *child = &ranks->child[ranks->n];
    enum { OUT, ERR, IN, N_PIPES }; /* IN: only of `levin ranks` on another host */
    int pipes[N_PIPES][2];
    pipes[IN][0] = pipes[IN][1] = -1;
    *child = (struct child){.rank = rank, .connection = connection, .pipe = {-1, -1}, .control = -1};
    LVN_TRY(lvn_process_pipes(pipes, rank < 0 ? N_PIPES : IN));
    if (rank >= 0) pipes[IN][0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    fflush(NULL);
    child->pid = fork();
    if (child->pid == 0) start_child(child, words, environment, (int[3]){pipes[IN][0], pipes[OUT][1], pipes[ERR][1]});
    const int reason = errno;
    close(pipes[IN][0]);
    close(pipes[OUT][1]);
    close(pipes[ERR][1]);
    child->control = pipes[IN][1];
    child->pipe[0] = pipes[OUT][0];
    child->pipe[1] = pipes[ERR][0];
    LVN_CHECK(child->pid > 0, IO, "cannot create a process for a rank: %s", strerror(reason));
    ranks->n++;
    ranks->alive++;
    return LVN_OK;
}

/* Print the child's line in one write, because several processes write into the same pipe. */
static void print_line(struct child *child, int pipe)
{
    struct lvn_text *t = &child->line[pipe], prefixed = {0};
    if (child->rank >= 0) lvn_text_printf(&prefixed, "[%d] ", child->rank);
    lvn_text_add_bytes(&prefixed, t->p ? t->p : "", t->n);
    lvn_text_add(&prefixed, "\n");
    if (prefixed.p) (void)lvn_fd_write(pipe ? STDERR_FILENO : STDOUT_FILENO, prefixed.p, prefixed.n);
    lvn_text_release(&prefixed);
    lvn_text_clear(t);
}

static void read_output(struct child *child, int pipe)
{
    char text[8192];
    ssize_t n = read(child->pipe[pipe], text, sizeof text);
    if (n < 0 && errno == EINTR) return;
    for (char *at = text, *end; n > 0 && at < text + n; at = end + 1) {
        end = memchr(at, '\n', (size_t)(text + n - at));
        lvn_text_add_bytes(&child->line[pipe], at, (end ? end : text + n) - at);
        if (end || child->line[pipe].n > LVN_LAUNCH_MAX_LINE) print_line(child, pipe);
        if (!end) break;
    }
    if (n > 0) return;
    if (child->line[pipe].n) print_line(child, pipe);
    lvn_text_release(&child->line[pipe]);
    close(child->pipe[pipe]);
    child->pipe[pipe] = -1;
}

/* --- all children --- */

/* Send a signal to each rank; other hosts receive its number through the control pipe. */
static void forward_signal(struct ranks *ranks, int number)
{
    const char byte = (char)number;
    for (int i = 0; i < ranks->n; i++) {
        struct child *child = &ranks->child[i];
        if (child->pid && child->rank >= 0) kill(child->pid, number);
        if (child->pid && child->control >= 0 && write(child->control, &byte, 1) < 0 && errno == EPIPE) {
            close(child->control);
            child->control = -1;
        }
    }
}

/* Send TERM, and in the next call KILL, to all living children. */
static void terminate(struct ranks *ranks)
{
    for (int i = 0; i < ranks->n; i++) {
        struct child *child = &ranks->child[i];
        if (child->control >= 0) close(child->control);
        child->control = -1;
        if (child->pid && (child->rank >= 0 || ranks->signals_sent))
            kill(child->pid, ranks->signals_sent ? SIGKILL : SIGTERM);
    }
    /* levin ranks on other hosts do the same when their control pipe is closed: allow them one second more */
    ranks->signals_sent++;
    ranks->next_kill_at =
        ranks->signals_sent < 2 ? lvn_seconds() + TERM_SECONDS + (ranks->remote_controlled ? 0 : 1) : 0;
}

static void reap(struct ranks *ranks)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        struct child *child = ranks->child;
        while (child < ranks->child + ranks->n && child->pid != pid) child++;
        if (child == ranks->child + ranks->n) continue;
        child->pid = 0;
        if (child->control >= 0) close(child->control);
        child->control = -1;
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (code && !ranks->code) ranks->code = code;
        if (!--ranks->alive) ranks->gone_at = lvn_seconds();
        if (code && code != LVN_EXIT_STOPPED && !ranks->next_kill_at && !ranks->signals_sent)
            ranks->next_kill_at = lvn_seconds() + FAIL_SECONDS;
    }
}

/* Forward signals that this process received and, if `readable`, those that arrived on standard input. */
static void handle_signals(struct ranks *ranks, bool readable)
{
    char byte[64];
    for (int i = 1; i < NSIG; i++) {
        if (i == SIGCHLD || !pending[i]) continue;
        pending[i] = 0;
        forward_signal(ranks, i);
    }
    ssize_t n = readable ? read(STDIN_FILENO, byte, sizeof byte) : 1;
    if (n < 0 && errno == EINTR) return;
    for (ssize_t i = 0; readable && i < n; i++) forward_signal(ranks, byte[i]);
    if (n > 0) return;
    ranks->remote_controlled = false; /* the other side is gone */
    if (ranks->kills_at_end && !ranks->signals_sent) ranks->signals_sent = 1;
    if (ranks->signals_sent < 2) terminate(ranks);
}

/* Report ranks that were stopped (SIGSTOP) before they joined the rendezvous: on a host with one rank no other rank can
 * notice it. */
static void report_stopped(struct ranks *ranks)
{
    const double now = lvn_seconds(), pause = 1;
    if (!ranks->rendezvous || !ranks->token || ranks->signals_sent || now < ranks->check_at) return;
    ranks->check_at = now + pause;
    for (int i = 0; i < ranks->n; i++) {
        const struct child *child = &ranks->child[i];
        if (child->pid && child->rank >= 0 && lvn_process_stopped(child->pid))
            lvn_local_ranks_report(ranks->rendezvous, ranks->token, child->rank, child->pid);
    }
}

static enum lvn_status watch(struct ranks *ranks)
{
    struct pollfd *p = lvn_arena_alloc(ranks->arena, sizeof *p * (size_t)(2 * ranks->n + 1));
    int open = 2 * ranks->n;
    if (!p) return LVN_MEMORY;
    while (ranks->alive || (open && lvn_seconds() - ranks->gone_at < LAST_SECONDS)) {
        const struct timespec tick = {.tv_nsec = 100000000};
        for (int i = 0; i < 2 * ranks->n; i++)
            p[i] = (struct pollfd){.fd = ranks->child[i / 2].pipe[i % 2], .events = POLLIN};
        p[2 * ranks->n] = (struct pollfd){.fd = ranks->remote_controlled ? STDIN_FILENO : -1, .events = POLLIN};
        bool ready = ppoll(p, (nfds_t)(2 * ranks->n + 1), &tick, &signals_open) > 0;
        handle_signals(ranks, ready && p[2 * ranks->n].revents);
        open = 0;
        for (int i = 0; i < 2 * ranks->n; i++) {
            if (ready && p[i].fd >= 0 && p[i].revents) read_output(&ranks->child[i / 2], i % 2);
            open += ranks->child[i / 2].pipe[i % 2] >= 0;
        }
        reap(ranks);
        report_stopped(ranks);
        if (ranks->next_kill_at > 0 && lvn_seconds() > ranks->next_kill_at) terminate(ranks);
    }
    return LVN_OK;
}

/* Signals are delivered only while ppoll() waits. SIGPIPE is ignored, because a closed pipe must not end this process.
 */
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

/* --- the request to start the ranks of one host ---
 *
 * `levin ranks` sends it to the `levin ranks --part` there, through a pipe to its standard input: words, each followed
 * by a NUL. First the numbers, then the folder, the variables, an empty word, and the words of the command without the
 * program. Signals, which use the same pipe later, are not read here. */

struct request {
    int first; /* first rank of this host */
    int n;     /* number of ranks of this host */
    int size;  /* number of ranks of the run */
    int node;  /* index of this host */
    int nodes; /* number of hosts of the run */
    struct lvn_words command;
    struct lvn_words variables; /* NAME=VALUE; if a NAME occurs twice, the first is used */
};

enum { REQUEST_BYTES = 16 << 20 }; /* maximum size of a request */

extern char **environ;

static void add_word(struct lvn_text *t, const char *word)
{
    lvn_text_add_bytes(t, word, (int64_t)strlen(word) + 1);
}

/* Write the request, with the variables that are exported (lvn_launch_exports()) and the current folder, to `fd`. A
 * closed pipe is not an error, because the child's exit code shows what happened. */
static enum lvn_status send_request(int fd, const struct request *request)
{
    LVN_LOCAL_TEXT(t);
    char numbers[100], folder[4096];
    if (!getcwd(folder, sizeof folder)) snprintf(folder, sizeof folder, "/");
    snprintf(numbers, sizeof numbers, "%d %d %d %d %d %d", request->first, request->n, request->size, request->node,
             request->nodes, request->command.n - 1);
    add_word(&t, numbers);
    add_word(&t, folder);
    for (int i = 0; i < request->variables.n; i++)
        if (lvn_launch_exports(request->variables.word[i])) add_word(&t, request->variables.word[i]);
    add_word(&t, "");
    for (int i = 1; i < request->command.n; i++) add_word(&t, request->command.word[i]);
    bool sent = lvn_text_string(&t) && lvn_fd_write(fd, t.p, t.n);
    LVN_CHECK(sent || errno == EPIPE, IO, "cannot send its part of the run to a host: %s", strerror(errno));
    return LVN_OK;
}

/* Append this process's environment to the variables of the request. */
static void add_environment(struct request *request)
{
    for (char **e = environ; *e; e++) lvn_words_add(&request->variables, "%s", *e);
}

/* The value of the first variable that begins with `name` ("NAME="); NULL: not found. */
static const char *variable_of(const struct request *request, const char *name)
{
    const size_t n = strlen(name);
    for (int i = 0; i < request->variables.n; i++)
        if (!strncmp(request->variables.word[i], name, n)) return request->variables.word[i] + n;
    return NULL;
}

/* The next word of standard input. Read byte by byte, because the bytes after the request are signals. */
static enum lvn_status next_word(struct lvn_arena *a, int64_t *bytes_left, char **word)
{
    LVN_LOCAL_TEXT(t);
    char c = 0;
    ssize_t n;
    while ((n = read(STDIN_FILENO, &c, 1)) > 0 && c && --*bytes_left > 0) lvn_text_add_bytes(&t, &c, 1);
    LVN_TRY(lvn_text_status(&t));
    *word = n > 0 && !c ? lvn_arena_strdup(a, t.p ? t.p : "") : NULL;
    LVN_CHECK(*word, ARG,
              "`levin ranks --part` reads its part of the run from standard input, which is empty; `levin ranks` on "
              "another host sends it");
    return LVN_OK;
}

/* The variables that a launcher may set for ranks that another one starts. None of them is a key of a recipe. */
static bool is_of_launcher(const char *variable)
{
    static const char *const prefixes[] = {
        "LEVIN_RENDEZVOUS=", "LEVIN_RENDEZVOUS_TOKEN=", "LEVIN_LAUNCH=",  "LEVIN_LAUNCH_ID=",
        "LEVIN_RESTART=",    "LEVIN_RUN_BEGUN=",        "LEVIN_TERMINAL="};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(variable, prefixes[i], strlen(prefixes[i]))) return true;
    return false;
}

/* Read a request from standard input, change to its folder and add this process's environment. request->command already
 * contains the program; new words are in `a`. If it contains more words, they are the command, and that of the request
 * is ignored; then the folder does not change, and only variables that a launcher sets for its ranks are used. So a
 * node's launcher never runs a command that it receives. ARG: no request, or no such folder. */
static enum lvn_status read_request(struct lvn_arena *a, struct request *request)
{
    int64_t bytes_left = REQUEST_BYTES;
    int words;
    const bool own = request->command.n > 1;
    char *word;
    LVN_TRY(next_word(a, &bytes_left, &word));
    LVN_CHECK(sscanf(word, "%d %d %d %d %d %d", &request->first, &request->n, &request->size, &request->node,
                     &request->nodes, &words) == 6 &&
                  request->n > 0 && request->first >= 0 && request->size <= 1 << 20 &&
                  request->n <= request->size - request->first && words > 0,
              ARG, "`levin ranks --part` read '%.80s' from standard input, which does not describe a part of a run",
              word);
    LVN_TRY(next_word(a, &bytes_left, &word));
    LVN_CHECK(own || !chdir(word), ARG, "cannot change to the folder '%s' on this host (%s): share it, or create it",
              word, strerror(errno));
    for (;;) {
        LVN_TRY(next_word(a, &bytes_left, &word));
        if (!*word) break;
        if (!own || is_of_launcher(word)) lvn_words_add(&request->variables, "%s", word);
    }
    add_environment(request);
    for (int i = 0; i < words; i++) {
        LVN_TRY(next_word(a, &bytes_left, &word));
        if (!own) lvn_words_add(&request->command, "%s", word);
    }
    return lvn_words_status(&request->command);
}

/* --- ranks of this machine --- */

static enum lvn_status start_here(struct ranks *ranks, const struct request *request)
{
    for (int i = 0; i < request->n; i++) {
        struct lvn_words env = {.arena = ranks->arena};
        lvn_words_add(&env, "LEVIN_RANK=%d", request->first + i);
        lvn_words_add(&env, "LEVIN_SIZE=%d", request->size);
        lvn_words_add(&env, "LEVIN_LOCAL_RANK=%d", i);
        lvn_words_add(&env, "LEVIN_LOCAL_SIZE=%d", request->n);
        lvn_words_add(&env, "LEVIN_NODE=%d", request->node);
        lvn_words_add(&env, "LEVIN_NODES=%d", request->nodes);
        for (int k = 0; k < request->variables.n; k++) lvn_words_add(&env, "%s", request->variables.word[k]);
        LVN_TRY(lvn_words_status(&env));
        LVN_TRY(add_child(ranks, request->first + i, 0, request->command.word, env.word));
    }
    return LVN_OK;
}

static enum lvn_status start_on_host(struct ranks *ranks, const struct request *request, const char *ssh,
                                     const char *host)
{
    struct lvn_words words = {.arena = ranks->arena};
    LVN_TRY(lvn_launch_add_remote_shell(&words, ssh, host));
    const char *program = lvn_word_quoted(ranks->arena, request->command.word[0]); /* a shell reads this word */
    if (!program) return LVN_MEMORY;
    lvn_words_add(&words, "%s ranks --part", program);
    LVN_TRY(lvn_words_status(&words));
    LVN_TRY(add_child(ranks, -1, 0, words.word, environ));
    return send_request(ranks->child[ranks->n - 1].control, request);
}

static enum lvn_status start_on_node(struct ranks *ranks, const struct request *request, int connection)
{
    struct lvn_words words = {.arena = ranks->arena};
    lvn_words_add(&words, "%s", request->command.word[0]);
    lvn_words_add(&words, "ranks");
    lvn_words_add(&words, "--relay=%d", connection);
    LVN_TRY(lvn_words_status(&words));
    LVN_TRY(add_child(ranks, -1, connection, words.word, environ));
    close(connection); /* the relay keeps it open */
    return send_request(ranks->child[ranks->n - 1].control, request);
}

/* --- the command --- */

struct part {
    const char *host;
    int n;          /* number of ranks */
    bool here;      /* the host is this machine */
    int connection; /* to the launcher of the node; 0: it is a host */
};

/* "@7": the node whose launcher is connected to descriptor 7; 0: not of this form. No other child inherits it. */
static int connection_of(const char *host)
{
    int connection = 0;
    if (*host != '@' || !lvn_whole_number(host + 1, 3, &connection)) return 0;
    return fcntl(connection, F_SETFD, FD_CLOEXEC) ? 0 : connection;
}

/* Without --part: start the ranks of all hosts ("node1:2,node2:2"). */
static enum lvn_status start_all(struct ranks *ranks, struct request *request, const char *hosts, const char *ssh)
{
    char *rest = NULL, *list = lvn_arena_strdup(ranks->arena, hosts);
    struct part *part;
    int children = 0;
    request->nodes = 1;
    for (const char *p = hosts; *p; p++) request->nodes += *p == ',';
    part = lvn_arena_alloc(ranks->arena, sizeof *part * (size_t)request->nodes);
    if (!list || !part) return LVN_MEMORY;
    for (int i = 0; i < request->nodes; i++) {
        char *host = strtok_r(i ? NULL : list, ",", &rest), *colon = host ? strrchr(host, ':') : NULL, *end = NULL;
        long n = colon ? strtol(colon + 1, &end, 10) : 0;
        LVN_CHECK(colon && !*end && n > 0 && n <= 65536 && request->size + n <= 1 << 20, ARG,
                  "--hosts must be a name with a number of ranks for each host, as in node1:2,node2:2, not '%s'",
                  hosts);
        *colon = '\0';
        part[i] = (struct part){.host = host, .n = (int)n, .connection = connection_of(host)};
        part[i].here = *host != '@' && lvn_launch_is_this_host(host);
        LVN_CHECK(*host != '@' || part[i].connection, ARG, "--hosts contains '%s', which is not a connection", host);
        request->size += part[i].n;
        children += part[i].here ? part[i].n : 1;
    }
    LVN_TRY(lvn_allow_files(request->size, PIPES * children));
    ranks->child = lvn_arena_alloc(ranks->arena, sizeof *ranks->child * (size_t)request->size);
    if (!ranks->child) return LVN_MEMORY;
    for (request->node = 0; request->node < request->nodes; request->first += request->n, request->node++) {
        request->n = part[request->node].n;
        if (part[request->node].here)
            LVN_TRY(start_here(ranks, request));
        else if (part[request->node].connection)
            LVN_TRY(start_on_node(ranks, request, part[request->node].connection));
        else
            LVN_TRY(start_on_host(ranks, request, ssh, part[request->node].host));
    }
    return LVN_OK;
}

/* With --part: start the ranks of this host according to the request on standard input; a command given here replaces
 * the request's. */
static enum lvn_status start_part(struct ranks *ranks, struct request *request)
{
    const bool own = request->command.n > 1;
    LVN_TRY(read_request(ranks->arena, request));
    ranks->remote_controlled = true;
    ranks->kills_at_end = own;
    LVN_TRY(lvn_allow_files(request->n, PIPES * request->n));
    ranks->child = lvn_arena_alloc(ranks->arena, sizeof *ranks->child * (size_t)request->n);
    return ranks->child ? start_here(ranks, request) : LVN_MEMORY;
}

/* --check-connection: fails if this host cannot connect to `address`. */
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
    struct ranks ranks = {.arena = arena};
    struct request request = {.command = {.arena = arena}, .variables = {.arena = arena}};
    const char *hosts = c->flag[LVN_FLAG_ranks_hosts].t, *address = c->flag[LVN_FLAG_ranks_check_connection].t;
    const bool part = lvn_cli_on(c, LVN_FLAG_ranks_part);
    char self[4096];
    if (*address) return check_connection(address);
    if (c->given[LVN_FLAG_ranks_relay]) {
        c->code = lvn_ranks_relay((int)c->flag[LVN_FLAG_ranks_relay].i);
        return LVN_OK;
    }
    LVN_CHECK(part || (c->n_rest && *hosts), ARG,
              "levin ranks requires hosts and a command, as `levin launch --dry-run` shows; use levin launch");
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    lvn_words_add(&request.command, "%s", self);
    for (int i = 0; i < c->n_rest; i++) lvn_words_add(&request.command, "%s", c->rest[i]);
    if (!part) add_environment(&request);
    unsetenv("LEVIN_LAUNCH"); /* this process is not a rank, and must not report its exit code as one (main.c) */
    LVN_TRY(lvn_words_status(&request.command));
    LVN_TRY(lvn_words_status(&request.variables));
    catch_signals();
    enum lvn_status status =
        part ? start_part(&ranks, &request) : start_all(&ranks, &request, hosts, c->flag[LVN_FLAG_ranks_ssh].t);
    if (status) ranks.signals_sent = 1; /* KILL immediately */
    if (status) terminate(&ranks);
    LVN_TRY(status);
    ranks.rendezvous = variable_of(&request, "LEVIN_RENDEZVOUS=");
    ranks.token = variable_of(&request, "LEVIN_RENDEZVOUS_TOKEN=");
    LVN_TRY(watch(&ranks));
    c->code = ranks.code;
    return LVN_OK;
}
