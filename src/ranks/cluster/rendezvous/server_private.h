/* server_private.h - private to the rendezvous server: server.c (connections, timeouts), server_receive.c (messages of
 * ranks), server_broadcast.c (messages to ranks). */
#ifndef LVN_SERVER_PRIVATE_H
#define LVN_SERVER_PRIVATE_H

#include <poll.h>
#include <pthread.h>

#include "cluster/rendezvous/endpoints.h"
#include "cluster/rendezvous/server.h"
#include "cluster/rendezvous/wire.h"

/* Fraction of the timeout after which a silent rank is lost, so that all ranks are notified within the timeout, and
 * before they miss the server itself. */
#define LVN_SILENCE 0.8
#define LVN_GROUP_SECONDS 0.3                          /* faults within this time are reported as one */
enum { LVN_RANK_UNKNOWN = -1, LVN_RANK_REFUSED = -2 }; /* of a connection */
enum { LVN_UNIDENTIFIED = 64, LVN_FACTS = 32 };        /* maximum connections without a rank; maximum facts of a rank */

/* A connection. */
struct lvn_server_client {
    struct lvn_wire wire;
    int rank;        /* UNKNOWN: no token and rank received yet; REFUSED: waits for the reason */
    bool gets_table; /* receives the whole table */
    bool closing;    /* nothing more is received; it is closed when everything is sent */
    double connected_at;
    char from[46]; /* its address, for messages */
};

struct lvn_server {
    pthread_t thread;
    pthread_mutex_t lock; /* guards all fields below */
    struct lvn_server_options o;
    bool running, stop;
    double stop_at;
    int listening, wake;
    char address[LVN_ENDPOINT_TEXT - 1], token[128]; /* struct invitation has one more character */
    struct lvn_server_client **client;
    int n_clients;
    struct pollfd *polled;
    int n_unidentified; /* connections without a rank */
    struct lvn_peer *peer;
    int n_came, n_ready, n_done;
    struct lvn_sent_row {
        enum lvn_peer_state state;
        double last_heard;
    } * sent;          /* [size] the states that the last table contained */
    int lowest_remote; /* the lowest rank on another host than rank 0; -1: none */
    char *key[LVN_FACTS];
    struct lvn_fact_values {
        char *value[LVN_FACTS];
        bool ready;
    } * facts;
    enum lvn_server_phase phase;
    double started, first_came, next_table;
    double reported_lost_until; /* until then no rank is asked to print the fault: this thread was stopped for so long
                                   that ranks report themselves that rank 0 is lost */
    double
        accept_paused_until; /* no connection is accepted until then: the server was full or had no descriptor left */
    int64_t polls;           /* number of polls */
    double declare_at;       /* when the fault is declared; 0: no fault */
    bool has_text;           /* `fault` is set already */
    double next_missing;     /* when to log the missing ranks next; 0: not determined yet */
    bool warned;             /* a warning that no rank makes progress was sent */
    char refused[400];       /* message about the first refused connection; "": none */
    bool refused_sent;
    int failed;           /* 1 + the rank whose FAIL message is reported; 0: none */
    int n_fails;          /* number of FAIL messages */
    bool failed_after;    /* it failed because of other ranks */
    char fault[1200];     /* message of the fault */
    char fail_text[1000]; /* message of the failing rank */
    int fault_rank;
    int fault_link[2]; /* the two ranks of a broken network link; -1: another fault */
    char status_path[1024];
    struct lvn_attempts attempts; /* for status.json */
    bool permanent;               /* lvn_server_fault_is_permanent() */
};

/* server_receive.c, called with the lock held. Record the first connection that was refused; `did` is what it did. */
void lvn_server_record_refusal(struct lvn_server *server, const struct lvn_server_client *client, const char *did);
/* Send the recorded refusal to the ranks as a warning, once. */
void lvn_server_send_refusal(struct lvn_server *server);
/* Return false if the connection must be closed. */
bool lvn_server_receive(struct lvn_server *server, struct lvn_server_client *client, const struct lvn_message *message);
void lvn_server_rank_lost(struct lvn_server *server, int rank); /* the rank's connection has closed */
void lvn_server_missing(struct lvn_server *server);             /* not all ranks have joined in time */
/* Log at intervals which ranks have not joined yet. */
void lvn_server_log_missing(struct lvn_server *server, double now);
void lvn_server_check_hang(struct lvn_server *server);
void lvn_server_declare(struct lvn_server *server); /* send the fault to all ranks */

/* server_broadcast.c, called with the lock held. */
void lvn_server_broadcast(struct lvn_server *server, const struct lvn_text *t); /* send the same lines to every rank */
void lvn_server_send_start(struct lvn_server *server);
void lvn_server_send_table(struct lvn_server *server, double now);
/* The lowest connected rank that is not lost, even if it has said goodbye and waits for the others. */
int lvn_server_lowest(const struct lvn_server *server);

#endif
