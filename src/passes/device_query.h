/* device_query.h - what passes ask of the device that a program is planned for.
 *
 * backend/backend.c answers from the device's backend, so passes include no header of backends. */
#ifndef LVN_DEVICE_QUERY_H
#define LVN_DEVICE_QUERY_H

#include "passes/program.h"

/* Has it kernels for gradients that are not written (ops/outer.h)? */
bool lvn_device_has_outers(const struct lvn_device *d);
/* Choose the kernel of a planned instruction: sets i->kernel, and *scratch to the bytes that it needs. UNSUPPORTED
 * where the device has none. */
enum lvn_status lvn_device_choose(const struct lvn_device *d, struct lvn_instr *i, int64_t *scratch) LVN_CHECKED;

#endif
