/* member.h - a rank's side: it meets the others, says where it is, and hears who is lost.
 *
 * One call brings a rank to the place where the others meet (levin launch's, or a thread of rank 0), compares start-up
 * facts, and starts a thread that says some times a second where the rank is. The trainer stamps that, without locks
 * and without waiting. When a rank is lost, the thread hears it, or notices itself that the server is gone, and calls
 * the program's callback on every rank; one of them is asked to say it. The library ends nothing by itself.
 *
 * The lowest rank that lives keeps RUN/status.json. A run of one rank has a heartbeat too: for that file. */
#ifndef LVN_MEMBER_H
#define LVN_MEMBER_H

#include <stddef.h>

#include "cluster/identity/identity.h"
#include "cluster/rendezvous/rendezvous.h"

struct lvn_member;

/* A rank is lost, or something else is wrong with the run as a whole. */
struct lvn_fault {
    int rank;         /* who; -1: nobody in particular */
    bool is_reporter;       /* this process is the one that says it to people */
    bool quiet;       /* a process may still be there that no longer answers, for which a launcher would wait */
    bool permanent;   /* who starts again will meet it again (lvn_server_fault_lasts()) */
    const char *text; /* "rank 3 on node2 has not been heard of since step 412; the others wait in reduction 7 of 12" */
};
/* Called once, by the heartbeat's thread, while the main thread may be anywhere, even waiting in vain: say it if
 * `speak`, and end the process. Where another one speaks, it comes a moment later than there: launchers
 * kill all when the first one ends. */
typedef void lvn_fault_callback(void *context, const struct lvn_fault *fault);

struct lvn_fact {
    const char *key, *value; /* "build", "0.1.0 gcc ..."; at most 32 */
};

struct lvn_member_options {
    const struct lvn_identity *id;
    double timeout;      /* trainer.rank_timeout, seconds */
    double stall_timeout;        /* trainer.stall_timeout, seconds; 0: no limit */
    double join_timeout; /* for all to come; 0: twice `timeout`, at least 60 s */
    const struct lvn_fact *facts;
    int n_facts;
    /* Hand the bytes of rank 0 to all (lvn_comm_broadcast_now()). NULL: rank 0 listens at MASTER_ADDR:MASTER_PORT. Not
     * called when levin launch has a server (LEVIN_RENDEZVOUS). */
    enum lvn_status (*broadcast)(void *context, void *x, int64_t bytes);
    void *broadcast_context;
    lvn_fault_callback *fault; /* NULL: nothing is called */
    void *fault_context;
};

/* Meet the others. Fails on every rank alike when one is missing, claims another's rank or believes in another number
 * of ranks; see lvn_is_reporter(). */
enum lvn_status lvn_member_open(struct lvn_member **out, const struct lvn_member_options *o) LVN_CHECKED;
/* From now on a rank by itself, without others and without levin launch, ends with a fault where it does not go on for
 * options.stall (hang_detector.h). For programs that wait for nobody: not for one that reads from a terminal. Else
 * nothing. */
enum lvn_status lvn_member_watch_alone(struct lvn_member *h) LVN_CHECKED;
/* Goodbye: this rank ends well. Returns when all have said so or more than `timeout` has passed; a fault in between is
 * called as ever. NULL: nothing. */
void lvn_member_close(struct lvn_member *h);

/* --- at the start, and between steps --- */

/* Do the ranks differ in this fact? Then a sentence: "rank 3 on node2 has build 'b', the other 3 have 'a'". */
bool lvn_member_difference(const struct lvn_member *h, const char *key, char *text, size_t capacity);
/* What rank `rank` said for the key, "" when nothing. */
const char *lvn_member_fact(const struct lvn_member *h, int rank, const char *key);
/* Keep `path` (RUN/status.json) from now on; every rank calls it. */
void lvn_member_publish(struct lvn_member *h, const char *path);
/* What status.json says when this rank keeps it: "running" (the start), "done", "stopped", "failed". */
void lvn_member_state(struct lvn_member *h, const char *state);
/* Is a rank slower than the others, and has that not been said lately? Then a sentence. To be called once a step. */
bool lvn_member_straggler(struct lvn_member *h, char text[400]);
/* A copy of the ranks as last heard of, `size` of them. Returns how many. */
int lvn_member_table(struct lvn_member *h, struct lvn_peer *peers, int max);

/* --- inside a step: a few stores; h NULL: nothing --- */

/* A step is done: this rank's tokens/s, and seconds of the step without waiting for others (what is shown
 * is a mean over some steps). */
void lvn_member_set_step(struct lvn_member *h, int64_t step, double tokens_per_s, double compute_s);
/* In what it waits for others, outside of reductions: "an agreement"; the text lives as long as the heartbeat. NULL: in
 * nothing. All ranks go through the same waits: who has fewer behind it is behind (hang_detector.h). */
void lvn_member_set_operation(struct lvn_member *h, const char *operation);
/* It waits in the k-th of n reductions of this step, from 1; 0: in none. */
void lvn_member_set_collective(struct lvn_member *h, int k, int n);

/* --- in trouble --- */

/* This process ends with the error on record (lvn_error_text()): tell the others. `after`: only because communication
 * failed, so that another rank's end is the better explanation. Returns when the others have been told; then
 * lvn_is_reporter() is right. A second call does nothing. */
void lvn_member_fail(struct lvn_member *h, bool after);
/* Is this process the one that prints the error of the run? True until the ranks have found that another one does. */
bool lvn_is_reporter(void);

#endif
