/* requeue.c - scontrol requeue for this job; called by train.c and launch_restart.c.
 *
 * Slurm ends a requeued job immediately, so this is the last action, after every rank has saved. A refusal is not an
 * error: a job may be marked --no-requeue, and an interactive one cannot be requeued. The run still exits with 75, for
 * which a cluster may be configured to requeue jobs (RequeueExit). */
#include "cli/requeue.h"

#include <signal.h>
#include <time.h>

#include "base/clock.h"
#include "cli/process.h"
#include "cluster/identity/environment.h"
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

int lvn_slurm_run(char *const *words, double seconds, struct lvn_text *output)
{
    /* in messages of Slurm about the connection to the controller, not about its answer */
    static const char *const no_response[] = {"Unable to contact", "timed out",   "standby mode",
                                              "Zero Bytes",        "temporarily", NULL};
    const struct timespec pause = {.tv_sec = 1};
    for (const double end = lvn_seconds() + seconds;; nanosleep(&pause, NULL)) {
        lvn_text_clear(output);
        const int code = lvn_process_run(words, end - lvn_seconds(), output);
        bool responds = true;
        for (int i = 0; no_response[i] && code && output->p; i++) responds &= !strstr(output->p, no_response[i]);
        if (responds || lvn_seconds() + 2 * (double)pause.tv_sec >= end)
            return code; /* the last run has a second, too */
    }
}

/* "12", or "10_3" for a task of an array. */
static const char *job_name(struct lvn_cli *c)
{
    const char *array = getenv("SLURM_ARRAY_JOB_ID"), *task = getenv("SLURM_ARRAY_TASK_ID");
    return array && task ? lvn_arena_printf(&c->settings.arena, "%s_%s", array, task) : getenv("SLURM_JOB_ID");
}

/* Add nodes to the job's ExcNodeList. That works only once the job is pending, hence the tries. */
static bool exclude_nodes(struct lvn_cli *c, char *scontrol, const char *job, const char *nodes)
{
    const struct timespec pause = {.tv_nsec = 200000000};
    struct lvn_arena *a = &c->settings.arena;
    LVN_LOCAL_TEXT(output);
    char *show[] = {scontrol, "-o", "show", "job", (char *)job, NULL};
    int code = lvn_process_run(show, 60, &output), tries = 10;
    if (code != 0) return false; /* an update would drop nodes that are excluded already */
    const char *old = output.p ? strstr(output.p, " ExcNodeList=") : NULL;
    old = old ? strchr(old, '=') + 1 : "(null)";
    int n = *old == '(' ? 0 : (int)strcspn(old, " \n");
    char *list = lvn_arena_printf(a, "ExcNodeList=%.*s%s%s", n, old, n ? "," : "", nodes);
    char *update[] = {scontrol, "update", lvn_arena_printf(a, "JobId=%s", job), list, NULL};
    while (list && update[2] && (code = lvn_process_run(update, 60, NULL)) && --tries) nanosleep(&pause, NULL);
    return code == 0;
}

void lvn_requeue(struct lvn_cli *c, const char *excluded)
{
    LVN_LOCAL_TEXT(output);
    const char *job = job_name(c);
    char *words[] = {lvn_process_find(&c->settings.arena, "scontrol"), "requeue", (char *)job, NULL};
    signal(SIGTERM, SIG_IGN); /* Slurm sends it to a requeued job; scontrol inherits that it is ignored */
    int code = words[0] && job ? lvn_slurm_run(words, 60, &output) : -1;
    const char *reason = output.p ? output.p : words[0] ? "it gave no reason" : "there is no scontrol in PATH";
    int n = (int)strcspn(reason, "\n");
    if (code == 0) {
        bool done = *excluded && exclude_nodes(c, words[0], job, excluded);
        fprintf(stderr, "job %s is back in the queue%s%s, and continues when Slurm starts it again\n", job,
                done ? ", to run without " : "", done ? excluded : "");
    } else {
        fprintf(stderr, "warning: job %s is not requeued (%.*s); submit it again with --resume to continue\n",
                job ? job : "", n, reason);
    }
}
