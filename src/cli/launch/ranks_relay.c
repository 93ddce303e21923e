/* ranks_relay.c - see ranks_relay.h. */
#include "cli/launch/ranks_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/files.h"
#include "cli/cli.h"

void lvn_frame_add(struct lvn_text *t, enum lvn_frame_kind kind, const void *data, int64_t n)
{
    const unsigned char head[LVN_FRAME_HEAD] = {(unsigned char)kind, (unsigned char)(n >> 24), (unsigned char)(n >> 16),
                                                (unsigned char)(n >> 8), (unsigned char)n};
    lvn_text_add_bytes(t, head, sizeof head);
    lvn_text_add_bytes(t, data, n);
}

/* Read the head of a frame at p[0..n): the bytes of the whole frame; 0: more bytes are needed; -1: it is none. */
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
    int connection;
    bool input_open;     /* standard input */
    struct lvn_text out; /* of standard input, for the node */
    int64_t sent;        /* bytes of these */
    struct lvn_text in;  /* of the node, up to a frame that is not whole */
    int code;            /* from the last frame; -1: not yet */
};

static void read_input(struct relay *r)
{
    char text[1 << 16];
    ssize_t n = read(STDIN_FILENO, text, sizeof text);
    if (n < 0 && errno == EINTR) return;
    if (n > 0) lvn_text_add_bytes(&r->out, text, n);
    if (n <= 0) r->input_open = false;
}

/* Send what there is; at the end of standard input end that direction, which ends the ranks of the node. */
static bool send_output(struct relay *r)
{
    while (r->sent < r->out.n) {
        ssize_t n = send(r->connection, r->out.p + r->sent, (size_t)(r->out.n - r->sent), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN;
        r->sent += n;
    }
    lvn_text_clear(&r->out);
    r->sent = 0;
    if (!r->input_open) shutdown(r->connection, SHUT_WR);
    return true;
}

static bool handle_frame(struct relay *r, const char *frame, int64_t bytes)
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
        r->code = (int)strtol(number, NULL, 10) & 255;
        return true;
    }
    return false;
}

/* False: the connection has ended, or brings what is no frame. */
static bool read_frames(struct relay *r)
{
    char text[1 << 16];
    ssize_t n = recv(r->connection, text, sizeof text, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n <= 0) return false;
    lvn_text_add_bytes(&r->in, text, n);
    int64_t at = 0, bytes = 0;
    while (r->code < 0 && (bytes = frame_bytes(r->in.p + at, r->in.n - at)) > 0 && at + bytes <= r->in.n) {
        if (!handle_frame(r, r->in.p + at, bytes)) return false;
        at += bytes;
    }
    if (bytes < 0 || lvn_text_status(&r->in)) return false;
    memmove(r->in.p, r->in.p + at, (size_t)(r->in.n - at));
    r->in.n -= at;
    return true;
}

int lvn_ranks_relay(int connection)
{
    struct relay r = {.connection = connection, .input_open = true, .code = -1};
    bool open = true;
    signal(SIGPIPE, SIG_IGN);
    while (open && r.code < 0) {
        struct pollfd p[2] = {{.fd = r.input_open && r.out.n < LVN_FRAME_DATA ? STDIN_FILENO : -1, .events = POLLIN},
                              {.fd = connection, .events = (short)(POLLIN | (r.out.n ? POLLOUT : 0))}};
        if (poll(p, 2, -1) < 0 && errno != EINTR) break;
        if (p[0].fd >= 0 && p[0].revents) read_input(&r);
        if (p[1].revents & POLLERR) open = false;
        open = open && send_output(&r);
        if (p[1].revents & (POLLIN | POLLHUP)) open = read_frames(&r) && open;
    }
    close(connection);
    lvn_text_release(&r.in);
    lvn_text_release(&r.out);
    return r.code < 0 ? LVN_EXIT_FAULT : r.code; /* without a code the node is lost */
}
