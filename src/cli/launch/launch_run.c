/* launch_run.c - one attempt: start the launcher, hand on its output and the signals, wait for its end.
 *
 * The launcher is put into a process group of its own, so that an interrupt from the terminal comes here alone. INT,
 * TERM and HUP become USR1, on which ranks save and leave (Open MPI's mpirun would kill them one second after TERM); a
 * second INT ends everything at once. A signal that comes before the ranks can catch it waits until rank 0 has spoken.
 *
 * The exit code is that of the ranks, which tell it themselves: launchers add codes up or make their own. The ranks of
 * a training meet at a server here (cluster/rendezvous/rendezvous.h), outside of them all: whichever rank is lost, its
 * last words are said; and a launcher that then hangs, as both families do when a link is cut, is ended, as is one that
 * waits for a rank that stands still when all is over. */
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
#include "cli/stop.h"
#include "cluster/identity/launcher_env.h"
#include "cluster/rendezvous/rendezvous.h"

/* Seconds that a launcher has after a rank was lost, at least after all have finished, and after it was told to end. */
static const double FAULT_SECONDS = 6, END_SECONDS = 10, TERM_SECONDS = 3, NEWS_SECONDS = 2;

static volatile sig_atomic_t interrupts, stops, timeups, ended;
static sigset_t during; /* the mask while signals come in */

static void on_signal(int number)
{
    if (number == SIGINT) interrupts++;
    if (number == SIGTERM || number == SIGHUP) stops++;
    if (number == SIGUSR1) timeups++;
    if (number == SIGCHLD) ended++;
}

struct run {
    struct lvn_launch *l;
    struct lvn_launch_output *output;
    pid_t pid;
    int pipe[2]; /* -1: at its end */
    bool over;
    int status;            /* of waitpid */
    int interrupts, asked; /* dealt with */
    double began, kill_at; /* kill_at: seconds; 0: not planned */
    bool at_once, fault;
    double fault_at, finished_at; /* 0: not yet */
    bool held;                    /* the launcher did not end by itself */
    bool begun;
    struct lvn_server *server; /* NULL: what is launched is no training */
    struct lvn_peer *peer;     /* (l->ranks) as the server last knew them */
};

/* Between fork and exec: this process has threads (the server's), so nothing here may take a lock or memory. Comes back
 * to nobody: the reason why nothing started goes through the pipe `failed`, which a start closes. */
static void start_child(const struct lvn_launch *l, char *const *environment, const int pipes[2], int failed,
                        pid_t parent)
{
    sigset_t none;
    int null = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 1; i < 32; i++) {
        if (i != SIGHUP || !lvn_stop_outlives_terminal()) signal(i, SIG_DFL);
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* it must not outlive this process */
    if (getppid() != parent) _exit(127);
    if (null >= 0) dup2(null, STDIN_FILENO);
    dup2(pipes[0], STDOUT_FILENO);
    dup2(pipes[1], STDERR_FILENO);
    execve(l->line.word[0], l->line.word, environment);
    int reason = errno;
    if (write(failed, &reason, sizeof reason) < 0) _exit(126);
    _exit(127);
}

/* The place where ranks meet, on the address that they see. */
static enum lvn_status serve(struct run *r)
{
    struct lvn_launch *l = r->l;
    char address[64], network[64];
    bool meet = l->training || l->tcp || l->launcher == LVN_LAUNCHER_OWN;
    if (!meet || l->launcher == LVN_LAUNCHER_DIRECT) return LVN_OK;
    r->peer = lvn_calloc((size_t)l->ranks, sizeof *r->peer);
    if (!r->peer) return LVN_MEMORY;
    LVN_TRY(lvn_launch_address(l, NULL, address, network));
    struct lvn_server_options o = {.size = l->ranks,
                                   .listen = l->allocation ? NULL : address,
                                   .timeout = l->rank_timeout,
                                   .stall_timeout = l->stall_timeout,
                                   .join_timeout = 2 * l->rank_timeout > 60 ? 2 * l->rank_timeout : 60,
                                   .outside = true};
    LVN_TRY_WHILE(lvn_server_start(&r->server, &o), "making a place where the ranks meet");
    lvn_words_add(&l->set, "LEVIN_RENDEZVOUS=%s", lvn_server_address(r->server));
    lvn_words_add(&l->set, "LEVIN_RENDEZVOUS_TOKEN=%s", lvn_server_token(r->server));
    return lvn_words_status(&l->set);
}

/* Wait until it runs, or for why it does not. */
static enum lvn_status started(struct run *r, int failed)
{
    int reason = 0;
    ssize_t n;
    do n = read(failed, &reason, sizeof reason);
    while (n < 0 && errno == EINTR);
    if (n <= 0) return LVN_OK;
    while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR) continue;
    LVN_FAIL(IO, "'%s' does not start: %s", r->l->line.word[0], strerror(reason));
}

static enum lvn_status start(struct run *r)
{
    int out[2], err[2], failed[2];
    struct lvn_words environment = {.arena = r->l->arena};
    LVN_TRY(lvn_launch_environment(r->l, &environment));
    LVN_CHECK(!pipe2(out, O_CLOEXEC), IO, "no pipe: %s", strerror(errno));
    LVN_CHECK(!pipe2(err, O_CLOEXEC), IO, "no pipe: %s", strerror(errno));
    LVN_CHECK(!pipe2(failed, O_CLOEXEC), IO, "no pipe: %s", strerror(errno));
    pid_t parent = getpid();
    fflush(NULL);
    r->pid = fork();
    if (r->pid == 0) start_child(r->l, environment.word, (int[2]){out[1], err[1]}, failed[1], parent);
    close(out[1]);
    close(err[1]);
    close(failed[1]);
    r->pipe[0] = out[0];
    r->pipe[1] = err[0];
    enum lvn_status status = LVN_OK;
    if (r->pid < 0)
        status = lvn_fail(LVN_IO, "the launcher cannot be started: %s", strerror(errno));
    else
        status = started(r, failed[0]);
    close(failed[0]);
    if (!status) setpgid(r->pid, r->pid);
    return status;
}

static void say(struct run *r, const char *text)
{
    lvn_launch_output_clear(r->output);
    fprintf(stderr, "%s\n", text);
}

/* Of a script it is what the script has started that hears signals: a shell would die of them, and leave it behind. */
static pid_t listener(const struct run *r)
{
    static const char *const shells[] = {"sh", "bash", "dash", "ksh*", "zsh*", "busybox", "python*", "perl*", NULL};
    char path[64], program[512];
    int pid = r->pid, below = pid;
    while (below > 0 && r->l->script) {
        pid = below;
        snprintf(path, sizeof path, "/proc/%d/exe", pid);
        ssize_t n = readlink(path, program, sizeof program - 1);
        program[n > 0 ? n : 0] = '\0';
        if (!lvn_is_among(shells, lvn_path_name(program))) break;
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
        FILE *f = fopen(path, "re");
        if (!f || fscanf(f, "%d", &below) != 1) below = 0;
        if (f) fclose(f);
    }
    return pid;
}

static void end_launcher(struct run *r)
{
    kill(listener(r), SIGTERM);
    r->kill_at = lvn_seconds() + TERM_SECONDS;
}

/* What signals ask for. */
static void heed(struct run *r)
{
    bool can_hear = lvn_launch_output_heard(r->output) || lvn_seconds() - r->began > 10.0;
    int wanted = (int)(interrupts > 0) + stops + timeups;
    if (interrupts > r->interrupts && interrupts == 1 && r->l->training)
        say(r, "stopping after this step; interrupt once more to end immediately");
    r->interrupts = interrupts;
    if (interrupts > 1 || (wanted && !r->l->training)) {
        if (!r->at_once) end_launcher(r);
        r->at_once = true;
    } else if (wanted > r->asked && can_hear) {
        kill(listener(r), SIGUSR1);
        r->asked = wanted;
    }
    if (r->kill_at > 0 && lvn_seconds() > r->kill_at) kill(-r->pid, SIGKILL);
}

/* A rank that stands still after its goodbye misses nobody, and yet every launcher waits for it for ever. */
static void watch_end(struct run *r)
{
    double now = lvn_seconds(), patience = r->l->rank_timeout > END_SECONDS ? r->l->rank_timeout : END_SECONDS;
    if (r->finished_at == 0) r->finished_at = now;
    if (r->over || r->held || r->kill_at > 0 || now - r->finished_at < patience) return;
    struct lvn_text leftover = {0}, t = {0};
    lvn_server_table(r->server, r->peer);
    lvn_launch_survivors(r->l, r->peer, &leftover);
    lvn_text_printf(&t, "error: %s is ended by force: it has not ended by itself %.3g s after all ranks had finished%s",
                    r->l->title, patience, leftover.p ? leftover.p : "");
    say(r, t.p ? t.p : "error: the launcher does not end");
    lvn_text_release(&leftover);
    lvn_text_release(&t);
    r->held = true;
    end_launcher(r);
}

/* News of the server: a rank is lost, or all have finished. */
static void listen_to_server(struct run *r)
{
    char text[1300];
    int rank;
    if (!r->server) return;
    if (lvn_server_phase(r->server) == LVN_SERVER_ENDED) watch_end(r);
    if (!r->fault && lvn_server_phase(r->server) == LVN_SERVER_FAULT) {
        r->fault = true;
        r->fault_at = lvn_seconds();
        snprintf(text, sizeof text, "error: %s", lvn_server_fault(r->server, &rank));
        if (!r->at_once) say(r, text);
        lvn_launch_logs_add(r->l->logs, rank < 0 ? 0 : rank, text);
    }
    if (r->fault && r->kill_at == 0 && lvn_seconds() - r->fault_at > FAULT_SECONDS) end_launcher(r);
}

/* Has rank 0 made the run's folder its own? From then on a restart goes on with it, and ranks have logs in it. While a
 * server hears of ranks the folder is not looked at before the `end`: its file system may be what stands still. */
static void look_for_run(struct run *r, bool end)
{
    if (r->begun) return;
    if (r->server) {
        r->begun = lvn_server_published(r->server);
        lvn_server_table(r->server, r->peer);
    }
    if ((!r->server || end) && !r->begun) r->begun = lvn_launch_begun(r->l, false);
    r->l->goes_on |= r->begun;
    if (r->begun || !r->l->training) lvn_launch_logs_open(r->l->logs, r->peer);
}

static void read_pipes(struct run *r, const struct pollfd *p)
{
    char text[65536];
    for (int i = 0; i < 2; i++) {
        if (r->pipe[i] < 0 || !p[i].revents) continue;
        ssize_t n = read(r->pipe[i], text, sizeof text);
        if (n < 0 && errno == EINTR) continue;
        lvn_launch_output_add(r->output, i, text, n > 0 ? n : 0);
        if (n > 0) continue;
        close(r->pipe[i]);
        r->pipe[i] = -1;
    }
}

/* Until the launcher has ended and its output is read; what a daemon of it keeps open is not waited for. */
static void watch(struct run *r)
{
    double over_at = 0;
    r->began = lvn_seconds();
    while (!r->over || r->pipe[0] >= 0 || r->pipe[1] >= 0) {
        struct pollfd p[2] = {{.fd = r->pipe[0], .events = POLLIN}, {.fd = r->pipe[1], .events = POLLIN}};
        struct timespec tick = {.tv_nsec = 100000000};
        heed(r);
        listen_to_server(r);
        look_for_run(r, false);
        int ready = ppoll(p, 2, &tick, &during);
        if (ready > 0) read_pipes(r, p);
        if (!r->over && waitpid(r->pid, &r->status, WNOHANG) == r->pid) {
            r->over = true;
            over_at = lvn_seconds();
        }
        if (r->over && ready == 0 && lvn_seconds() - over_at > 1.0) break;
    }
    kill(-r->pid, SIGKILL); /* what a script has left behind */
    for (int i = 0; i < 2; i++) {
        if (r->pipe[i] < 0) continue;
        lvn_launch_output_add(r->output, i, NULL, 0);
        close(r->pipe[i]);
    }
    lvn_launch_output_clear(r->output);
    /* A launcher may have killed them all before the server has understood: it hears of it in a moment. */
    bool failed = r->status || lvn_launch_output_code(r->output);
    bool silent = failed && !lvn_launch_output_said(r->output) && !r->at_once;
    for (over_at = lvn_seconds(); r->server && silent && !r->fault && lvn_seconds() - over_at < NEWS_SECONDS;) {
        struct timespec moment = {.tv_nsec = 20000000};
        nanosleep(&moment, NULL);
        listen_to_server(r);
    }
}

/* What nobody has said yet of an end with this code; `told` is what ranks told. */
static void explain(const struct run *r, int code, int told)
{
    bool direct = r->l->launcher == LVN_LAUNCHER_DIRECT, said = lvn_launch_output_said(r->output);
    bool over = r->server && lvn_server_phase(r->server) == LVN_SERVER_ENDED, signalled = code > 128 && code < 128 + 65;
    const char *signal = signalled ? strsignal(code - 128) : "";
    if (told || code == LVN_EXIT_USAGE || code == LVN_EXIT_STOPPED) { /* those who say why end so */
        if (!said)
            fprintf(stderr, "error: %s ended with code %d, without giving a reason\n",
                    told || direct ? "a rank" : r->l->title, told ? told : code);
    } else if (over) {
        fprintf(stderr, "error: %s ended with code %d, because of a process that died after all ranks had finished\n",
                r->l->title, code);
    } else if (WIFSIGNALED(r->status) && !direct) {
        fprintf(stderr, "error: %s was ended by signal %d (%s)\n", r->l->title, code - 128, signal);
    } else if (signalled) {
        fprintf(stderr, "error: a rank was ended by signal %d (%s)\n", code - 128, signal);
    } else if (!said) {
        fprintf(stderr, "error: %s ended with code %d, and no rank said why\n", direct ? "a rank" : r->l->title, code);
    }
}

/* The launcher's code as one of levin's. Whatever it is, but 0, somebody has said why. */
static int judge(const struct run *r)
{
    int code = WIFEXITED(r->status) ? WEXITSTATUS(r->status) : 128 + WTERMSIG(r->status);
    int told = lvn_launch_output_code(r->output);
    if (r->at_once) {
        int by = interrupts ? SIGINT : SIGTERM;
        fprintf(stderr, "ended immediately by %s\n", by == SIGINT ? "SIGINT" : "SIGTERM");
        return 128 + by;
    }
    if (r->fault && (told == LVN_EXIT_USAGE || told == LVN_EXIT_FAILED)) return told;
    if (r->fault) return lvn_server_fault_is_permanent(r->server) ? LVN_EXIT_FAILED : LVN_EXIT_FAULT;
    if (r->held) return told ? told : LVN_EXIT_FAULT; /* told: what was saved may be queued again */
    if (!told && code == LVN_EXIT_DONE) return LVN_EXIT_DONE;
    if (told == LVN_EXIT_STOPPED && code > 128 && !interrupts && !stops && !timeups)
        told = 0; /* the launcher's TERM, for a rank was killed */
    explain(r, code, told);
    if (told) return told;
    if (code == LVN_EXIT_USAGE || code == LVN_EXIT_STOPPED) return code;
    return r->l->training ? LVN_EXIT_FAULT : LVN_EXIT_FAILED; /* no rank lived to tell why, or the launcher failed */
}

static void conclude(struct run *r, struct lvn_launch_end *end)
{
    struct lvn_launch *l = r->l;
    *end = (struct lvn_launch_end){.code = judge(r),
                                   .stopped = interrupts || stops || timeups,
                                   .time_up = timeups && !interrupts && !stops,
                                   .host = -1,
                                   .link = {-1, -1}};
    if (r->server) lvn_server_table(r->server, r->peer);
    look_for_run(r, true);
    if (l->goes_on || !l->training || *l->c->flag[LVN_FLAG_launch_log_dir].t) lvn_launch_logs_open(l->logs, r->peer);
    if (end->code != LVN_EXIT_FAULT) return;
    if (r->server) lvn_launch_end_survivors(r->l, r->peer, lvn_server_token(r->server));
    if (!r->fault) return;
    if (l->allocation && !l->n_hosts && lvn_launch_nodes(l)) lvn_error_clear();
    int rank, link[2];
    lvn_server_fault(r->server, &rank);
    if (lvn_server_fault_link(r->server, link)) {
        for (int i = 0; i < 2; i++) end->link[i] = lvn_launch_host_of(l, &r->peer[link[i]]);
    } else {
        end->host = lvn_launch_blame(l, r->peer, rank);
    }
    if (r->peer[0].state == LVN_PEER_LOST && !lvn_launch_is_here(&r->peer[0]))
        end->quiet_at = r->fault_at + l->rank_timeout;
}

enum lvn_status lvn_launch_attempt(struct lvn_launch *l, struct lvn_launch_end *end)
{
    struct run r = {.l = l, .pipe = {-1, -1}};
    LVN_TRY(lvn_launch_output_new(&r.output, l));
    enum lvn_status status = serve(&r);
    if (!status) status = start(&r);
    if (!status) watch(&r);
    if (!status) conclude(&r, end);
    if (r.server) lvn_server_stop(r.server, 0);
    lvn_launch_logs_close(l->logs);
    lvn_launch_output_free(r.output);
    free(r.peer);
    return status;
}

void lvn_launch_signals(bool begin)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t block;
    if (!begin) {
        sigprocmask(SIG_SETMASK, &during, NULL);
        return;
    }
    sigemptyset(&action.sa_mask);
    sigemptyset(&block);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) {
        if (caught[i] == SIGHUP && lvn_stop_outlives_terminal()) continue;
        sigaddset(&block, caught[i]);
        sigaction(caught[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &block, &during); /* they come in while ppoll() waits, and nowhere else */
}

bool lvn_launch_pause(double seconds)
{
    for (double end = lvn_seconds() + seconds, left = seconds; left >= 0 && !interrupts && !stops && !timeups;
         left = end - lvn_seconds()) {
        struct timespec t = {.tv_sec = (time_t)left, .tv_nsec = (long)(1e9 * (left - (double)(time_t)left))};
        ppoll(NULL, 0, &t, &during);
    }
    return !interrupts && !stops && !timeups;
}
