/* tensorboard_events.h - scalars as TensorBoard reads them: a file of events.
 *
 * A record is its length, a masked CRC-32C of that, the bytes, a masked CRC-32C of those (TensorFlow's TFRecord). The
 * bytes are a protocol buffer, message Event of tensorboard/compat/proto/event.proto, of which levin writes wall_time,
 * step, file_version, summary.value.{tag, simple_value} and session_log.status. Events are written some at a time
 * (base/append_file.h); a short write leaves no part of one behind. */
#ifndef LVN_TENSORBOARD_EVENTS_H
#define LVN_TENSORBOARD_EVENTS_H

#include <stdint.h>

#include "base/append_file.h"

struct lvn_tensorboard {
    struct lvn_append_file file;
    struct lvn_text event, summary; /* being made */
    struct lvn_text record;         /* the event as it stands in the file */
};

/* A new file in the folder, which is made. from_step > 0: a run goes on, and what earlier files hold from that step on
 * counts no more. wall_time: seconds since 1970. */
LVN_CHECKED enum lvn_status lvn_tensorboard_open(struct lvn_tensorboard *t, const char *dir, double wall_time,
                                                 int64_t from_step);
/* A value of the event that is being made. */
void lvn_tensorboard_scalar(struct lvn_tensorboard *t, const char *tag, double value);
/* The event of these values, at a step; without any: none. IO when it was time to write, and that failed. */
LVN_CHECKED enum lvn_status lvn_tensorboard_event(struct lvn_tensorboard *t, double wall_time, int64_t step);
/* Write what is not written yet. */
LVN_CHECKED enum lvn_status lvn_tensorboard_flush(struct lvn_tensorboard *t);
void lvn_tensorboard_close(struct lvn_tensorboard *t); /* of zeros: nothing */

#endif
