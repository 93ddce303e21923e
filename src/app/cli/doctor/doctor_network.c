/* doctor_network.c - measures latency and bandwidth between ranks, and the differences of their clocks. Called by
 * doctor_ranks.c.
 *
 * One pair is measured at a time; the other ranks wait, asleep most of the time. The best of many tries counts: it
 * shows the link rather than the load of the machines. All pairs of up to six ranks are measured, else each rank with
 * the next one, 64 pairs at most. */

#include "base/clock.h"
#include "cli/doctor/doctor.h"

enum { ALL_PAIRS = 6, PAIRS = 64, PINGS = 200, BLOCKS = 6, BLOCK = 4 << 20, REDUCE = 16 << 20 };
static const double PAIR_SECONDS = 0.2; /* for each of the two measurements */

static enum lvn_status send_now(struct lvn_comm *c, const void *x, int64_t bytes, int to)
{
    struct lvn_request r;
    lvn_comm_send(c, &r, x, bytes, to, 1);
    return lvn_comm_wait(c, &r);
}

static enum lvn_status receive_now(struct lvn_comm *c, void *x, int64_t bytes, int from)
{
    struct lvn_request r;
    lvn_comm_receive(c, &r, x, bytes, from, 1);
    return lvn_comm_wait(c, &r);
}

/* The first rank of the pair: sends 1 and waits for the other's clock, many times; then sends 0, the end. */
static enum lvn_status ping(struct lvn_comm *c, int other, int pings, double *seconds, double *offset)
{
    double begin = lvn_seconds(), best = INFINITY, reply = 0;
    for (int i = 0; i <= pings; i++) {
        double more = i < pings && lvn_seconds() - begin < PAIR_SECONDS, t = lvn_seconds(), wall = lvn_wall_seconds();
        LVN_TRY(send_now(c, &more, sizeof more, other));
        if (more == 0) break;
        LVN_TRY(receive_now(c, &reply, sizeof reply, other));
        double took = lvn_seconds() - t;
        if (took >= best) continue;
        best = took;
        *offset = reply - (wall + took / 2);
    }
    *seconds = best / 2;
    return LVN_OK;
}

static enum lvn_status pong(struct lvn_comm *c, int other)
{
    for (;;) {
        double more;
        LVN_TRY(receive_now(c, &more, sizeof more, other));
        if (more == 0) return LVN_OK;
        double now = lvn_wall_seconds();
        LVN_TRY(send_now(c, &now, sizeof now, other));
    }
}

/* The same with a block of BLOCK bytes after the 1. */
static enum lvn_status push(struct lvn_comm *c, int other, char *block, double *rate)
{
    double begin = lvn_seconds(), best = 0, answer;
    for (int i = 0; i <= BLOCKS; i++) {
        double more = i < BLOCKS && (i < 2 || lvn_seconds() - begin < PAIR_SECONDS), t = lvn_seconds();
        LVN_TRY(send_now(c, &more, sizeof more, other));
        if (more == 0) break;
        LVN_TRY(send_now(c, block, BLOCK, other));
        LVN_TRY(receive_now(c, &answer, sizeof answer, other));
        double now = BLOCK / (lvn_seconds() - t);
        if (now > best) best = now;
    }
    *rate = best;
    return LVN_OK;
}

static enum lvn_status pull(struct lvn_comm *c, int other, char *block)
{
    for (;;) {
        double more;
        LVN_TRY(receive_now(c, &more, sizeof more, other));
        if (more == 0) return LVN_OK;
        LVN_TRY(receive_now(c, block, BLOCK, other));
        LVN_TRY(send_now(c, &more, sizeof more, other));
    }
}

/* The pairs to measure, the same on all ranks; returns their number. */
static int choose_pairs(int size, struct lvn_doctor_link *links)
{
    int n = 0;
    for (int a = 0; size <= ALL_PAIRS && a < size; a++) {
        for (int b = a + 1; b < size; b++) links[n++] = (struct lvn_doctor_link){.a = a, .b = b};
    }
    if (n || size < 2) return n;
    int every = (size + PAIRS - 1) / PAIRS;
    for (int a = 0; a < size && n < PAIRS; a += every)
        links[n++] = (struct lvn_doctor_link){.a = a, .b = (a + 1) % size};
    return n;
}

static enum lvn_status barrier(struct lvn_comm *c)
{
    int32_t one = 1;
    return lvn_comm_all_reduce_now(c, &one, 1, LVN_I32, LVN_SUM);
}

static enum lvn_status measure(struct lvn_comm *c, struct lvn_doctor_link *links, int n, double *clock,
                               double *reduce_s, char *block)
{
    int rank = lvn_comm_rank(c), size = lvn_comm_size(c);
    double unused, seconds;
    double *found = calloc((size_t)(2 * n + 1), sizeof *found);
    LVN_CHECK(found, MEMORY, "no memory for measurements");
    enum lvn_status status = LVN_OK;
    for (int i = 0; i < n && !status; i++) {
        struct lvn_doctor_link *l = &links[i];
        if (rank == l->a) {
            status = ping(c, l->b, PINGS, &found[2 * i], &unused);
            if (!status) status = push(c, l->b, block, &found[2 * i + 1]);
        } else if (rank == l->b) {
            status = pong(c, l->a);
            if (!status) status = pull(c, l->a, block);
        }
        if (!status) status = barrier(c);
    }
    for (int i = 1; i < size && !status; i++) {
        if (rank == 0) status = ping(c, i, 8, &seconds, &clock[i]);
        if (rank == i) status = pong(c, 0);
    }
    if (!status)
        status =
            lvn_comm_all_reduce_now(c, found, 2 * n + 1, LVN_F64, LVN_SUM); /* each number is one rank's, 0 elsewhere */
    for (int i = 0; i < n; i++) {
        links[i].seconds = found[2 * i];
        links[i].rate = found[2 * i + 1];
    }
    free(found);
    *reduce_s = INFINITY;
    for (int i = 0; i < 3 && !status; i++) {
        status = barrier(c);
        double t = lvn_seconds();
        if (!status) status = lvn_comm_all_reduce_now(c, block, REDUCE / 4, LVN_F32, LVN_SUM);
        t = lvn_seconds() - t;
        if (t < *reduce_s) *reduce_s = t;
    }
    if (!status) status = lvn_comm_all_reduce_now(c, reduce_s, 1, LVN_F64, LVN_MAX);
    return status;
}

enum lvn_status lvn_doctor_links(struct lvn_comm *comm, struct lvn_doctor_link **links, int *n_links, double *clock,
                                 double *reduce_s, int64_t *reduce_bytes)
{
    int size = lvn_comm_size(comm);
    char *block = calloc(1, REDUCE);
    *links = calloc(PAIRS + ALL_PAIRS * ALL_PAIRS, sizeof **links);
    *n_links = 0;
    enum lvn_status status = LVN_MEMORY;
    if (block && *links) {
        *n_links = choose_pairs(size, *links);
        *reduce_bytes = REDUCE;
        status = measure(comm, *links, *n_links, clock, reduce_s, block);
    } else {
        (void)lvn_fail(LVN_MEMORY, "no memory for measurements");
    }
    free(block);
    return status;
}
