/* delay.c - adds latency to a link: forwards every frame of one network interface to another, and back, after a delay.
 * Used by bench/links.bash.
 *
 *     delay INTERFACE INTERFACE MILLISECONDS
 *
 * For kernels whose `tc` has no netem. Each direction has a ring, in which frames wait in order of arrival; a frame
 * that finds the ring full is dropped, as in a switch. Frames keep the virtio-net header (segmentation, checksum
 * offload; PACKET_VNET_HDR, packet(7)), so large frames are not split. Runs until it is killed. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES = 4096, FRAME_BYTES = 66000, AT_ONCE = 64, SOCKET_BYTES = 32 << 20 };

struct frame {
    double due;
    ssize_t bytes;
    char data[FRAME_BYTES];
};
struct direction {
    int from, to;
    struct frame *ring; /* [FRAMES] */
    unsigned first, end;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int open_interface(const char *name)
{
    const int one = 1, bytes = SOCKET_BYTES;
    int s = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
    struct sockaddr_ll at = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(name)};
    struct packet_mreq all = {.mr_ifindex = at.sll_ifindex, .mr_type = PACKET_MR_PROMISC};
    bool good = s >= 0 && at.sll_ifindex && !setsockopt(s, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) &&
                !setsockopt(s, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) &&
                !setsockopt(s, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) &&
                !bind(s, (struct sockaddr *)&at, sizeof at);
    if (!good) {
        fprintf(stderr, "delay: %s: %s\n", name, strerror(errno));
        exit(1);
    }
    (void)setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    (void)setsockopt(s, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
    return s;
}

static void receive_frames(struct direction *w, double delay)
{
    double due = now() + delay;
    for (int i = 0; i < AT_ONCE; i++) {
        struct frame *f = &w->ring[w->end % FRAMES];
        char discarded[1];
        bool full = w->end - w->first == FRAMES;
        ssize_t n = recv(w->from, full ? discarded : f->data, full ? sizeof discarded : FRAME_BYTES, 0);
        if (n <= 0) return;
        if (full) continue;
        f->bytes = n;
        f->due = due;
        w->end++;
    }
}

/* Send the frames that are due; returns when the next one is. */
static double send_due_frames(struct direction *w)
{
    while (w->first != w->end) {
        const struct frame *f = &w->ring[w->first % FRAMES];
        double t = now();
        if (f->due > t) return f->due;
        if (send(w->to, f->data, (size_t)f->bytes, 0) < 0 && (errno == EAGAIN || errno == ENOBUFS)) return t + 1e-4;
        w->first++;
    }
    return now() + 1;
}

int main(int argc, char **argv)
{
    if (argc != 4) return fprintf(stderr, "usage: delay INTERFACE INTERFACE MILLISECONDS\n"), 2;
    int a = open_interface(argv[1]), b = open_interface(argv[2]);
    double delay = strtod(argv[3], NULL) / 1e3;
    struct direction direction[2] = {{.from = a, .to = b}, {.from = b, .to = a}};
    for (int i = 0; i < 2; i++) {
        direction[i].ring = calloc(FRAMES, sizeof *direction[i].ring);
        if (!direction[i].ring) return fprintf(stderr, "delay: out of memory\n"), 1;
    }
    for (;;) {
        double first = send_due_frames(&direction[0]), second = send_due_frames(&direction[1]),
               wait = (first < second ? first : second) - now();
        struct timespec t = {.tv_nsec = wait > 0 ? (long)(wait * 1e9) : 0};
        if (wait >= 1) t = (struct timespec){.tv_sec = 1};
        struct pollfd p[2] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
        ppoll(p, 2, &t, NULL);
        for (int i = 0; i < 2; i++) receive_frames(&direction[i], delay);
    }
}
