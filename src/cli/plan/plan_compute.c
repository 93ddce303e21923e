/* plan_compute.c - what computing takes on a rank of levin plan --ranks.
 *
 * By default a plan is quick and small: a micro-batch runs only where the rates of this machine say that it takes a
 * tenth of a second and it needs little memory. It runs on made-up data, in as many processes as a host has ranks,
 * where this machine can stand for such a host (plan_oversubscription.c); the sums among them are measured with it.
 * Otherwise this machine is filled as far as the host would be. Anything larger is computed from the rates, at best.
 *
 * --measure allows seconds and all free memory. A model that is too large for that runs with one layer and with two, if
 * these are not too large; the difference is what each further layer takes. */
#include <string.h>

#include "base/clock.h"
#include "cli/plan/plan.h"
#include "host/machine.h"
#include "models/keys.h"

enum { TRIES = 3 };

/* Limits of one try. */
struct budget {
    double seconds; /* at best, by the rates */
    int64_t bytes;  /* of all processes together */
};
static const struct budget quick = {0.1, (int64_t)200 << 20};
static const double MEASURE_SECONDS = 2, LATE_SECONDS = 1;
static const double LAUNCH_SECONDS = 5e-6; /* of an instruction that computes next to nothing */

struct measurement {
    struct lvn_cli *c;
    const struct lvn_train_programs *t;
    const struct lvn_model_config *model;
    int ranks;
    int processes;
    struct lvn_ranks *local; /* of these processes; NULL: there is one */
};

/* A rank's program of a model with so many layers: of one micro-batch, on each process here. The settings must outlive
 * the training. */
static enum lvn_status plan_layers(const struct measurement *m, int64_t layers, struct lvn_settings *s,
                                   struct lvn_train_programs *t)
{
    struct lvn_model_config model = *m->model;
    struct lvn_train_programs_options o = {.ranks = m->local,
                                           .size = m->ranks,
                                           .fields = &m->t->fields,
                                           .task = m->t->step_session->options.task,
                                           .min_micro = m->t->min_micro};
    *s = m->c->settings;
    s->trainer.threads = lvn_plan_threads_here(m->c);
    if (m->local) {
        s->trainer.batch_size = m->t->micro_batch * m->processes;
        o.min_micro = 1;
    }
    lvn_model_set(&model, LVN_ROLE_LAYERS, layers);
    return lvn_train_programs_plan(t, s, &model, &o);
}

static enum lvn_status run_trial(struct measurement *m, struct lvn_train_programs *t, struct lvn_parts *parts)
{
    int64_t labels;
    LVN_TRY(lvn_model_state_allocate(t->model_state));
    LVN_TRY(lvn_model_state_init_values(t->model_state, 1, false));
    LVN_TRY(lvn_synthetic_step_fill(t, lvn_model_value(m->model, LVN_ROLE_VOCABULARY), &labels));
    lvn_parts_clear(parts);
    const double begin = lvn_seconds();
    for (int i = -1; i < TRIES; i++) { /* the first touches the memory */
        LVN_TRY(lvn_parts_try(t, i + 1, 1e-9, labels, parts));
        double late = lvn_seconds() - begin > LATE_SECONDS;
        if (m->local) LVN_TRY(lvn_ranks_sum(m->local, &late, 1));
        if (late > 0) break; /* slower than the rates said: it does with what there is */
        if (i < 0) lvn_parts_clear(parts);
    }
    return m->local ? lvn_parts_agree(m->local, parts) : LVN_OK;
}

static enum lvn_status time_layers(struct measurement *m, int64_t layers, struct lvn_parts *parts)
{
    struct lvn_settings s;
    struct lvn_train_programs t = {0};
    enum lvn_status status = plan_layers(m, layers, &s, &t);
    if (status == LVN_OK) status = run_trial(m, &t, parts);
    parts->forward /= (double)t.accumulation;
    parts->backward /= (double)t.accumulation;
    if (m->local && m->t->reduction.sharding.zero1) parts->update *= (double)m->processes / m->ranks;
    lvn_train_programs_release(&t);
    return status;
}

static double along(double one, double two, int64_t layers)
{
    return one + (two > one ? two - one : 0) * (double)(layers - 1);
}

static enum lvn_status measure(struct measurement *m, enum lvn_computed how, struct lvn_parts *parts)
{
    struct lvn_parts one, two;
    int64_t layers = lvn_model_value(m->model, LVN_ROLE_LAYERS);
    if (how == LVN_COMPUTED_WHOLE) return time_layers(m, layers, parts);
    LVN_TRY(time_layers(m, 1, &one));
    LVN_TRY(time_layers(m, 2, &two));
    *parts = (struct lvn_parts){.forward = along(one.forward, two.forward, layers),
                                .backward = along(one.backward, two.backward, layers),
                                .update = along(one.update, two.update, layers),
                                .reduce = along(one.reduce, two.reduce, layers),
                                .last = two.last,
                                .share = along(one.share, two.share, layers)};
    return LVN_OK;
}

static enum lvn_status measure_together(struct measurement *m, struct lvn_oversubscription *w, enum lvn_computed how,
                                        struct lvn_parts *parts)
{
    struct lvn_comm *comm;
    struct lvn_identity who = {
        .launcher = "local", .title = "levin plan", .rank = w->rank, .size = w->n, .host = "here"};
    struct lvn_comm_options o = {.rank = w->rank, .size = w->n, .sockets = w->sockets};
    if (w->n == 1) return measure(m, how, parts);
    LVN_TRY(lvn_comm_open(&comm, &o));
    enum lvn_status status = lvn_ranks_over(&m->local, &who, comm, NULL);
    if (status == LVN_OK) status = measure(m, how, parts);
    lvn_ranks_close(m->local);
    m->local = NULL;
    lvn_comm_close(comm);
    return status;
}

/* --- what is measured --- */

static bool within(const struct measurement *m, const struct lvn_train_programs *t, const struct lvn_rates *r,
                   const struct budget *b)
{
    struct lvn_parts best;
    lvn_plan_parts(t, r, &best);
    best.update += LAUNCH_SECONDS * t->step_session->program->n_instrs;
    return best.forward + best.backward + best.update <= b->seconds &&
           lvn_model_state_bytes(t->model_state) <= b->bytes / m->processes;
}

static enum lvn_status choose(struct measurement *m, const struct lvn_rates *r, enum lvn_computed *how)
{
    const bool thorough = lvn_cli_on(m->c, LVN_FLAG_plan_measure);
    struct budget b = quick;
    struct lvn_settings s;
    struct lvn_train_programs two = {0};
    if (thorough) b = (struct budget){MEASURE_SECONDS, lvn_memory_available()};
    *how = LVN_COMPUTED_BY_RATES;
    if (within(m, m->t, r, &b)) *how = LVN_COMPUTED_WHOLE;
    if (*how == LVN_COMPUTED_WHOLE || !thorough || lvn_model_value(m->model, LVN_ROLE_LAYERS) < 3) return LVN_OK;
    enum lvn_status status = plan_layers(m, 2, &s, &two);
    if (status == LVN_OK && within(m, &two, r, &b)) *how = LVN_COMPUTED_LAYERS;
    lvn_train_programs_release(&two);
    return status;
}

enum lvn_status lvn_plan_compute(struct lvn_compute *out, struct lvn_cli *c, const struct lvn_train_programs *t,
                                 const struct lvn_model_config *model, int ranks, struct lvn_oversubscription *crowd)
{
    struct measurement m = {.c = c, .t = t, .model = model, .ranks = ranks, .processes = crowd->n};
    *out = (struct lvn_compute){.how = (enum lvn_computed)crowd->what, .processes = crowd->n};
    if (!crowd->rank) {
        LVN_TRY(lvn_plan_rates(c, t->model_state->device, &out->rates));
        LVN_TRY(choose(&m, &out->rates, &out->how));
    }
    if (out->how == LVN_COMPUTED_BY_RATES) {
        out->processes = 1;
        lvn_plan_parts(t, &out->rates, &out->parts);
        return LVN_OK;
    }
    lvn_oversubscription_go(crowd, (int)out->how);
    return measure_together(&m, crowd, out->how, &out->parts);
}
