/* requeue.h - jobs of Slurm that run out of time and go back into the queue. */
#ifndef LVN_REQUEUE_H
#define LVN_REQUEUE_H

#include "cli/cli.h"

/* Does this process belong to a batch job of Slurm that runs now? Variables alone are not believed: they stay in
 * shells. */
bool lvn_requeue_possible(void);
/* How often this job has been in the queue before. If it was, it goes on from its last checkpoint. */
int lvn_requeue_count(void);
/* Put the job back into the queue; it ends soon after. It is not to get these nodes ("h1,h2") again; "": it may get
 * any. Says on stderr what came of it. */
void lvn_requeue(struct lvn_cli *c, const char *without);

#endif
