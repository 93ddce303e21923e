/* device_query.h - queries that passes make about the target device.
 *
 * Called by memory_planning.c, mixed_precision.c, recompute.c, round_parameters.c, data_parallel_buckets.c and
 * data_parallel_parameters.c; implemented in backend/backend.c, so that passes include no header of the backends. */
#ifndef LVN_DEVICE_QUERY_H
#define LVN_DEVICE_QUERY_H

#include "passes/program.h"

/* Choose the kernel of an instruction: set i->kernel, i->rounds, and *scratch to the bytes of scratch that it needs.
 * UNSUPPORTED: the device has no kernel for it. */
enum lvn_status lvn_device_choose(const struct lvn_device *d, struct lvn_instr *i, int64_t *scratch) LVN_CHECKED;

/* False for NULL and for devices that compute in host memory. */
bool lvn_device_has_memory(const struct lvn_device *d);

/* Number of threads that run a program; 1 for devices with their own memory, and for NULL. */
int lvn_device_threads(const struct lvn_device *d);

/* Can collectives run in the device's memory, beside programs? False for NULL. */
bool lvn_device_has_queues(const struct lvn_device *d);

/* In mixed precision, may multiplications of decoding round its activations, which are fp32? False for NULL. */
bool lvn_device_rounds_decoding(const struct lvn_device *d);

#endif
