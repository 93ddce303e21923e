/* model_shards.h - a read-only model over ranks: whole on each of them, or with sharded parameters, of which a block's
 * are gathered ahead of its use, as in training.
 *
 * evaluation.c, scoring.c and generation.c plan, allocate and load through it. trainer.strategy decides: fsdp shards
 * the parameters, auto only if a rank's memory is too small for the whole model, and the others only affect training.
 */
#ifndef LVN_MODEL_SHARDS_H
#define LVN_MODEL_SHARDS_H

#include "engine/model_state.h"
#include "model_io/model_setup.h"
#include "options/values.h"

struct lvn_ranks;

/* Make the model state of setup's model, on this rank's device (ranks NULL: one rank). It computes in the precision of
 * training, except: fp16 becomes fp32, which every device supports and in which no gradient underflows; and without
 * `mixed` bf16-mixed becomes fp32. */
enum lvn_status lvn_model_shards_new(struct lvn_model_state **out, struct lvn_model_setup *setup,
                                     const struct lvn_values *v, const struct lvn_ranks *ranks, bool mixed) LVN_CHECKED;

/* Plan the sessions, on all ranks (NULL: one rank). `make` creates the sessions of n; it is called again, after those
 * were dropped, if the parameters must be sharded. MEMORY: that does not help. lvn_parameters_sharded() then returns
 * the decision. */
enum lvn_status lvn_model_shards_plan(struct lvn_model_state *n, struct lvn_ranks *ranks, const struct lvn_values *v,
                                      enum lvn_status (*make)(void *context), void *context) LVN_CHECKED;
/* All ranks: allocate n, and load the weights unless they are loaded. Each rank reads the elements that it keeps. */
enum lvn_status lvn_model_shards_load(struct lvn_model_state *n, struct lvn_ranks *ranks, const struct lvn_values *v,
                                      const struct lvn_pretrained *p) LVN_CHECKED;
/* Free n, unless it is NULL, and everything that its ranks share. */
void lvn_model_shards_free(struct lvn_model_state *n, struct lvn_ranks *ranks);

#endif
