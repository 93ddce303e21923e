/* hang_detector.h - does a run go on of which all ranks are heard?
 *
 * A link that is cut between two of them, packets that get lost, a file system that stands still: every heart beats,
 * and nobody goes on. So a rank says with each beat where it is, how many waits of all ranks lie behind it, and how far
 * its own work has come (base/work.h). While any rank moves the others have reason to wait; when none has moved for the
 * limit, the run ends, with who waits where and who is behind. All of it is a function of the table of beats, with the
 * times at which they were heard: who is not heard of may have moved, and is found otherwise. A goodbye is the last
 * move of a rank. */
#ifndef LVN_HANG_DETECTOR_H
#define LVN_HANG_DETECTOR_H

#include "cluster/rendezvous/membership.h"

enum lvn_hang_state { LVN_HANG_NONE, LVN_HANG_SUSPECTED, LVN_HANG_DETECTED };

/* Rank p was heard of at `now`, and is not where it was `before`, or is: keeps when it last moved, and its steps. */
void lvn_hang_detector_heard(struct lvn_peer *p, const struct lvn_peer *before, double now);
/* `least` seconds (2 at the least), or twenty mean steps where these take longer; 0: there is no limit. */
double lvn_hang_detector_limit(const struct lvn_peer *p, int n, double min);
/* How long has nobody moved: for half of the limit, or all of it? */
enum lvn_hang_state lvn_hang_detector_judge(const struct lvn_peer *p, int n, double min);
/* The lowest rank of those that the others wait for; -1: all have come equally far. */
int lvn_hang_detector_behind(const struct lvn_peer *p, int n);
/* Two ranks of which one misses what the other one has sent, or each the other's: the link between them is at fault. */
bool lvn_hang_detector_link(const struct lvn_peer *p, int n, int link[2]);
/* "no rank has gone on for 10 min, since step 12: ranks 0,1 wait in reduction 2 of 2; rank 2 on h3 stands in reduction
 * 1 of 2"; before the limit, when the run will end. */
void lvn_hang_detector_text(const struct lvn_peer *p, int n, double min, struct lvn_text *t);

#endif
