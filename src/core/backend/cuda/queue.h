/* queue.h - queues of a CUDA device for communication libraries: streams that run next to `work`. cuda.c offers them as
 * struct lvn_queue_ops; this file does not depend on a particular library.
 *
 * A library's work waits in the queue until `work` has computed everything that was launched before; the next end()
 * makes `work` wait for the queue. Both use events, which a captured graph records, so a step does not involve the
 * host. While the host waits for the device it polls the checks of all queues, because errors of libraries are
 * asynchronous. */
#ifndef LVN_CUDA_QUEUE_H
#define LVN_CUDA_QUEUE_H

#include "backend/cuda/cuda_device.h"

extern const struct lvn_queue_ops lvn_cuda_queue_ops;

/* Make `work` wait for everything that queues contain. */
enum lvn_status lvn_cuda_queues_end(struct lvn_cuda_device *d) LVN_CHECKED;
/* Wait for `work`, as long as no check of a queue fails. */
enum lvn_status lvn_cuda_queues_wait(struct lvn_cuda_device *d) LVN_CHECKED;

#endif
