/* train.c - levin train: a recipe and keys in, a run out; or a run and keys, and it goes on.
 *
 * The signals of stop.h and SIGUSR1 ask the loop to finish its step, save and leave; a second SIGINT ends the program
 * at once. Before the first step there is nothing to save, and what it waits for (a network, a FIFO) looks at no flag:
 * the program leaves from the handler. SIGUSR1 is Slurm's word for time that runs out: after all ranks have saved, rank
 * 0 puts the job back into the queue (below levin launch that is levin launch's work), and a job that comes back goes
 * on by itself. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/getenv.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/requeue.h"
#include "cli/stop.h"
#include "data/dataset.h"
#include "train/trainer.h"

/* silent: this rank is not the one that talks; looping: the loop looks at `stop`; launched: below levin launch, which
 * makes SIGUSR1 of all signals and requeues. */
static volatile sig_atomic_t stop, silent, looping, launched, as_json;
static char end_mark[16]; /* of a rank that leaves from its handler */

/* A sentence from a handler. False: nobody is there to hear it. */
static bool say(const char *text)
{
    return silent || write(STDERR_FILENO, text, strlen(text)) >= 0;
}

static void leave_before_the_first_step(void)
{
#define SENTENCE "stopped on request before the first step; there was nothing to save"
    static const char object[] = "{\"error\":\"" SENTENCE "\",\"trace\":[]}\n";
    (void)say(SENTENCE "\n");
    if (as_json && !silent && write(STDOUT_FILENO, object, sizeof object - 1) < 0) _exit(LVN_EXIT_FAILED);
    if (launched) (void)say(end_mark);
#undef SENTENCE
    _exit(LVN_EXIT_STOPPED);
}

static void on_signal(int number)
{
    if (!looping && (number != SIGUSR1 || launched)) leave_before_the_first_step();
    bool again = number == SIGINT && stop;
    if (again) (void)say("\nended immediately by SIGINT; earlier checkpoints are complete\n");
    if (number == SIGINT && !again)
        again = !say("\nstopping after this step; interrupt once more to end immediately\n");
    if (again) _exit(128 + SIGINT);
    if (stop != LVN_STOP_REQUEUE) stop = number == SIGUSR1 ? LVN_STOP_REQUEUE : LVN_STOP_REQUESTED;
}

static void catch_signals(const struct lvn_cli *c)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    launched = getenv("LEVIN_LAUNCH") != NULL;
    as_json = c->json != NULL;
    snprintf(end_mark, sizeof end_mark, "%c%d %s\n", LVN_EXIT_MARK, LVN_EXIT_STOPPED, LVN_EXIT_SAID);
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    lvn_stop_give(on_signal);
    signal(SIGPIPE, SIG_IGN); /* a closed terminal or pager does not end a run */
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is a write that fails */
}

/* What the summary wants that only events tell. */
struct summary {
    double elapsed_s;
    int64_t first_step, tokens_per_step, parameters, peak_bytes;
    bool started;
};

static void remember(void *context, const struct lvn_event *e)
{
    struct summary *m = context;
    if (e->kind == LVN_EVENT_START) {
        *m = (struct summary){.first_step = e->step,
                              .tokens_per_step = e->batch_size * e->block_size,
                              .parameters = e->parameters,
                              .started = true};
    }
    m->elapsed_s = e->elapsed_s;
    m->peak_bytes = e->peak_bytes;
}

static void report(struct lvn_cli *c, const struct lvn_train_result *r, const struct summary *m)
{
    char text[LVN_NUMBER_TEXT];
    double tokens = (double)(r->step - m->first_step) * (double)m->tokens_per_step;
    lvn_cli_add(c, "run_dir", *r->run_dir ? json_string(r->run_dir) : json_null());
    lvn_cli_add(c, "step", json_integer(r->step));
    lvn_cli_add(c, "loss", lvn_cli_number(r->loss));
    lvn_cli_add(c, "val_loss", lvn_cli_number(r->val_loss));
    lvn_cli_add(c, "best_val_loss", lvn_cli_number(r->best_val_loss));
    lvn_cli_add(c, "start_val_loss", lvn_cli_number(r->start_val_loss));
    lvn_cli_add(c, "already_done", json_boolean(r->already_done));
    if (r->already_done && *r->end_reason) {
        lvn_cli_print(c, "%s ended at step %lld, %s: nothing to do\n", r->run_dir, (long long)r->step, r->end_reason);
        return;
    }
    if (r->already_done) {
        lvn_cli_print(c, "%s has finished all of its %lld steps: nothing to do (raise trainer.max_steps to continue)\n",
                      r->run_dir, (long long)r->step);
        return;
    }
    if (m->started) {
        lvn_cli_add(c, "parameters", json_integer(m->parameters));
        lvn_cli_add(c, "seconds", json_real(m->elapsed_s));
        lvn_cli_add(c, "tokens_per_s", lvn_cli_number(m->elapsed_s > 0 ? tokens / m->elapsed_s : 0));
        lvn_cli_add(c, "peak_bytes", json_integer(m->peak_bytes));
    }
    /* the line in one piece: some MPIs turn buffers off, and launchers mark each piece */
    char validation[120] = "", start[40] = "";
    if (r->start_val_loss == r->start_val_loss)
        snprintf(start, sizeof start, ", %.4f before the first step", r->start_val_loss);
    if (r->val_loss == r->val_loss)
        snprintf(validation, sizeof validation, ", validation %.4f (best %.4f%s)", r->val_loss, r->best_val_loss,
                 start);
    lvn_cli_print(c, "%s: step %lld, loss %.4f%s, peak memory %s%s\n", *r->run_dir ? r->run_dir : "fast_dev_run",
                  (long long)r->step, r->loss, validation, lvn_bytes_text(m->peak_bytes, text),
                  c->ranks->size > 1 ? " a rank (mean)" : "");
    if (c->settings.logger.curve && *r->run_dir) lvn_cli_print(c, "loss curve: %s/loss.svg\n", r->run_dir);
}

/* All ranks come here: one that left first would make the launcher end the others. */
static enum lvn_status requeue(struct lvn_cli *c)
{
    if (getenv("LEVIN_LAUNCH") || !lvn_requeue_possible()) return LVN_OK;
    if (c->ranks->rank == 0) lvn_requeue(c, "");
    return lvn_ranks_agree(c->ranks, LVN_OK);
}

/* What nobody said and was found. */
static void tell_data(const struct lvn_cli *c)
{
    const struct lvn_settings *s = &c->settings;
    bool found = s->origin[LVN_OPT_data_kind].source == LVN_SOURCE_DERIVED;
    const struct lvn_dataset_kind *kind = found ? lvn_dataset_kind_find(s->data.kind) : NULL;
    if (!kind) return;
    bool model = s->origin[LVN_OPT_model_kind].source <= LVN_SOURCE_DERIVED && !*s->model.init;
    lvn_log(LVN_LOG_INFO, "'%s' is read as data.kind=%s: %s%s%s", s->data.path, kind->name, kind->help,
            model ? "; for model.kind=" : "", model ? s->model.kind : "");
}

/* Does this attempt of a levin launch go on with a run that an earlier one has begun? levin launch may not know, as
 * where a rank was killed before it could tell; so one rank of each host looks, for hosts may share no folder. */
static enum lvn_status find_begun(struct lvn_cli *c, const char *launch, bool *begun)
{
    struct lvn_ranks *r = c->ranks;
    bool here = false, looks = !r->local_rank && !c->settings.trainer.fast_dev_run;
    double hosts;
    *begun = false;
    if (!launch || !getenv("LEVIN_RESTART")) return LVN_OK;
    *begun = getenv("LEVIN_RUN_BEGUN") != NULL;
    if (*begun) return LVN_OK;
    LVN_TRY(lvn_ranks_agree(r, looks ? lvn_run_dir_begun(c->settings.run_dir, launch, !r->rank, &here) : LVN_OK));
    hosts = here;
    LVN_TRY(lvn_ranks_sum(r, &hosts, 1));
    *begun = hosts > 0;
    return LVN_OK;
}

/* `levin train` alone: neither operand nor key says what there is to train on. */
static enum lvn_status check_anything(const struct lvn_cli *c)
{
    const struct lvn_settings *s = &c->settings;
    const bool data = *s->data.path || s->origin[LVN_OPT_data_kind].source > LVN_SOURCE_DERIVED;
    LVN_CHECK(c->n_operands || data || lvn_cli_on(c, LVN_FLAG_train_resume), ARG,
              "levin train wants something to train: a recipe (levin train recipes/demo.yaml), data (levin train "
              "my.txt, which is data.path) or a run to continue (levin train runs/mine --resume); `levin config` "
              "writes a recipe");
    return LVN_OK;
}

enum lvn_status lvn_command_train(struct lvn_cli *c)
{
    struct lvn_progress progress;
    struct summary summary = {0};
    struct lvn_train_result result = {0};
    bool resume = lvn_cli_on(c, LVN_FLAG_train_resume), overwrite = lvn_cli_on(c, LVN_FLAG_train_overwrite);
    LVN_CHECK(!resume || !overwrite, ARG, "--resume continues a run and --overwrite replaces it; give one of them");
    catch_signals(c); /* meeting the other ranks takes a moment, too */
    LVN_TRY(lvn_cli_join(c, c->n_operands ? c->operand[0] : NULL, LVN_USES_ALL));
    if (lvn_cli_shows_settings(c)) return LVN_OK;
    LVN_TRY(check_anything(c));
    catch_signals(c); /* again: an MPI may have taken them */
    silent = c->ranks->rank != 0;
    if (!silent) lvn_cli_unheeded(c);
    if (!silent) tell_data(c);
    LVN_TRY(lvn_member_watch_alone(c->ranks->member));
    const char *launch = getenv("LEVIN_LAUNCH") ? lvn_getenv("LEVIN_LAUNCH_ID") : NULL;
    bool again;
    LVN_TRY(find_begun(c, launch, &again));
    if (lvn_requeue_count() && !silent && !resume && !again) lvn_log(LVN_LOG_INFO, "this job was requeued: continuing");
    resume |= again || lvn_requeue_count();
    lvn_progress_init(&progress, stderr, lvn_cli_on(c, LVN_FLAG_any_quiet), c->settings.trainer.log_every_n_steps);
    struct lvn_listener listeners[] = {{remember, &summary}, {lvn_progress_handle, &progress}};
    struct lvn_train_options options = {.ranks = c->ranks,
                                        .launch = launch,
                                        .mode = resume      ? LVN_RUN_RESUME
                                                : overwrite ? LVN_RUN_OVERWRITE
                                                            : LVN_RUN_NEW,
                                        .listeners = listeners,
                                        .n_listeners = 2,
                                        .stop = &stop,
                                        .looping = &looping};
    lvn_log_set(lvn_cli_log, &progress, lvn_cli_log_level(c));
    enum lvn_status status = lvn_train(&c->settings, &options, &result);
    lvn_progress_clear(&progress);
    lvn_log_set(lvn_cli_log, NULL, lvn_cli_log_level(c));
    if (status == LVN_OK || status == LVN_STOPPED) report(c, &result, &summary);
    if (status == LVN_STOPPED && result.requeue) LVN_TRY(requeue(c));
    return status;
}
