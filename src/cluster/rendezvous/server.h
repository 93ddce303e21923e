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

<<<<<<< HEAD
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
=======
struct lvn_server {
    pthread_t thread;
    pthread_mutex_t lock; /* guards all fields below */
    struct lvn_server_options o;
    bool running, stop;
    double stop_at;
    int listening, wake, ended_fd;
    char address[LVN_ENDPOINT_TEXT - 1], token[128]; /* an invitation has one more character */
    struct lvn_server_client **client;
    int n_clients;
    struct pollfd *polled;
    int n_unidentified; /* connections without a rank */
    struct lvn_peer *peer;
    int n_came, n_ready, n_done;
    struct lvn_sent_row {
        enum lvn_peer_state state;
        double last_heard;
    } * sent;          /* [size] the state in the last table that was sent */
    int lowest_remote; /* the lowest rank that is on another host than rank 0; -1: none */
    char *key[LVN_FACTS];
    struct lvn_fact_values {
        char *value[LVN_FACTS];
        bool ready;
    } * facts;
    enum lvn_server_phase phase;
    double started, first_came, next_table, ended_at;
    double outvoted_until;      /* this thread was stopped so long that ranks have reported it as lost */
    double accept_paused_until; /* no capacity or no descriptor for one more connection until then */
    int64_t polls;              /* number of polls */
    double declare_at;          /* when the fault is declared; 0: there is none */
    bool has_text;              /* `fault` is set already */
    double next_missing;        /* when to log again which ranks are missing; 0: soon after the first rank */
    bool warned;                /* a warning was sent that no rank makes progress */
    char refused[400];          /* message about the first connection that was refused; "": none */
    bool refused_sent;
    int failed;           /* 1 + the rank whose FAIL message counts; 0: none */
    int n_fails;          /* number of FAIL messages */
    bool failed_after;    /* it fails because of other ranks */
    char fault[1200];     /* message of the fault */
    char fail_text[1000]; /* message of the failing rank */
    int fault_rank;
    int fault_link[2]; /* the two ranks of a faulty network link; -1: another fault */
    char status_path[1024];
    struct lvn_attempts attempts; /* for status.json */
    bool permanent;               /* lvn_server_fault_is_permanent() */
};

/* server_receive.c, called with the lock held. Record, once, that a connection was refused because it `did`
 * something that no rank does. */
void lvn_server_record_refusal(struct lvn_server *s, const struct lvn_server_client *c, const char *did);
/* Send the recorded refusal to the ranks as a warning, once. */
void lvn_server_send_refusal(struct lvn_server *s);
/* False: the connection is to be closed. */
bool lvn_server_receive(struct lvn_server *s, struct lvn_server_client *c, const struct lvn_message *m);
void lvn_server_gone(struct lvn_server *s, int rank); /* the rank's connection has closed */
void lvn_server_missing(struct lvn_server *s);        /* not all ranks have joined in time */
/* Log, now and then, which ranks have not joined yet. */
void lvn_server_log_missing(struct lvn_server *s, double now);
void lvn_server_check_hang(struct lvn_server *s);
void lvn_server_declare(struct lvn_server *s); /* send the fault to all ranks */

/* server_broadcast.c, called with the lock held. */
void lvn_server_broadcast(struct lvn_server *s, const struct lvn_text *t); /* send the same lines to every rank */
void lvn_server_send_start(struct lvn_server *s);
void lvn_server_send_table(struct lvn_server *s, double now);
/* The lowest connected rank that is not lost, even if it has said goodbye and waits for the others. */
int lvn_server_lowest(const struct lvn_server *s);
>>>>>>> de47e1c (levin launch --nodes: trainer.start_timeout, names that are not in DNS yet, pods of several ranks; tests and pages)

#endif
