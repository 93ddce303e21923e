/* queue.h - queues of a CUDA device on which communication libraries work: streams beside `work`. cuda.c offers them as
 * struct lvn_queue_ops; nothing here knows which library it is.
 *
 * A library's work waits in the queue until `work` has computed everything that was launched before; the next end makes
 * `work` wait for the queue. Both are events, which a captured graph keeps, so a step needs no processor. While the
 * processor waits for the device it polls the checks of all queues: a library's errors are asynchronous. */
#ifndef LVN_CUDA_QUEUE_H
#define LVN_CUDA_QUEUE_H

#include "backend/cuda/cuda_device.h"

extern const struct lvn_queue_ops lvn_cuda_queue_ops;

/* Make `work` wait for everything that queues contain. */
enum lvn_status lvn_cuda_queues_end(struct lvn_cuda_device *d) LVN_CHECKED;
/* Wait for `work`, as long as no check of a queue fails. */
enum lvn_status lvn_cuda_queues_wait(struct lvn_cuda_device *d) LVN_CHECKED;

#endif
