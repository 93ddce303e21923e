/* hang_detector.h - detects a run that makes no progress although all heartbeats arrive. The server calls it
 * (server_receive.c), and a run of one rank (member_single_rank.c).
 *
 * Causes are a broken connection between two ranks, lost packets, an unresponsive file system. So each heartbeat
 * contains the rank's current operation, how many waits for all ranks it has completed, and how much local work it has
 * done (base/work.h). While any rank makes progress, the others may be waiting for it. When none has made progress for
 * the limit, the run ends, with a message about where each rank waits and which has least progress. All of this is
 * computed from the table of heartbeats and their arrival times. A rank without heartbeats may have made progress; it
 * is detected as lost instead. A goodbye is the last progress of a rank. */
#ifndef LVN_HANG_DETECTOR_H
#define LVN_HANG_DETECTOR_H

#include "cluster/rendezvous/membership.h"

enum lvn_hang_state { LVN_HANG_NONE, LVN_HANG_SUSPECTED, LVN_HANG_DETECTED };

/* A heartbeat of this rank arrived at `now`; `before` is the previous one. Updates the time of its last progress, and
 * its step times. */
void lvn_hang_detector_heard(struct lvn_peer *peer, const struct lvn_peer *before, double now);
/* Seconds without progress after which the run ends: `min` (at least 2), or twenty mean steps if that is longer;
 * 0: no limit. */
double lvn_hang_detector_limit(const struct lvn_peer *peer, int n, double min);
/* SUSPECTED if no rank made progress for half of the limit, DETECTED for all of it. */
enum lvn_hang_state lvn_hang_detector_state(const struct lvn_peer *peer, int n, double min);
/* The lowest of the ranks with least progress; -1: all have the same. */
int lvn_hang_detector_behind(const struct lvn_peer *peer, int n);
/* Find two ranks of which one does not receive what the other has sent, or neither does: the network link between them
 * is at fault. False: none. */
bool lvn_hang_detector_link(const struct lvn_peer *peer, int n, int link[2]);
/* The message: "no rank has made progress for 10 min, since step 12: ranks 0,1 wait in reduction 2 of 2; rank 2 on h3
 * is in reduction 1 of 2"; before the limit, also when the run will end. */
void lvn_hang_detector_text(const struct lvn_peer *peer, int n, double min, struct lvn_text *t);

#endif
