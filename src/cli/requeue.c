/* requeue.c - scontrol requeue for this job.
 *
 * Slurm ends a requeued job at once, so this is the last thing that happens: after every rank has saved. Refusal is not
 * an error (a job may be marked --no-requeue, an interactive one cannot come back): the run ends with 75 all the same,
 * which a site may have set to mean "again" (RequeueExit). */
#include "cli/requeue.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/process.h"
#include "cluster/identity/launcher_env.h"

bool lvn_requeue_possible(void)
{
    struct lvn_environment s;
    if (!getenv("SLURM_JOB_ID")) return false;
    lvn_environment_read(&s);
    return lvn_launcher_env_depth(&lvn_launcher_env_slurm, &s) > 0 || !s.complete;
}

int lvn_requeue_count(void)
{
    const char *count = getenv("SLURM_RESTART_COUNT");
    return count && lvn_requeue_possible() ? (int)strtol(count, NULL, 10) : 0;
}

/* "12", or "10_3" for a task of an array. */
static const char *job_name(struct lvn_cli *c)
{
    const char *array = getenv("SLURM_ARRAY_JOB_ID"), *task = getenv("SLURM_ARRAY_TASK_ID");
    return array && task ? lvn_arena_printf(&c->settings.arena, "%s_%s", array, task) : getenv("SLURM_JOB_ID");
}

/* The nodes that the job is not to get, now that it waits: a running one keeps its list. */
static bool leave_out(struct lvn_cli *c, char *scontrol, const char *job, const char *without)
{
    const struct timespec moment = {.tv_nsec = 200000000};
    struct lvn_arena *a = &c->settings.arena;
    LVN_LOCAL_TEXT(said);
    char *show[] = {scontrol, "-o", "show", "job", (char *)job, NULL};
    int code = lvn_process_run(show, 60, &said), tries = 10;
    const char *old = code == 0 && said.p ? strstr(said.p, " ExcNodeList=") : NULL;
    old = old ? strchr(old, '=') + 1 : "(null)";
    int n = *old == '(' ? 0 : (int)strcspn(old, " \n");
    char *list = lvn_arena_printf(a, "ExcNodeList=%.*s%s%s", n, old, n ? "," : "", without);
    char *update[] = {scontrol, "update", lvn_arena_printf(a, "JobId=%s", job), list, NULL};
    while (list && update[2] && (code = lvn_process_run(update, 60, NULL)) && --tries) nanosleep(&moment, NULL);
    return code == 0;
}

void lvn_requeue(struct lvn_cli *c, const char *without)
{
    LVN_LOCAL_TEXT(said);
    const char *job = job_name(c);
    char *words[] = {lvn_process_find(&c->settings.arena, "scontrol"), "requeue", (char *)job, NULL};
    signal(SIGTERM, SIG_IGN); /* what Slurm sends to a job that goes back, and to what this one starts */
    int code = words[0] && job ? lvn_process_run(words, 60, &said) : -1;
    const char *reason = said.p ? said.p : words[0] ? "it gave no reason" : "there is no scontrol in PATH";
    int n = (int)strcspn(reason, "\n");
    if (code == 0) {
        bool left = *without && leave_out(c, words[0], job, without);
        fprintf(stderr, "job %s is back in the queue%s%s, and goes on when its turn comes\n", job,
                left ? ", to run without " : "", left ? without : "");
    } else {
        fprintf(
            stderr,
            "warning: job %s is not put back into the queue (%.*s); submit it again with --resume, and it goes on\n",
            job ? job : "", n, reason);
    }
}
