/* ranks.h - the ranks of a run: who this process is, how it reaches the others, and how they decide together.
 *
 * Ranks never decide alone. Whatever can fail on one of them (a file that only some can read) is followed by
 * lvn_ranks_agree(): all go on, or all leave with the sentence of the lowest rank that failed, which rank 0 prints. One
 * rank is not a special case. */
#ifndef LVN_RANKS_H
#define LVN_RANKS_H

#include <pthread.h>

#include "backend/backend.h"
#include "cluster/rendezvous/local_ranks.h"
#include "cluster/rendezvous/member.h"
#include "comm/comm.h"
#include "settings/settings.h"

enum { LVN_HOST_TEXT = 65 }; /* of a name that Linux allows, with its end */

struct lvn_ranks {
    int rank, size;
    int on_host, of_host; /* number of this rank among those of this host, and how many those are */
    int hosts;
    int together; /* ranks of this host that may use the same CPUs as this one, itself among them */
    struct lvn_identity who;
    struct lvn_comm *comm;
    pthread_mutex_t ending; /* over `comm` and `grouped`, while they are closed or given up */
    struct lvn_member *heart;
    char (*host)[LVN_HOST_TEXT]; /* [size] */
    double patience;             /* seconds that others may take to join */
    struct lvn_stopped stopped;  /* where they did not: those of this host that stand still */
    bool lost;                   /* this process leaves while others may not know */
    bool borrowed;               /* comm and heart are somebody else's to close */
    bool apart;                  /* each rank has a device of its own */
    struct lvn_device *grouped;  /* that exchanges with those of other ranks by itself; NULL: none */
    bool agreed;                 /* the error record holds what all ranks hold: rank 0 speaks for them */
};

/* Find out who this process is, and join the others with the library that s says. All ranks then compute with the
 * lowest instruction set that any of them has. so_far: how reading s went on this rank; the first thing that ranks
 * agree on. fault: called by another thread, with *out, when a rank is lost (NULL: nothing happens then). Close it
 * always, after a failure too. */
enum lvn_status lvn_ranks_open(struct lvn_ranks **out, const struct lvn_settings *s, lvn_fault_callback *fault,
                               enum lvn_status so_far) LVN_CHECKED;
void lvn_ranks_close(struct lvn_ranks *r); /* NULL: nothing */
/* Are such ranks joined by levin's own connections, as trainer.transport says? ARG where it wants an MPI and the
 * launcher brings none. */
enum lvn_status lvn_ranks_transport(const struct lvn_identity *who, const struct lvn_settings *s,
                                    bool *tcp) LVN_CHECKED;
/* The same over a communicator and a heartbeat (NULL: none) that stay the caller's. */
enum lvn_status lvn_ranks_over(struct lvn_ranks **out, const struct lvn_identity *who, struct lvn_comm *comm,
                               struct lvn_member *heart) LVN_CHECKED;
/* This process ends with `status`: should it print what it has recorded? Tells the others, where they do not know. May
 * take some seconds. */
bool lvn_ranks_is_reporter(struct lvn_ranks *r, enum lvn_status status);
/* This process is about to end with `code` because of the others, of which one no longer answers: have the launcher end
 * it, too, where no levin launch does so. Any thread; does not come back where that works. */
void lvn_ranks_abort(struct lvn_ranks *r, int code);
/* "rank 3 on node2" */
enum { LVN_RANK_TEXT = LVN_HOST_TEXT + 32 };
const char *lvn_ranks_name(const struct lvn_ranks *r, int rank, char text[LVN_RANK_TEXT]);

/* Threads of this rank: as many as given, or else (0) its part of those that the ranks which share its CPUs may use; 0:
 * as many as there are. r may be NULL. */
int lvn_ranks_threads(const struct lvn_ranks *r, int64_t given);

/* All ranks call it at the same place with their own status. The same status comes back on all: OK, or that of the
 * lowest rank that failed, with its sentence (and its name, where not all failed) in everybody's record. */
enum lvn_status lvn_ranks_agree(struct lvn_ranks *r, enum lvn_status mine) LVN_CHECKED;
/* Sums over ranks, in place. Where all but one rank hold 0 the sum is exact. */
enum lvn_status lvn_ranks_sum(struct lvn_ranks *r, double *x, int64_t n) LVN_CHECKED;
/* Rank 0's bytes to all. */
enum lvn_status lvn_ranks_broadcast(struct lvn_ranks *r, void *x, int64_t bytes) LVN_CHECKED;
/* The same of a device's memory. */
enum lvn_status lvn_ranks_broadcast_memory(struct lvn_ranks *r, struct lvn_memory *m, int64_t offset,
                                           int64_t bytes) LVN_CHECKED;

#endif
