/* api_events.c - the callback that hands the events of a run to its program, and plans the sampler with which
 * lvn_run_generate() generates on request.
 *
 * It is the last callback of every run that a program opens: loggers have written when the program is called. */
#include "api/api.h"

#include <string.h>

#define SAME(name)                                                                                                     \
    _Static_assert((int)LVN_ON_##name == (int)LVN_EVENT_##name, "the kinds of levin.h are those of events.h")
SAME(START);
SAME(STEP);
SAME(VALIDATION);
SAME(CHECKPOINT);
SAME(SAMPLE);
SAME(EPOCH);
SAME(NOTE);
SAME(END);
SAME(LOG);
_Static_assert((int)LVN_REQUEST_STOP == (int)LVN_CONTROL_SHOULD_TRAINING_STOP &&
                   (int)LVN_REQUEST_SAVE == (int)LVN_CONTROL_SHOULD_SAVE &&
                   (int)LVN_REQUEST_VALIDATE == (int)LVN_CONTROL_SHOULD_EVALUATE,
               "the requests of levin.h are the control flags of callback.h");

static struct lvn_run_event convert(const struct lvn_callback_context *m, struct lvn_run_scalar scalar[LVN_SCALARS])
{
    const struct lvn_event *e = &m->event;
    for (int i = 0; i < e->n_scalars; i++)
        scalar[i] = (struct lvn_run_scalar){
            .name = e->scalar[i].name, .value = e->scalar[i].value, .is_new = lvn_event_updates(e, i)};
    return (struct lvn_run_event){
        .size = (int64_t)sizeof(struct lvn_run_event),
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
        .run_dir = m->settings->trainer.fast_dev_run ? NULL : e->run_dir,
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
        .rank = m->ranks->rank,
        .ranks = m->ranks->size,
        .hosts = e->hosts,
        .threads = e->threads,
    };
}

/* Call the program; returns its requests. */
static unsigned notify(struct lvn_callback_context *m)
{
    enum { KNOWN = LVN_REQUEST_STOP | LVN_REQUEST_SAVE | LVN_REQUEST_VALIDATE };
    struct lvn_run_scalar scalar[LVN_SCALARS];
    const struct lvn_run *r = lvn_api_open_run();
    if (!r || !r->asked.on_event) return 0;
    const struct lvn_run_event event = convert(m, scalar);
    return (unsigned)r->asked.on_event(r->asked.context, &event) & KNOWN;
}

static enum lvn_status call(void *state, struct lvn_callback_context *m)
{
    (void)state;
    unsigned requests = notify(m);
    if (requests & LVN_CONTROL_SHOULD_TRAINING_STOP)
        lvn_callback_request_stop(m, "a callback of the program asked to stop");
    m->control |= requests;
    return LVN_OK;
}

static void note(void *state, struct lvn_callback_context *m)
{
    (void)state;
    (void)notify(m);
}

/* --- scalars of the program --- */

static enum lvn_status check_name(const char *name)
{
    const size_t n = strlen(name);
    const bool fits =
        n >= 1 && n < 48 && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-") == n;
    LVN_CHECK(fits, ARG,
              "'%.60s' is no name of a scalar: give 1 to 47 letters of English, digits and the characters _ . / -",
              name);
    return LVN_OK;
}

/* The program's scalar of this name, which is declared if it is new. */
static enum lvn_status find_scalar(struct lvn_run *r, const char *name, int *out)
{
    struct lvn_event *e = &r->trainer.context.event;
    *out = lvn_event_find(e, name);
    LVN_CHECK(*out < 0 || e->scalar[*out].kind == LVN_EVENT_LOG, ARG,
              "'%s' is a scalar of every run: give yours another name", name);
    if (*out >= 0) return LVN_OK;
    LVN_TRY(check_name(name));
    LVN_CHECK(e->n_scalars < LVN_SCALARS, ARG, "'%s' is one scalar too many: a run has at most %d, its own included",
              name, LVN_SCALARS);
    char *copy = lvn_strdup(name);
    if (!copy) return LVN_MEMORY;
    r->logged[r->n_logged++] = copy;
    *out = e->n_scalars;
    e->scalar[e->n_scalars++] = (struct lvn_scalar){
        .name = copy, .kind = LVN_EVENT_LOG, .better = LVN_BETTER_UNKNOWN, .computed = true, .value = NAN};
    return LVN_OK;
}

enum lvn_status lvn_api_log(struct lvn_run *r, int64_t n, const char *const *names, const double *values)
{
    struct lvn_callback_context *m = &r->trainer.context;
    struct lvn_event *e = &m->event;
    const enum lvn_event_kind kind = e->kind;
    const char *text = e->text;
    int scalar;
    for (int64_t i = 0; i < n; i++) LVN_TRY(find_scalar(r, names[i], &scalar));
    for (int i = 0; i < e->n_scalars; i++)
        if (e->scalar[i].kind == LVN_EVENT_LOG) e->scalar[i].implied = true; /* not of this call */
    for (int64_t i = 0; i < n; i++) {
        LVN_TRY(find_scalar(r, names[i], &scalar));
        e->scalar[scalar].value = values[i];
        e->scalar[scalar].implied = false;
    }
    enum lvn_status status = lvn_callbacks_call(&r->trainer.callbacks, m, LVN_EVENT_LOG, NULL);
    e->kind = kind; /* of the event in which the program was called */
    e->text = text;
    return status;
}

static enum lvn_status plan(void *state, struct lvn_model_state *n, int64_t block_size, int rank)
{
    struct lvn_api_callback *o = state;
    if (rank || !n->config.model->generates) return LVN_OK;
    enum lvn_status status = lvn_sampler_new(&o->sampler, n, block_size, 1, block_size);
    if (status != LVN_UNSUPPORTED) return status;
    lvn_error_clear(); /* reported by lvn_run_generate() */
    return LVN_OK;
}

static void forget(void *state)
{
    struct lvn_api_callback *o = state;
    lvn_sampler_free(o->sampler);
    o->sampler = NULL;
}

const struct lvn_callback lvn_api_callback = {.name = "program",
                                              .bytes = sizeof(struct lvn_api_callback),
                                              .in_fast_dev_run = true,
                                              .plan = plan,
                                              .forget = forget,
                                              .call = call,
                                              .note = note};
