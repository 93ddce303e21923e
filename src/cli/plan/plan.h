/* plan.h - the parts of levin plan. */
#ifndef LVN_PLAN_H
#define LVN_PLAN_H

#include <sys/types.h>

#include "cli/cli.h"
#include "engine/synthetic_step.h"

/* plan_oversubscription.c: processes that measure together. */
enum { LVN_OVERSUBSCRIPTION = 8 };
struct lvn_oversubscription {
    int n;    /* processes */
    int rank; /* which one this is: 0, the one that was called, prints */
    int what; /* what the first one told the others to do */
    int sockets[LVN_OVERSUBSCRIPTION];
    pid_t pids[LVN_OVERSUBSCRIPTION];
};
/* n - 1 more of this process, which has one thread; they go on from here when told so. End it always. */
enum lvn_status lvn_oversubscription_begin(struct lvn_oversubscription *w, int n) LVN_CHECKED;
void lvn_oversubscription_go(struct lvn_oversubscription *w,
                             int what);                        /* `what`, of 8 bits, is left in their w->what */
void lvn_oversubscription_end(struct lvn_oversubscription *w); /* does not come back in those processes */

/* plan_time.c: what this machine does in a second, measured on pieces of a fixed size and cached. */
enum { LVN_N_RATES = LVN_RATE_READING + 1 };
struct lvn_rates {
    double per_s[LVN_N_RATES]; /* by enum lvn_rate */
    bool cached;               /* measured by an earlier command */
};
enum lvn_status lvn_plan_rates(struct lvn_cli *c, struct lvn_device *d, struct lvn_rates *r) LVN_CHECKED;
/* Seconds at these rates, at best, without communication: forward and backward of one micro-batch, and the update. */
void lvn_plan_parts(const struct lvn_train_programs *t, const struct lvn_rates *r, struct lvn_parts *parts);
/* How long a step takes at best on one rank here, and so many steps (0: not known). Nothing on a backend that measures
 * no rates. */
enum lvn_status lvn_plan_time(struct lvn_cli *c, const struct lvn_train_programs *t, int64_t steps) LVN_CHECKED;

/* plan_compute.c: what a micro-batch of a rank takes, measured where that is quick and else from the rates. */
enum lvn_computed {
    LVN_COMPUTED_BY_RATES, /* nothing ran */
    LVN_COMPUTED_WHOLE,    /* the whole model ran */
    LVN_COMPUTED_LAYERS,   /* one and two layers ran; each further one takes the difference */
};
struct lvn_compute {
    enum lvn_computed how;
    int processes;          /* that computed at the same time */
    struct lvn_rates rates; /* where nothing ran */
    struct lvn_parts parts; /* of one micro-batch, and of the sums among the processes */
};
/* For the training t (planned as rank 0 of `ranks`, for the model m). Processes of the crowd other than the first
 * measure along, or are not needed; they print nothing afterwards. */
enum lvn_status lvn_plan_compute(struct lvn_compute *out, struct lvn_cli *c, const struct lvn_train_programs *t,
                                 const struct lvn_model_config *m, int ranks,
                                 struct lvn_oversubscription *crowd) LVN_CHECKED;

/* plan_ranks.c: --ranks. Share a host's cores out as a launch would, before anything is planned; how many processes
 * measure a host's ranks here; how many threads each of them has. */
void lvn_plan_threads(struct lvn_cli *c);
int lvn_plan_oversubscribe(const struct lvn_cli *c);
int lvn_plan_threads_here(const struct lvn_cli *c);
/* Predict the time of a step of the training t (planned as rank 0 of all, for the model m), and print it. */
enum lvn_status lvn_plan_ranks(struct lvn_cli *c, const struct lvn_train_programs *t, const struct lvn_model_config *m,
                               struct lvn_oversubscription *crowd) LVN_CHECKED;

/* plan_launches.c: what a step would launch, on a backend that computes nothing. */
enum lvn_status lvn_plan_launches(struct lvn_cli *c, const struct lvn_train_programs *t) LVN_CHECKED;
/* Print what would make a rank smaller that takes so many bytes, where so many are available. With --json: the same as
 * a list; else NULL. */
json_t *lvn_plan_advice(const struct lvn_cli *c, const struct lvn_train_programs *t, int64_t takes, int64_t available);
/* With --device: does it fit there, and are there kernels for it? ARG: nothing is known of such a device. */
enum lvn_status lvn_plan_device(struct lvn_cli *c, const struct lvn_train_programs *t) LVN_CHECKED;

#endif
