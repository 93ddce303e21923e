/* measure.h - what this machine can do at best, measured.
 *
 * Utilisation is told against the machine's own rate of matrix products, and the speed of generation against its
 * memory. Each call takes a fraction of a second, and its best try counts: neighbours on a shared machine only slow it.
 */
#ifndef LVN_MEASURE_H
#define LVN_MEASURE_H

#include <stdbool.h>

#include "base/status.h"

/* Floating-point operations a second of matrix products of a GPT's sizes on `threads` threads; in fp32, or of operands
 * that may be rounded to bf16. */
enum lvn_status lvn_measure_matmul(int threads, bool bf16, double *flops_per_s) LVN_CHECKED;
/* Bytes a second that `threads` threads read from memory. */
enum lvn_status lvn_measure_memory(int threads, double *bytes_per_s) LVN_CHECKED;

#endif
