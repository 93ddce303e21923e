/* node_agent_attempt.c - one attempt on a node other than node 0: starts `levin ranks --part` with this node's command,
 * and carries between it and node 0: orders and signals there, output in frames back (ranks_relay.h). node_agent.c
 * calls it.
 *
 * A signal here is no signal for the ranks: it asks node 0 to stop the whole job, which then comes as a signal for all
 * ranks. A second INT ends the ranks at once. When the connection ends, so do the ranks. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "cli/launch/node_agent.h"
#include "cli/launch/ranks_relay.h"

static const double LAST_SECONDS = 5; /* for node 0 to close the connection after the exit code */
enum { OUT_BYTES = 1 << 20 };         /* output that is not sent: then no more is read */

struct part {
    struct lvn_node_agent *a;
    pid_t pid;
    int control; /* its stdin; -1: closed */
    int pipe[2]; /* its stdout and stderr; -1: at end of file */
    bool exited;
    bool lost;           /* the connection has ended */
    struct lvn_text out; /* frames for node 0 */
    int64_t sent;        /* bytes of these */
    double exited_at;
};

/* Between fork and exec: no locks, no memory. */
static void start_child(char *const *words, char *const *environment, const int pipes[3], pid_t parent)
{
    sigset_t none;
    setpgid(0, 0); /* an interrupt of the terminal is for the launcher alone */
    sigemptyset(&none);
    for (int i = 1; i < 32; i++) signal(i, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* and so do the ranks: TERM would stop those of all nodes */
    if (getppid() != parent) _exit(127);
    for (int i = 0; i < 3; i++) dup2(pipes[i], i);
    execve(words[0], words, environment);
    _exit(127);
}

static enum lvn_status start_part(struct part *p)
{
    struct lvn_launch *l = p->a->l;
    struct lvn_words environment = {.arena = l->arena};
    int in[2], out[2], err[2];
    LVN_TRY(lvn_launch_build_command(l));
    LVN_TRY(lvn_launch_environment(l, &environment));
    LVN_CHECK(!pipe2(in, O_CLOEXEC), IO, "no pipe: %s", strerror(errno));
    LVN_CHECK(!pipe2(out, O_CLOEXEC), IO, "no pipe: %s", strerror(errno));
    LVN_CHECK(!pipe2(err, O_CLOEXEC), IO, "no pipe: %s", strerror(errno));
    const pid_t parent = getpid();
    fflush(NULL);
    p->pid = fork();
    if (p->pid == 0) start_child(l->attempt.line.word, environment.word, (int[3]){in[0], out[1], err[1]}, parent);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    p->control = in[1];
    p->pipe[0] = out[0];
    p->pipe[1] = err[0];
    LVN_CHECK(p->pid > 0, IO, "no process for the ranks of this node: %s", strerror(errno));
    return LVN_OK;
}

static void end_part(struct part *p)
{
    if (p->control >= 0) close(p->control); /* levin ranks ends its ranks then */
    p->control = -1;
}

static void write_control(struct part *p, const char *bytes, int64_t n)
{
    if (p->control >= 0 && n > 0 && !lvn_fd_write(p->control, bytes, n)) end_part(p);
}

/* Bytes that came behind START. */
static void write_leftover(struct part *p)
{
    struct lvn_wire *w = &p->a->wire;
    write_control(p, w->in + w->taken, w->used - w->taken);
    w->taken = w->used = 0;
}

static void read_connection(struct part *p)
{
    char bytes[1 << 16];
    ssize_t n = recv(p->a->wire.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n > 0) {
        write_control(p, bytes, n);
        return;
    }
    if (n < 0) p->lost = true;
    end_part(p); /* node 0 ends the ranks, or is gone */
}

static void read_pipe(struct part *p, int i)
{
    char bytes[LVN_FRAME_DATA];
    ssize_t n = read(p->pipe[i], bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) return;
    if (n > 0) {
        lvn_frame_add(&p->out, i ? LVN_FRAME_STDERR : LVN_FRAME_STDOUT, bytes, n);
        return;
    }
    close(p->pipe[i]);
    p->pipe[i] = -1;
}

static void send_frames(struct part *p)
{
    while (!p->lost && p->sent < p->out.n) {
        ssize_t n = send(p->a->wire.fd, p->out.p + p->sent, (size_t)(p->out.n - p->sent), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) p->lost = true;
        if (n > 0) p->sent += n;
    }
    if (p->lost) end_part(p);
    lvn_text_clear(&p->out);
    p->sent = 0;
}

static void handle_signals(struct part *p)
{
    if (lvn_launch_stop_requested() && !p->a->stopping) {
        fprintf(stderr, "asked to stop: the whole job saves and stops\n");
        lvn_frame_add(&p->out, LVN_FRAME_STOP, "", 0);
        p->a->stopping = true;
    }
    if (lvn_launch_signals_seen.interrupts > 1) end_part(p);
}

static void reap(struct part *p)
{
    int status;
    char code[8];
    if (p->exited || p->pipe[0] >= 0 || p->pipe[1] >= 0 || waitpid(p->pid, &status, WNOHANG) != p->pid) return;
    p->exited = true;
    p->exited_at = lvn_seconds();
    const int n = snprintf(code, sizeof code, "%d", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    lvn_frame_add(&p->out, LVN_FRAME_EXIT, code, n);
}

static void watch(struct part *p)
{
    bool open = true;
    while (!p->exited || (open && !p->lost && lvn_seconds() - p->exited_at < LAST_SECONDS)) {
        const bool read_on = p->out.n < OUT_BYTES;
        const short events = (short)((p->control >= 0 || p->exited ? POLLIN : 0) | (p->out.n ? POLLOUT : 0));
        struct pollfd f[3] = {{.fd = read_on ? p->pipe[0] : -1, .events = POLLIN},
                              {.fd = read_on ? p->pipe[1] : -1, .events = POLLIN},
                              {.fd = p->lost || !events ? -1 : p->a->wire.fd, .events = events}};
        const int ready = lvn_launch_poll(f, 3, 0.1);
        handle_signals(p);
        for (int i = 0; i < 2 && ready > 0; i++)
            if (f[i].fd >= 0 && f[i].revents) read_pipe(p, i);
        reap(p);
        send_frames(p);
        if (ready <= 0 || !(f[2].revents & (POLLIN | POLLHUP | POLLERR))) continue;
        if (!p->exited)
            read_connection(p);
        else
            open = false; /* the relay has read the exit code and is gone */
    }
}

enum lvn_status lvn_node_agent_attempt(struct lvn_node_agent *a)
{
    struct part p = {.a = a, .control = -1, .pipe = {-1, -1}};
    LVN_TRY(start_part(&p));
    write_leftover(&p);
    watch(&p);
    end_part(&p);
    lvn_text_release(&p.out);
    return LVN_OK;
}
