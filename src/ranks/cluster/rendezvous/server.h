/* server.h - the rendezvous server of a run: the ranks join it, and it checks that they are alive. It transfers no
 * training data.
 *
 * It runs as a thread of rank 0 (member.c starts it), or in levin launch, which can then report a fault whichever rank
 * terminates. Ranks connect with a secret token. When all have joined, it sends each the list of the other ranks, and
 * the facts (build, recipe, ...) in which they differ. Then each rank sends heartbeats, usually two per second
 * (lvn_member_heartbeat_interval()). A rank whose connection closes without a goodbye, or that is silent for most of
 * `timeout`, is lost: the server notifies all ranks, and if it is a thread of rank 0, it names the reporter, which
 * prints the error. It does the same if all ranks send heartbeats and none makes progress. */
#ifndef LVN_SERVER_H
#define LVN_SERVER_H

#include "cluster/rendezvous/membership.h"

struct lvn_server;

struct lvn_server_options {
    int size;             /* number of ranks */
    const char *listen;   /* address or host name to listen on; NULL: all addresses */
    int port;             /* 0: any */
    const char *token;    /* NULL: generate one; "": accept every rank that presents none */
    double timeout;       /* trainer.rank_timeout: seconds within which a silent rank is reported as lost */
    double join_timeout;  /* seconds for all ranks to join after the first one, and, if `outside`, for the first one
                             after the start; 0: no limit */
    double stall_timeout; /* trainer.stall_timeout: seconds within which some rank must make progress (hang_detector.h);
                             0: no limit */
    bool outside;         /* not in a rank: the server's process reports faults, and no rank does */
};

enum lvn_server_phase {
    LVN_SERVER_GATHERING, /* not all ranks have joined */
    LVN_SERVER_RUNNING,
    LVN_SERVER_ENDED, /* all ranks said goodbye */
    LVN_SERVER_FAULT, /* see lvn_server_fault() */
};

/* Listen and start the thread. IO with a message if the port is in use or the address is not one of this host. */
enum lvn_status lvn_server_start(struct lvn_server **out, const struct lvn_server_options *o) LVN_CHECKED;
/* The server's endpoint for LEVIN_RENDEZVOUS: "PORT,HOST,ADDRESS,ADDRESS,..."; ranks also accept HOST:PORT there. */
const char *lvn_server_address(const struct lvn_server *server);
/* The token, for LEVIN_RENDEZVOUS_TOKEN. */
const char *lvn_server_token(const struct lvn_server *server);
enum lvn_server_phase lvn_server_phase(struct lvn_server *server);
/* The message of the fault, "" if there is none; *rank: the lost rank, -1: no rank in particular. */
const char *lvn_server_fault(struct lvn_server *server, int *rank);
/* True if the fault is a broken network link between two ranks. */
bool lvn_server_fault_link(struct lvn_server *server, int link[2]);
/* True if the fault would occur again after a restart: a rank failed with its own error, or the ranks do not belong
 * together. False if a rank was lost. */
bool lvn_server_fault_is_permanent(struct lvn_server *server);
/* True if rank 0 has sent the path of status.json, so the run has begun. */
bool lvn_server_published(struct lvn_server *server);
/* Copy the table of ranks into `peers` [size]. */
void lvn_server_table(struct lvn_server *server, struct lvn_peer *peers);
/* Stop the thread; wait > 0: first wait at most that many seconds until all ranks have disconnected. */
void lvn_server_stop(struct lvn_server *server, double wait);

#endif
