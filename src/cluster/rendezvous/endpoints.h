/* endpoints.h - network endpoints: listening, and connecting to another process of the run. The rendezvous
 * (member.c, server.c), mesh.c and `levin ranks` call it.
 *
 * An endpoint is a text "PORT,HOST,ADDRESS,ADDRESS,...", a host by its name and all its addresses; or "HOST:PORT" or
 * "[IPV6]:PORT", as people write it. */
#ifndef LVN_ENDPOINTS_H
#define LVN_ENDPOINTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct addrinfo;

enum { LVN_ENDPOINT_TEXT = 1200 };
#define LVN_LOOPBACK "127.0.0.1"

/* Listen on an address or host name (NULL: on all addresses) and a port (0: any). *out is a nonblocking socket. IO
 * with a message if the port is in use or the address is not this host's. */
enum lvn_status lvn_listen(const char *host, int port, int *out) LVN_CHECKED;
/* Raise the limit of open files as far as allowed, if `files` files for so many ranks exceed it. IO if that is too
 * few; `ranks` is for the message. */
enum lvn_status lvn_allow_files(int ranks, int files) LVN_CHECKED;
/* The endpoint of a listening socket, in the long form; a socket that listens on the loopback has no other address. */
void lvn_endpoint_name(int listening, char *out, size_t capacity);

/* A nonblocking attempt to connect to one of the hosts and addresses in `address`: one after the other, each for 5
 * s. All are tried again, after pauses, as long as it is possible that the peer does not listen yet. */
struct lvn_connection_attempt {
    const char *address; /* the caller's text */
    int fd;              /* -1: no connection in progress */
    bool retry;          /* a later try may succeed */
    int at;              /* index of the host that is tried */
    int skip;            /* hosts at the start of the list that are not tried */
    int tries;           /* connections begun */
    double until;        /* end of this try or pause, lvn_seconds() */
    double end;          /* end of all tries */
    double pause;        /* seconds before the next round */
    struct addrinfo *list, *next;
    char reason[300]; /* why the last try failed */
};
enum lvn_connect_state { LVN_CONNECT_PENDING, LVN_CONNECT_DONE, LVN_CONNECT_FAILED };
/* End an attempt with lvn_connect_end() in every case; take a connection that shall stay open out of `fd` before. */
void lvn_connect_begin(struct lvn_connection_attempt *w, const char *address, double patience, int skip);
void lvn_connect_end(struct lvn_connection_attempt *w);
/* Make progress; `ready`: `fd` is writable. If PENDING, call again when it is writable, or at `until`. */
enum lvn_connect_state lvn_connect_step(struct lvn_connection_attempt *w, bool ready, double now);
/* The process that was reached is the wrong one, for this reason: the next step tries another address. */
void lvn_connect_refuse(struct lvn_connection_attempt *w, const char *reason_text);
enum lvn_status lvn_connect_fail(const struct lvn_connection_attempt *w,
                                 const char *peer_name) LVN_CHECKED; /* COMM, with the last reason */

#define LVN_MEETING "the rendezvous server (rank 0 or levin launch)"
/* Connect to one of the hosts in `address`, trying again for `patience` seconds while nobody listens. peer_name is
 * for messages. *fd is nonblocking. COMM with the reason otherwise. `skip`: hosts that are not tried; *index: the
 * host that was reached. */
enum lvn_status lvn_endpoint_connect(const char *address, const char *peer_name, double patience, int skip, int *index,
                                     int *fd) LVN_CHECKED;

#endif
