/* layers_check.h - refuses a model whose number of layers makes its programs alone exceed the memory, before one is
 * built.
 *
 * train_programs.c calls it. It extrapolates from the graphs of one and of two layers. */
#ifndef LVN_LAYERS_CHECK_H
#define LVN_LAYERS_CHECK_H

#include "models/model.h"

/* MEMORY: the programs of a training of this model would exceed their part of the free memory; or, if it is to run on
 * this machine (`allocates`; false: only planned), its parameters, of `weight_bytes` each, would exceed all of it. */
enum lvn_status lvn_layers_check(const struct lvn_model_config *c, int64_t weight_bytes, bool allocates) LVN_CHECKED;

#endif
