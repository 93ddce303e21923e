/* requeue.h - jobs of Slurm that run out of time and go back into the queue. */
#ifndef LVN_REQUEUE_H
#define LVN_REQUEUE_H

#include "cli/cli.h"

/* Does this process belong to a batch job of Slurm that runs now? Variables alone are not believed: they stay in
 * shells. */
bool lvn_requeue_possible(void);
/* Has this job been in the queue before? It goes on from its last checkpoint then. */
bool lvn_requeue_happened(void);
/* Put the job back into the queue; it ends soon after. Says on stderr what came of it. */
void lvn_requeue(struct lvn_cli *c);

#endif
