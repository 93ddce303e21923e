/* synthetic_step.c - see synthetic_step.h.
 *
 * A step is timed by its instructions: each counts as forward, backward or update; the time between them is spent
 * waiting for collectives, which collective_runner.c measures. */
#include "engine/synthetic_step.h"

#include "base/clock.h"
#include "base/random.h"
#include "data/dataset.h"
#include "engine/parameters.h"
#include "formats/checksum.h"
#include "models/keys.h"
#include "options/values.h"

/* Element i, over all samples, of field k. Rows of documents have four equal ones. */
static void make_up(const struct lvn_field *f, int k, int64_t below, int64_t i, void *out)
{
    uint64_t stream = (uint64_t)k + 1;
    const int64_t T = lvn_field_count(f), quarter = (T + 3) / 4;
    if (strcmp(f->name, LVN_SEGMENTS) == 0)
        *(int32_t *)out = (int32_t)(i % T / quarter * quarter);
    else if (f->dtype == LVN_F32)
        *(float *)out = lvn_uniform(lvn_philox(1, (uint32_t)i, (uint32_t)(i >> 32), (uint32_t)stream, 0).v[0]);
    else if (f->dtype == LVN_I32)
        *(int32_t *)out = (int32_t)lvn_random_below(1, stream, (uint64_t)i, f->below ? f->below : below);
    else
        *(uint8_t *)out = (uint8_t)lvn_random_below(1, stream, (uint64_t)i, 256);
}

enum lvn_status lvn_synthetic_step_fill(struct lvn_train_programs *programs, int64_t below, int64_t *labels)
{
    struct lvn_samples b;
    LVN_TRY(lvn_samples_init(&b, &programs->fields, programs->rows));
    for (int k = 0; k < b.fields.n; k++) {
        const struct lvn_field *f = &b.fields.field[k];
        int64_t each = lvn_field_count(f), bytes = lvn_dtype_bytes(f->dtype);
        for (int64_t i = 0; i < programs->rows * each; i++)
            make_up(f, k, below, programs->first_row * each + i, (char *)b.p[k] + i * bytes);
    }
    enum lvn_status status = lvn_train_programs_feed(programs, &b, labels);
    *labels = *labels / programs->rows * programs->values->trainer.batch_size;
    lvn_samples_release(&b);
    return status;
}

void lvn_parts_clear(struct lvn_parts *p)
{
    *p = (struct lvn_parts){.accumulation = 1};
    p->forward = p->backward = p->update = p->reduce = p->last = p->share = INFINITY;
}

/* A stopwatch that is read after each instruction. */
struct watch {
    const struct lvn_collective_runner *runner;
    double last, waited; /* time of the last instruction's end, and seconds waited until then */
    struct lvn_parts parts;
};

void lvn_parts_add(struct lvn_parts *p, const struct lvn_instr *i, int64_t times, double seconds)
{
    struct lvn_operation_time *time = &p->operation[(int)i->id * LVN_PHASE_COUNT + (int)i->phase];
    time->seconds += seconds;
    time->calls += times;
    time->bytes += times * lvn_instr_bytes(i);
    time->flops += (double)times * lvn_instr_flops(i);
}

static void launched(void *argument, const struct lvn_launch_order *at)
{
    struct watch *w = argument;
    const struct lvn_instr *i = at->instr;
    if (i->op->collective) return; /* its time without waiting counts for the next instruction */
    double now = lvn_seconds(), waited = w->runner->waited, seconds = now - w->last - (waited - w->waited);
    if (i->when == LVN_AFTER_BACKWARD)
        w->parts.update += seconds;
    else if (i->phase == LVN_FORWARD && !i->recomputed && i->when == LVN_EVERY_MICRO_BATCH)
        w->parts.forward += seconds;
    else
        w->parts.backward += seconds;
    lvn_parts_add(&w->parts, i, 1, seconds);
    w->last = now;
    w->waited = waited;
}

static void keep_best(double *best, double seconds)
{
    if (seconds < *best) *best = seconds;
}

/* A barrier: all ranks continue at the same time. */
static enum lvn_status barrier(const struct lvn_train_programs *programs)
{
    int32_t one = 1;
    return lvn_comm_all_reduce_now(programs->ranks->comm, &one, 1, LVN_I32, LVN_SUM);
}

/* Time the sums of the buckets from `first` on, without overlap. */
static enum lvn_status time_buckets(struct lvn_train_programs *programs, int first, double *best)
{
    LVN_TRY(barrier(programs));
    double begin = lvn_seconds();
    LVN_TRY(lvn_collective_runner_repeat(&programs->collectives, first));
    keep_best(best, lvn_seconds() - begin);
    return LVN_OK;
}

static enum lvn_status reduce_alone(struct lvn_train_programs *programs, struct lvn_parts *best)
{
    LVN_TRY(time_buckets(programs, 0, &best->reduce));
    return time_buckets(programs, lvn_collective_runner_buckets(programs->step_session->program) - 1, &best->last);
}

enum lvn_status lvn_parts_try(struct lvn_train_programs *programs, int64_t step, double lr, int64_t labels,
                              struct lvn_parts *best)
{
    struct lvn_collective_runner *runner = &programs->collectives;
    const bool distributed = programs->ranks && programs->ranks->size > 1;
    int64_t n = programs->ranks ? programs->accumulation : 1;
    struct watch w = {.runner = runner};
    struct lvn_execution execution = {.n_micro_batches = n, .context = &w, .launched = launched};
    bool overlapped = runner->overlapped;
    if (distributed) execution.collectives = programs->step_session->options.collectives;
    if (distributed) LVN_TRY(barrier(programs));
    lvn_train_programs_prepare(programs, step, lr, labels);
    runner->overlapped = false;
    w.last = lvn_seconds();
    enum lvn_status status = lvn_session_run_as(programs->step_session, &execution);
    runner->overlapped = overlapped;
    if (status != LVN_OK) return runner->status == LVN_OK ? status : runner->status;
    keep_best(&best->forward, w.parts.forward * (double)programs->accumulation / (double)n);
    keep_best(&best->backward, w.parts.backward * (double)programs->accumulation / (double)n);
    keep_best(&best->update, w.parts.update);
    keep_best(&best->share, runner->waited - runner->summed);
    for (int o = 0; o < LVN_OP_COUNT * LVN_PHASE_COUNT; o++)
        if (!best->operation[o].calls || w.parts.operation[o].seconds < best->operation[o].seconds)
            best->operation[o] = w.parts.operation[o];
    best->accumulation = programs->accumulation;
    if (distributed && lvn_collective_runner_buckets(programs->step_session->program))
        return reduce_alone(programs, best);
    keep_best(&best->reduce, runner->summed);
    best->last = 0.0;
    return LVN_OK;
}

enum lvn_status lvn_parts_agree(struct lvn_ranks *r, struct lvn_parts *p)
{
    double x[] = {p->forward, p->backward, p->update, p->reduce, p->last, p->share};
    LVN_TRY(lvn_comm_all_reduce_now(r->comm, x, sizeof x / sizeof *x, LVN_F64, LVN_MAX));
    p->forward = x[0], p->backward = x[1], p->update = x[2], p->reduce = x[3], p->last = x[4], p->share = x[5];
    return LVN_OK;
}

double lvn_parts_bound(const struct lvn_parts *p)
{
    double overlapped = p->backward / (double)p->accumulation, longer = p->reduce > overlapped ? p->reduce : overlapped;
    return p->forward + p->backward - overlapped + longer + p->last + p->share + p->update;
}

/* --- a tiny training --- */

/* A checksum of all parameters. */
static enum lvn_status sum_weights(uint64_t *sum, const struct lvn_model_state *n)
{
    struct lvn_parameters i = {n, LVN_PARAMETER_VALUES, 0};
    struct lvn_parameter_window w;
    struct lvn_checksum c;
    enum lvn_status status = LVN_OK;
    lvn_checksum_init(&c);
    while (status == LVN_OK && lvn_parameters_next(&i, &w)) {
        struct lvn_window values;
        status = lvn_parameter_open(&w, &values, true);
        if (status == LVN_OK) lvn_checksum_add(&c, values.p, values.bytes);
        enum lvn_status closed = lvn_parameter_close(&w, &values, false);
        if (status == LVN_OK) status = closed;
    }
    *sum = lvn_checksum_value(&c);
    return status;
}

static enum lvn_status tiny_steps(struct lvn_synthetic_step *out, struct lvn_train_programs *programs,
                                  struct lvn_ranks *r, int64_t labels)
{
    double *losses = lvn_calloc((size_t)programs->global_micro_batches, sizeof *losses);
    enum lvn_status status = losses ? LVN_OK : LVN_MEMORY;
    for (int i = 0; status == LVN_OK && i < LVN_SYNTHETIC_STEPS; i++) {
        memset(losses, 0, sizeof *losses * (size_t)programs->global_micro_batches);
        status = lvn_train_programs_step(programs, i, programs->values->optimizer.lr, labels);
        memcpy(losses + programs->leaf[r->rank], programs->step_session->micro_losses,
               sizeof *losses * (size_t)programs->accumulation);
        if (status == LVN_OK) status = lvn_ranks_sum(r, losses, programs->global_micro_batches);
        out->loss[i] = lvn_tree_sum(losses, programs->global_micro_batches) / (double)labels;
    }
    free(losses);
    return status == LVN_OK ? sum_weights(&out->weights, programs->model_state) : status;
}

enum lvn_status lvn_synthetic_step_run(struct lvn_synthetic_step *out, struct lvn_ranks *r, const struct lvn_values *v)
{
    struct lvn_train_programs programs = {0};
    struct lvn_model_config c;
    lvn_model_config_init(&c, lvn_models()[0]);
    LVN_TRY(lvn_model_put_all(&c, c.model->tiny));
    struct lvn_fields fields =
        lvn_stream_fields(lvn_model_value(&c, LVN_ROLE_POSITIONS), lvn_model_value(&c, LVN_ROLE_VOCABULARY));
    struct lvn_train_programs_options o = {.ranks = r, .fields = &fields, .task = lvn_task_of(LVN_LABEL_TOKEN)};
    int64_t labels;
    enum lvn_status status = lvn_train_programs_plan(&programs, v, &c, &o);
    if (status == LVN_OK) status = lvn_ranks_agree(r, lvn_model_state_allocate(programs.model_state));
    if (status == LVN_OK) status = lvn_ranks_agree(r, lvn_parameters_init_values(programs.model_state, 1, false));
    if (status == LVN_OK) status = lvn_ranks_agree(r, lvn_synthetic_step_fill(&programs, 0, &labels));
    if (status == LVN_OK) status = tiny_steps(out, &programs, r, labels);
    lvn_train_programs_release(&programs);
    return status;
}
