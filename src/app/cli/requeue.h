/* requeue.h - requeues a Slurm job that runs out of time or loses nodes; and runs programs of Slurm. */
#ifndef LVN_REQUEUE_H
#define LVN_REQUEUE_H

#include "cli/cli.h"

/* Does this process run within a Slurm job? The processes above this one are looked at, too: SLURM_JOB_ID alone may be
 * left over in a shell. */
bool lvn_requeue_possible(void);
/* How often Slurm has requeued this job (SLURM_RESTART_COUNT). Above 0 the run resumes from its last checkpoint. */
int lvn_requeue_count(void);
/* lvn_process_run() for a program of Slurm. It is run again, at most `seconds` in all, while it reports that Slurm's
 * controller does not respond, as when that is busy or restarts. `output` is that of the last time. */
int lvn_slurm_run(char *const *words, double seconds, struct lvn_text *output);
/* Requeue the job, which ends soon after, without the nodes `excluded` ("h1,h2"; "": none). Prints the result on
 * stderr. */
void lvn_requeue(struct lvn_cli *c, const char *excluded);

#endif
