/* server.h - the rendezvous server of a run: it gathers the ranks, and watches that they are alive. It carries
 * no training data.
 *
 * It runs as a thread of rank 0 (member.c starts it), or in levin launch, which can then tell what happened
 * whichever rank dies. Ranks connect with a secret token. When all have joined, it tells each which other ranks
 * there are, and in which facts (build, recipe, ...) they differ; then each sends heartbeats some times a second. A
 * rank whose connection closes without a goodbye, or that is silent for most of `timeout`, is lost: the server tells
 * all ranks, and names the reporter, which prints the error. It does the same if all ranks are heard of and none
 * makes progress. */
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
    bool outside;         /* not in a rank: the process of the server reports faults, and no rank does */
};

enum lvn_server_phase {
    LVN_SERVER_GATHERING, /* not all ranks have joined */
    LVN_SERVER_RUNNING,
    LVN_SERVER_ENDED, /* all ranks said goodbye */
    LVN_SERVER_FAULT, /* see lvn_server_fault() */
};

/* Listen and start the thread. IO with a message if the port is in use or the address is not this host's. */
enum lvn_status lvn_server_start(struct lvn_server **out, const struct lvn_server_options *o) LVN_CHECKED;
/* The server's endpoint for LEVIN_RENDEZVOUS: "PORT,HOST,ADDRESS,ADDRESS,..."; ranks also accept HOST:PORT there. */
const char *lvn_server_address(const struct lvn_server *s);
/* The token, for LEVIN_RENDEZVOUS_TOKEN. */
const char *lvn_server_token(const struct lvn_server *s);
enum lvn_server_phase lvn_server_phase(struct lvn_server *s);
/* A descriptor for poll() that becomes and stays readable in the phases ENDED and FAULT. */
int lvn_server_fd(const struct lvn_server *s);
/* The message of the fault, "" if there is none; *rank: the lost rank, -1: none in particular. */
const char *lvn_server_fault(struct lvn_server *s, int *rank);
/* Is the fault that of the network link between two ranks? */
bool lvn_server_fault_link(struct lvn_server *s, int link[2]);
/* Would a restart meet the fault again? True if a rank failed by itself, or the ranks do not belong together; false
 * if a rank was lost. */
bool lvn_server_fault_is_permanent(struct lvn_server *s);
/* Has rank 0 sent the path of status.json: has the run begun? */
bool lvn_server_published(struct lvn_server *s);
/* Copy the table of ranks into `peers` [size]. */
void lvn_server_table(struct lvn_server *s, struct lvn_peer *peers);
/* End the thread; wait > 0: first wait at most so many seconds until all ranks have disconnected. */
void lvn_server_stop(struct lvn_server *s, double wait);

#endif
