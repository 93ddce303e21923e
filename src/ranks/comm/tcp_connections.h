/* tcp_connections.h - messages over TCP connections, one to each other rank, for the transport tcp.c.
 * cluster/rendezvous/mesh.c makes the connections.
 *
 * A message is a header (tag, bytes), then the bytes. Messages of one rank with one tag arrive in the order in which
 * they were sent. Unexpected messages are queued. If a peer's queue is large and no receive is posted for it, its
 * socket is not read, so memory is bounded and TCP throttles the sender. No call blocks; one thread makes all calls. */
#ifndef LVN_TCP_CONNECTIONS_H
#define LVN_TCP_CONNECTIONS_H

#include "comm/comm.h"

struct lvn_tcp_header {
    uint64_t tag, bytes;
};

/* A posted send or receive; or an unexpected message, which owns its bytes. */
struct lvn_tcp_message {
    struct lvn_tcp_message *next;
    struct lvn_tcp_header header;
    int64_t header_sent; /* bytes of the header that are sent */
    int64_t done_bytes;  /* bytes of x that are sent or received */
    char *x;
    bool done;
};

struct lvn_tcp_connections {
    int rank, size, epoll;
    struct lvn_tcp_connection *connection; /* [size], by rank */
    char error[300];                       /* message of the last call that failed; "": none */
};

/* sockets: [size] connected sockets; the connections own and close them. */
enum lvn_status lvn_tcp_connections_open(struct lvn_tcp_connections *connections, int rank, int size,
                                         const int *sockets) LVN_CHECKED;
void lvn_tcp_connections_close(struct lvn_tcp_connections *connections);
/* Start a message; x must not change until it is done. Returns 0, or 1 for an error; *out may be set even then. */
int lvn_tcp_send(struct lvn_tcp_connections *connections, const void *x, int64_t bytes, int to, int tag,
                 struct lvn_tcp_message **out);
int lvn_tcp_receive(struct lvn_tcp_connections *connections, void *x, int64_t bytes, int from, int tag,
                    struct lvn_tcp_message **out);
/* Send and receive as much as possible now. Returns 0, or 1 for an error. After any error it transfers nothing, because
 * the caller may have freed the memory of unfinished messages. */
int lvn_tcp_connections_progress(struct lvn_tcp_connections *connections);
/* Return true if the message is complete or NULL; then it is freed, and *m is NULL. */
bool lvn_tcp_finished(struct lvn_tcp_message **message);
/* Records the error; returns 1. */
int lvn_tcp_connections_fail(struct lvn_tcp_connections *connections, int peer, const char *problem);

#endif
