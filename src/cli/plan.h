/* plan.h - the parts of levin plan. */
#ifndef LVN_PLAN_H
#define LVN_PLAN_H

#include <sys/types.h>

#include "cli/cli.h"
#include "train/training.h"

/* plan_crowd.c: processes that measure together. */
enum { LVN_CROWD = 8 };
struct lvn_crowd {
    int n, rank; /* processes; which one this is: 0, the one that was called, speaks */
    int sockets[LVN_CROWD];
    pid_t pids[LVN_CROWD];
};
/* n - 1 more of this process, which has one thread; they go on from here when told so. End it always. */
enum lvn_status lvn_crowd_begin(struct lvn_crowd *w, int n) LVN_CHECKED;
void lvn_crowd_go(struct lvn_crowd *w);
void lvn_crowd_end(struct lvn_crowd *w); /* does not come back in those processes */

/* plan_ranks.c: --ranks. Share a host's cores out as a launch would, before anything is planned; how many processes
 * measure a host's ranks here. */
void lvn_plan_threads(struct lvn_cli *c);
int lvn_plan_crowd(const struct lvn_cli *c);
/* Predict the time of a step of the training t (planned as rank 0 of all, for the model m), and print it. */
enum lvn_status lvn_plan_ranks(struct lvn_cli *c, const struct lvn_training *t, const struct lvn_model_config *m,
                               struct lvn_crowd *crowd) LVN_CHECKED;

/* plan_time.c: how long a step takes at best on one rank here, from rates that are measured once; and so many steps (0:
 * not known). Nothing on a backend that measures none. */
enum lvn_status lvn_plan_time(struct lvn_cli *c, const struct lvn_training *t, int64_t steps) LVN_CHECKED;

/* plan_launches.c: what an instruction is for: forward, again (forward, for backward), backward, update, ... */
const char *lvn_plan_phase(const struct lvn_instr *i);
/* What a step would launch, on a backend that computes nothing. */
enum lvn_status lvn_plan_launches(struct lvn_cli *c, const struct lvn_training *t) LVN_CHECKED;
/* With --device: does it fit there, and are there kernels for it? ARG: nothing is known of such a device. */
enum lvn_status lvn_plan_device(struct lvn_cli *c, const struct lvn_training *t) LVN_CHECKED;

#endif
