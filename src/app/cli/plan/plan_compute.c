/* plan_compute.c - for levin plan --ranks: how long a rank computes. Called by plan_ranks.c, which adds communication.
 *
 * By default a plan is quick: a micro-batch runs only if the rates of this machine predict at most 0.1 s and it needs
 * at most 200 MiB. It runs on synthetic data. Anything larger is computed from the rates, a lower bound.
 *
 * --measure allows 2 s and all free memory. A model that is too large for that runs with one layer and with two, if
 * these fit; the difference is the time of each further layer. */

#include "base/clock.h"
#include "cli/plan/plan.h"
#include "engine/parameters.h"
#include "host/machine.h"
#include "models/keys.h"

enum { TRIES = 3 };

/* Limits for running the model: one micro-batch and the update, and the memory of the rank. */
struct budget {
    double seconds; /* predicted by the rates */
    int64_t bytes;
};
static const struct budget quick = {0.1, (int64_t)200 << 20};
static const double MEASURE_SECONDS = 2;   /* the budget of --measure */
static const double LATE_SECONDS = 1;      /* no further try after this time */
static const double LAUNCH_SECONDS = 5e-6; /* added for each instruction, so that small ones are not free */

struct measurement {
    struct lvn_cli *c;
    const struct levin_settings *settings;
    const struct lvn_train_programs *programs; /* planned as rank 0 of `ranks` */
    const struct lvn_model_config *model;
    int ranks; /* of the run */
};

/* Plan rank 0's programs for a model with `layers` layers. options.ranks stays NULL, so lvn_parts_try() runs one
 * micro-batch and no collectives. The settings s must outlive the programs. */
static enum lvn_status plan_layers(const struct measurement *m, int64_t layers, struct levin_settings *s,
                                   struct lvn_train_programs *programs)
{
    struct lvn_model_config model = *m->model;
    struct lvn_train_programs_options o = {.size = m->ranks,
                                           .local_size = m->programs->model_state->processes,
                                           .machine_bytes = m->programs->model_state->machine_bytes,
                                           .fields = &m->programs->fields,
                                           .task = m->programs->step_session->options.task,
                                           .min_micro_batches = m->programs->min_micro_batches};
    *s = *m->settings;
    s->values.trainer.threads = lvn_plan_threads_here(m->c);
    lvn_model_set(&model, LVN_ROLE_LAYERS, layers);
    return lvn_train_programs_plan(programs, &s->values, &model, &o);
}

static enum lvn_status run_steps(struct measurement *m, struct lvn_train_programs *programs, struct lvn_parts *parts)
{
    int64_t labels;
    LVN_TRY(lvn_model_state_allocate(programs->model_state));
    LVN_TRY(lvn_parameters_init_values(programs->model_state, 1, false));
    LVN_TRY(lvn_synthetic_step_fill(programs, lvn_model_value(m->model, LVN_ROLE_VOCABULARY), &labels));
    lvn_parts_clear(parts);
    const double begin = lvn_seconds();
    for (int i = -1; i < TRIES; i++) { /* the first try is not counted: it touches the memory for the first time */
        LVN_TRY(lvn_parts_try(programs, i + 1, 1e-9, labels, parts));
        if (lvn_seconds() - begin > LATE_SECONDS) break; /* slower than predicted: keep the tries so far */
        if (i < 0) lvn_parts_clear(parts);
    }
    return LVN_OK;
}

static enum lvn_status time_layers(struct measurement *m, int64_t layers, struct lvn_parts *parts)
{
    struct levin_settings s;
    struct lvn_train_programs programs = {0};
    enum lvn_status status = plan_layers(m, layers, &s, &programs);
    if (status == LVN_OK) status = run_steps(m, &programs, parts);
    if (status == LVN_OK) {
        parts->forward /= (double)programs.accumulation;
        parts->backward /= (double)programs.accumulation;
    }
    lvn_train_programs_release(&programs);
    return status;
}

/* Seconds of `layers` layers, extrapolated from those of one and of two. */
static double extrapolate(double one, double two, int64_t layers)
{
    return one + (two > one ? two - one : 0) * (double)(layers - 1);
}

static enum lvn_status measure(struct measurement *m, enum lvn_computed method, struct lvn_parts *parts)
{
    struct lvn_parts one, two;
    int64_t layers = lvn_model_value(m->model, LVN_ROLE_LAYERS);
    if (method == LVN_COMPUTED_WHOLE) return time_layers(m, layers, parts);
    LVN_TRY(time_layers(m, 1, &one));
    LVN_TRY(time_layers(m, 2, &two));
    *parts = (struct lvn_parts){.forward = extrapolate(one.forward, two.forward, layers),
                                .backward = extrapolate(one.backward, two.backward, layers),
                                .update = extrapolate(one.update, two.update, layers)};
    return LVN_OK;
}

/* --- the choice between running and computing from rates --- */

static bool fits_budget(const struct lvn_train_programs *programs, const struct lvn_rates *r, const struct budget *b)
{
    struct lvn_parts best;
    lvn_plan_parts(programs, r, &best);
    best.update += LAUNCH_SECONDS * programs->step_session->program->n_instrs;
    return best.forward + best.backward + best.update <= b->seconds &&
           lvn_model_state_bytes(programs->model_state) <= b->bytes;
}

static enum lvn_status choose_method(struct measurement *m, const struct lvn_rates *r, enum lvn_computed *method)
{
    const bool thorough = lvn_cli_on(m->c, LVN_FLAG_plan_measure);
    struct budget b = quick;
    struct levin_settings s;
    struct lvn_train_programs two = {0};
    if (thorough) b = (struct budget){MEASURE_SECONDS, lvn_memory_available()};
    *method = LVN_COMPUTED_BY_RATES;
    if (fits_budget(m->programs, r, &b)) *method = LVN_COMPUTED_WHOLE;
    if (*method == LVN_COMPUTED_WHOLE || !thorough || lvn_model_value(m->model, LVN_ROLE_LAYERS) < 3) return LVN_OK;
    enum lvn_status status = plan_layers(m, 2, &s, &two);
    if (status == LVN_OK && fits_budget(&two, r, &b)) *method = LVN_COMPUTED_LAYERS;
    lvn_train_programs_release(&two);
    return status;
}

enum lvn_status lvn_plan_compute(struct lvn_compute *out, struct lvn_cli *c, const struct levin_settings *s,
                                 const struct lvn_train_programs *programs, const struct lvn_model_config *model,
                                 int ranks)
{
    struct measurement m = {.c = c, .settings = s, .programs = programs, .model = model, .ranks = ranks};
    *out = (struct lvn_compute){.method = LVN_COMPUTED_BY_RATES};
    LVN_TRY(lvn_plan_rates(c, programs->model_state->device, &out->rates));
    /* --fit compares many plans, all by the rates */
    if (!lvn_cli_on(c, LVN_FLAG_plan_fit)) LVN_TRY(choose_method(&m, &out->rates, &out->method));
    if (out->method != LVN_COMPUTED_BY_RATES) return measure(&m, out->method, &out->parts);
    lvn_plan_parts(programs, &out->rates, &out->parts);
    return LVN_OK;
}
