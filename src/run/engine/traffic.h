/* traffic.h - the data that one rank sends for a step of a planned training, by formula. `levin plan` estimates times
 * from it; a test compares it with actual traffic. Checks of replicas, statistics and checkpoints are not part of the
 * program and not included. */
#ifndef LVN_TRAFFIC_H
#define LVN_TRAFFIC_H

#include "comm/sum_algorithm.h"
#include "engine/train_programs.h"

struct lvn_step_traffic {
    struct lvn_traffic gradients;  /* their sums */
    struct lvn_traffic last;       /* of these, the last one, which nothing overlaps */
    struct lvn_traffic norm;       /* the sum of squares of shards */
    struct lvn_traffic parameters; /* gathered from their owners */
    struct lvn_traffic matrices;   /* directions and steps of an optimizer on whole matrices */
    int64_t last_bytes;            /* bytes of the last sum; with the tree, of all gradients */
};

/* hosts: hosts over which the ranks are divided equally; or the number of ranks, as they then sum. */
void lvn_train_programs_traffic(const struct lvn_train_programs *programs, int hosts, struct lvn_step_traffic *out);

#endif
