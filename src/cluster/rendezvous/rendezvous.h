/* rendezvous.h - where the ranks of a run meet: a small server, for who is there and who is still alive, never for
 * data.
 *
 * It runs as a thread of rank 0, or outside the ranks in levin launch, which then can tell what happened whoever dies.
 * Ranks connect with a token that strangers do not know. When all have come, it tells each who the others are and in
 * which facts (build, recipe, ...) they differ; afterwards each says some times a second where it is. A rank whose
 * connection closes without a goodbye, or of which nothing is heard for most of `timeout`, is lost: the server says so
 * to all, and names the one that is to say it to people. So it does where all are heard of and none goes on. */
#ifndef LVN_RENDEZVOUS_H
#define LVN_RENDEZVOUS_H

#include "cluster/rendezvous/membership.h"

struct lvn_server;

struct lvn_server_options {
    int size;            /* ranks to come */
    const char *listen;  /* address or interface's host name; NULL: all */
    int port;            /* 0: any */
    const char *token;   /* NULL: a new one; "": whoever comes is taken for a rank, unless it shows one */
    double timeout;      /* trainer.rank_timeout: seconds in which a rank without news is found lost */
    double join_timeout; /* seconds in which all must have come after the first one, and, outside of the ranks, that one
                            after the start; 0: no limit */
    double stall_timeout; /* trainer.stall_timeout: seconds in which some rank has to go on (hang_detector.h); 0: no limit */
    bool outside; /* not in a rank: the holder says what happens, no rank does */
};

enum lvn_server_phase {
    LVN_SERVER_GATHERING, /* not all ranks have come */
    LVN_SERVER_RUNNING,
    LVN_SERVER_ENDED, /* all ranks said goodbye */
    LVN_SERVER_FAULT, /* see lvn_server_fault() */
};

/* Listen and start the thread. IO with a sentence when the port is in use or the address is not this host's. */
enum lvn_status lvn_server_start(struct lvn_server **out, const struct lvn_server_options *o) LVN_CHECKED;
/* Where ranks find it: "PORT,HOST,ADDRESS,ADDRESS,..." for LEVIN_RENDEZVOUS; also its own HOST:PORT is understood
 * there.
 */
const char *lvn_server_address(const struct lvn_server *s);
/* For LEVIN_RENDEZVOUS_TOKEN. */
const char *lvn_server_token(const struct lvn_server *s);
enum lvn_server_phase lvn_server_phase(struct lvn_server *s);
/* Becomes readable (and stays so) with the phases ENDED and FAULT, for poll(). */
int lvn_server_fd(const struct lvn_server *s);
/* The sentence of the fault, "" without one; *rank: which rank, -1 none in particular. */
const char *lvn_server_fault(struct lvn_server *s, int *rank);
/* Is the fault one of the link between two ranks? */
bool lvn_server_fault_link(struct lvn_server *s, int link[2]);
/* Would ranks that start again meet it again? A rank failed by itself, or they do not belong together; else a rank was
 * lost. */
bool lvn_server_fault_is_permanent(struct lvn_server *s);
/* Has rank 0 said where status.json is: has the run begun? */
bool lvn_server_published(struct lvn_server *s);
/* A copy of what is known of the ranks, into `peers` (size of them). */
void lvn_server_table(struct lvn_server *s, struct lvn_peer *peers);
/* End the thread. With `wait` seconds above 0: first wait at most so long until all ranks have left. */
void lvn_server_stop(struct lvn_server *s, double wait);

#endif
