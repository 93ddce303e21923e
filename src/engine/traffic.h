/* traffic.h - what one rank sends for a step of a planned training, by formula. `levin plan` makes times of it; a test
 * compares it with what ranks send. Left out: checks of replicas, statistics and checkpoints, which are no part of the
 * program. */
#ifndef LVN_TRAFFIC_H
#define LVN_TRAFFIC_H

#include "comm/sum_algorithm.h"
#include "engine/train_programs.h"

struct lvn_step_traffic {
    struct lvn_traffic gradients;  /* their sums */
    struct lvn_traffic last;       /* of these, the last one, behind which nothing is computed */
    struct lvn_traffic norm;       /* the sum of the shards' squares */
    struct lvn_traffic parameters; /* gathered from their owners */
    struct lvn_traffic matrices;   /* directions and steps of an optimizer on whole matrices */
    int64_t last_bytes;            /* length of the last sum; with the tree, of all gradients */
};

/* hosts: over which the ranks are divided equally; or as many as ranks, which is how they sum where that is not so. */
void lvn_train_programs_traffic(const struct lvn_train_programs *t, int hosts, struct lvn_step_traffic *out);

#endif
