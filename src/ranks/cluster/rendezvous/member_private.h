/* member_private.h - private to a member: member.c (joining, state), member_thread.c (the heartbeat thread),
 * member_facts.c, member_single_rank.c. */
#ifndef LVN_MEMBER_PRIVATE_H
#define LVN_MEMBER_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cluster/rendezvous/member.h"
#include "cluster/rendezvous/wire.h"

/* The ranks that have one value of a fact: `ranks` is "0-2,5". */
struct lvn_fact_group {
    char *key, *value, *ranks;
};

/* The states of a member, by the flags of the struct:
 *
 *   state       flags                begins with                                       ends with
 *   connecting  none                 lvn_member_open(): HELLO is sent                  WELCOME, or REFUSE (`refusal`)
 *   joined      welcomed             WELCOME                                           START: all ranks have joined
 *   running     started              START                                             lvn_member_close(), or a fault
 *   closing     sent_bye             lvn_member_close(): BYE is sent                   END: all ranks have sent BYE
 *   ended       ended                END
 *   faulty      faulty               LOST, or the server does not answer: the callback ends the process (delivering)
 *   failed      failed_here          lvn_member_fail(): FAIL is sent, and the callback is not called
 */
struct lvn_member {
    int rank, size;
    int server_rank;      /* rank that runs the server: 0; -1: levin launch runs it */
    double timeout;       /* seconds, from the server */
    double stall_timeout; /* from the options; for a run of one rank */
    char host[256];
    lvn_fault_callback *callback;
    void *context;
    struct lvn_server *server; /* the server, which runs in a thread of rank 0; else NULL */
    bool online;               /* it is connected to a server (false: a run of one rank without one) */
    bool stopping;             /* the threads shall terminate; guarded by lock */
    pthread_t thread, publisher, watch;
    bool has_thread, has_publisher, has_watch;
    int wake; /* eventfd that wakes the thread */
    /* the state in heartbeats */
    _Atomic int64_t step;
    _Atomic uint64_t collective; /* k << 32 | n */
    _Atomic double tokens_per_s, compute_s;
    _Atomic(const char *) operation;
    _Atomic int64_t waits_done; /* completed waits for all ranks */

    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t change;
    struct lvn_wire wire;
    struct lvn_peer *peer;
    struct lvn_fact_group *group;
    int n_groups;
    double last_received; /* time of the server's last message, lvn_seconds() */
    double last_sent;     /* time of the last heartbeat */
    bool welcomed;        /* the server has accepted this rank */
    bool started;         /* all ranks have joined */
    bool ended;           /* all ranks have said goodbye */
    bool sent_bye;        /* this rank has said goodbye */
    char refusal[300];    /* why the server refused this rank; "": it did not */
    bool failed_here;     /* lvn_member_fail() was called, so the callback is not */
    bool delivering;      /* the thread is writing status.json or calling the callback */
    bool faulty;          /* a fault is known: the next five fields */
    bool is_reporter, quiet, permanent;
    int fault_rank;
    char fault[1200];
    char state[24];               /* for status.json */
    struct lvn_attempts attempts; /* for status.json */
    char path[1024];              /* of status.json; "": not set yet */
    char warning[1200];           /* the thread will log it; "": none */
    struct lvn_straggler straggler;
    double straggler_checked; /* time of the last check, lvn_seconds() */
    bool declared_lost; /* this process was stopped, and another rank has written its loss to status.json, which this
                           one must not overwrite */
    bool leaked;        /* a thread that did not return in time still uses this struct, which is never freed */
    pthread_mutex_t writing; /* serializes writes of status.json */
};

/* member_thread.c */
void *lvn_member_thread(void *member); /* the heartbeat thread */
/* Seconds between heartbeats: longer with many ranks, because the server receives them all. */
double lvn_member_heartbeat_interval(double timeout, int size);
void *lvn_member_status_thread(void *member); /* the thread that writes status.json */
/* member_status.c: write status.json; false if that fails. */
bool lvn_member_write_status(struct lvn_member *member);
/* The caller holds the lock: update this rank's row in member->peer. */
void lvn_member_update_own_row(struct lvn_member *member, double now);
/* Before the process terminates; waits at most a second for the file system. */
void lvn_member_write_final_status(struct lvn_member *member);
/* The caller holds the lock: */
void lvn_member_send_heartbeat(struct lvn_member *member, double now);
bool lvn_member_receive(struct lvn_member *member,
                        const struct lvn_message *message); /* false: not a valid message to a rank */
/* Log member->warning; call the callback for the fault. Both release the lock meanwhile. */
void lvn_member_warn(struct lvn_member *member);
void lvn_member_deliver_fault(struct lvn_member *member);
void lvn_member_set_fault(struct lvn_member *member, int rank, bool is_reporter, bool quiet, const char *text);
void lvn_set_reporter(bool is_reporter);

#endif
