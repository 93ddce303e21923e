/* launch_attempt.c - one attempt: start the launcher, forward its output and the signals, wait for its end.
 *
 * Called by launch_restart.c, which decides whether another attempt follows. lvn_launch_attempt() at the end of the
 * file shows the order.
 *
 * Signals: the launcher has its own process group, so that an interrupt from the terminal reaches only this process.
 * INT, TERM and HUP are forwarded as USR1, on which ranks save and exit (Open MPI's mpirun would kill them one second
 * after TERM); a second INT terminates everything immediately. A signal that arrives before the ranks can catch it is
 * forwarded after rank 0 has printed its first line, or after 10 s.
 *
 * Exit code: the one that the ranks report (LVN_EXIT_MARK), because launchers add up codes or return their own.
 *
 * Faults: the ranks of a training join a server in this process (cluster/rendezvous/server.h), so the message about a
 * lost rank is printed whichever rank it is. A launcher that then hangs, as Open MPI's and MPICH's do when a link is
 * broken, is killed; so is one that waits for a stopped rank after all ranks have finished. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "cli/stop.h"
#include "cluster/identity/launcher_env.h"
#include "cluster/rendezvous/local_ranks.h"
#include "cluster/rendezvous/server.h"
#include "launch/launch.h"

static const double FAULT_SECONDS = 6;   /* for the launcher to exit after a rank was lost */
static const double END_SECONDS = 10;    /* minimum for the launcher to exit after all ranks have finished */
static const double TERM_SECONDS = 3;    /* between TERM and KILL */
static const double EXPLAIN_SECONDS = 2; /* to wait for the server's explanation of a failure */

struct attempt {
    struct lvn_launch *l;
    struct lvn_launch_output *output;
    struct lvn_server *server; /* NULL: the ranks need no rendezvous */
    struct lvn_peer *peer;     /* (l->attempt.ranks) the server's last table; NULL: no server */
    pid_t pid;                 /* of the launcher, and of its process group */
    int pipe[2];               /* its stdout and stderr; -1: at end of file */
    bool exited;               /* waitpid() has returned for the launcher */
    int wait_status;           /* of waitpid() */
    int interrupts_seen;       /* number of interrupts already handled */
    int forwarded;             /* number of signals already forwarded to ranks */
    bool immediate;            /* the user requested an immediate end */
    bool fault;                /* the server has reported a fault */
    bool forced;               /* killed, because it did not exit after all ranks had finished */
    bool run_begun;            /* rank 0 has begun the run */
    double started_at;         /* these are lvn_seconds(); 0: not yet, or not planned */
    double fault_at;
    double finished_at;
    double kill_at;
};

/* --- after an attempt: which ranks still exist on this machine, and which host was at fault ---
 *
 * On other hosts the launcher's daemons terminate ranks. `peer` has attempt.ranks entries, the server's last table. */

static const double KILL_SECONDS = 3; /* maximum time to kill survivors */

/* True if the rank ran on this machine. */
static bool rank_is_here(const struct lvn_peer *peer)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return !strcmp(peer->host, host);
}

static bool is_alive(const struct lvn_peer *peer)
{
    return rank_is_here(peer) && (lvn_process_stopped((int)peer->pid) || lvn_process_runs((int)peer->pid));
}

/* Append ranks of this machine that still exist, as ": rank 1 on node1 (pid 17) still runs, ...". */
static void list_survivors(const struct lvn_launch *l, const struct lvn_peer *peer, struct lvn_text *t)
{
    for (int i = 0; i < l->attempt.ranks; i++) {
        if (!is_alive(&peer[i])) continue;
        lvn_text_printf(t, "%srank %d on %s (pid %lld) %s", t->n ? ", " : ": ", i, peer[i].host, (long long)peer[i].pid,
                        lvn_process_stopped((int)peer[i].pid) ? "is stopped" : "still runs");
    }
}

/* True if the process is a rank of this attempt, and not another one that has the same pid now. */
static bool has_token(int64_t pid, const char *token)
{
    char path[64];
    char *text = NULL;
    size_t capacity = 0;
    ssize_t n;
    bool found = false;
    const char name[] = "LEVIN_RENDEZVOUS_TOKEN=";
    snprintf(path, sizeof path, "/proc/%lld/environ", (long long)pid);
    FILE *f = fopen(path, "re");
    while (f && !found && (n = getdelim(&text, &capacity, '\0', f)) > 0)
        found = !strncmp(text, name, sizeof name - 1) && !strcmp(text + sizeof name - 1, token);
    if (f) fclose(f);
    free(text);
    return found;
}

/* Kill them if their environment contains the attempt's rendezvous token: another process may have the pid by now. */
static void end_survivors(const struct lvn_launch *l, const struct lvn_peer *peer, const char *token)
{
    const struct timespec tick = {.tv_nsec = 20000000};
    bool alive = true;
    for (double begin = lvn_seconds(); alive && lvn_seconds() - begin < KILL_SECONDS; nanosleep(&tick, NULL)) {
        alive = false;
        for (int i = 0; i < l->attempt.ranks; i++) {
            if (!is_alive(&peer[i]) || !has_token(peer[i].pid, token)) continue;
            kill((pid_t)peer[i].pid, SIGKILL);
            alive = true;
        }
    }
}

/* Determined by the order of the hosts file; on nodes of Slurm by the host name that the rank reported. */
static int host_of(const struct lvn_launch *l, const struct lvn_peer *peer)
{
    int before = 0;
    for (int i = 0; i < l->resources.n_hosts; i++) {
        size_t n = strcspn(l->resources.hosts[i].name, ".");
        before += l->resources.hosts[i].ranks;
        if (!l->resources.in_slurm && peer->rank < before) return i;
        if (l->resources.in_slurm && n == strcspn(peer->host, ".") &&
            !strncmp(l->resources.hosts[i].name, peer->host, n))
            return i;
    }
    return -1;
}

/* Index of the host whose ranks were lost first or did not join; without such ranks the host of fault_rank. -1: several
 * hosts, or not known. */
static int host_at_fault(const struct lvn_launch *l, const struct lvn_peer *peer, int fault_rank)
{
    enum lvn_peer_state bad = LVN_PEER_ABSENT;
    int64_t first = INT64_MAX;
    int host = -1;
    for (int i = 0; i < l->attempt.ranks; i++) {
        if (peer[i].state != LVN_PEER_LOST) continue;
        bad = LVN_PEER_LOST;
        if (peer[i].poll_index < first) first = peer[i].poll_index;
    }
    for (int i = 0; i < l->attempt.ranks; i++) {
        if (peer[i].state != bad || (bad == LVN_PEER_LOST && peer[i].poll_index > first)) continue;
        int of_rank = host_of(l, &peer[i]);
        if (of_rank < 0 || (host >= 0 && of_rank != host)) return -1;
        host = of_rank;
    }
    return host < 0 && fault_rank >= 0 ? host_of(l, &peer[fault_rank]) : host;
}

/* --- the attempt --- */

/* Execute the launcher in the child process. The parent has threads (the server's), so the code between fork and exec
 * must not use locks or allocate. Does not return: if exec fails, errno is sent through the pipe `failed`, which a
 * successful exec closes. */
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

/* Start the server that ranks join, at the address that they can reach, if they need one. */
static enum lvn_status start_server(struct attempt *attempt)
{
    struct lvn_launch *l = attempt->l;
    char address[64], network[64];
    bool needed = l->request.training || l->request.tcp || l->launcher.kind == LVN_LAUNCHER_LEVIN;
    if (!needed || l->launcher.kind == LVN_LAUNCHER_DIRECT) return LVN_OK;
    attempt->peer = lvn_calloc((size_t)l->attempt.ranks, sizeof *attempt->peer);
    if (!attempt->peer) return LVN_MEMORY;
    LVN_TRY(lvn_launch_address(l, address, network));
    struct lvn_server_options o = {.size = l->attempt.ranks,
                                   .listen =
                                       l->resources.in_slurm || (l->place.on && !l->place.loopback) ? NULL : address,
                                   .timeout = l->request.rank_timeout,
                                   .stall_timeout = l->request.stall_timeout,
                                   .join_timeout = l->request.start_timeout,
                                   .outside = true};
    LVN_TRY_WHILE(lvn_server_start(&attempt->server, &o), "opening the rendezvous");
    lvn_words_add(&l->attempt.set, "LEVIN_RENDEZVOUS=%s", lvn_server_address(attempt->server));
    lvn_words_add(&l->attempt.set, "LEVIN_RENDEZVOUS_TOKEN=%s", lvn_server_token(attempt->server));
    return lvn_words_status(&l->attempt.set);
}

/* Fork and exec the launcher, and wait until it runs or exec has failed. */
static enum lvn_status start_launcher(struct attempt *attempt)
{
    enum { OUT, ERR, FAILED, N_PIPES }; /* FAILED: why exec has failed */
    int pipes[N_PIPES][2], reason = 0;
    ssize_t n = -1;
    struct lvn_words environment = {.arena = attempt->l->arena};
    LVN_TRY(lvn_launch_environment(attempt->l, &environment));
    LVN_TRY(lvn_process_pipes(pipes, N_PIPES));
    pid_t parent = getpid();
    fflush(NULL);
    attempt->pid = fork();
    if (attempt->pid == 0)
        start_child(attempt->l, environment.word, (int[2]){pipes[OUT][1], pipes[ERR][1]}, pipes[FAILED][1], parent);
    if (attempt->pid < 0) reason = errno;
    for (int i = 0; i < N_PIPES; i++) close(pipes[i][1]);
    attempt->pipe[0] = pipes[OUT][0];
    attempt->pipe[1] = pipes[ERR][0];
    while (attempt->pid > 0 && (n = read(pipes[FAILED][0], &reason, sizeof reason)) < 0 && errno == EINTR) continue;
    close(pipes[FAILED][0]);
    LVN_CHECK(attempt->pid > 0, IO, "cannot start the launcher: %s", strerror(reason));
    if (n > 0) {
        while (waitpid(attempt->pid, NULL, 0) < 0 && errno == EINTR) continue;
        LVN_FAIL(IO, "cannot start '%s': %s", attempt->l->attempt.line.word[0], strerror(reason));
    }
    setpgid(attempt->pid, attempt->pid);
    lvn_launch_close_connections(attempt->l); /* levin ranks has them */
    return LVN_OK;
}

static void print_line(struct attempt *attempt, const char *text)
{
    lvn_launch_output_clear(attempt->output);
    fprintf(stderr, "%s\n", text);
}

/* The process to signal. For a script it is the process that the script has started, because a signal would terminate
 * the shell and leave that process running. */
static pid_t signal_target(const struct attempt *attempt)
{
    static const char *const shells[] = {"sh", "bash", "dash", "ksh*", "zsh*", "busybox", "python*", "perl*", NULL};
    char path[64], program[512];
    int pid = attempt->pid, below = pid;
    while (below > 0 && attempt->l->launcher.is_script) {
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

static void terminate_launcher(struct attempt *attempt)
{
    kill(signal_target(attempt), SIGTERM);
    attempt->kill_at = lvn_seconds() + TERM_SECONDS;
}

/* True if a signal, or the launcher of another node, has requested the end. */
static bool is_stopped(const struct attempt *attempt)
{
    return lvn_launch_stop_requested() || lvn_launch_output_stops(attempt->output);
}

/* True if the reader of a command's output is gone (as with `| head`). Such a command then stops; a training continues.
 */
static bool is_unread(const struct attempt *attempt)
{
    return !attempt->l->request.training && lvn_launch_output_unread(attempt->output);
}

/* Forward signals that have arrived since the last call; send KILL after its deadline. */
static void handle_signals(struct attempt *attempt)
{
    bool ranks_catch = lvn_launch_output_started(attempt->output) || lvn_seconds() - attempt->started_at > 10.0;
    const struct lvn_launch_signal_counts *seen = &lvn_launch_signals_seen;
    int requests = (int)(seen->interrupts > 0) + seen->stops + seen->timeups + lvn_launch_output_stops(attempt->output);
    if (seen->interrupts > attempt->interrupts_seen && seen->interrupts == 1 && attempt->l->request.training)
        print_line(attempt, "stopping after this step; interrupt again to end immediately");
    attempt->interrupts_seen = seen->interrupts;
    if (seen->interrupts > 1 || (requests && !attempt->l->request.training) || is_unread(attempt)) {
        if (!attempt->immediate) terminate_launcher(attempt);
        attempt->immediate = true;
    } else if (requests > attempt->forwarded && ranks_catch) {
        kill(signal_target(attempt), SIGUSR1);
        attempt->forwarded = requests;
    }
    if (attempt->kill_at > 0 && lvn_seconds() > attempt->kill_at) kill(-attempt->pid, SIGKILL);
}

/* All ranks have said goodbye. If one is stopped (SIGSTOP) after that, no rank waits for it, but every launcher does,
 * so terminate the launcher after some time. */
static void check_launcher_ends(struct attempt *attempt)
{
    double now = lvn_seconds(), limit = attempt->l->request.rank_timeout;
    if (limit < END_SECONDS) limit = END_SECONDS;
    if (attempt->finished_at == 0) attempt->finished_at = now;
    if (attempt->exited || attempt->forced || attempt->kill_at > 0 || now - attempt->finished_at < limit) return;
    struct lvn_text survivors = {0}, t = {0};
    lvn_server_table(attempt->server, attempt->peer);
    list_survivors(attempt->l, attempt->peer, &survivors);
    lvn_text_printf(&t, "error: %s was terminated: it was still running %.3g s after all ranks had finished%s",
                    attempt->l->launcher.title, limit, survivors.p ? survivors.p : "");
    print_line(attempt, t.p ? t.p : "error: the launcher does not exit");
    lvn_text_release(&survivors);
    lvn_text_release(&t);
    attempt->forced = true;
    terminate_launcher(attempt);
}

/* Poll the server for a lost rank, and for the end of all ranks. */
static void poll_server(struct attempt *attempt)
{
    char text[1300];
    int rank;
    if (!attempt->server) return;
    if (lvn_server_phase(attempt->server) == LVN_SERVER_ENDED) check_launcher_ends(attempt);
    if (!attempt->fault && lvn_server_phase(attempt->server) == LVN_SERVER_FAULT) {
        attempt->fault = true;
        attempt->fault_at = lvn_seconds();
        snprintf(text, sizeof text, "error: %s", lvn_server_fault(attempt->server, &rank));
        if (!attempt->immediate) print_line(attempt, text);
        lvn_launch_logs_add(attempt->l->history.logs, rank < 0 ? 0 : rank, text);
    }
    if (attempt->fault && attempt->kill_at == 0 && lvn_seconds() - attempt->fault_at > FAULT_SECONDS)
        terminate_launcher(attempt);
}

/* Check whether rank 0 has begun the run. From then on a restart resumes the run, and logs of ranks are written to its
 * folder. With a server the folder is read only at the `end`, because its file system may be the cause of a hang. */
static void check_run_begun(struct attempt *attempt, bool end)
{
    if (attempt->run_begun) return;
    if (attempt->server) {
        attempt->run_begun = lvn_server_published(attempt->server);
        lvn_server_table(attempt->server, attempt->peer);
    }
    if ((!attempt->server || end) && !attempt->run_begun) attempt->run_begun = lvn_launch_run_begun(attempt->l, false);
    attempt->l->history.run_begun |= attempt->run_begun;
    if (attempt->run_begun || !attempt->l->request.training)
        lvn_launch_logs_open(attempt->l->history.logs, attempt->peer);
}

static void read_pipes(struct attempt *attempt, const struct pollfd *p)
{
    char text[65536];
    for (int i = 0; i < 2; i++) {
        if (attempt->pipe[i] < 0 || !p[i].revents) continue;
        ssize_t n = read(attempt->pipe[i], text, sizeof text);
        if (n < 0 && errno == EINTR) continue;
        lvn_launch_output_add(attempt->output, i, text, n > 0 ? n : 0);
        if (n > 0) continue;
        close(attempt->pipe[i]);
        attempt->pipe[i] = -1;
    }
}

/* Forward output and signals until the launcher has exited and its output is read. If its daemons keep the pipes open,
 * wait one second. */
static void watch(struct attempt *attempt)
{
    double exited_at = 0;
    attempt->started_at = lvn_seconds();
    while (!attempt->exited || attempt->pipe[0] >= 0 || attempt->pipe[1] >= 0) {
        struct pollfd p[2] = {{.fd = attempt->pipe[0], .events = POLLIN}, {.fd = attempt->pipe[1], .events = POLLIN}};
        handle_signals(attempt);
        poll_server(attempt);
        check_run_begun(attempt, false);
        int ready = lvn_launch_poll(p, 2, 0.1);
        if (ready > 0) read_pipes(attempt, p);
        if (!attempt->exited && waitpid(attempt->pid, &attempt->wait_status, WNOHANG) == attempt->pid) {
            attempt->exited = true;
            exited_at = lvn_seconds();
        }
        if (attempt->exited && ready == 0 && lvn_seconds() - exited_at > 1.0) break;
    }
    kill(-attempt->pid, SIGKILL); /* processes that a script left running */
    for (int i = 0; i < 2; i++) {
        if (attempt->pipe[i] < 0) continue;
        lvn_launch_output_add(attempt->output, i, NULL, 0);
        close(attempt->pipe[i]);
    }
    lvn_launch_output_clear(attempt->output);
}

/* A launcher may have killed all ranks before the server has detected which one was lost. If no rank has printed a
 * reason, wait briefly for the server's. */
static void wait_for_explanation(struct attempt *attempt)
{
    const struct timespec tick = {.tv_nsec = 20000000};
    bool failed = attempt->wait_status || lvn_launch_output_exit_code(attempt->output);
    if (!attempt->server || !failed || lvn_launch_output_explained(attempt->output) || attempt->immediate) return;
    for (double begin = lvn_seconds(); !attempt->fault && lvn_seconds() - begin < EXPLAIN_SECONDS;) {
        nanosleep(&tick, NULL);
        poll_server(attempt);
    }
}

/* Print why the attempt ended with this code, unless a rank has printed it. `reported`: the code from the ranks; 0:
 * none. */
static void explain(const struct attempt *attempt, int code, int reported)
{
    bool direct = attempt->l->launcher.kind == LVN_LAUNCHER_DIRECT,
         explained = lvn_launch_output_explained(attempt->output);
    bool finished = attempt->server && lvn_server_phase(attempt->server) == LVN_SERVER_ENDED;
    bool signalled = code > 128 && code < 128 + 65;
    const char *signal = signalled ? strsignal(code - 128) : "";
    if (reported || code == LVN_EXIT_USAGE || code == LVN_EXIT_STOPPED) { /* such ranks usually print a reason */
        if (!explained)
            fprintf(stderr, "error: %s ended with code %d, without giving a reason\n",
                    reported || direct ? "a rank" : attempt->l->launcher.title, reported ? reported : code);
    } else if (finished) {
        fprintf(stderr, "error: %s ended with code %d, because a process died after all ranks had finished\n",
                attempt->l->launcher.title, code);
    } else if (WIFSIGNALED(attempt->wait_status) && !direct) {
        fprintf(stderr, "error: %s was killed by signal %d (%s)\n", attempt->l->launcher.title, code - 128, signal);
    } else if (signalled) {
        fprintf(stderr, "error: a rank was killed by signal %d (%s)\n", code - 128, signal);
    } else if (!explained) {
        fprintf(stderr, "error: %s ended with code %d, and no rank reported why\n",
                direct ? "a rank" : attempt->l->launcher.title, code);
    }
}

/* The attempt's exit code. Unless it is 0, a rank, the server's poll or this function has printed a reason. */
static int exit_code(const struct attempt *attempt)
{
    int code =
        WIFEXITED(attempt->wait_status) ? WEXITSTATUS(attempt->wait_status) : 128 + WTERMSIG(attempt->wait_status);
    int reported = lvn_launch_output_exit_code(attempt->output);
    if (attempt->immediate) {
        int by = lvn_launch_signals_seen.interrupts ? SIGINT : SIGTERM;
        if (is_unread(attempt)) return 128 + SIGPIPE;
        fprintf(stderr, "terminated immediately by %s\n", by == SIGINT ? "SIGINT" : "SIGTERM");
        return 128 + by;
    }
    if (attempt->fault && (reported == LVN_EXIT_USAGE || reported == LVN_EXIT_FAILED)) return reported;
    if (attempt->fault) return lvn_server_fault_is_permanent(attempt->server) ? LVN_EXIT_FAILED : LVN_EXIT_FAULT;
    if (attempt->forced) return reported ? reported : LVN_EXIT_FAULT; /* a saved run (75) may be requeued */
    if (!reported && code == LVN_EXIT_DONE) return LVN_EXIT_DONE;
    if (reported == LVN_EXIT_STOPPED && code > 128 && !is_stopped(attempt))
        reported = 0; /* the launcher sent TERM because a rank was killed */
    explain(attempt, code, reported);
    if (reported) return reported;
    if (code == LVN_EXIT_USAGE || code == LVN_EXIT_STOPPED) return code;
    /* no rank could report why, or the launcher failed */
    return attempt->l->request.training ? LVN_EXIT_FAULT : LVN_EXIT_FAILED;
}

/* Fill in `result`; after a fault, kill surviving ranks and determine the host or link at fault. */
static void conclude(struct attempt *attempt, struct lvn_launch_result *result)
{
    struct lvn_launch *l = attempt->l;
    const struct lvn_launch_signal_counts *seen = &lvn_launch_signals_seen;
    *result = (struct lvn_launch_result){.code = exit_code(attempt),
                                         .stopped = is_stopped(attempt),
                                         .time_up = seen->timeups && !seen->interrupts && !seen->stops,
                                         .host = -1,
                                         .link = {-1, -1}};
    if (attempt->server) lvn_server_table(attempt->server, attempt->peer);
    check_run_begun(attempt, true);
    if (l->history.run_begun || !l->request.training || *l->c->flag[LVN_FLAG_launch_log_dir].t)
        lvn_launch_logs_open(l->history.logs, attempt->peer);
    if (result->code != LVN_EXIT_FAULT) return;
    if (attempt->server) end_survivors(attempt->l, attempt->peer, lvn_server_token(attempt->server));
    if (!attempt->fault) return;
    if (l->resources.in_slurm && !l->resources.n_hosts && lvn_launch_slurm_nodes(l)) lvn_error_clear();
    int rank, link[2];
    lvn_server_fault(attempt->server, &rank);
    if (lvn_server_fault_link(attempt->server, link)) {
        for (int i = 0; i < 2; i++) result->link[i] = host_of(l, &attempt->peer[link[i]]);
    } else {
        result->host = host_at_fault(l, attempt->peer, rank);
    }
    if (attempt->peer[0].state == LVN_PEER_LOST && !rank_is_here(&attempt->peer[0]))
        result->restart_not_before = attempt->fault_at + l->request.rank_timeout;
}

enum lvn_status lvn_launch_attempt(struct lvn_launch *l, struct lvn_launch_result *result)
{
    struct attempt attempt = {.l = l, .pipe = {-1, -1}};
    LVN_TRY(lvn_launch_output_new(&attempt.output, l));
    enum lvn_status status = start_server(&attempt);
    if (!status) status = start_launcher(&attempt);
    if (!status) {
        watch(&attempt);
        wait_for_explanation(&attempt);
        conclude(&attempt, result);
    }
    if (attempt.server) lvn_server_stop(attempt.server, 0);
    lvn_launch_logs_close(l->history.logs);
    lvn_launch_output_free(attempt.output);
    free(attempt.peer);
    return status;
}
