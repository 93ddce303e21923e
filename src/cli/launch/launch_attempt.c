/* launch_attempt.c - one attempt: start the launcher, hand on its output and the signals, wait for its end.
 *
 * Called by launch_restart.c, which decides whether another attempt follows. The order is that of lvn_launch_attempt()
 * at the end of the file.
 *
 * Signals: the launcher gets a process group of its own, so that an interrupt from the terminal arrives here alone.
 * INT, TERM and HUP are forwarded as USR1, on which ranks save and exit (Open MPI's mpirun would kill them one second
 * after TERM); a second INT ends everything immediately. A signal that arrives before the ranks can catch it is
 * forwarded after rank 0 has printed its first line, or after 10 s.
 *
 * Exit code: the one that ranks report themselves (LVN_EXIT_MARK), since launchers add up codes or make up their own.
 *
 * Faults: the ranks of a training meet at a server in this process (cluster/rendezvous/server.h), so the sentence
 * about a lost rank is printed whichever rank it is. A launcher that then hangs, as Open MPI's and MPICH's do when a
 * link is cut, is killed; so is one that waits for a stopped rank after all ranks have finished. */
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
#include "cluster/rendezvous/server.h"

static const double FAULT_SECONDS = 6; /* that the launcher has to end by itself after a rank was lost */
static const double END_SECONDS = 10;  /* that it has at least after all ranks have finished */
static const double TERM_SECONDS = 3;  /* between TERM and KILL */
static const double NEWS_SECONDS = 2;  /* to wait for the server's explanation of an unexplained failure */

struct attempt {
    struct lvn_launch *l;
    struct lvn_launch_output *output;
    struct lvn_server *server; /* NULL: the ranks need no rendezvous */
    struct lvn_peer *peer;     /* (l->attempt.ranks) as the server last knew them; NULL: no server */
    pid_t pid;                 /* of the launcher, and of its process group */
    int pipe[2];               /* its stdout and stderr; -1: at end of file */
    bool exited;               /* the launcher has been waited for */
    int wait_status;           /* of waitpid() */
    int interrupts_seen;       /* interrupts that are already handled */
    int forwarded;             /* signals already forwarded to ranks */
    bool immediate;            /* the user wants everything ended now */
    bool fault;                /* the server has reported a fault */
    bool forced;               /* killed, since it did not end after all ranks had finished */
    bool run_begun;            /* rank 0 has begun the run */
    double started_at;         /* lvn_seconds() of all of these; 0: not yet, or not planned */
    double fault_at;
    double finished_at;
    double kill_at;
};

/* Between fork and exec. This process has threads (the server's), so nothing here may take a lock or allocate. Does not
 * return: if exec fails, errno goes through the pipe `failed`, which a successful exec closes. */
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
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* the launcher must not outlive this process */
    if (getppid() != parent) _exit(127);
    if (null >= 0) dup2(null, STDIN_FILENO);
    dup2(pipes[0], STDOUT_FILENO);
    dup2(pipes[1], STDERR_FILENO);
    for (int i = 0; i < l->resources.n_hosts; i++) /* for levin ranks, which relays to these nodes */
        if (l->resources.hosts[i].connection) fcntl(l->resources.hosts[i].connection, F_SETFD, 0);
    execve(l->attempt.line.word[0], l->attempt.line.word, environment);
    int reason = errno;
    if (write(failed, &reason, sizeof reason) < 0) _exit(126);
    _exit(127);
}

/* Start the server where ranks meet, at the address that they see, if they need one. */
static enum lvn_status start_server(struct attempt *r)
{
    struct lvn_launch *l = r->l;
    char address[64], network[64];
    bool needed = l->request.training || l->request.tcp || l->launcher.kind == LVN_LAUNCHER_LEVIN;
    if (!needed || l->launcher.kind == LVN_LAUNCHER_DIRECT) return LVN_OK;
    r->peer = lvn_calloc((size_t)l->attempt.ranks, sizeof *r->peer);
    if (!r->peer) return LVN_MEMORY;
    LVN_TRY(lvn_launch_address(l, NULL, address, network));
    struct lvn_server_options o = {.size = l->attempt.ranks,
                                   .listen =
                                       l->resources.in_slurm || (l->place.on && !l->place.loopback) ? NULL : address,
                                   .timeout = l->request.rank_timeout,
                                   .stall_timeout = l->request.stall_timeout,
                                   .join_timeout = l->request.start_timeout,
                                   .outside = true};
    LVN_TRY_WHILE(lvn_server_start(&r->server, &o), "opening the rendezvous");
    lvn_words_add(&l->attempt.set, "LEVIN_RENDEZVOUS=%s", lvn_server_address(r->server));
    lvn_words_add(&l->attempt.set, "LEVIN_RENDEZVOUS_TOKEN=%s", lvn_server_token(r->server));
    return lvn_words_status(&l->attempt.set);
}

/* Fork and exec the launcher, and wait until it runs or exec has failed. */
static enum lvn_status start_launcher(struct attempt *r)
{
    int out[2], err[2], failed[2], reason = 0;
    ssize_t n = -1;
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
    if (r->pid < 0) reason = errno;
    while (r->pid > 0 && (n = read(failed[0], &reason, sizeof reason)) < 0 && errno == EINTR) continue;
    close(failed[0]);
    LVN_CHECK(r->pid > 0, IO, "the launcher cannot be started: %s", strerror(reason));
    if (n > 0) {
        while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR) continue;
        LVN_FAIL(IO, "'%s' does not start: %s", r->l->attempt.line.word[0], strerror(reason));
    }
    setpgid(r->pid, r->pid);
    lvn_launch_close_connections(r->l); /* levin ranks has them */
    return LVN_OK;
}

static void print_line(struct attempt *r, const char *text)
{
    lvn_launch_output_clear(r->output);
    fprintf(stderr, "%s\n", text);
}

/* The process to signal. Of a script it is the process that the script has started: the shell would die of a signal and
 * leave that process behind. */
static pid_t signal_target(const struct attempt *r)
{
    static const char *const shells[] = {"sh", "bash", "dash", "ksh*", "zsh*", "busybox", "python*", "perl*", NULL};
    char path[64], program[512];
    int pid = r->pid, below = pid;
    while (below > 0 && r->l->launcher.is_script) {
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

static void terminate_launcher(struct attempt *r)
{
    kill(signal_target(r), SIGTERM);
    r->kill_at = lvn_seconds() + TERM_SECONDS;
}

/* Has a signal here, or the launcher of another node, asked for the end? */
static bool is_stopped(const struct attempt *r)
{
    return lvn_launch_stop_requested() || lvn_launch_output_stops(r->output);
}

/* Does nobody read any more what a command prints? It ends then as it would without a launcher; a training goes on. */
static bool is_unread(const struct attempt *r)
{
    return !r->l->request.training && lvn_launch_output_unread(r->output);
}

/* Forward signals that have arrived since the last call; KILL when its time has come. */
static void handle_signals(struct attempt *r)
{
    bool ranks_catch = lvn_launch_output_started(r->output) || lvn_seconds() - r->started_at > 10.0;
    const struct lvn_launch_signal_counts *seen = &lvn_launch_signals_seen;
    int wanted = (int)(seen->interrupts > 0) + seen->stops + seen->timeups + lvn_launch_output_stops(r->output);
    if (seen->interrupts > r->interrupts_seen && seen->interrupts == 1 && r->l->request.training)
        print_line(r, "stopping after this step; interrupt once more to end immediately");
    r->interrupts_seen = seen->interrupts;
    if (seen->interrupts > 1 || (wanted && !r->l->request.training) || is_unread(r)) {
        if (!r->immediate) terminate_launcher(r);
        r->immediate = true;
    } else if (wanted > r->forwarded && ranks_catch) {
        kill(signal_target(r), SIGUSR1);
        r->forwarded = wanted;
    }
    if (r->kill_at > 0 && lvn_seconds() > r->kill_at) kill(-r->pid, SIGKILL);
}

/* All ranks have said goodbye. If one is stopped (SIGSTOP) after that, no rank waits for it, but every launcher does:
 * end the launcher by force after a while. */
static void check_launcher_ends(struct attempt *r)
{
    double now = lvn_seconds(), limit = r->l->request.rank_timeout;
    if (limit < END_SECONDS) limit = END_SECONDS;
    if (r->finished_at == 0) r->finished_at = now;
    if (r->exited || r->forced || r->kill_at > 0 || now - r->finished_at < limit) return;
    struct lvn_text survivors = {0}, t = {0};
    lvn_server_table(r->server, r->peer);
    lvn_launch_list_survivors(r->l, r->peer, &survivors);
    lvn_text_printf(&t, "error: %s is ended by force: it was still running %.3g s after all ranks had finished%s",
                    r->l->launcher.title, limit, survivors.p ? survivors.p : "");
    print_line(r, t.p ? t.p : "error: the launcher does not end");
    lvn_text_release(&survivors);
    lvn_text_release(&t);
    r->forced = true;
    terminate_launcher(r);
}

/* Poll the server: is a rank lost, or have all finished? */
static void poll_server(struct attempt *r)
{
    char text[1300];
    int rank;
    if (!r->server) return;
    if (lvn_server_phase(r->server) == LVN_SERVER_ENDED) check_launcher_ends(r);
    if (!r->fault && lvn_server_phase(r->server) == LVN_SERVER_FAULT) {
        r->fault = true;
        r->fault_at = lvn_seconds();
        snprintf(text, sizeof text, "error: %s", lvn_server_fault(r->server, &rank));
        if (!r->immediate) print_line(r, text);
        lvn_launch_logs_add(r->l->history.logs, rank < 0 ? 0 : rank, text);
    }
    if (r->fault && r->kill_at == 0 && lvn_seconds() - r->fault_at > FAULT_SECONDS) terminate_launcher(r);
}

/* Has rank 0 taken possession of the run's folder? From then on a restart resumes the run, and logs of ranks go into
 * the folder. With a server the folder itself is read only at the `end`: its file system may be what hangs. */
static void check_run_begun(struct attempt *r, bool end)
{
    if (r->run_begun) return;
    if (r->server) {
        r->run_begun = lvn_server_published(r->server);
        lvn_server_table(r->server, r->peer);
    }
    if ((!r->server || end) && !r->run_begun) r->run_begun = lvn_launch_run_begun(r->l, false);
    r->l->history.run_begun |= r->run_begun;
    if (r->run_begun || !r->l->request.training) lvn_launch_logs_open(r->l->history.logs, r->peer);
}

static void read_pipes(struct attempt *r, const struct pollfd *p)
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

/* Forward output and signals until the launcher has exited and its output is read. Pipes that a daemon of it keeps open
 * are waited for one second. */
static void watch(struct attempt *r)
{
    double exited_at = 0;
    r->started_at = lvn_seconds();
    while (!r->exited || r->pipe[0] >= 0 || r->pipe[1] >= 0) {
        struct pollfd p[2] = {{.fd = r->pipe[0], .events = POLLIN}, {.fd = r->pipe[1], .events = POLLIN}};
        handle_signals(r);
        poll_server(r);
        check_run_begun(r, false);
        int ready = lvn_launch_poll(p, 2, 0.1);
        if (ready > 0) read_pipes(r, p);
        if (!r->exited && waitpid(r->pid, &r->wait_status, WNOHANG) == r->pid) {
            r->exited = true;
            exited_at = lvn_seconds();
        }
        if (r->exited && ready == 0 && lvn_seconds() - exited_at > 1.0) break;
    }
    kill(-r->pid, SIGKILL); /* processes that a script has left behind */
    for (int i = 0; i < 2; i++) {
        if (r->pipe[i] < 0) continue;
        lvn_launch_output_add(r->output, i, NULL, 0);
        close(r->pipe[i]);
    }
    lvn_launch_output_clear(r->output);
}

/* A launcher may have killed all ranks before the server has noticed which one was lost: if no rank has printed a
 * reason, wait a moment for the server's. */
static void wait_for_explanation(struct attempt *r)
{
    const struct timespec tick = {.tv_nsec = 20000000};
    bool failed = r->wait_status || lvn_launch_output_exit_code(r->output);
    if (!r->server || !failed || lvn_launch_output_explained(r->output) || r->immediate) return;
    for (double begin = lvn_seconds(); !r->fault && lvn_seconds() - begin < NEWS_SECONDS;) {
        nanosleep(&tick, NULL);
        poll_server(r);
    }
}

/* Print why the attempt ended with this code, unless a rank has. `reported`: the code that ranks reported; 0: none. */
static void explain(const struct attempt *r, int code, int reported)
{
    bool direct = r->l->launcher.kind == LVN_LAUNCHER_DIRECT, explained = lvn_launch_output_explained(r->output);
    bool finished = r->server && lvn_server_phase(r->server) == LVN_SERVER_ENDED;
    bool signalled = code > 128 && code < 128 + 65;
    const char *signal = signalled ? strsignal(code - 128) : "";
    if (reported || code == LVN_EXIT_USAGE || code == LVN_EXIT_STOPPED) { /* such ranks print a reason as a rule */
        if (!explained)
            fprintf(stderr, "error: %s ended with code %d, without giving a reason\n",
                    reported || direct ? "a rank" : r->l->launcher.title, reported ? reported : code);
    } else if (finished) {
        fprintf(stderr, "error: %s ended with code %d, because of a process that died after all ranks had finished\n",
                r->l->launcher.title, code);
    } else if (WIFSIGNALED(r->wait_status) && !direct) {
        fprintf(stderr, "error: %s was ended by signal %d (%s)\n", r->l->launcher.title, code - 128, signal);
    } else if (signalled) {
        fprintf(stderr, "error: a rank was ended by signal %d (%s)\n", code - 128, signal);
    } else if (!explained) {
        fprintf(stderr, "error: %s ended with code %d, and no rank said why\n",
                direct ? "a rank" : r->l->launcher.title, code);
    }
}

/* The attempt's exit code. Unless it is 0, a reason has been printed by a rank, by the server's poll or here. */
static int exit_code(const struct attempt *r)
{
    int code = WIFEXITED(r->wait_status) ? WEXITSTATUS(r->wait_status) : 128 + WTERMSIG(r->wait_status);
    int reported = lvn_launch_output_exit_code(r->output);
    if (r->immediate) {
        int by = lvn_launch_signals_seen.interrupts ? SIGINT : SIGTERM;
        if (is_unread(r)) return 128 + SIGPIPE;
        fprintf(stderr, "ended immediately by %s\n", by == SIGINT ? "SIGINT" : "SIGTERM");
        return 128 + by;
    }
    if (r->fault && (reported == LVN_EXIT_USAGE || reported == LVN_EXIT_FAILED)) return reported;
    if (r->fault) return lvn_server_fault_is_permanent(r->server) ? LVN_EXIT_FAILED : LVN_EXIT_FAULT;
    if (r->forced) return reported ? reported : LVN_EXIT_FAULT; /* 75 if reported: a saved run may be requeued */
    if (!reported && code == LVN_EXIT_DONE) return LVN_EXIT_DONE;
    if (reported == LVN_EXIT_STOPPED && code > 128 && !is_stopped(r))
        reported = 0; /* the launcher has sent TERM because a rank was killed */
    explain(r, code, reported);
    if (reported) return reported;
    if (code == LVN_EXIT_USAGE || code == LVN_EXIT_STOPPED) return code;
    /* no rank lived to report why, or the launcher failed */
    return r->l->request.training ? LVN_EXIT_FAULT : LVN_EXIT_FAILED;
}

/* Fill in `result`; after a fault, end surviving ranks and find the host or link at fault. */
static void conclude(struct attempt *r, struct lvn_launch_result *result)
{
    struct lvn_launch *l = r->l;
    const struct lvn_launch_signal_counts *seen = &lvn_launch_signals_seen;
    *result = (struct lvn_launch_result){.code = exit_code(r),
                                         .stopped = is_stopped(r),
                                         .time_up = seen->timeups && !seen->interrupts && !seen->stops,
                                         .host = -1,
                                         .link = {-1, -1}};
    if (r->server) lvn_server_table(r->server, r->peer);
    check_run_begun(r, true);
    if (l->history.run_begun || !l->request.training || *l->c->flag[LVN_FLAG_launch_log_dir].t)
        lvn_launch_logs_open(l->history.logs, r->peer);
    if (result->code != LVN_EXIT_FAULT) return;
    if (r->server) lvn_launch_end_survivors(r->l, r->peer, lvn_server_token(r->server));
    if (!r->fault) return;
    if (l->resources.in_slurm && !l->resources.n_hosts && lvn_launch_slurm_nodes(l)) lvn_error_clear();
    int rank, link[2];
    lvn_server_fault(r->server, &rank);
    if (lvn_server_fault_link(r->server, link)) {
        for (int i = 0; i < 2; i++) result->link[i] = lvn_launch_host_of(l, &r->peer[link[i]]);
    } else {
        result->host = lvn_launch_host_at_fault(l, r->peer, rank);
    }
    if (r->peer[0].state == LVN_PEER_LOST && !lvn_launch_rank_is_here(&r->peer[0]))
        result->restart_not_before = r->fault_at + l->request.rank_timeout;
}

enum lvn_status lvn_launch_attempt(struct lvn_launch *l, struct lvn_launch_result *result)
{
    struct attempt r = {.l = l, .pipe = {-1, -1}};
    LVN_TRY(lvn_launch_output_new(&r.output, l));
    enum lvn_status status = start_server(&r);
    if (!status) status = start_launcher(&r);
    if (!status) {
        watch(&r);
        wait_for_explanation(&r);
        conclude(&r, result);
    }
    if (r.server) lvn_server_stop(r.server, 0);
    lvn_launch_logs_close(l->history.logs);
    lvn_launch_output_free(r.output);
    free(r.peer);
    return status;
}
