/* requeue.h - requeues a Slurm job that runs out of time or loses nodes. */
#ifndef LVN_REQUEUE_H
#define LVN_REQUEUE_H

#include "cli/cli.h"

/* Does this process run within a Slurm job? The processes above this one are looked at, too: SLURM_JOB_ID alone may be
 * left over in a shell. */
bool lvn_requeue_possible(void);
/* How often Slurm has requeued this job (SLURM_RESTART_COUNT). Above 0 the run resumes from its last checkpoint. */
int lvn_requeue_count(void);
/* Requeue the job, which ends soon after, without the nodes `excluded` ("h1,h2"; "": none). Prints the result on
 * stderr. */
void lvn_requeue(struct lvn_cli *c, const char *excluded);

#endif
