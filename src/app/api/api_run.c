/* api_run.c - a run whose steps the program makes: the parts of the loop of lvn_train(), one call each, and the
 * callback that hands the events of the run to its program.
 *
 * A process has one run at a time, which accepts one call at a time: each call begins with lvn_api_enter(). The threads
 * of a run do not survive a fork. So a process that was forked after a run was opened can neither use that run nor
 * open another.
 */
#include <unistd.h>

#include "api/api.h"
#include "chat/chat.h"
#include "engine/parameters.h"
#include "setup/setup.h"

static struct levin_run *volatile open_run; /* NULL: none */
static volatile sig_atomic_t stop;          /* enum lvn_stop, of the open run */
static volatile pid_t first_process;        /* that opened a run with this library; 0: none has */
static const char kind[] = "run";

/* --- events: the callback that is called last, after the loggers, and hands events of the run to its program --- */

#define SAME(name)                                                                                                     \
    _Static_assert((int)LEVIN_ON_##name == (int)LVN_EVENT_##name, "the kinds of levin.h are those of events.h")
SAME(START);
SAME(STEP);
SAME(VALIDATION);
SAME(CHECKPOINT);
SAME(SAMPLE);
SAME(EPOCH);
SAME(NOTE);
SAME(END);
SAME(LOG);
_Static_assert((int)LEVIN_REQUEST_STOP == (int)LVN_CONTROL_SHOULD_TRAINING_STOP &&
                   (int)LEVIN_REQUEST_SAVE == (int)LVN_CONTROL_SHOULD_SAVE &&
                   (int)LEVIN_REQUEST_VALIDATE == (int)LVN_CONTROL_SHOULD_EVALUATE,
               "the requests of levin.h are the control flags of callback.h");

static struct levin_run_event convert(const struct lvn_callback_context *context,
                                      struct levin_run_scalar scalar[LVN_SCALARS])
{
    const struct lvn_event *e = &context->event;
    for (int i = 0; i < e->n_scalars; i++)
        scalar[i] = (struct levin_run_scalar){.size = (int64_t)sizeof(struct levin_run_scalar),
                                              .name = e->scalar[i].name,
                                              .value = e->scalar[i].value,
                                              .is_new = lvn_event_updates(e, i)};
    return (struct levin_run_event){
        .size = (int64_t)sizeof(struct levin_run_event),
        .kind = (int64_t)e->kind,
        .step = e->step,
        .max_steps = e->max_steps,
        .epoch = e->epoch,
        .text = e->text,
        .n_scalars = e->n_scalars,
        .scalar = scalar,
        .is_best = e->best,
        .elapsed_s = e->elapsed_s,
        .eta_s = e->eta_s,
        .epoch_s = e->epoch_s,
        .best_val_loss = e->best_val_loss,
        .start_val_loss = e->start_val_loss,
        .memory_bytes = e->memory_bytes,
        .peak_bytes = e->peak_bytes,
        .name = e->name,
        .run_dir = context->settings->values.trainer.fast_dev_run ? NULL : e->run_dir,
        .unit = e->unit,
        .isa = e->isa,
        .parameters = e->parameters,
        .trained = e->trained,
        .batch_size = e->batch_size,
        .micro_batch_size = e->micro_batch_size,
        .accumulation = e->accumulation,
        .block_size = e->block_size,
        .steps_per_epoch = e->steps_per_epoch,
        .train_tokens = e->train_tokens,
        .val_tokens = e->val_tokens,
        .train_samples = e->train_samples,
        .val_samples = e->val_samples,
        .rank = context->ranks->rank,
        .ranks = context->ranks->size,
        .hosts = e->hosts,
        .threads = e->threads,
    };
}

/* Call the program; returns its requests. */
static unsigned notify(struct lvn_callback_context *context)
{
    enum { KNOWN = LEVIN_REQUEST_STOP | LEVIN_REQUEST_SAVE | LEVIN_REQUEST_VALIDATE };
    struct levin_run_scalar scalar[LVN_SCALARS];
    const struct levin_run *r = open_run;
    if (!r || !r->given_options.on_event) return 0;
    const struct levin_run_event event = convert(context, scalar);
    const char *before = lvn_api_call_back("on_event");
    const unsigned requests = (unsigned)r->given_options.on_event(r->given_options.context, &event) & KNOWN;
    lvn_api_call_back(before);
    return requests;
}

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    (void)state;
    unsigned requests = notify(context);
    if (requests & LVN_CONTROL_SHOULD_TRAINING_STOP)
        lvn_callback_request_stop(context, "a callback of the program asked to stop");
    context->control |= requests;
    return LVN_OK;
}

static void note(void *state, struct lvn_callback_context *context)
{
    (void)state;
    (void)notify(context);
}

/* --- scalars of the program --- */

static enum lvn_status check_name(const char *name)
{
    const size_t n = strlen(name);
    const bool fits =
        n >= 1 && n < 48 && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-") == n;
    LVN_CHECK(fits, ARG,
              "'%.60s' is not a valid name of a scalar: use 1 to 47 ASCII letters, digits and the characters _ . / -",
              name);
    return LVN_OK;
}

/* Check a name before any name of the call is declared. Increment *n_new if it is new. */
static enum lvn_status check_scalar(const struct lvn_event *e, const char *name, int *n_new)
{
    LVN_CHECK(name, ARG, "the name of a scalar is NULL: name each scalar");
    const int found = lvn_event_find(e, name);
    LVN_CHECK(found < 0 ? strcmp(name, "step") != 0 : e->scalar[found].kind == LVN_EVENT_LOG, ARG,
              "'%s' is reserved: levin logs it itself; choose another name", name);
    if (found >= 0) return LVN_OK;
    LVN_TRY(check_name(name));
    LVN_CHECK(e->n_scalars + *n_new < LVN_SCALARS, ARG,
              "'%s' is one scalar too many: a run has at most %d, including levin's", name, LVN_SCALARS);
    (*n_new)++;
    return LVN_OK;
}

/* Find the program's scalar of this name; declare it if it is new. */
static enum lvn_status find_scalar(struct levin_run *r, const char *name, int *out)
{
    struct lvn_event *e = &r->trainer.context.event;
    *out = lvn_event_find(e, name);
    if (*out >= 0) return LVN_OK;
    char *copy = lvn_strdup(name);
    if (!copy) return LVN_MEMORY;
    r->logged[r->n_logged++] = copy;
    *out = e->n_scalars;
    e->scalar[*out] = (struct lvn_scalar){
        .name = copy, .kind = LVN_EVENT_LOG, .better = LVN_BETTER_UNKNOWN, .computed = true, .value = NAN};
    __atomic_store_n(&e->n_scalars, *out + 1, __ATOMIC_RELEASE); /* another thread may be in levin_run_value() */
    return LVN_OK;
}

/* Log scalars of the program: the event LOG, on all ranks. */
static enum lvn_status call_log(struct levin_run *r, int64_t n, const char *const *names, const double *values)
{
    struct lvn_callback_context *context = &r->trainer.context;
    struct lvn_event *e = &context->event;
    const enum lvn_event_kind event_kind = e->kind;
    const char *text = e->text;
    int scalar, n_new = 0;
    for (int64_t i = 0; i < n; i++) LVN_TRY(check_scalar(e, names[i], &n_new));
    for (int64_t i = 0; i < n; i++) LVN_TRY(find_scalar(r, names[i], &scalar));
    for (int i = 0; i < e->n_scalars; i++)
        if (e->scalar[i].kind == LVN_EVENT_LOG)
            e->scalar[i].implied = true; /* hide the scalars that this call does not set */
    for (int64_t i = 0; i < n; i++) {
        LVN_TRY(find_scalar(r, names[i], &scalar));
        e->scalar[scalar].value = values[i];
        e->scalar[scalar].implied = false;
    }
    enum lvn_status status = lvn_callbacks_call(&r->trainer.callbacks, context, LVN_EVENT_LOG, NULL);
    e->kind = event_kind; /* of the event in which the program was called */
    e->text = text;
    return status;
}

/* The state of the callback. */
struct callback_state {
    struct lvn_sampler *sampler; /* rank 0's, planned with the training; NULL: the model does not generate */
};

static enum lvn_status plan(void *state, struct lvn_model_state *n, int64_t block_size, int rank)
{
    struct callback_state *o = state;
    if (rank || !n->config.model->generates) return LVN_OK;
    enum lvn_status status = lvn_sampler_new(&o->sampler, n, block_size, 1, block_size);
    if (status != LVN_UNSUPPORTED) return status;
    lvn_error_clear(); /* reported by levin_run_generate() */
    return LVN_OK;
}

static void forget(void *state)
{
    struct callback_state *o = state;
    lvn_sampler_free(o->sampler);
    o->sampler = NULL;
}

static const struct lvn_callback program_callback = {.name = "program",
                                                     .bytes = sizeof(struct callback_state),
                                                     .in_fast_dev_run = true,
                                                     .plan = plan,
                                                     .forget = forget,
                                                     .call = call,
                                                     .note = note};

/* --- opening, steps, the end --- */

_Static_assert((int)LEVIN_OPEN_NEW == (int)LVN_RUN_NEW && (int)LEVIN_OPEN_RESUME == (int)LVN_RUN_RESUME &&
                   (int)LEVIN_OPEN_OVERWRITE == (int)LVN_RUN_OVERWRITE,
               "the modes of levin.h are those of run_dir.h");

static enum lvn_status check_process(pid_t opener)
{
    LVN_CHECK(opener == getpid(), ARG,
              "process %ld was forked from process %ld after a run was opened there, and the run's threads do not "
              "survive a fork: start a new process instead (Python: multiprocessing with \"spawn\")",
              (long)getpid(), (long)opener);
    return LVN_OK;
}

static enum lvn_status read_options(struct levin_run_options *o, const struct levin_run_options *given)
{
    LVN_TRY(LVN_API_READ(o, given, data, levin_run_options));
    LVN_CHECK(o->mode >= LEVIN_OPEN_NEW && o->mode <= LEVIN_OPEN_OVERWRITE, ARG,
              "levin_run_options.mode is %lld: give one of enum levin_open", (long long)o->mode);
    if (first_process) LVN_TRY(check_process(first_process));
    return LVN_OK;
}

static void release(struct levin_run *r)
{
    lvn_program_data_set(NULL);
    open_run = NULL;
    lvn_api_remove(&r->handle);
    for (int i = 0; i < r->n_logged; i++) free(r->logged[i]);
    free(r);
}

int levin_run_open_with(struct levin_run **out, struct levin_settings *s, const struct levin_run_options *options)
{
    locale_t before = lvn_api_begin();
    struct levin_run_options o;
    *out = NULL;
    enum lvn_status status = read_options(&o, options);
    if (status != LVN_OK) return lvn_api_return(before, status);
    struct levin_run *r = lvn_calloc(1, sizeof *r);
    if (!r) return lvn_api_return(before, LVN_MEMORY);
    status = lvn_api_add(&r->handle, kind, *s->values.run_dir ? s->values.run_dir : s->values.name);
    if (status != LVN_OK) {
        free(r);
        return lvn_api_return(before, status);
    }
    r->given_options = o;
    if (!getcwd(r->folder, sizeof r->folder)) *r->folder = '\0';
    first_process = getpid();
    r->trainer.settings = s;
    stop = LVN_STOP_NONE;
    open_run = *out = r; /* a signal handler may stop the run while it is opened */
    if (o.model) r->status = lvn_api_own_model(&r->own_model, o.model);
    r->options = (struct lvn_train_options){.model = o.model ? &r->own_model.model : NULL,
                                            .mode = (enum lvn_run_mode)o.mode,
                                            .callback = &program_callback,
                                            .stop = &stop};
    if (o.data && r->status == LVN_OK) r->status = lvn_api_data(&r->data, o.data, s);
    if (o.data && r->status == LVN_OK) lvn_program_data_set(&r->data);
    if (r->status == LVN_OK) r->status = lvn_api_ranks(&r->options.ranks, s, LVN_USES_ALL);
    if (r->status == LVN_OK) {
        r->status = lvn_trainer_open(&r->trainer, s, &r->options);
        if (r->status != LVN_OK) r->status = lvn_trainer_close(&r->trainer, r->status, NULL);
    }
    const char *reason = r->trainer.context.stop_reason;
    if (r->status == LVN_OK && r->trainer.running.done)
        r->end_reason = *reason ? reason : "all of its steps were done before";
    if (r->status == LVN_OK) {
        lvn_api_leave(&r->handle);
        return lvn_api_return(before, LVN_OK);
    }
    status = r->status;
    lvn_ranks_close(r->options.ranks);
    *out = NULL;
    release(r);
    return lvn_api_return(before, status);
}

int levin_run_open(struct levin_run **out, struct levin_settings *s, const struct levin_own_model *m,
                   enum levin_open mode)
{
    const struct levin_run_options o = {
        .size = (int64_t)sizeof(struct levin_run_options), .mode = (int64_t)mode, .model = m};
    return levin_run_open_with(out, s, &o);
}

void levin_run_stop(struct levin_run *r)
{
    if (r && r == open_run) stop = LVN_STOP_REQUESTED; /* nothing of *r is read: another thread may close it */
}

/* Begin a call; ARG if the run cannot accept it now, or failed earlier. */
static enum lvn_status enter(struct levin_run *r, const char *call)
{
    if (first_process) LVN_TRY(check_process(first_process));
    LVN_TRY(lvn_api_enter(lvn_api_handle_of(r), kind, call));
    if (r->status == LVN_OK) r->options.ranks->agreed = false; /* on the failure of an earlier call */
    if (r->status == LVN_OK) return LVN_OK;
    lvn_api_leave(&r->handle);
    LVN_FAIL(ARG, "the run failed after step %lld: close it, and continue with LEVIN_OPEN_RESUME",
             (long long)r->trainer.running.step);
}

/* Leave the call; a lost connection invalidates the run. */
static int leave(struct levin_run *r, locale_t before, enum lvn_status status)
{
    if (status == LVN_COMM && r->status == LVN_OK) r->status = status;
    lvn_api_leave(&r->handle);
    return lvn_api_return(before, status);
}

/* Store a failure that invalidates the run, and leave the call. */
static int finish_call(struct levin_run *r, locale_t before, enum lvn_status status)
{
    if (r->status == LVN_OK) r->status = status;
    return leave(r, before, status);
}

int levin_run_step(struct levin_run *r, bool *over)
{
    locale_t before = lvn_api_begin();
    enum lvn_status status = enter(r, "step");
    *over = true;
    if (status != LVN_OK) return lvn_api_return(before, status);
    if (r->trainer.running.done) {
        snprintf(r->trainer.text, sizeof r->trainer.text, "nothing to do after step %lld: %s",
                 (long long)r->trainer.running.step, r->end_reason);
        lvn_callback_notify(&r->trainer.context, LVN_EVENT_NOTE, r->trainer.text);
        return leave(r, before, LVN_OK);
    }
    if (r->end_reason) return leave(r, before, lvn_fail(LVN_ARG, "the run is over: %s", r->end_reason));
    *r->evaluated_split = '\0';                /* the last evaluation is of older weights */
    if (stop && r->options.ranks->size == 1) { /* several ranks agree on it with a step */
        r->trainer.requested.stop = true;
        r->end_reason = "stopped on request";
        return leave(r, before, LVN_OK);
    }
    r->end_reason = lvn_trainer_end_reason(&r->trainer); /* a validation since the last step may have ended the run */
    if (r->end_reason) return leave(r, before, LVN_OK);
    status = lvn_trainer_step(&r->trainer);
    if (status == LVN_OK) r->end_reason = lvn_trainer_end_reason(&r->trainer);
    *over = r->end_reason != NULL;
    return finish_call(r, before, status);
}

static enum lvn_status validate(struct levin_run *r)
{
    LVN_CHECK(r->trainer.running.started, ARG, "the run is over: %s", r->end_reason);
    LVN_CHECK(r->trainer.opened.validation.on, ARG,
              "this run does not validate: give it validation data and trainer.limit_val_batches "
              "above 0");
    LVN_TRY(lvn_trainer_validate(&r->trainer));
    LVN_TRY(lvn_trainer_do_due(&r->trainer)); /* save it if it is one of the best */
    return lvn_saver_finish(&r->trainer.running.saver);
}

int levin_run_validate(struct levin_run *r)
{
    locale_t before = lvn_api_begin();
    enum lvn_status status = enter(r, "validate");
    if (status != LVN_OK) return lvn_api_return(before, status);
    *r->evaluated_split = '\0'; /* val_loss is now that of this validation */
    return leave(r, before, validate(r));
}

/* Return the path below r->folder, or that of the run of this name there, if it exists; otherwise as given. NULL: out
 * of memory. */
static const char *find_path(struct lvn_arena *a, const struct levin_run *r, const char *path)
{
    if (!path || !*path || *path == '/' || lvn_store_is_url(path) || lvn_chat_template_is_builtin(path)) return path;
    const char *there = lvn_path_join(a, r->folder, path), *run = lvn_arena_printf(a, "%s/runs/%s", r->folder, path);
    if (!there || !run) return NULL;
    return lvn_path_exists(there) ? there : lvn_path_exists(run) ? run : path;
}

/* Make settings that open the split, also if the program has changed the current folder since the run was opened. Texts
 * are those of the run and of the arena. */
static enum lvn_status settings_of_split(struct lvn_arena *a, const struct levin_run *r, int split,
                                         struct levin_settings *s)
{
    char here[PATH_MAX];
    *s = *r->trainer.settings;
    struct lvn_values *v = &s->values;
    const char **path[] = {&v->data.path,          &v->data.val_path,   &v->data.test_path,  &v->data.tokenizer,
                           &v->data.chat_template, &v->model.init,      &v->lora.base,       &v->found.path,
                           &v->found.val_path,     &v->found.test_path, &v->found.tokenizer, &v->found.chat_template};
    if (split == LVN_SPLIT_TEST) v->data.split = LVN_DATA_SPLIT_TEST;
    if (!*r->folder || (getcwd(here, sizeof here) && strcmp(here, r->folder) == 0)) return LVN_OK;
    for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
        const char *given = *path[i];
        *path[i] = find_path(a, r, given);
        if (given && !*path[i]) return LVN_MEMORY;
    }
    return LVN_OK;
}

/* Evaluate a split with the current weights. a: holds texts that `setup` reads until it is closed. */
static enum lvn_status evaluate_split(struct lvn_arena *a, struct levin_run *r, struct lvn_model_setup *setup,
                                      struct lvn_validation *v, int split)
{
    struct lvn_trainer *trainer = &r->trainer;
    struct levin_settings settings;
    enum lvn_status opened = settings_of_split(a, r, split, &settings);
    if (opened == LVN_OK)
        opened = lvn_model_setup_evaluation(setup, &settings, r->options.model, NULL, &trainer->opened.setup.config);
    if (opened == LVN_OK)
        opened = lvn_validation_open_part(v, &trainer->opened.train_loader, setup->data, (enum lvn_split_id)split);
    if (opened == LVN_OK) opened = lvn_validation_allocate(v, &trainer->planned.programs);
    LVN_TRY(lvn_ranks_agree(trainer->ranks, opened));
    LVN_TRY(lvn_validation_run(v, &trainer->planned.programs, &r->loss));
    LVN_CHECK(v->labels || split == LVN_SPLIT_VAL, ARG,
              "no label of the split '%s' counts, so there is no loss to compute: give other data",
              lvn_split_names[split]);
    r->task = &trainer->planned.programs.eval_session->outputs;
    memcpy(r->value, v->value, sizeof r->value);
    snprintf(r->evaluated_split, sizeof r->evaluated_split, "%s", lvn_split_names[split]);
    for (int i = 0; i <= r->task->n_metrics; i++)
        snprintf(r->result_name[i], sizeof r->result_name[i], "%s_%s", r->evaluated_split,
                 i ? r->task->metrics[i - 1]->name : "loss");
    return LVN_OK;
}

static enum lvn_status evaluate(struct levin_run *r, const char *split)
{
    struct lvn_model_setup setup = {0};
    struct lvn_validation v = {0};
    LVN_LOCAL_ARENA(a);
    int id = 0;
    LVN_CHECK(split, ARG, "the split is NULL: give train, val or test");
    while (id < LVN_SPLIT_ALL && strcmp(lvn_split_names[id], split) != 0) id++;
    LVN_CHECK(id < LVN_SPLIT_ALL, ARG, "'%s' is not a split; use train, val or test", split);
    LVN_CHECK(r->trainer.planned.programs.eval_session, ARG,
              "a run that does not validate has no program to evaluate with: give it validation data and "
              "trainer.limit_val_batches above 0");
    enum lvn_status status = evaluate_split(&a, r, &setup, &v, id);
    lvn_validation_release(&v);
    lvn_model_setup_close(&setup);
    return status;
}

int levin_run_evaluate(struct levin_run *r, const char *split)
{
    locale_t before = lvn_api_begin();
    enum lvn_status status = enter(r, "evaluate");
    if (status != LVN_OK) return lvn_api_return(before, status);
    *r->evaluated_split = '\0'; /* its results are about to change */
    return leave(r, before, evaluate(r, split));
}

static enum lvn_status generate(struct levin_run *r, const char *prompt, char **text)
{
    const struct lvn_callbacks *c = &r->trainer.callbacks;
    const struct callback_state *state = c->state[c->n - 1]; /* the program's is the last one */
    struct lvn_text made = {0};
    *text = NULL;
    LVN_CHECK(r->options.ranks->rank == 0, ARG, "text is generated on rank 0 alone, and this is rank %d",
              r->options.ranks->rank);
    LVN_CHECK(!lvn_parameters_sharded(r->trainer.planned.programs.model_state, LVN_PARAMETER_VALUES), UNSUPPORTED,
              "with trainer.strategy fsdp no rank has the parameters to generate text alone: set sample.every_n_steps, "
              "for which all ranks gather them, or use another strategy");
    LVN_CHECK(state->sampler, UNSUPPORTED,
              "'%s' cannot generate text; only language models can; a custom model must use levin_kv_cache() in its "
              "attention",
              r->trainer.opened.setup.config.model->name);
    enum lvn_status status = lvn_sampler_text(state->sampler, &r->trainer.settings->values, &r->trainer.context.codec,
                                              NULL, prompt, r->trainer.running.step, &made);
    if (status != LVN_OK) lvn_text_release(&made);
    *text = made.p;
    return status;
}

int levin_run_generate(struct levin_run *r, const char *prompt, char **text)
{
    locale_t before = lvn_api_begin();
    enum lvn_status status = enter(r, "generate");
    *text = NULL;
    return status == LVN_OK ? leave(r, before, generate(r, prompt, text)) : lvn_api_return(before, status);
}

int levin_run_save(struct levin_run *r)
{
    locale_t before = lvn_api_begin();
    bool saved = true;
    enum lvn_status status = enter(r, "save");
    if (status != LVN_OK) return lvn_api_return(before, status);
    status = lvn_trainer_save(&r->trainer, &saved);
    if (status == LVN_OK && !saved)
        return leave(r, before,
                     lvn_fail(LVN_IO, "step %lld could not be saved in '%s'; earlier checkpoints are intact",
                              (long long)r->trainer.running.step, r->trainer.settings->values.run_dir));
    return finish_call(r, before, status);
}

static enum lvn_status log_scalars(struct levin_run *r, int64_t n, const char *const *names, const double *values)
{
    LVN_CHECK(r->trainer.running.started && !r->ended, ARG,
              "scalars are logged between the steps of a run: this one has not begun, or has ended");
    LVN_CHECK(!r->logging, ARG, "scalars are being logged: on_event() cannot log more of them on the event LOG");
    r->logging = true;
    enum lvn_status status = call_log(r, n, names, values);
    r->logging = false;
    return status;
}

int levin_run_log(struct levin_run *r, int64_t n, const char *const *names, const double *values)
{
    locale_t before = lvn_api_begin();
    if (lvn_api_in_event(lvn_api_handle_of(r))) return lvn_api_return(before, log_scalars(r, n, names, values));
    enum lvn_status status = enter(r, "log");
    return status == LVN_OK ? leave(r, before, log_scalars(r, n, names, values)) : lvn_api_return(before, status);
}

/* --- readers: from any thread --- */

int64_t levin_run_steps(const struct levin_run *run)
{
    struct levin_run *r = (struct levin_run *)(uintptr_t)run;
    if (lvn_api_enter_reader(lvn_api_handle_of(r), kind) != LVN_OK) return -1;
    const int64_t steps = r->trainer.running.step;
    lvn_api_leave_reader(&r->handle);
    return steps;
}

const char *levin_run_end_reason(const struct levin_run *run)
{
    struct levin_run *r = (struct levin_run *)(uintptr_t)run;
    if (lvn_api_enter_reader(lvn_api_handle_of(r), kind) != LVN_OK) return NULL;
    const char *reason = r->end_reason;
    lvn_api_leave_reader(&r->handle);
    return reason;
}

double levin_run_value(const struct levin_run *run, const char *name)
{
    struct levin_run *r = (struct levin_run *)(uintptr_t)run;
    if (lvn_api_enter_reader(lvn_api_handle_of(r), kind) != LVN_OK) return NAN;
    double value = name ? lvn_event_value(&r->trainer.context.event, name) : NAN;
    for (int i = 0; name && *r->evaluated_split && i <= r->task->n_metrics; i++)
        if (!strcmp(name, r->result_name[i])) value = i ? r->value[i - 1] : r->loss;
    lvn_api_leave_reader(&r->handle);
    return value;
}

int64_t levin_run_results(const struct levin_run *run, struct levin_run_scalar *out, int64_t capacity)
{
    struct levin_run *r = (struct levin_run *)(uintptr_t)run;
    if (lvn_api_enter_reader(lvn_api_handle_of(r), kind) != LVN_OK) return 0;
    int64_t n = *r->evaluated_split ? 1 + r->task->n_metrics : 0;
    const int64_t size = n && capacity > 0 ? out->size : 0;
    for (int64_t i = 0; i < n && i < capacity; i++) {
        const struct levin_run_scalar filled = {
            .name = r->result_name[i], .value = i ? r->value[i - 1] : r->loss, .is_new = 1};
        struct levin_run_scalar *element = (struct levin_run_scalar *)(void *)((char *)out + i * size);
        element->size = size;
        if (LVN_API_WRITE(element, &filled, is_new, levin_run_scalar) != LVN_OK) n = -1;
    }
    lvn_api_leave_reader(&r->handle);
    return n;
}

/* End the loop: save the last checkpoint and send END. */
static enum lvn_status end(struct levin_run *r, const char *reason)
{
    enum lvn_status status = LVN_OK;
    if (!r->end_reason) r->end_reason = reason;
    if (!r->trainer.running.done) status = lvn_trainer_end(&r->trainer, r->end_reason);
    r->ended = true;
    r->stopped = status == LVN_STOPPED;
    if (r->trainer.running.started) /* the program may keep the run open for long */
        lvn_member_state(r->trainer.ranks->member, r->stopped ? "stopped" : status == LVN_OK ? "done" : "failed");
    return status;
}

int levin_run_end(struct levin_run *r)
{
    locale_t before = lvn_api_begin();
    enum lvn_status status = enter(r, "end");
    if (status != LVN_OK) return lvn_api_return(before, status);
    if (r->ended) return leave(r, before, LVN_OK);
    status = end(r, "ended by its program");
    return r->stopped ? leave(r, before, status) : finish_call(r, before, status);
}

int levin_run_close(struct levin_run *r)
{
    if (!r) return 0;
    locale_t before = lvn_api_begin();
    enum lvn_status status = first_process ? check_process(first_process) : LVN_OK;
    if (status == LVN_OK) status = lvn_api_enter(lvn_api_handle_of(r), kind, "close");
    if (status != LVN_OK) return lvn_api_return(before, status);
    status = r->status;
    const bool reported = r->ended && r->stopped; /* by levin_run_end() */
    if (status == LVN_OK && !r->ended) status = end(r, "closed by its program");
    if (status == LVN_OK && reported) status = LVN_STOPPED;
    status = lvn_trainer_close(&r->trainer, status, NULL);
    lvn_ranks_close(r->options.ranks);
    release(r);
    return lvn_api_return(before, reported && status == LVN_STOPPED ? LVN_OK : status);
}
