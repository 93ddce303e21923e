/* endpoints.h - network endpoints: listening, and connecting to another process of the run. The rendezvous
 * (member.c, server.c), mesh.c and `levin ranks` call it.
 *
 * An endpoint is a text "PORT,HOST,ADDRESS,ADDRESS,...", a host's name and all its addresses; or "HOST:PORT" or
 * "[IPV6]:PORT", as users write it. */
#ifndef LVN_ENDPOINTS_H
#define LVN_ENDPOINTS_H

#include "base/status.h"

struct addrinfo;

enum { LVN_ENDPOINT_TEXT = 1200 };
#define LVN_LOOPBACK "127.0.0.1"

/* Listen on an address or host name (NULL: on all addresses) and a port (0: any). *out is a nonblocking socket. IO
 * with a message if the port is in use or the address is not one of this host. */
enum lvn_status lvn_listen(const char *host, int port, int *out) LVN_CHECKED;
/* Raise the limit of open files as far as allowed, if `files` exceed it. IO if the limit remains too low; `ranks` is
 * used in the message. */
enum lvn_status lvn_allow_files(int ranks, int files) LVN_CHECKED;
/* The endpoint of a listening socket, in the long form; a socket on the loopback interface has no other address. */
void lvn_endpoint_name(int listening, char *out, size_t bytes);

/* A nonblocking attempt to connect to one of the hosts and addresses in `address`: one after the other, each for 5
 * s. All are tried again, after pauses, while the peer may not have started to listen. */
struct lvn_connection_attempt {
    const char *address; /* the caller's text */
    int fd;              /* -1: no connection in progress */
    bool retry;          /* a later attempt may succeed */
    int at;              /* index of the current host */
    int skip;            /* number of hosts at the start of the list that are not tried */
    int tries;           /* number of connections started */
    double until;        /* end of the current attempt or pause, lvn_seconds() */
    double end;          /* deadline of all attempts */
    double pause;        /* seconds before the next round */
    struct addrinfo *list, *next;
    char reason[300]; /* why the last attempt failed */
};
enum lvn_connect_state { LVN_CONNECT_PENDING, LVN_CONNECT_DONE, LVN_CONNECT_FAILED };
/* Always call lvn_connect_end() at the end. To keep a connection open, take it from `fd` and set `fd` to -1 first. */
void lvn_connect_begin(struct lvn_connection_attempt *attempt, const char *address, double timeout, int skip);
void lvn_connect_end(struct lvn_connection_attempt *attempt);
/* Make progress; `ready`: `fd` is writable. If the result is PENDING, call again when it is writable, or at `until`. */
enum lvn_connect_state lvn_connect_step(struct lvn_connection_attempt *attempt, bool ready, double now);
/* The process at this address is the wrong one, for this reason: the next step tries another address. */
void lvn_connect_refuse(struct lvn_connection_attempt *attempt, const char *reason_text);
/* Records the error COMM with the last reason. */
enum lvn_status lvn_connect_fail(const struct lvn_connection_attempt *attempt, const char *peer_name) LVN_CHECKED;

#define LVN_MEETING "the rendezvous server (rank 0 or levin launch)"
/* Connect to one of the hosts in `address`, retrying for `timeout` seconds while nothing listens there. peer_name is
 * used in messages. *fd is nonblocking. COMM with the reason if it fails. `skip`: number of hosts not to try; *index:
 * the host that was reached. */
enum lvn_status lvn_endpoint_connect(const char *address, const char *peer_name, double timeout, int skip, int *index,
                                     int *fd) LVN_CHECKED;

#endif
