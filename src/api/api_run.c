/* api_run.c - a run whose steps the program makes: the parts of the loop of lvn_train(), one call each.
 *
 * A process has one run at a time. Its threads do not survive a fork, so a process that has forked off from one with a
 * run can neither use that run nor open another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "engine/parameters.h"

static struct lvn_run *open_run; /* NULL: none */
static pid_t first_process;      /* that opened a run with this library; 0: none has */

struct lvn_run *lvn_api_open_run(void)
{
    return open_run;
}

_Static_assert((int)LVN_OPEN_NEW == (int)LVN_RUN_NEW && (int)LVN_OPEN_RESUME == (int)LVN_RUN_RESUME &&
                   (int)LVN_OPEN_OVERWRITE == (int)LVN_RUN_OVERWRITE,
               "the modes of levin.h are those of run_dir.h");

static enum lvn_status check_process(pid_t opener)
{
    LVN_CHECK(opener == getpid(), ARG,
              "process %ld was forked from process %ld after a run was opened there, and the run's threads do not "
              "survive a fork: start a new process instead (Python: multiprocessing with \"spawn\")",
              (long)getpid(), (long)opener);
    return LVN_OK;
}

static enum lvn_status check_can_open(const struct lvn_run_options *o)
{
    LVN_CHECK(o->size >= (int64_t)offsetof(struct lvn_run_options, on_event) &&
                  o->size <= (int64_t)sizeof(struct lvn_run_options),
              ARG,
              "lvn_run_options.size is %lld, and this library (ABI %d) knows %lld bytes: set it to the struct's size",
              (long long)o->size, LVN_ABI_VERSION, (long long)sizeof(struct lvn_run_options));
    LVN_CHECK(o->mode >= LVN_OPEN_NEW && o->mode <= LVN_OPEN_OVERWRITE, ARG,
              "lvn_run_options.mode is %lld: give one of enum lvn_open", (long long)o->mode);
    if (first_process) LVN_TRY(check_process(first_process));
    LVN_CHECK(!open_run, ARG, "the run '%s' is open in this process, which has one run at a time: close it first",
              open_run->trainer.settings && open_run->trainer.settings->run_dir ? open_run->trainer.settings->run_dir
                                                                                : "(being opened)");
    return LVN_OK;
}

int lvn_run_open_with(struct lvn_run **out, struct lvn_settings *s, const struct lvn_run_options *o)
{
    locale_t before = lvn_api_begin();
    *out = NULL;
    enum lvn_status status = check_can_open(o);
    if (status != LVN_OK) return lvn_api_return(before, status);
    struct lvn_run *r = lvn_calloc(1, sizeof *r);
    if (!r) return lvn_api_return(before, LVN_MEMORY);
    memcpy(&r->asked, o, (size_t)o->size);
    r->process = first_process = getpid();
    r->trainer.settings = s;
    open_run = *out = r; /* a signal handler may stop the run while it is opened */
    if (r->asked.model) lvn_api_own_model(&r->own, r->asked.model);
    r->options = (struct lvn_train_options){.model = r->asked.model ? &r->own.model : NULL,
                                            .mode = (enum lvn_run_mode)r->asked.mode,
                                            .callback = &lvn_api_callback,
                                            .stop = &r->stop};
    if (r->asked.data) r->status = lvn_api_data(&r->data, r->asked.data, s);
    if (r->asked.data && r->status == LVN_OK) lvn_program_data_set(&r->data);
    if (r->status == LVN_OK) r->status = lvn_api_ranks(&r->options.ranks, s);
    if (r->status == LVN_OK) {
        r->status = lvn_trainer_open(&r->trainer, s, &r->options);
        if (r->status != LVN_OK) r->status = lvn_trainer_close(&r->trainer, r->status, NULL);
    }
    if (r->status == LVN_OK && r->trainer.running.done) r->end_reason = "all of its steps were done before";
    if (r->status == LVN_OK) return lvn_api_return(before, LVN_OK);
    status = r->status;
    lvn_ranks_close(r->options.ranks);
    lvn_program_data_set(NULL);
    open_run = *out = NULL;
    free(r);
    return lvn_api_return(before, status);
}

int lvn_run_open(struct lvn_run **out, struct lvn_settings *s, const struct lvn_own_model *m, enum lvn_open mode)
{
    const struct lvn_run_options o = {
        .size = (int64_t)sizeof(struct lvn_run_options), .mode = (int64_t)mode, .model = m};
    return lvn_run_open_with(out, s, &o);
}

void lvn_run_stop(struct lvn_run *r)
{
    if (r) r->stop = LVN_STOP_REQUESTED;
}

/* ARG if an earlier call of the run failed. */
static enum lvn_status check_whole(const struct lvn_run *r)
{
    LVN_TRY(check_process(r->process));
    LVN_CHECK(r->status == LVN_OK, ARG, "the run failed at step %lld: close it, and continue with LVN_OPEN_RESUME",
              (long long)r->trainer.running.step);
    return LVN_OK;
}

/* Store a failure of the run, and restore the locale. */
static int finish_call(struct lvn_run *r, locale_t before, enum lvn_status status)
{
    if (r->status == LVN_OK) r->status = status;
    return lvn_api_return(before, status);
}

int lvn_run_step(struct lvn_run *r, bool *over)
{
    locale_t before = lvn_api_begin();
    enum lvn_status status = check_whole(r);
    *over = true;
    if (status == LVN_OK && r->end_reason) status = lvn_fail(LVN_ARG, "the run is over: %s", r->end_reason);
    if (status != LVN_OK) return lvn_api_return(before, status);
    *r->part = '\0';                              /* the last evaluation is of older weights */
    if (r->stop && r->options.ranks->size == 1) { /* several ranks agree on it with a step */
        r->trainer.requested.stop = true;
        r->end_reason = "stopped on request";
        return lvn_api_return(before, LVN_OK);
    }
    status = lvn_trainer_step(&r->trainer, &r->end_reason);
    *over = r->end_reason != NULL;
    return finish_call(r, before, status);
}

static enum lvn_status validate(struct lvn_run *r)
{
    LVN_CHECK(r->trainer.opened.validation.on, ARG,
              "this run does not validate: give it validation data and trainer.limit_val_batches "
              "above 0");
    return lvn_trainer_validate(&r->trainer);
}

int lvn_run_validate(struct lvn_run *r)
{
    locale_t before = lvn_api_begin();
    enum lvn_status status = check_whole(r);
    if (status == LVN_OK) *r->part = '\0'; /* val_loss is now that of this validation */
    return lvn_api_return(before, status == LVN_OK ? validate(r) : status);
}

static enum lvn_status score(struct lvn_run *r, struct lvn_model_setup *setup, struct lvn_validation *v, int part)
{
    struct trainer *t = &r->trainer;
    enum lvn_status opened = lvn_model_setup_evaluation(setup, t->settings, r->options.model, NULL);
    if (opened == LVN_OK)
        opened = lvn_validation_open_part(v, &t->opened.train_loader, setup->data, (enum lvn_split_id)part);
    if (opened == LVN_OK) opened = lvn_validation_allocate(v, &t->planned.programs);
    LVN_TRY(lvn_ranks_agree(t->ranks, opened));
    LVN_TRY(lvn_validation_run(v, &t->planned.programs, &r->loss));
    r->task = &t->planned.programs.eval_session->outputs;
    memcpy(r->value, v->value, sizeof r->value);
    snprintf(r->part, sizeof r->part, "%s", lvn_split_names[part]);
    for (int i = 0; i <= r->task->n_metrics; i++)
        snprintf(r->result_name[i], sizeof r->result_name[i], "%s_%s", r->part,
                 i ? r->task->metrics[i - 1]->name : "loss");
    return LVN_OK;
}

static enum lvn_status evaluate(struct lvn_run *r, const char *part)
{
    struct lvn_model_setup setup = {0};
    struct lvn_validation v = {0};
    int id = 0;
    while (id < LVN_SPLIT_ALL && strcmp(lvn_split_names[id], part) != 0) id++;
    LVN_CHECK(id < LVN_SPLIT_ALL, ARG, "'%s' is no part of data: train, val and test are", part);
    LVN_CHECK(r->trainer.planned.programs.eval_session, ARG,
              "a run that does not validate has no program to evaluate with: give it validation data and "
              "trainer.limit_val_batches above 0");
    enum lvn_status status = score(r, &setup, &v, id);
    lvn_validation_release(&v);
    lvn_model_setup_close(&setup);
    return status;
}

int lvn_run_evaluate(struct lvn_run *r, const char *part)
{
    locale_t before = lvn_api_begin();
    enum lvn_status status = check_whole(r);
    return lvn_api_return(before, status == LVN_OK ? evaluate(r, part) : status);
}

static enum lvn_status generate(struct lvn_run *r, const char *prompt, char **text)
{
    const struct lvn_callbacks *c = &r->trainer.callbacks;
    const struct lvn_api_callback *state = c->state[c->n - 1]; /* the program's is the last one */
    struct lvn_text made = {0};
    *text = NULL;
    LVN_CHECK(r->options.ranks->rank == 0, ARG, "text is generated on rank 0 alone, and this is rank %d",
              r->options.ranks->rank);
    LVN_CHECK(!lvn_parameters_sharded(r->trainer.planned.programs.model_state, LVN_PARAMETER_VALUES), UNSUPPORTED,
              "with trainer.strategy fsdp no rank has the parameters to generate text alone: set sample.every_n_steps, "
              "for which all ranks gather them, or take another strategy");
    LVN_CHECK(state->sampler, UNSUPPORTED,
              "a %s does not generate text: give a language model whose attention is cached",
              r->trainer.opened.setup.config.model->name);
    enum lvn_status status = lvn_sampler_text(state->sampler, r->trainer.settings, &r->trainer.context.codec, prompt,
                                              r->trainer.running.step, &made);
    if (status != LVN_OK) lvn_text_release(&made);
    *text = made.p;
    return status;
}

int lvn_run_generate(struct lvn_run *r, const char *prompt, char **text)
{
    locale_t before = lvn_api_begin();
    enum lvn_status status = check_whole(r);
    return lvn_api_return(before, status == LVN_OK ? generate(r, prompt, text) : status);
}

int lvn_run_save(struct lvn_run *r)
{
    locale_t before = lvn_api_begin();
    bool saved = true;
    enum lvn_status status = check_whole(r);
    if (status != LVN_OK) return lvn_api_return(before, status);
    status = lvn_trainer_save(&r->trainer, &saved);
    if (status == LVN_OK && !saved)
        return lvn_api_return(before, lvn_fail(LVN_IO,
                                               "step %lld could not be saved in '%s'; the "
                                               "checkpoints before it are whole",
                                               (long long)r->trainer.running.step, r->trainer.settings->run_dir));
    return finish_call(r, before, status);
}

int lvn_run_log(struct lvn_run *r, int64_t n, const char *const *names, const double *values)
{
    locale_t before = lvn_api_begin();
    enum lvn_status status = check_whole(r);
    if (status == LVN_OK && r->ended)
        status = lvn_fail(LVN_ARG, "the run has ended: scalars are logged between its steps");
    return lvn_api_return(before, status == LVN_OK ? lvn_api_log(r, n, names, values) : status);
}

int64_t lvn_run_steps(const struct lvn_run *r)
{
    return r->trainer.running.step;
}

double lvn_run_value(const struct lvn_run *r, const char *name)
{
    for (int i = 0; *r->part && i <= r->task->n_metrics; i++)
        if (!strcmp(name, r->result_name[i])) return i ? r->value[i - 1] : r->loss;
    return lvn_event_value(&r->trainer.context.event, name);
}

int64_t lvn_run_results(const struct lvn_run *r, struct lvn_run_scalar *out, int64_t capacity)
{
    const int64_t n = *r->part ? 1 + r->task->n_metrics : 0;
    for (int64_t i = 0; i < n && i < capacity; i++)
        out[i] =
            (struct lvn_run_scalar){.name = r->result_name[i], .value = i ? r->value[i - 1] : r->loss, .is_new = 1};
    return n;
}

/* The end of the loop: its last checkpoint and END. */
static enum lvn_status end(struct lvn_run *r, const char *reason)
{
    enum lvn_status status = LVN_OK;
    if (!r->end_reason) r->end_reason = reason;
    if (!r->trainer.running.done) status = lvn_trainer_end(&r->trainer, r->end_reason);
    r->ended = true;
    r->stopped = status == LVN_STOPPED;
    return status;
}

int lvn_run_end(struct lvn_run *r)
{
    locale_t before = lvn_api_begin();
    enum lvn_status status = check_whole(r);
    if (status != LVN_OK || r->ended) return lvn_api_return(before, status);
    status = end(r, "ended by its program");
    return r->stopped ? lvn_api_return(before, status) : finish_call(r, before, status);
}

int lvn_run_close(struct lvn_run *r)
{
    if (!r) return 0;
    locale_t before = lvn_api_begin();
    enum lvn_status status = check_process(r->process);
    if (status != LVN_OK) return lvn_api_return(before, status); /* its files and threads are the other process's */
    status = r->status;
    const bool reported = r->ended && r->stopped; /* by lvn_run_end() */
    if (status == LVN_OK && !r->ended) status = end(r, "closed by its program");
    if (status == LVN_OK && reported) status = LVN_STOPPED;
    status = lvn_trainer_close(&r->trainer, status, NULL);
    lvn_ranks_close(r->options.ranks);
    lvn_program_data_set(NULL);
    for (int i = 0; i < r->n_logged; i++) free(r->logged[i]);
    open_run = NULL;
    free(r);
    return lvn_api_return(before, reported && status == LVN_STOPPED ? LVN_OK : status);
}
