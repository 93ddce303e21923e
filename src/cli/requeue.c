/* requeue.c - scontrol requeue for this job.
 *
 * Slurm ends a requeued job at once, so this is the last thing that happens: after every rank has saved. Refusal is not
 * an error (a job may be marked --no-requeue, an interactive one cannot come back): the run ends with 75 all the same,
 * which a site may have set to mean "again" (RequeueExit). */
#include "cli/requeue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/process.h"
#include "cluster/family.h"

bool lvn_requeue_possible(void)
{
    struct lvn_surroundings s;
    if (!getenv("SLURM_JOB_ID")) return false;
    lvn_surroundings_read(&s);
    return lvn_family_depth(&lvn_family_slurm, &s) > 0 || !s.complete;
}

bool lvn_requeue_happened(void)
{
    const char *count = getenv("SLURM_RESTART_COUNT");
    return count && strtol(count, NULL, 10) > 0 && lvn_requeue_possible();
}

/* "12", or "10_3" for a task of an array. */
static const char *job_name(struct lvn_cli *c)
{
    const char *array = getenv("SLURM_ARRAY_JOB_ID"), *task = getenv("SLURM_ARRAY_TASK_ID");
    return array && task ? lvn_arena_printf(&c->settings.arena, "%s_%s", array, task) : getenv("SLURM_JOB_ID");
}

void lvn_requeue(struct lvn_cli *c)
{
    struct lvn_text said = {0};
    const char *job = job_name(c);
    char *words[] = {lvn_process_find(&c->settings.arena, "scontrol"), "requeue", (char *)job, NULL};
    int code = words[0] && job ? lvn_process_run(words, 60, &said) : -1;
    const char *reason = said.p ? said.p : words[0] ? "it gave no reason" : "there is no scontrol in PATH";
    int n = (int)strcspn(reason, "\n");
    if (code == 0) {
        fprintf(stderr, "job %s is back in the queue, and goes on when its turn comes\n", job);
    } else {
        fprintf(
            stderr,
            "warning: job %s is not put back into the queue (%.*s); submit it again with --resume, and it goes on\n",
            job ? job : "", n, reason);
    }
    lvn_text_release(&said);
}
