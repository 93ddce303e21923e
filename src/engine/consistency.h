/* consistency.h - checks that ranks are alike: before the first step in program, settings and data, later in
 * parameters.
 *
 * The trainer and the saver call them. All ranks call each function, and get the same status. */
#ifndef LVN_CONSISTENCY_H
#define LVN_CONSISTENCY_H

#include "engine/model_state.h"
#include "engine/ranks.h"

/* A hash of this program, equal for equal programs; 0: not known. */
uint64_t lvn_consistency_program(void);
/* Compare program and settings. ARG names the first setting that differs, and each rank's value. Another build of the
 * same version is no failure: `note` gets a sentence, else "". */
enum lvn_status lvn_consistency_start(struct lvn_ranks *r, const struct lvn_settings *s, char *note,
                                      size_t capacity) LVN_CHECKED;
/* The same for fingerprints of the data. */
enum lvn_status lvn_consistency_data(struct lvn_ranks *r, uint64_t fingerprint) LVN_CHECKED;
/* Compare checksums of all parameters after step `step`, and those of shards with what their updates wrote. COMM names
 * a rank, and a tensor or a block that differs. */
enum lvn_status lvn_consistency_replicas(struct lvn_ranks *r, const struct lvn_model_state *n,
                                         int64_t step) LVN_CHECKED;

#endif
