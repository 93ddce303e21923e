/* parameter_sums.h - checksums of a model state's parameters, computed where they lie, by a program of its own.
 *
 * consistency.h compares them between ranks. Trainings of several ranks plan one with their sessions, so its part of
 * the arena is counted; the model state owns it. */
#ifndef LVN_PARAMETER_SUMS_H
#define LVN_PARAMETER_SUMS_H

#include "engine/model_state.h"

/* Plan the program of n->sums; lvn_model_state_allocate() binds it. */
enum lvn_status lvn_parameter_sums_new(struct lvn_model_state *n) LVN_CHECKED;
void lvn_parameter_sums_free(struct lvn_parameter_sums *s); /* NULL: nothing */
/* Bytes of the program, with the calls to which it is bound, and of its results. */
int64_t lvn_parameter_sums_bytes(const struct lvn_parameter_sums *s);
/* For lvn_model_state_allocate(). */
enum lvn_status lvn_parameter_sums_bind(struct lvn_model_state *n) LVN_CHECKED;
/* sum[params->n]: a checksum of each parameter, in the order of declaration. Another bit in a tensor gives another
 * checksum (ops/parameter_checksum.c says how surely). Uses the arena. */
enum lvn_status lvn_parameter_sums_run(const struct lvn_model_state *n, uint64_t *sum) LVN_CHECKED;

#endif
