/* api_events.c - the callback that hands the events of a run to its program, and plans the sampler with which
 * lvn_run_generate() generates on request.
 *
 * It is the last callback of every run that a program opens: loggers have written when the program is called. */
#include "api/api.h"

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
