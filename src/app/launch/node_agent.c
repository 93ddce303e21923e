/* node_agent.c - levin launch on a node other than node 0: it joins node 0's launcher (nodes.h), starts ranks when node
 * 0 requests it, joins again after each attempt, and exits with node 0's exit code. launch.c calls it.
 *
 * It waits for node 0 for trainer.start_timeout, at the start and whenever node 0 is gone without having sent the end.
 * Names are resolved again each time, because node 0 may restart with another address. Node 0 does not restart after it
 * has ended the run, which the run's folder records. A node that is requested to stop joins again, to receive the
 * exit code. It runs its own command, never one that it receives. */
#include "launch/node_agent.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <resolv.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "cluster/rendezvous/endpoints.h"
#include "cluster/rendezvous/wire.h"
#include "launch/node_handshake.h"
#include "launch/ranks_relay.h"

static const double FIRST_REPORT_SECONDS = 5, REPORT_SECONDS = 60; /* between lines about waiting for node 0 */
static const double TRY_SECONDS = 5, PAUSE_SECONDS = 0.2, ANSWER_SECONDS = 10;
static const double FINISH_SECONDS = 5; /* for node 0 to send FINISH to a node that has stopped */

struct agent {
    struct lvn_launch *l;
    const char *token;    /* LEVIN_TOKEN; "": none */
    const char *name_0;   /* of node 0, for messages */
    const char *address;  /* of node 0, "HOST:PORT" */
    struct lvn_wire wire; /* the connection */
    char wrong_peer[300]; /* why a process that answered is not node 0 of this job; "": none was wrong */
    bool stopping;        /* node 0 was notified that this node is requested to stop */
    double finish_until;  /* lvn_seconds() until which this node then waits for FINISH */
};

enum outcome {
    AGAIN,    /* no connection, or it was lost: try again */
    STARTED,  /* START was received */
    FINISHED, /* FINISH was received, or node 0 has refused this node */
};

static void close_connection(struct agent *agent)
{
    lvn_wire_close(&agent->wire);
    agent->wire = (struct lvn_wire){.fd = -1};
}

/* True if a signal requested the end and this node no longer waits for node 0's answer. */
static bool must_end(const struct agent *agent)
{
    return lvn_launch_stop_requested() &&
           (lvn_seconds() >= agent->finish_until || lvn_launch_signals_seen.interrupts > 1);
}

/* One attempt to connect to node 0; false: `reason` has the cause. */
static bool connect_once(struct agent *agent, char reason[300])
{
    struct lvn_connection_attempt attempt;
    enum lvn_connect_state state;
    bool ready = false;
    lvn_connect_begin(&attempt, agent->address, 0, 0);
    attempt.end = lvn_seconds() + TRY_SECONDS; /* of one attempt; this function is called again */
    while ((state = lvn_connect_step(&attempt, ready, lvn_seconds())) == LVN_CONNECT_PENDING && attempt.fd >= 0) {
        struct pollfd p = {.fd = attempt.fd, .events = POLLOUT};
        ready = lvn_launch_poll(&p, 1, attempt.until - lvn_seconds()) > 0;
        if (must_end(agent)) break;
    }
    if (state == LVN_CONNECT_DONE) {
        agent->wire.fd = attempt.fd;
        attempt.fd = -1;
        lvn_node_keep_alive(agent->wire.fd, agent->l->request.rank_timeout);
    } else {
        snprintf(reason, 300, "%s", attempt.reason);
    }
    lvn_connect_end(&attempt);
    return agent->wire.fd >= 0;
}

/* Receive the next message within `seconds`; false: none, and *ended if the connection has ended. */
static bool receive(struct agent *agent, double seconds, struct lvn_message *message, bool *ended)
{
    const double end = lvn_seconds() + seconds;
    *ended = false;
    for (bool open = true;;) {
        char *line = lvn_wire_line(&agent->wire);
        if (line && lvn_message_parse(line, message)) return true;
        if (line || !open || agent->wire.broken) {
            *ended = true;
            return false;
        }
        if (must_end(agent) || lvn_seconds() >= end) return false;
        struct pollfd p = {.fd = agent->wire.fd, .events = (short)(POLLIN | (agent->wire.out.n ? POLLOUT : 0))};
        if (lvn_launch_poll(&p, 1, end - lvn_seconds()) <= 0) continue;
        lvn_wire_flush(&agent->wire);
        if (p.revents & (POLLIN | POLLHUP | POLLERR)) open = lvn_wire_read(&agent->wire);
    }
}

/* Prove that this is a launcher of the job, verify that the other side is too, and send the index of this node. */
static bool join(struct agent *agent, char reason[300])
{
    const struct lvn_launch_place *place = &agent->l->place;
    const struct lvn_words *keys = &agent->l->request.keys;
    char nonce[LVN_NODE_NONCE], proof[LVN_NODE_PROOF], host[256] = "";
    struct lvn_message message;
    bool ended;
    snprintf(reason, 300, "%s", "no random bytes are available");
    if (lvn_node_nonce(nonce)) return false;
    lvn_message_add(&agent->wire.out, LVN_MESSAGE_NODE, nonce);
    lvn_wire_flush(&agent->wire);
    snprintf(reason, 300, "%s", "another program answers there");
    if (!receive(agent, ANSWER_SECONDS, &message, &ended) || message.kind != LVN_MESSAGE_CHALLENGE) return false;
    snprintf(reason, 300, "%s", "a levin launch with another LEVIN_TOKEN or LEVIN_JOB_ID answers there");
    lvn_node_proof(agent->token, "node 0", message.t[0], nonce, proof);
    if (!lvn_node_proof_equal(proof, message.t[1])) return false;
    gethostname(host, sizeof host - 1);
    lvn_node_proof(agent->token, "node", message.t[0], nonce, proof);
    lvn_message_add(&agent->wire.out, LVN_MESSAGE_JOIN, proof, (int64_t)place->node, (int64_t)place->nodes,
                    (int64_t)place->ranks, lvn_wall_seconds(), host);
    for (int i = 0; i + 1 < keys->n; i += 2)
        lvn_message_add(&agent->wire.out, LVN_MESSAGE_FACT, keys->word[i], keys->word[i + 1]);
    lvn_message_add(&agent->wire.out, LVN_MESSAGE_READY);
    lvn_wire_flush(&agent->wire);
    return true;
}

/* Joined: wait for messages of node 0. This needs no time limit, because node 0 has one. */
static enum outcome await_start(struct agent *agent, int *code, char reason[300])
{
    struct lvn_message message;
    bool ended = false;
    snprintf(reason, 300, "%s", "it closed the connection");
    while (!ended && !must_end(agent)) {
        if (!receive(agent, agent->stopping ? PAUSE_SECONDS : REPORT_SECONDS, &message, &ended)) continue;
        switch (message.kind) {
        case LVN_MESSAGE_PING:
            lvn_message_add(&agent->wire.out, LVN_MESSAGE_PONG);
            lvn_wire_flush(&agent->wire);
            break;
        case LVN_MESSAGE_START:
            return STARTED;
        case LVN_MESSAGE_FINISH:
            *code = (int)message.i[0];
            if (*code != LVN_EXIT_DONE && *code != LVN_EXIT_STOPPED)
                fprintf(stderr, "%s has ended the job with exit code %d: see its output for the reason\n",
                        agent->name_0, *code);
            return FINISHED;
        case LVN_MESSAGE_REFUSE:
            fprintf(stderr, "error: %s rejects this node: %s\n", agent->name_0, message.t[0]);
            *code = LVN_EXIT_USAGE;
            return FINISHED;
        default:
            return AGAIN;
        }
    }
    return AGAIN;
}

/* One connection to node 0, up to START or the end. *since: when node 0 was last heard from, or the start of the wait.
 */
static enum outcome meet(struct agent *agent, double *since, double *next_report, int *code)
{
    char reason[300] = "";
    enum outcome outcome = AGAIN;
    const bool connected = connect_once(agent, reason), joined = connected && join(agent, reason);
    if (connected) snprintf(agent->wrong_peer, sizeof agent->wrong_peer, "%s", joined ? "" : reason);
    if (joined) {
        outcome = await_start(agent, code, reason);
        *since = lvn_seconds();
        *next_report = *since + FIRST_REPORT_SECONDS;
    }
    if (outcome != AGAIN || must_end(agent)) return outcome;
    close_connection(agent);
    const double now = lvn_seconds();
    if (now - *since > agent->l->request.start_timeout) {
        fprintf(stderr,
                "error: %s could not be reached at %s for %.6g s (%s); check that it runs and that MASTER_ADDR and "
                "MASTER_PORT are its address, or raise trainer.start_timeout\n",
                agent->name_0, agent->address, agent->l->request.start_timeout,
                *agent->wrong_peer ? agent->wrong_peer : reason);
        *code = LVN_EXIT_FAULT;
        return FINISHED;
    }
    if (now >= *next_report) {
        if (lvn_launch_run_ended(agent->l)) {
            fprintf(stderr, "this job has already ended its run: nothing to do\n");
            *code = LVN_EXIT_DONE;
            return FINISHED;
        }
        fprintf(stderr, "waiting for %s at %s (%s)\n", agent->name_0, agent->address, reason);
        *next_report = now + REPORT_SECONDS;
    }
    (void)lvn_launch_poll(NULL, 0, PAUSE_SECONDS);
    return AGAIN;
}

/* Limit the time of lost DNS requests to one second instead of five, and that of an unavailable DNS server to a few
 * seconds per search domain, because signals are not handled meanwhile. */
static void shorten_dns_timeouts(void)
{
#ifdef __GLIBC__
    if (res_init()) return;
    _res.retrans = 1;
    _res.retry = 2;
#endif
}

/* --- one attempt: `levin ranks --part` with this node's command ---
 *
 * Request and signals are forwarded to it, its output in frames to node 0 (ranks_relay.h). A signal to this process is
 * not forwarded to the ranks: it requests that node 0 stop the whole job, which then signals all ranks. A second INT
 * terminates the ranks immediately. When the connection ends, so do the ranks. */

static const double LAST_SECONDS = 5; /* for node 0 to close the connection after the exit code */
enum { OUT_BYTES = 1 << 20 };         /* maximum unsent output; above, the pipes are not read */

struct part {
    struct agent *agent;
    pid_t pid;
    int control; /* its stdin; -1: closed */
    int pipe[2]; /* its stdout and stderr; -1: at end of file */
    bool exited;
    double exited_at;
};

/* Execute the command in the child process. Between fork and exec it must not lock or allocate. */
static void start_child(char *const *words, char *const *environment, const int pipes[3], pid_t parent)
{
    sigset_t none;
    setpgid(0, 0); /* an interrupt from the terminal must reach only the launcher */
    sigemptyset(&none);
    for (int i = 1; i < 32; i++) signal(i, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the ranks do the same: TERM would stop those of all nodes */
    if (getppid() != parent) _exit(127);
    for (int i = 0; i < 3; i++) dup2(pipes[i], i);
    execve(words[0], words, environment);
    _exit(127);
}

static enum lvn_status start_part(struct part *part)
{
    struct lvn_launch *l = part->agent->l;
    struct lvn_words environment = {.arena = l->arena};
    enum { IN, OUT, ERR, N_PIPES };
    int pipes[N_PIPES][2];
    LVN_TRY(lvn_launch_build_command(l));
    LVN_TRY(lvn_launch_environment(l, &environment));
    LVN_TRY(lvn_process_pipes(pipes, N_PIPES));
    const pid_t parent = getpid();
    fflush(NULL);
    part->pid = fork();
    if (part->pid == 0)
        start_child(l->attempt.line.word, environment.word, (int[3]){pipes[IN][0], pipes[OUT][1], pipes[ERR][1]},
                    parent);
    const int reason = errno;
    close(pipes[IN][0]);
    close(pipes[OUT][1]);
    close(pipes[ERR][1]);
    part->control = pipes[IN][1];
    part->pipe[0] = pipes[OUT][0];
    part->pipe[1] = pipes[ERR][0];
    LVN_CHECK(part->pid > 0, IO, "cannot create a process for the ranks of this node: %s", strerror(reason));
    return LVN_OK;
}

static void end_part(struct part *part)
{
    if (part->control >= 0) close(part->control); /* levin ranks then terminates its ranks */
    part->control = -1;
}

static void write_control(struct part *part, const char *bytes, int64_t n)
{
    if (part->control >= 0 && n > 0 && !lvn_fd_write(part->control, bytes, n)) end_part(part);
}

/* Bytes that arrived after START. */
static void write_leftover(struct part *part)
{
    struct lvn_wire *wire = &part->agent->wire;
    write_control(part, wire->in + wire->taken, wire->used - wire->taken);
    wire->taken = wire->used = 0;
}

static void read_connection(struct part *part)
{
    char bytes[1 << 16];
    ssize_t n = recv(part->agent->wire.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n > 0) {
        write_control(part, bytes, n);
        return;
    }
    if (n < 0) part->agent->wire.broken = true;
    end_part(part); /* node 0 terminates the ranks, or is gone */
}

static void read_pipe(struct part *part, int i)
{
    char bytes[LVN_FRAME_DATA];
    ssize_t n = read(part->pipe[i], bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) return;
    if (n > 0) {
        lvn_frame_add(&part->agent->wire.out, i ? LVN_FRAME_STDERR : LVN_FRAME_STDOUT, bytes, n);
        return;
    }
    close(part->pipe[i]);
    part->pipe[i] = -1;
}

static void send_frames(struct part *part)
{
    struct lvn_wire *wire = &part->agent->wire;
    lvn_wire_flush(wire);
    if (!wire->broken) return;
    end_part(part);
    lvn_text_clear(&wire->out); /* the pipes are read until the ranks have ended */
    wire->sent = 0;
}

static void handle_signals(struct part *part)
{
    if (lvn_launch_stop_requested() && !part->agent->stopping) {
        fprintf(stderr, "stop requested: the whole job saves and stops\n");
        lvn_frame_add(&part->agent->wire.out, LVN_FRAME_STOP, "", 0);
        part->agent->stopping = true;
    }
    if (lvn_launch_signals_seen.interrupts > 1) end_part(part);
}

static void reap(struct part *part)
{
    int status;
    char code[8];
    if (part->exited || part->pipe[0] >= 0 || part->pipe[1] >= 0 || waitpid(part->pid, &status, WNOHANG) != part->pid)
        return;
    part->exited = true;
    part->exited_at = lvn_seconds();
    const int n = snprintf(code, sizeof code, "%d", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    lvn_frame_add(&part->agent->wire.out, LVN_FRAME_EXIT, code, n);
}

static void watch(struct part *part)
{
    const struct lvn_wire *wire = &part->agent->wire;
    bool open = true;
    while (!part->exited || (open && !wire->broken && lvn_seconds() - part->exited_at < LAST_SECONDS)) {
        const bool read_on = wire->out.n < OUT_BYTES;
        const short events = (short)((part->control >= 0 || part->exited ? POLLIN : 0) | (wire->out.n ? POLLOUT : 0));
        struct pollfd f[3] = {{.fd = read_on ? part->pipe[0] : -1, .events = POLLIN},
                              {.fd = read_on ? part->pipe[1] : -1, .events = POLLIN},
                              {.fd = wire->broken || !events ? -1 : wire->fd, .events = events}};
        const int ready = lvn_launch_poll(f, 3, 0.1);
        handle_signals(part);
        for (int i = 0; i < 2 && ready > 0; i++)
            if (f[i].fd >= 0 && f[i].revents) read_pipe(part, i);
        reap(part);
        send_frames(part);
        if (ready <= 0 || !(f[2].revents & (POLLIN | POLLHUP | POLLERR))) continue;
        if (!part->exited)
            read_connection(part);
        else
            open = false; /* the relay has read the exit code and exited */
    }
}

/* START was received: start the ranks of this node, and forward orders, signals and output until they and the
 * connection have ended. */
static enum lvn_status run_attempt(struct agent *agent)
{
    struct part part = {.agent = agent, .control = -1, .pipe = {-1, -1}};
    LVN_TRY(start_part(&part));
    write_leftover(&part);
    watch(&part);
    end_part(&part);
    return LVN_OK;
}

static enum lvn_status run(struct agent *agent, int *code)
{
    double since = lvn_seconds(), next_report = since + FIRST_REPORT_SECONDS;
    for (;;) {
        const enum outcome outcome = meet(agent, &since, &next_report, code);
        if (outcome == FINISHED) return LVN_OK;
        if (outcome == STARTED) {
            enum lvn_status status = run_attempt(agent);
            close_connection(agent);
            LVN_TRY(status);
            since = lvn_seconds();
            next_report = since + FIRST_REPORT_SECONDS;
            agent->finish_until = agent->stopping ? since + FINISH_SECONDS : 0;
        } else if (must_end(agent)) {
            fprintf(stderr, "stopped on request while this node waited for %s\n", agent->name_0);
            *code = LVN_EXIT_STOPPED;
            return LVN_OK;
        }
    }
}

enum lvn_status lvn_node_agent_run(struct lvn_launch *l, int *code)
{
    const struct lvn_launch_place *place = &l->place;
    struct agent agent = {.l = l, .wire = {.fd = -1}};
    const bool six = strchr(place->master, ':') != NULL;
    agent.name_0 = l->resources.hosts[0].name;
    agent.address = lvn_arena_printf(l->arena, six ? "[%s]:%d" : "%s:%d", place->master, place->port);
    if (!agent.address) return LVN_MEMORY;
    LVN_TRY(lvn_node_token(&agent.token));
    shorten_dns_timeouts();
    lvn_launch_signals(true);
    enum lvn_status status = run(&agent, code);
    close_connection(&agent);
    lvn_launch_signals(false);
    return status;
}
