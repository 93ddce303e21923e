/* layers_check.h - refuses a model of so many layers that its programs alone are too much, before one is built. */
#ifndef LVN_LAYERS_CHECK_H
#define LVN_LAYERS_CHECK_H

#include "models/model.h"

/* MEMORY: the programs of a training of this model would take more than their part of the free memory; or, where it is
 * to run here (not only planned), its parameters, of `weight_bytes` each, more than all of it. Graphs of one and two
 * layers tell. */
enum lvn_status lvn_layers_check(const struct lvn_model_config *c, int64_t weight_bytes, bool runs) LVN_CHECKED;

#endif
