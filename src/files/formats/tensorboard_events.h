/* tensorboard_events.h - writes scalars to a TensorBoard event file; used by the tensorboard logger.
 *
 * A record is its length, a masked CRC-32C of that, the payload, and a masked CRC-32C of the payload (TensorFlow's
 * TFRecord). The payload is a protocol buffer, message Event of tensorboard/compat/proto/event.proto, levin writes
 * wall_time, step, file_version, summary.value.{tag, simple_value} and session_log.status. Events are written in
 * batches (base/append_file.h); a short write leaves no partial record. */
#ifndef LVN_TENSORBOARD_EVENTS_H
#define LVN_TENSORBOARD_EVENTS_H

#include "base/append_file.h"

struct lvn_tensorboard {
    struct lvn_append_file file;
    struct lvn_text event;   /* under construction */
    struct lvn_text summary; /* its scalars, under construction */
    struct lvn_text record;  /* the complete record */
};

/* Create a new file in the folder, which is created. from_step > 0: a run resumes, and TensorBoard discards the
 * events of earlier files from that step on. wall_time: seconds since 1970. */
enum lvn_status lvn_tensorboard_open(struct lvn_tensorboard *events, const char *dir, double wall_time,
                                     int64_t from_step) LVN_CHECKED;
/* Add a scalar to the event under construction. */
void lvn_tensorboard_scalar(struct lvn_tensorboard *events, const char *tag, double value);
/* Write the event with these scalars, if any, unless a file in the folder `earlier` (NULL: none) has it at another
 * time. LVN_IO: a flush was due and failed. */
enum lvn_status lvn_tensorboard_event(struct lvn_tensorboard *events, double wall_time, int64_t step,
                                      const char *earlier) LVN_CHECKED;
/* Flush the buffer. */
enum lvn_status lvn_tensorboard_flush(struct lvn_tensorboard *events) LVN_CHECKED;
void lvn_tensorboard_close(struct lvn_tensorboard *events); /* does nothing to a zeroed struct */

#endif
