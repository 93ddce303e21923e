/* ranks_relay.h - levin ranks --relay: between levin ranks on node 0 and the launcher of another node, over the
 * connection with which that launcher joined (nodes.h). ranks_launcher.c starts it instead of ssh.
 *
 * Standard input is forwarded unchanged: the request and then signals (ranks_launcher.c). The node responds in frames:
 * a kind, the length of the data as four bytes, most significant first, and the data. node_agent.c is the other side.
 */
#ifndef LVN_RANKS_RELAY_H
#define LVN_RANKS_RELAY_H

#include "base/text.h"

enum lvn_frame_kind {
    LVN_FRAME_STDOUT = 'o',
    LVN_FRAME_STDERR = 'e',
    LVN_FRAME_STOP = 's', /* the node's launcher is requested to stop: all ranks must save */
    LVN_FRAME_EXIT = 'x', /* the last frame: the exit code of the ranks, in decimal */
};
enum { LVN_FRAME_HEAD = 5, LVN_FRAME_DATA = 1 << 16 };

/* A line of the relay on stderr for levin launch (launch_output.c), which then stops as after TERM. */
#define LVN_RELAY_STOP                                                                                                 \
    "\x1e"                                                                                                             \
    "stop"

/* Append a frame of at most LVN_FRAME_DATA bytes. */
void lvn_frame_add(struct lvn_text *t, enum lvn_frame_kind kind, const void *data, int64_t n);

/* Relay until the connection ends; returns the exit code of this process. */
int lvn_ranks_relay(int connection);

#endif
