/* tcp_connections.h - messages over TCP connections, one to each other rank: what levin's own transport (tcp.c) is made
 * of.
 *
 * A header (tag, bytes), then the bytes. Messages of one rank with one tag arrive in the order in which they were sent.
 * What comes before it is asked for is kept aside; where much of one rank is kept already and nothing of it is waited
 * for, its connection is left unread, so that memory is bounded and the sender waits. Nothing blocks; one thread calls.
 */
#ifndef LVN_TCP_CONNECTIONS_H
#define LVN_TCP_CONNECTIONS_H

#include "comm/comm.h"

struct lvn_link_header {
    uint64_t tag, bytes;
};

/* A message that is sent or asked for; or one that came unasked, whose bytes it owns. */
struct lvn_link_message {
    struct lvn_link_message *next;
    struct lvn_link_header header;
    int64_t header_sent, at; /* bytes done */
    char *x;
    bool done;
};

struct lvn_tcp_connections {
    int rank, size, epoll;
    struct lvn_link *link; /* [size] */
    char trouble[300];     /* of the last call that failed */
};

/* sockets: [size] connected ones, the links' own from then on. */
enum lvn_status lvn_tcp_connections_open(struct lvn_tcp_connections *l, int rank, int size,
                                         const int *sockets) LVN_CHECKED;
void lvn_tcp_connections_close(struct lvn_tcp_connections *l);
/* Start a message; x stays until it is done. 0, or 1 for trouble; *out may be there then, too. */
int lvn_link_send(struct lvn_tcp_connections *l, const void *x, int64_t bytes, int to, int tag,
                  struct lvn_link_message **out);
int lvn_link_receive(struct lvn_tcp_connections *l, void *x, int64_t bytes, int from, int tag,
                     struct lvn_link_message **out);
/* Move what can be moved now. 0, or 1 for trouble. */
int lvn_tcp_connections_progress(struct lvn_tcp_connections *l);
/* Is it done (or NULL)? Then it is freed, and *m NULL. */
bool lvn_link_finished(struct lvn_link_message **m);
int lvn_tcp_connections_fail(struct lvn_tcp_connections *l, int peer, const char *what); /* 1, with the trouble noted */

#endif
