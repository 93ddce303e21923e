/* server.h - the inside of a rendezvous: server.c (connections, time), server_receive.c (what ranks say),
 * server_broadcast.c (what they are told).
 */
#ifndef LVN_SERVER_H
#define LVN_SERVER_H

#include <poll.h>
#include <pthread.h>

#include "cluster/rendezvous/endpoints.h"
#include "cluster/rendezvous/rendezvous.h"
#include "cluster/rendezvous/wire.h"

#define LVN_SILENCE 0.8 /* of the timeout: all are told within it, and before they miss the server itself */
enum { LVN_UNIDENTIFIED = 64, LVN_FACTS = 32 }; /* connections without a rank; facts of a rank */

/* One connection. */
struct lvn_server_client {
    struct lvn_wire wire;
    int rank;     /* -1: has not said a token and a rank; -2: is refused, and waits to hear why */
    bool gets_table;   /* hears the whole table */
    bool closing; /* hears nothing more; closed when all is sent */
    double connected_at;
    char from[46]; /* its address, for people */
};

struct lvn_server {
    pthread_t thread;
    pthread_mutex_t lock; /* over all below */
    struct lvn_server_options o;
    bool running, stop;
    double stop_at;
    int listening, wake, ended_fd;
    char address[LVN_ENDPOINT_TEXT - 1], token[128]; /* an invitation holds a mark beside it */
    struct lvn_server_client **client;
    int n_clients;
    struct pollfd *polled;
    int n_unidentified; /* callers without a rank */
    struct lvn_peer *peer;
    int n_came, n_ready, n_done;
    struct lvn_sent_row {
        enum lvn_peer_state state;
        double last_heard;
    } * sent;      /* [size] as the last table had them */
    int lowest_remote; /* the lowest rank that is not on the host of rank 0; -1: none */
    char *key[LVN_FACTS];
    struct lvn_fact_values {
        char *value[LVN_FACTS];
        bool ready;
    } * facts;
    enum lvn_server_phase phase;
    double started, first_came, next_table, ended_at;
    double outvoted_until;   /* it stood still so long that others have spoken */
    double accept_paused_until;     /* there was no room, or no descriptor, for one more connection */
    int64_t polls;         /* of the thread at what has come */
    double declare_at;     /* when what is wrong is told; 0: nothing is wrong */
    bool has_text;           /* `fault` is a sentence already */
    bool warned;           /* that no rank goes on */
    char refused[400]; /* the first one that is no rank of this run, a sentence; "": there was none */
    bool refused_sent;
    int failed, n_fails;            /* 1 + the rank that said that it fails by itself; how many did */
    bool failed_after;            /* it said that it fails because of others */
    char fault[1200], fail_text[1000]; /* said: the failing rank's sentence */
    int fault_rank;
    int fault_link[2]; /* the ranks at its ends; -1: the fault is not one of a link */
    char status_path[1024];
    bool permanent; /* lvn_server_fault_lasts() */
};

/* server_receive.c, with the lock held. Somebody is shown out who `did` something that no rank does: noted once. */
void lvn_server_record_refusal(struct lvn_server *s, const struct lvn_server_client *c, const char *did);
/* Whoever speaks for the ranks is to say so, once. */
void lvn_server_send_refusal(struct lvn_server *s);
/* False: the caller is to be dropped. */
bool lvn_server_receive(struct lvn_server *s, struct lvn_server_client *c, const struct lvn_message *m);
void lvn_server_gone(struct lvn_server *s, int rank); /* its connection has closed */
void lvn_server_missing(struct lvn_server *s);        /* not all have come in time */
void lvn_server_check_hang(struct lvn_server *s);
void lvn_server_declare(struct lvn_server *s); /* the fault, to all */

/* server_broadcast.c, with the lock held. */
void lvn_server_broadcast(struct lvn_server *s, const struct lvn_text *t); /* the same lines to every rank */
void lvn_server_send_start(struct lvn_server *s);
void lvn_server_send_table(struct lvn_server *s, double now);
/* The lowest rank that is here and hears it, also one that waits for the others at the end. */
int lvn_server_lowest(const struct lvn_server *s);

#endif
