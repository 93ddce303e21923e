/* consistency.h - are ranks alike? Before the first step: the same program, settings and data; later: the same
 * parameters. */
#ifndef LVN_CONSISTENCY_H
#define LVN_CONSISTENCY_H

#include "engine/model_state.h"
#include "engine/ranks.h"

/* A number that equal programs share; 0: not known. */
uint64_t lvn_consistency_program(void);
/* Compare what ranks were started with. ARG, with one sentence on all, names the first setting that differs and who has
 * what. Another build of the same version only leaves a sentence in `note`; else that is "". */
enum lvn_status lvn_consistency_start(struct lvn_ranks *r, const struct lvn_settings *s, char *note,
                                      size_t capacity) LVN_CHECKED;
/* The same for fingerprints of the data. */
enum lvn_status lvn_consistency_data(struct lvn_ranks *r, uint64_t fingerprint) LVN_CHECKED;
/* Compare checksums of all parameters after step `step`. COMM, with one sentence on all, names rank and tensor. */
enum lvn_status lvn_consistency_replicas(struct lvn_ranks *r, const struct lvn_model_state *n,
                                         int64_t step) LVN_CHECKED;

#endif
