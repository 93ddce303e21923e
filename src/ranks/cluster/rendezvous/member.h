/* member.h - a rank's side of the rendezvous: it joins the other ranks, sends heartbeats, and is notified of lost
 * ranks. engine/ranks.c opens it; the trainer updates its state.
 *
 * lvn_member_open() connects to the rendezvous server (of levin launch, or a thread of rank 0), compares start-up
 * facts, and starts a thread that sends heartbeats, about two per second. The trainer stores the state to send without
 * locks and without waiting. When a rank is lost, the server notifies the thread, or the thread notices that the server
 * is gone. It then calls the program's callback, on every rank; at most one is the reporter, which prints the error.
 * The library never terminates the process.
 *
 * The lowest running rank writes RUN/status.json. A run of one rank has a member too, for that file.
 *
 * From a lost connection to exit code 76: docs/cluster-internals.md. */
#ifndef LVN_MEMBER_H
#define LVN_MEMBER_H

#include "cluster/identity/identity.h"
#include "cluster/rendezvous/server.h"

struct lvn_member;

/* A rank is lost, or the run as a whole has failed. */
struct lvn_fault {
    int rank;         /* the lost rank; -1: no rank in particular */
    bool is_reporter; /* this process prints the error */
    bool quiet;       /* an unresponsive process may still exist, for which a launcher would wait */
    bool permanent;   /* a restart does not help (lvn_server_fault_is_permanent()) */
    const char *text; /* "rank 3 on node2 has sent no heartbeat since step 412; the others wait in reduction 7 of 12" */
};
/* Called once, by the heartbeat thread, while the main thread may be anywhere, even blocked forever: print the
 * error if is_reporter, and terminate the process. It is called a moment later on other ranks, because launchers kill
 * all ranks when the first one exits. */
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

/* Join the other ranks. Collective. Fails on all ranks if one is missing, two have the same number, or one has a
 * different number of ranks; then lvn_is_reporter() is true on the rank that prints the error. */
enum lvn_status lvn_member_open(struct lvn_member **out, const struct lvn_member_options *o) LVN_CHECKED;
/* For a run of one rank without levin launch: from this call on, the run ends with a fault if it makes no progress for
 * options.stall_timeout (hang_detector.h). Must not be called by a program that waits for input, such as one that reads
 * from a terminal. Does nothing for other runs. */
enum lvn_status lvn_member_watch_single_rank(struct lvn_member *member) LVN_CHECKED;
/* This rank ends without error. Returns when all ranks have called it, or after a little more than `timeout`; a fault
 * in between calls the callback as usual. NULL is allowed. */
void lvn_member_close(struct lvn_member *member);

/* --- at the start, and between steps --- */

/* True if the ranks differ in this fact; then `text` is a message: "rank 3 on node2 has build 'b', the other 3 have
 * 'a'". */
bool lvn_member_difference(const struct lvn_member *member, const char *key, char *text, size_t capacity);
/* The value of a rank for the key; "": none. */
const char *lvn_member_fact(const struct lvn_member *member, int rank, const char *key);
/* From this call on, write `path` (RUN/status.json); every rank calls it. "": stop writing it. */
void lvn_member_publish(struct lvn_member *member, const char *path);
/* The attempts of the run, for status.json; every rank calls it, after lvn_member_publish(). */
void lvn_member_set_attempts(struct lvn_member *member, const struct lvn_attempts *attempts);
/* The run's state in status.json, if this rank writes it: "running" (at the start), "done", "stopped", "failed". Rank 0
 * has written it when this returns. */
void lvn_member_state(struct lvn_member *member, const char *state);
/* True if a rank is slower than the others and this was not reported recently; then `text` is a message. Call it once
 * per step. */
bool lvn_member_straggler(struct lvn_member *member, char text[400]);
/* Copy the last known state of up to `max` ranks. Returns their number. */
int lvn_member_table(struct lvn_member *member, struct lvn_peer *peers, int max);

/* --- inside a step: a few atomic stores; member NULL: nothing --- */

/* A step is complete. tokens_per_s: of this rank; compute_s: seconds of the step without waiting for others (a running
 * mean is sent). */
void lvn_member_set_step(struct lvn_member *member, int64_t step, double tokens_per_s, double compute_s);
/* The operation, other than a reduction, in which this rank waits for others: "an agreement". The text must outlive
 * the member. NULL: none. All ranks pass the same waits, so a rank that has completed fewer of them is slower
 * (hang_detector.h). */
void lvn_member_set_operation(struct lvn_member *member, const char *operation);
/* This rank waits in reduction k of n of this step, from 1; k 0: it does not wait in one. */
void lvn_member_set_collective(struct lvn_member *member, int k, int n);

/* --- after an error --- */

/* This process ends with the recorded error (levin_error_text()): notify the other ranks. `is_consequence`: only
 * communication failed, so the error of another rank is probably the cause. Returns when the server has decided which
 * rank reports; then lvn_is_reporter() is final. A second call does nothing. */
void lvn_member_fail(struct lvn_member *member, bool is_consequence);
/* True if this process prints the error of the run. True until it is known that another one does. */
bool lvn_is_reporter(void);

#endif
