/* member_private.h - the inside of a heartbeat: member.c (meeting, stamps) and member_thread.c (its thread).
 */
#ifndef LVN_MEMBER_PRIVATE_H
#define LVN_MEMBER_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cluster/rendezvous/member.h"
#include "cluster/rendezvous/wire.h"

struct lvn_fact_group {
    char *key, *value, *ranks;
};

struct lvn_member {
    int rank, size, server_rank; /* server_rank: 0, or -1 for levin launch's */
    double timeout;
    double stall_timeout; /* of the options; for a rank by itself */
    char host[256];
    lvn_fault_callback *callback;
    void *context;
    struct lvn_server *server; /* in rank 0 */
    bool online;               /* there is a connection (not a run of one rank by itself) */
    bool stopping;             /* under lock */
    pthread_t thread, publisher, watch;
    bool has_thread, has_publisher, has_watch;
    int wake; /* eventfd */
    /* stamps */
    _Atomic int64_t step;
    _Atomic uint64_t collective; /* k << 32 | n */
    _Atomic double tokens_per_s, compute_s;
    _Atomic(const char *) operation;
    _Atomic int64_t waits_done; /* waits of all ranks that are over */

    pthread_mutex_t lock; /* over all below */
    pthread_cond_t change;
    struct lvn_wire wire;
    struct lvn_peer *peer;
    struct lvn_fact_group *group;
    int n_groups;
    double last_received, last_sent;
    bool welcomed, started, ended, sent_bye;
    char refusal[300];
    bool failed_here;        /* lvn_member_fail() was called: no callback */
    bool delivering; /* the thread writes status.json, and calls the callback */
    bool faulty, is_reporter, quiet, permanent;
    int fault_rank;
    char fault[1200];
    char state[24], path[1024], warning[1200];
    struct lvn_straggler straggler;
    double straggler_checked;
    bool declared_lost;           /* the others took this rank for lost while it stood still, and said so */
    bool leaked;              /* a thread that was not waited for uses this for good */
    pthread_mutex_t writing; /* of status.json */
};

/* member_thread.c */
void *lvn_member_thread(void *heartbeat); /* the thread */
/* Seconds between the beats of a rank: longer with many of them, all of whom the server has to hear. */
double lvn_member_heartbeat_interval(double timeout, int size);
void *lvn_member_status_thread(void *heartbeat);         /* the thread that keeps status.json */
bool lvn_member_write_status(struct lvn_member *h);  /* false: it could not be written */
void lvn_member_write_final_status(struct lvn_member *h); /* before the end, which waits for no file system */
/* With the lock held: */
void lvn_member_send_heartbeat(struct lvn_member *h, double now);
bool lvn_member_receive(struct lvn_member *h, const struct lvn_message *m); /* false: no message for a rank */
/* Shows h->warning to people, and calls the program for the fault that is set. Both let go of the lock meanwhile. */
void lvn_member_warn(struct lvn_member *h);
void lvn_member_deliver_fault(struct lvn_member *h);
void lvn_member_set_fault(struct lvn_member *h, int rank, bool is_reporter, bool quiet, const char *text);
void lvn_set_reporter(bool is_reporter);
/* SIGABRT ends this process a tenth of a second later, unless somebody handles it (abort_delay.c). */
void lvn_delay_abort(void);

#endif
