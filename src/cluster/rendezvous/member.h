/* member.h - a rank's side of the rendezvous: it joins the other ranks, sends heartbeats, and learns of lost ranks.
 * engine/ranks.c opens it; the trainer updates its state.
 *
 * lvn_member_open() connects to the rendezvous server (levin launch's, or a thread of rank 0), compares start-up
 * facts, and starts a thread that sends a heartbeat some times a second. The trainer stores the state that it sends
 * without locks and without waiting. When a rank is lost, the thread is told by the server, or notices itself that
 * the server is gone, and calls the program's callback, on every rank; one of them is the reporter, which prints the
 * error. The library never ends the process.
 *
 * The lowest running rank writes RUN/status.json. A run of one rank has a member too, for that file.
 *
 * From a lost connection to exit code 76: the time line in member_thread.c. */
#ifndef LVN_MEMBER_H
#define LVN_MEMBER_H

#include <stddef.h>

#include "cluster/identity/identity.h"
#include "cluster/rendezvous/server.h"

struct lvn_member;

/* A rank is lost, or something else is wrong with the run as a whole. */
struct lvn_fault {
    int rank;         /* the lost rank; -1: no rank in particular */
    bool is_reporter; /* this process prints the error */
    bool quiet;       /* a process may still exist that no longer answers; a launcher would wait for it */
    bool permanent;   /* a restart does not cure it (lvn_server_fault_is_permanent()) */
    const char *text; /* "rank 3 on node2 has sent no heartbeat since step 412; the others wait in reduction 7 of 12" */
};
/* Called once, by the heartbeat thread, while the main thread may be anywhere, even blocked for ever: print the
 * error if is_reporter, and end the process. On ranks that are not the reporter it is called a moment later, because
 * launchers kill all ranks when the first one ends. */
typedef void lvn_fault_callback(void *context, const struct lvn_fault *fault);

struct lvn_fact {
    const char *key, *value; /* "build", "0.1.0 gcc ..."; at most 32 facts */
};

struct lvn_member_options {
    const struct lvn_identity *id;
    double timeout;       /* trainer.rank_timeout, seconds */
    double stall_timeout; /* trainer.stall_timeout, seconds; 0: no hang detection */
    double join_timeout;  /* seconds for all ranks to join; 0: twice `timeout`, at least 60 s */
    const struct lvn_fact *facts;
    int n_facts;
    /* Broadcast bytes from rank 0 (lvn_comm_broadcast_now()). NULL: rank 0 listens at MASTER_ADDR:MASTER_PORT. Not
     * called if levin launch has a server (LEVIN_RENDEZVOUS). */
    enum lvn_status (*broadcast)(void *context, void *x, int64_t bytes);
    void *broadcast_context;
    lvn_fault_callback *fault; /* NULL: no callback */
    void *fault_context;
};

/* Join the other ranks. Collective. Fails on all ranks alike if one is missing, two have the same number, or one was
 * given another number of ranks; then lvn_is_reporter() says which one prints the error. */
enum lvn_status lvn_member_open(struct lvn_member **out, const struct lvn_member_options *o) LVN_CHECKED;
/* For a run of one rank without levin launch: from now on it ends with a fault if it makes no progress for
 * options.stall_timeout (hang_detector.h). Do not call it in a program that waits for input, such as one that reads
 * from a terminal. Otherwise it does nothing. */
enum lvn_status lvn_member_watch_alone(struct lvn_member *h) LVN_CHECKED;
/* This rank ends without error. Returns when all ranks have said so, or after a little more than `timeout`; a fault
 * in between calls the callback as ever. NULL: nothing. */
void lvn_member_close(struct lvn_member *h);

/* --- at the start, and between steps --- */

/* Do the ranks differ in this fact? Then `text` is a message: "rank 3 on node2 has build 'b', the other 3 have 'a'". */
bool lvn_member_difference(const struct lvn_member *h, const char *key, char *text, size_t capacity);
/* The value that a rank gave for the key; "": none. */
const char *lvn_member_fact(const struct lvn_member *h, int rank, const char *key);
/* Write `path` (RUN/status.json) from now on; every rank calls it. "": write it no more. */
void lvn_member_publish(struct lvn_member *h, const char *path);
/* The attempts of the run, for status.json; every rank calls it, after lvn_member_publish(). */
void lvn_member_set_attempts(struct lvn_member *h, const struct lvn_attempts *attempts);
/* The run's state in status.json, if this rank writes it: "running" (at the start), "done", "stopped", "failed". Rank 0
 * has written it when this returns. */
void lvn_member_state(struct lvn_member *h, const char *state);
/* Is a rank slower than the others, and has that not been reported lately? Then `text` is a message. Call it once
 * per step. */
bool lvn_member_straggler(struct lvn_member *h, char text[400]);
/* Copy the state of up to `max` ranks, as last heard of. Returns how many. */
int lvn_member_table(struct lvn_member *h, struct lvn_peer *peers, int max);

/* --- inside a step: a few atomic stores; h NULL: nothing --- */

/* A step is done. tokens_per_s: of this rank; compute_s: seconds of the step without waiting for others (a running
 * mean is reported). */
void lvn_member_set_step(struct lvn_member *h, int64_t step, double tokens_per_s, double compute_s);
/* The operation, other than a reduction, in which this rank waits for others: "an agreement". The text must outlive
 * the member. NULL: none. All ranks go through the same waits, so a rank that has completed fewer is behind
 * (hang_detector.h). */
void lvn_member_set_operation(struct lvn_member *h, const char *operation);
/* This rank waits in reduction k of n of this step, from 1; k 0: in none. */
void lvn_member_set_collective(struct lvn_member *h, int k, int n);

/* --- after an error --- */

/* This process ends with the recorded error (lvn_error_text()): tell the other ranks. `after`: only because
 * communication failed, so that the end of another rank is the better explanation. Returns when the server has
 * decided which rank reports; then lvn_is_reporter() is right. A second call does nothing. */
void lvn_member_fail(struct lvn_member *h, bool after);
/* Does this process print the error of the run? True until it is known that another one does. */
bool lvn_is_reporter(void);

#endif
