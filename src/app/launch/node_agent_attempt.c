/* node_agent_attempt.c - one attempt on a node other than node 0: starts `levin ranks --part` with this node's command,
 * and forwards between it and node 0: request and signals to it, output in frames back (ranks_relay.h). node_agent.c
 * calls it.
 *
 * A signal is not forwarded to the ranks: it requests that node 0 stop the whole job, which then signals all ranks. A
 * second INT terminates the ranks immediately. When the connection ends, so do the ranks. */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "launch/node_agent.h"
#include "launch/ranks_relay.h"

static const double LAST_SECONDS = 5; /* for node 0 to close the connection after the exit code */
enum { OUT_BYTES = 1 << 20 };         /* maximum unsent output; above, the pipes are not read */

struct part {
    struct lvn_node_agent *agent;
    pid_t pid;
    int control; /* its stdin; -1: closed */
    int pipe[2]; /* its stdout and stderr; -1: at end of file */
    bool exited;
    bool lost;           /* the connection has ended */
    struct lvn_text out; /* frames for node 0 */
    int64_t sent;        /* bytes of `out` that are sent */
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
    if (n < 0) part->lost = true;
    end_part(part); /* node 0 terminates the ranks, or is gone */
}

static void read_pipe(struct part *part, int i)
{
    char bytes[LVN_FRAME_DATA];
    ssize_t n = read(part->pipe[i], bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) return;
    if (n > 0) {
        lvn_frame_add(&part->out, i ? LVN_FRAME_STDERR : LVN_FRAME_STDOUT, bytes, n);
        return;
    }
    close(part->pipe[i]);
    part->pipe[i] = -1;
}

static void send_frames(struct part *part)
{
    while (!part->lost && part->sent < part->out.n) {
        ssize_t n = send(part->agent->wire.fd, part->out.p + part->sent, (size_t)(part->out.n - part->sent),
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) part->lost = true;
        if (n > 0) part->sent += n;
    }
    if (part->lost) end_part(part);
    lvn_text_clear(&part->out);
    part->sent = 0;
}

static void handle_signals(struct part *part)
{
    if (lvn_launch_stop_requested() && !part->agent->stopping) {
        fprintf(stderr, "stop requested: the whole job saves and stops\n");
        lvn_frame_add(&part->out, LVN_FRAME_STOP, "", 0);
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
    lvn_frame_add(&part->out, LVN_FRAME_EXIT, code, n);
}

static void watch(struct part *part)
{
    bool open = true;
    while (!part->exited || (open && !part->lost && lvn_seconds() - part->exited_at < LAST_SECONDS)) {
        const bool read_on = part->out.n < OUT_BYTES;
        const short events = (short)((part->control >= 0 || part->exited ? POLLIN : 0) | (part->out.n ? POLLOUT : 0));
        struct pollfd f[3] = {{.fd = read_on ? part->pipe[0] : -1, .events = POLLIN},
                              {.fd = read_on ? part->pipe[1] : -1, .events = POLLIN},
                              {.fd = part->lost || !events ? -1 : part->agent->wire.fd, .events = events}};
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

enum lvn_status lvn_node_agent_attempt(struct lvn_node_agent *agent)
{
    struct part part = {.agent = agent, .control = -1, .pipe = {-1, -1}};
    LVN_TRY(start_part(&part));
    write_leftover(&part);
    watch(&part);
    end_part(&part);
    lvn_text_release(&part.out);
    return LVN_OK;
}
