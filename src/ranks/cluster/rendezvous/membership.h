/* membership.h - the table of the ranks of a run with their last known state, messages about them, and status.json.
 * Server and members each have one. */
#ifndef LVN_MEMBERSHIP_H
#define LVN_MEMBERSHIP_H

#include "base/status.h"
#include "base/text.h"

enum lvn_peer_state {
    LVN_PEER_ABSENT, /* it has not joined */
    LVN_PEER_HERE,   /* it has joined, and sends heartbeats */
    LVN_PEER_DONE,   /* it has signed off */
    LVN_PEER_LOST,   /* its connection closed without a sign-off, or it has sent nothing for too long */
};

struct lvn_peer {
    int rank;
    enum lvn_peer_state state;
    int64_t pid;
    int64_t step;        /* last completed step */
    int64_t memory;      /* resident bytes; after its end, their peak */
    int collective;      /* reduction of the step in which it waits, from 1; 0: none */
    int collectives;     /* number of reductions of a step; 0: it waits in none */
    double tokens_per_s; /* of this rank */
    double compute_s;    /* seconds of a step without waiting for others; 0: not known */
    double last_heard;   /* time of its last message, lvn_seconds() */
    char host[256];
    char operation[96];   /* the operation in which it waits for others, "": none */
    char activity[48];    /* its current work, "a validation"; "": its part of a step */
    int64_t waits_done;   /* completed waits for all ranks */
    int64_t work_count;   /* lvn_work_count() */
    int waits_for;        /* 1 + the rank whose message it waits for; 0: none, or not known */
    double last_progress; /* lvn_seconds() when any of these values last changed */
    int64_t first_step;   /* first step that was reported */
    double first_step_at; /* lvn_seconds() of that report */
    double last_step_at;  /* lvn_seconds() of the report of the last step */
    int64_t poll_index;   /* LOST: index of the server poll that detected it; 0: not known */
    const char *reason;   /* LOST: "its process is gone", or NULL */
};

/* Append a list such as "0-2,5" of the ranks whose flag is set; flag[0] is rank first_rank. */
void lvn_ranks_text(const bool *flag, int n, int first_rank, struct lvn_text *t);
/* The lowest rank in state HERE; -1: none. */
int lvn_lowest_here(const struct lvn_peer *peer, int n);
/* Append the message about LOST ranks: "rank 3 on node2 has sent no heartbeat since step 412 (its process is gone);
 * the others wait in reduction 7 of 12". */
void lvn_lost_text(const struct lvn_peer *peer, int n, struct lvn_text *t);

/* The attempts of a run so far, for its goodput: the fraction of computed steps that were kept. Steps after the last
 * checkpoint of an attempt that ends with a fault are computed again. All zero: a run of one attempt. */
struct lvn_attempts {
    int64_t restarts;       /* number of attempts before this one */
    int64_t first_step;     /* completed steps when this attempt began */
    int64_t computed;       /* steps computed by earlier attempts, including lost ones */
    double restart_seconds; /* from the last message before this attempt to its first completed step; 0: not known */
};
/* Steps that all attempts have computed when this one has completed step `step` of the run. */
int64_t lvn_attempts_computed(const struct lvn_attempts *attempts, int64_t step);

/* Write status.json: `path` is replaced atomically, but not synced. Returns false if that fails, without an error
 * message, because a run does not end because of it. `state`: "running", "fault", ...; `text`: the fault or "". */
bool lvn_status_write(const char *path, const struct lvn_peer *peer, int n, const struct lvn_attempts *attempts,
                      const char *state, const char *text);

/* Detection of a rank that is slower than the others in several consecutive steps; reported at most every ten minutes.
 * All zero at the start. */
struct lvn_straggler {
    int rank;           /* the slowest rank */
    int times;          /* number of consecutive steps in which it was slow */
    int64_t step;       /* the last step that was checked */
    double reported_at; /* time of the last report, lvn_seconds() */
};
/* Check the current state (at least once per step): true if `text` is to be reported. */
bool lvn_straggler_find(struct lvn_straggler *straggler, const struct lvn_peer *peer, int n, double now,
                        char text[400]);
/* True if the rank is slow: it computes at least 1.25 times the median of all ranks. */
bool lvn_is_slow(const struct lvn_peer *peer, int n, int rank, double *median);

#endif
