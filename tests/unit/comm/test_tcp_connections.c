/* test_tcp_connections.c - covers: src/ranks/comm/tcp_connections.c
 *
 * Messages over the connections of levin's own transport: expected, unexpected, and invalid ones. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/tcp_connections.h"

/* Rank 0 of two; `peer` is the other end, to which a test writes what it likes. */
struct pair {
    struct lvn_tcp_connections links;
    int peer;
};

static void open_pair(struct pair *p)
{
    int ends[2], sockets[2] = {-1, -1};
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends));
    sockets[1] = ends[0];
    p->peer = ends[1];
    assert_int_equal(LVN_OK, lvn_tcp_connections_open(&p->links, 0, 2, sockets));
}

static void close_pair(struct pair *p)
{
    lvn_tcp_connections_close(&p->links);
    if (p->peer >= 0) close(p->peer);
}

static void hang_up(struct pair *p)
{
    close(p->peer);
    p->peer = -1;
}

static void put(struct pair *p, const void *x, size_t n)
{
    assert_int_equal((ssize_t)n, write(p->peer, x, n));
}

static void put_header(struct pair *p, uint64_t tag, uint64_t bytes)
{
    struct lvn_tcp_header h = {tag, bytes};
    put(p, &h, sizeof h);
}

static void assert_says(const struct pair *p, const char *text)
{
    if (!strstr(p->links.error, text)) fail_msg("'%s', expected '%s'", p->links.error, text);
}

static void test_early_late_and_empty(void **state)
{
    (void)state;
    struct pair p;
    struct lvn_tcp_message *a, *b, *c;
    char x[4] = "", y[4] = "", none[1];
    open_pair(&p);
    put_header(&p, 7, 3);
    put(&p, "sev", 3);
    put_header(&p, 9, 0);
    put_header(&p, 8, 3);
    put(&p, "ei", 2); /* the rest comes later */
    assert_int_equal(0, lvn_tcp_connections_progress(&p.links));
    assert_int_equal(0, lvn_tcp_receive(&p.links, x, 3, 1, 8, &a));
    assert_int_equal(0, lvn_tcp_receive(&p.links, y, 3, 1, 7, &b));
    assert_int_equal(0, lvn_tcp_receive(&p.links, none, 0, 1, 9, &c));
    assert_false(lvn_tcp_finished(&a));
    assert_true(lvn_tcp_finished(&b) && lvn_tcp_finished(&c));
    put(&p, "g", 1);
    assert_int_equal(0, lvn_tcp_connections_progress(&p.links));
    assert_true(lvn_tcp_finished(&a));
    assert_string_equal("eig", x);
    assert_string_equal("sev", y);
    close_pair(&p);
}

static void test_lengths(void **state)
{
    (void)state;
    struct pair p;
    struct lvn_tcp_message *m;
    char x[8192], big[4096] = "";
    /* it was asked for before, ... */
    open_pair(&p);
    assert_int_equal(0, lvn_tcp_receive(&p.links, x, 8, 1, 5, &m));
    put_header(&p, 5, 9);
    put(&p, big, 9);
    assert_int_equal(1, lvn_tcp_connections_progress(&p.links));
    assert_says(&p, "rank 1 carried a message of an unexpected length");
    free(m);
    close_pair(&p);
    /* ... or came before, in part; what comes then lands nowhere else */
    open_pair(&p);
    put_header(&p, 5, sizeof big);
    put(&p, big, 100);
    assert_int_equal(0, lvn_tcp_connections_progress(&p.links));
    memset(x, 1, sizeof x);
    assert_int_equal(1, lvn_tcp_receive(&p.links, x, 8, 1, 5, &m));
    assert_says(&p, "rank 1 carried a message of an unexpected length");
    put(&p, big, sizeof big - 100);
    (void)lvn_tcp_connections_progress(&p.links);
    for (size_t i = 0; i < sizeof x; i++) assert_int_equal(1, x[i]);
    free(m);
    close_pair(&p);
    /* no message is so long */
    open_pair(&p);
    put_header(&p, 5, UINT64_MAX);
    assert_int_equal(1, lvn_tcp_connections_progress(&p.links));
    assert_says(&p, "rank 1 carried an invalid message");
    assert_int_equal(1, lvn_tcp_connections_progress(&p.links) | 1); /* and asking again does no harm */
    close_pair(&p);
}

static void test_closed(void **state)
{
    (void)state;
    struct pair p;
    struct lvn_tcp_message *m;
    char x[8] = "";
    /* within a header of an unexpected message: the next receive reports it */
    open_pair(&p);
    put(&p, "half", 4);
    hang_up(&p);
    assert_int_equal(0, lvn_tcp_connections_progress(&p.links));
    assert_int_equal(1, lvn_tcp_receive(&p.links, x, 8, 1, 5, &m));
    assert_says(&p, "rank 1 was closed by that rank");
    free(m);
    close_pair(&p);
    /* within a message */
    open_pair(&p);
    put_header(&p, 5, 8);
    put(&p, "half", 4);
    hang_up(&p);
    assert_int_equal(1, lvn_tcp_connections_progress(&p.links));
    assert_says(&p, "rank 1 was closed by that rank");
    close_pair(&p);
    /* while it is waited for */
    open_pair(&p);
    assert_int_equal(0, lvn_tcp_receive(&p.links, x, 8, 1, 5, &m));
    hang_up(&p);
    assert_int_equal(1, lvn_tcp_connections_progress(&p.links));
    assert_says(&p, "rank 1 was closed by that rank");
    free(m);
    close_pair(&p);
    /* and data that was sent before the end is received */
    open_pair(&p);
    put_header(&p, 5, 4);
    put(&p, "word", 4);
    hang_up(&p);
    assert_int_equal(0, lvn_tcp_connections_progress(&p.links));
    assert_int_equal(0, lvn_tcp_receive(&p.links, x, 4, 1, 5, &m));
    assert_true(lvn_tcp_finished(&m));
    assert_string_equal("word", x);
    assert_int_equal(1, lvn_tcp_send(&p.links, x, 8, 1, 5, &m));
    assert_says(&p, "rank 1 is broken (Broken pipe)");
    free(m);
    close_pair(&p);
}

/* After an error nothing is received: the caller may have freed the memory. */
static void test_after_an_error(void **state)
{
    (void)state;
    struct pair p;
    struct lvn_tcp_message *m;
    char x[8] = "";
    open_pair(&p);
    assert_int_equal(0, lvn_tcp_receive(&p.links, x, 8, 1, 5, &m));
    put_header(&p, 5, 8);
    put(&p, "half", 4);
    assert_int_equal(0, lvn_tcp_connections_progress(&p.links));
    assert_string_equal("half", x);
    assert_int_equal(1, lvn_tcp_connections_fail(&p.links, 1, "failed"));
    put(&p, "rest", 4);
    assert_int_equal(1, lvn_tcp_connections_progress(&p.links));
    assert_string_equal("half", x);
    free(m);
    close_pair(&p);
}

/* A peer that sends unexpected messages without end fills its own buffers, not this rank's memory. */
static void test_bounded(void **state)
{
    (void)state;
    enum { MESSAGE = 1 << 20, MAX = 16 };
    struct pair p;
    char *x = calloc(1, MESSAGE);
    int sent = 0;
    open_pair(&p);
    assert_non_null(x);
    for (int64_t tag = 0, at = 0, idle = 0; idle < 100 && sent < MAX;) {
        struct lvn_tcp_header h = {(uint64_t)tag, MESSAGE};
        const bool head = at < (int64_t)sizeof h;
        const char *from = head ? (const char *)&h + at : x;
        size_t left = head ? sizeof h - (size_t)at : (size_t)(MESSAGE + (int64_t)sizeof h - at);
        ssize_t n = write(p.peer, from, left);
        assert_int_equal(0, lvn_tcp_connections_progress(&p.links));
        idle = n > 0 ? 0 : idle + 1;
        at += n > 0 ? n : 0;
        if (at < MESSAGE + (int64_t)sizeof h) continue;
        at = 0;
        tag++;
        sent++;
    }
    assert_in_range(sent, 4, 8); /* of 4 MiB aside, and what a socket holds */
    free(x);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_early_late_and_empty), cmocka_unit_test(test_lengths), cmocka_unit_test(test_closed),
        cmocka_unit_test(test_after_an_error),       cmocka_unit_test(test_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
