/* hang_detector.h - detects a run that makes no progress although all heartbeats arrive. The server calls it
 * (server_receive.c), and a run of one rank (member_single_rank.c).
 *
 * Reasons are a cut connection between two ranks, lost packets, a file system that does not answer. So each
 * heartbeat says where the rank is, how many waits for all ranks it has completed, and how much work of its own it
 * has done (base/work.h). While any rank makes progress, the others have reason to wait; when none has made progress
 * for the limit, the run ends, with a message about which rank waits where, and which is behind. All of it is
 * computed from the table of heartbeats and the times of their arrival: a rank that is not heard of may have made
 * progress, and is detected as lost instead. A goodbye is the last progress of a rank. */
#ifndef LVN_HANG_DETECTOR_H
#define LVN_HANG_DETECTOR_H

#include "cluster/rendezvous/membership.h"

enum lvn_hang_state { LVN_HANG_NONE, LVN_HANG_SUSPECTED, LVN_HANG_DETECTED };

/* A heartbeat of rank p arrived at `now`; `before` is the previous one. Updates the time of its last progress, and
 * its step times. */
void lvn_hang_detector_heard(struct lvn_peer *p, const struct lvn_peer *before, double now);
/* Seconds without progress after which the run ends: `min` (at least 2), or twenty mean steps where these take
 * longer; 0: no limit. */
double lvn_hang_detector_limit(const struct lvn_peer *p, int n, double min);
/* Has no rank made progress for half of the limit (SUSPECTED), or all of it (DETECTED)? */
enum lvn_hang_state lvn_hang_detector_judge(const struct lvn_peer *p, int n, double min);
/* The lowest of the ranks that the others wait for; -1: all are equally far. */
int lvn_hang_detector_behind(const struct lvn_peer *p, int n);
/* Two ranks of which one does not receive what the other has sent, or neither does: the network link between them is
 * at fault. False: none. */
bool lvn_hang_detector_link(const struct lvn_peer *p, int n, int link[2]);
/* The message: "no rank has gone on for 10 min, since step 12: ranks 0,1 wait in reduction 2 of 2; rank 2 on h3
 * stands in reduction 1 of 2"; before the limit, also when the run will end. */
void lvn_hang_detector_text(const struct lvn_peer *p, int n, double min, struct lvn_text *t);

#endif
