/* plan.h - the parts of levin plan. */
#ifndef LVN_PLAN_H
#define LVN_PLAN_H

#include "cli/cli.h"
#include "train/training.h"

/* plan_ranks.c: --ranks. Share this machine's threads out as a launch would, before anything is planned. */
void lvn_plan_threads(struct lvn_cli *c);
/* Predict the time of a step of the training t (planned as rank 0 of all, for the model m), and print it. */
enum lvn_status lvn_plan_ranks(struct lvn_cli *c, const struct lvn_training *t,
                               const struct lvn_model_config *m) LVN_CHECKED;

/* plan_time.c: how long a step takes at best on one rank here, from rates that are measured once; and so many steps (0:
 * not known). Nothing on a backend that measures none. */
enum lvn_status lvn_plan_time(struct lvn_cli *c, const struct lvn_training *t, int64_t steps) LVN_CHECKED;

/* plan_launches.c: what an instruction is for: forward, again (forward, for backward), backward, update, ... */
const char *lvn_plan_phase(const struct lvn_instr *i);
/* What a step would launch, on a backend that computes nothing. */
enum lvn_status lvn_plan_launches(struct lvn_cli *c, const struct lvn_training *t) LVN_CHECKED;
/* With --device: does it fit there? ARG: nothing is known of such a device. */
enum lvn_status lvn_plan_device(struct lvn_cli *c, const struct lvn_network *n) LVN_CHECKED;

#endif
