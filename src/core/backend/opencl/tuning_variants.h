/* tuning_variants.h - autotuning: measures which of two launches with bit-identical results is faster. programs.c
 * calls it when it prepares a program; private to backend/opencl. */
#ifndef LVN_TUNING_VARIANTS_H
#define LVN_TUNING_VARIANTS_H

#include "backend/opencl/opencl_device.h"

/* For `faster` of struct lvn_gpu_driver. */
enum lvn_gpu_variant lvn_opencl_faster(const struct lvn_gpu_program *p, const struct lvn_gpu_launch *l);
/* Measure both variants of a launch, which are ready to run, and cache which one is faster. */
enum lvn_status lvn_opencl_measure(enum lvn_gpu_variant *variant, struct lvn_gpu_program *p,
                                   struct lvn_gpu_launch *l) LVN_CHECKED;

#endif
