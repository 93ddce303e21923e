/* consistency.h - checks that ranks are consistent: program, options and data before the first step, parameters later.
 *
 * The trainer and the saver call them. All ranks call each function and get the same status. */
#ifndef LVN_CONSISTENCY_H
#define LVN_CONSISTENCY_H

#include "engine/model_state.h"
#include "engine/ranks.h"

/* A hash of this program, equal for equal programs; 0: unknown. */
uint64_t lvn_consistency_program(void);
/* Compare program and options. ARG names the first option that differs, with the values. A different build of the
 * same version is not a failure; `note` then has a sentence, otherwise "". */
enum lvn_status lvn_consistency_start(struct lvn_ranks *r, const struct lvn_values *v, char *note,
                                      size_t capacity) LVN_CHECKED;
/* The same for fingerprints of the data. */
enum lvn_status lvn_consistency_data(struct lvn_ranks *r, uint64_t fingerprint) LVN_CHECKED;
/* Compare checksums of all parameters after step `step`, and shards with the values that their updates wrote. COMM
 * names a rank and a differing tensor or block. */
enum lvn_status lvn_consistency_replicas(struct lvn_ranks *r, const struct lvn_model_state *n,
                                         int64_t step) LVN_CHECKED;

#endif
