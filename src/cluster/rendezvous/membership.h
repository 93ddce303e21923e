/* membership.h - the ranks of a run as they were last heard of, and sentences about them. */
#ifndef LVN_MEMBERSHIP_H
#define LVN_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

enum lvn_peer_state { LVN_PEER_ABSENT, LVN_PEER_HERE, LVN_PEER_DONE, LVN_PEER_LOST };

struct lvn_peer {
    int rank;
    enum lvn_peer_state state;
    int64_t pid, step, memory;   /* memory: bytes resident */
    int collective, collectives; /* the one it waits in, from 1, of so many in a step; 0: in none */
    double tokens_per_s;         /* of this rank */
    double compute_s;            /* of a step, waiting for others left out; 0: not known */
    double last_heard;                 /* lvn_seconds() when it was last heard of */
    char host[256], operation[96];   /* place: the instruction, "" */
    char activity[48];               /* what it is at, "a validation"; "": its part of a step */
    int64_t waits_done, work_count;      /* how many waits of all ranks lie behind it; its work.h's count */
    int waits_for;                  /* 1 + the rank whose message it waits for; 0: none, or it is not known */
    double last_progress;                /* lvn_seconds() when any of this was last another than before */
    int64_t first_step;          /* of which the server heard, ... */
    double first_step_at, last_step_at;    /* ... when; and when it heard of the last one */
    int64_t poll_index;                /* LOST: the server's how manieth look found it so; 0: not known */
    const char *reason;          /* LOST: "its process is gone", or NULL */
};

/* "0-2,5" of the ranks whose flag is set, of which the first is number `from`. */
void lvn_ranks_text(const bool *flag, int n, int from, struct lvn_text *t);
/* The lowest rank that is here, -1: none. */
int lvn_lowest_here(const struct lvn_peer *p, int n);
/* "rank 3 on node2 has not been heard of since step 412 (its process is gone); the others wait in reduction 7 of 12",
 * about those that are LOST. */
void lvn_lost_text(const struct lvn_peer *p, int n, struct lvn_text *t);

/* The file that tells about a running job: `path` is replaced at once (not synced: it is news, not a record). False,
 * and nothing said, when that fails: a run does not end because of it. `state`: "running", "fault", ...; `text`: the
 * fault or "". */
bool lvn_status_write(const char *path, const struct lvn_peer *p, int n, const char *state, const char *text);

/* A rank that is slower than the others. Which one is slow counts in steps, and the same is not said again for ten
 * minutes. All zero at the start. */
struct lvn_straggler {
    int rank, times;
    int64_t step;
    double said;
};
/* Look at the ranks as they are now (a call or more a step): true when a sentence is to be said. */
bool lvn_straggler_find(struct lvn_straggler *s, const struct lvn_peer *p, int n, double now, char text[400]);
/* The rank is slow now: its computing takes 1.25 times the median of all or more. */
bool lvn_is_slow(const struct lvn_peer *p, int n, int rank, double *median);

#endif
