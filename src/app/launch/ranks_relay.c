/* ranks_relay.c - see ranks_relay.h. */
#include "launch/ranks_relay.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/files.h"
#include "cli/cli.h"
#include "cluster/rendezvous/wire.h"

void lvn_frame_add(struct lvn_text *t, enum lvn_frame_kind kind, const void *data, int64_t n)
{
    const unsigned char head[LVN_FRAME_HEAD] = {(unsigned char)kind, (unsigned char)(n >> 24), (unsigned char)(n >> 16),
                                                (unsigned char)(n >> 8), (unsigned char)n};
    lvn_text_add_bytes(t, head, sizeof head);
    lvn_text_add_bytes(t, data, n);
}

/* Read the head of a frame at p[0..n): the bytes of the whole frame; 0: more bytes are needed; -1: not a frame. */
static int64_t frame_bytes(const char *p, int64_t n)
{
    const unsigned char *head = (const unsigned char *)p;
    if (n < LVN_FRAME_HEAD) return 0;
    const int64_t data = (int64_t)head[1] << 24 | head[2] << 16 | head[3] << 8 | head[4];
    const bool known = head[0] == LVN_FRAME_STDOUT || head[0] == LVN_FRAME_STDERR || head[0] == LVN_FRAME_STOP ||
                       head[0] == LVN_FRAME_EXIT;
    return known && data <= LVN_FRAME_DATA ? LVN_FRAME_HEAD + data : -1;
}

struct relay {
    struct lvn_wire wire; /* to the node; its lines are not read */
    bool input_open;      /* standard input */
    struct lvn_text in;   /* from the node; an incomplete frame */
    int code;             /* from the last frame; -1: not received yet */
};

static void read_input(struct relay *relay)
{
    char text[1 << 16];
    ssize_t n = read(STDIN_FILENO, text, sizeof text);
    if (n < 0 && errno == EINTR) return;
    if (n > 0) lvn_text_add_bytes(&relay->wire.out, text, n);
    if (n <= 0) relay->input_open = false;
}

/* Send what is available. At the end of standard input shut down this direction, which terminates the ranks of the
 * node. */
static bool send_output(struct relay *relay)
{
    lvn_wire_flush(&relay->wire);
    if (!relay->wire.out.n && !relay->input_open) shutdown(relay->wire.fd, SHUT_WR);
    return !relay->wire.broken;
}

static bool handle_frame(struct relay *relay, const char *frame, int64_t bytes)
{
    const char *data = frame + LVN_FRAME_HEAD;
    char number[8] = "";
    bytes -= LVN_FRAME_HEAD;
    switch ((enum lvn_frame_kind)frame[0]) {
    case LVN_FRAME_STDOUT:
    case LVN_FRAME_STDERR:
        return lvn_fd_write(frame[0] == LVN_FRAME_STDOUT ? STDOUT_FILENO : STDERR_FILENO, data, bytes);
    case LVN_FRAME_STOP:
        return lvn_fd_write(STDERR_FILENO, LVN_RELAY_STOP "\n", sizeof LVN_RELAY_STOP);
    case LVN_FRAME_EXIT:
        if (bytes >= (int64_t)sizeof number) return false;
        memcpy(number, data, (size_t)bytes);
        relay->code = (int)strtol(number, NULL, 10) & 255;
        return true;
    }
    return false;
}

/* False: the connection has ended, or sent an invalid frame. */
static bool read_frames(struct relay *relay)
{
    char text[1 << 16];
    ssize_t n = recv(relay->wire.fd, text, sizeof text, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n <= 0) return false;
    lvn_text_add_bytes(&relay->in, text, n);
    int64_t at = 0, bytes = 0;
    while (relay->code < 0 && (bytes = frame_bytes(relay->in.p + at, relay->in.n - at)) > 0 &&
           at + bytes <= relay->in.n) {
        if (!handle_frame(relay, relay->in.p + at, bytes)) return false;
        at += bytes;
    }
    if (bytes < 0 || lvn_text_status(&relay->in)) return false;
    memmove(relay->in.p, relay->in.p + at, (size_t)(relay->in.n - at));
    relay->in.n -= at;
    return true;
}

int lvn_ranks_relay(int connection)
{
    struct relay relay = {.wire = {.fd = connection}, .input_open = true, .code = -1};
    bool open = true;
    /* Slurm sends a signal to all processes of a step. The relay must carry those of ranks, and ends with its input. */
    static const int ignored[] = {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
    while (open && relay.code < 0) {
        struct pollfd p[2] = {
            {.fd = relay.input_open && relay.wire.out.n < LVN_FRAME_DATA ? STDIN_FILENO : -1, .events = POLLIN},
            {.fd = connection, .events = (short)(POLLIN | (relay.wire.out.n ? POLLOUT : 0))}};
        if (poll(p, 2, -1) < 0 && errno != EINTR) break;
        if (p[0].fd >= 0 && p[0].revents) read_input(&relay);
        if (p[1].revents & POLLERR) open = false;
        open = open && send_output(&relay);
        if (p[1].revents & (POLLIN | POLLHUP)) open = read_frames(&relay) && open;
    }
    lvn_wire_close(&relay.wire);
    lvn_text_release(&relay.in);
    return relay.code < 0 ? LVN_EXIT_FAULT : relay.code; /* without a code the node is lost */
}
