/* endpoints.h - where processes of a run find each other on the network.
 *
 * A place is written "PORT,HOST,ADDRESS,ADDRESS,...": a host by its name and all its addresses; or "HOST:PORT" or
 * "[IPV6]:PORT", as people write it. */
#ifndef LVN_ENDPOINTS_H
#define LVN_ENDPOINTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct addrinfo;

enum { LVN_ENDPOINT_TEXT = 1200 };
#define LVN_LOOPBACK "127.0.0.1"

/* Listen on an address or host name (NULL: on all) and a port (0: any). *out does not block. IO with a sentence when
 * the port is in use or the address is not this host's. */
enum lvn_status lvn_listen(const char *host, int port, int *out) LVN_CHECKED;
/* See that this process may open so many files for so many ranks, beside what else it opens: the limit is raised as far
 * as it may be. IO where that is too few. */
enum lvn_status lvn_allow_files(int ranks, int files) LVN_CHECKED;
/* Where this process can be found that listens there: the long form; one that listens on the loopback has no other
 * address. */
void lvn_endpoint_name(int listening, char *out, size_t capacity);

/* On the way to one of the places in `address`, without blocking: one address after the other, each for 5 s, and all
 * again, after pauses, while it may be that nobody listens yet. */
struct lvn_connection_attempt {
    const char *address; /* the caller's */
    int fd;              /* -1: nothing is under way */
    bool retry;
    int at, skip;             /* which place is tried; how many of them to pass over */
    int tries;                /* connections begun */
    double until, end, pause; /* of this try, or pause; of all tries */
    struct addrinfo *list, *next;
    char reason[300]; /* what was wrong with the last one */
};
enum lvn_connect_state { LVN_CONNECT_PENDING, LVN_CONNECT_DONE, LVN_CONNECT_FAILED };
/* End it always; a connection that shall live is taken out of `fd`
 * before. */
void lvn_connect_begin(struct lvn_connection_attempt *w, const char *address, double patience, int skip);
void lvn_connect_end(struct lvn_connection_attempt *w);
/* Go on: `ready`, `fd` can be written to. Then wait for that, or until `until`. */
enum lvn_connect_state lvn_connect_step(struct lvn_connection_attempt *w, bool ready, double now);
/* Who was reached is not who was meant, for this reason: the next step tries another one. */
void lvn_connect_refuse(struct lvn_connection_attempt *w, const char *reason_text);
enum lvn_status lvn_connect_fail(const struct lvn_connection_attempt *w,
                                 const char *peer_name) LVN_CHECKED; /* COMM, with the last reason */

#define LVN_MEETING "rank 0 or levin launch, where the ranks meet,"
/* Connect to one of the places in `address`, which are `who`'s, trying again for `patience` seconds while nobody
 * listens. *fd does not block. COMM with the reason otherwise. `skip`: how many of the places to pass over; *place:
 * which one was taken. */
enum lvn_status lvn_endpoint_connect(const char *address, const char *peer_name, double patience, int skip, int *index,
                                     int *fd) LVN_CHECKED;

#endif
