/* train_programs.c - see train_programs.h. */
#include "engine/train_programs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "data/dataset.h"
#include "engine/devices.h"
#include "engine/layers_check.h"
#include "engine/memory.h"
#include "engine/parameter_sums.h"
#include "engine/parameters.h"
#include "engine/rank_groups.h"
#include "engine/shares.h"
#include "engine/strategy.h"
#include "host/machine.h"
#include "models/lora.h"
#include "settings/choices.h"
#include "settings/settings.h"

/* --- the division of the batch --- */

/* The smallest number, at least min_micro, of equal micro-batches into which `rows` can be divided. */
static int64_t micro_batches_of(int64_t rows, int64_t min_micro)
{
    if (min_micro > rows) min_micro = rows;
    while (rows % min_micro) min_micro++;
    return min_micro;
}

/* The unit is a micro-batch; rank i computes leaf[i] to leaf[i + 1] - 1. */
static enum lvn_status divide_micro_batches(struct lvn_train_programs *t, int size, int rank)
{
    int64_t batch = t->settings->trainer.batch_size, micro = t->settings->trainer.micro_batch_size, n = batch / micro;
    LVN_CHECK(n >= size, ARG,
              "%d ranks cannot share the %" PRId64 " micro-batches of a step (trainer.batch_size %" PRId64
              ", trainer.micro_batch_size %" PRId64 "): start at most %" PRId64 ", or use a larger batch or a smaller "
              "micro-batch",
              size, n, batch, micro, n);
    for (int i = 0; i <= size; i++) t->leaf[i] = t->first_unit[i];
    t->micro_batch = micro;
    t->first_row = t->leaf[rank] * micro;
    t->rows = (t->leaf[rank + 1] - t->leaf[rank]) * micro;
    return LVN_OK;
}

/* The unit is a row; each rank's rows are divided into equal micro-batches. */
static enum lvn_status divide_rows(struct lvn_train_programs *t, int size, int rank)
{
    int64_t batch = t->settings->trainer.batch_size;
    LVN_CHECK(batch >= size, ARG,
              "%d ranks cannot share the %" PRId64 " sequences of a step (trainer.batch_size): start at most %" PRId64
              ", or use a larger batch",
              size, batch, batch);
    t->leaf[0] = 0;
    for (int i = 0; i < size; i++) {
        const int64_t rows = t->first_unit[i + 1] - t->first_unit[i], n = micro_batches_of(rows, t->min_micro);
        t->leaf[i + 1] = t->leaf[i] + n;
        if (i != rank) continue;
        t->first_row = t->first_unit[i];
        t->rows = rows;
        t->micro_batch = rows / n;
    }
    return LVN_OK;
}

static enum lvn_status divide(struct lvn_train_programs *t, const int64_t *shares)
{
    const unsigned in_step = LVN_SHARDS_GRADIENTS | LVN_SHARDS_PARAMETERS; /* ranks exchange these in lockstep */
    const int64_t units = lvn_shares_units(t->settings);
    const int size = t->reduction.sharding.size, rank = t->reduction.sharding.rank;
    t->first_unit[0] = 0;
    for (int i = 0; i < size; i++)
        t->first_unit[i + 1] = shares ? t->first_unit[i] + shares[i] : units * (i + 1) / size;
    LVN_TRY(t->settings->trainer.micro_batch_size ? divide_micro_batches(t, size, rank) : divide_rows(t, size, rank));
    t->accumulation = t->leaf[rank + 1] - t->leaf[rank];
    t->n_micro = t->leaf[size];
    t->reduction.sharding.sharded = t->shards;
    LVN_TRY(lvn_strategy_group(t->settings, size, &t->reduction.sharding.group));
    if (!(t->shards & LVN_SHARDS_PARAMETERS)) t->reduction.sharding.group = 0;
    for (int i = 0; i < size && t->reduction.sharding.sharded & in_step; i++) {
        if (t->leaf[i + 1] - t->leaf[i] == t->accumulation) continue;
        LVN_CHECK(t->settings->trainer.strategy == LVN_TRAINER_STRATEGY_AUTO, ARG,
                  "trainer.strategy %s exchanges gradients or parameters in every micro-batch, so all ranks must have "
                  "the same number, but rank %d has %" PRId64 " and rank %d %" PRId64 " of the %" PRId64
                  " of a step: take a "
                  "trainer.batch_size that the ranks can share equally, or zero1",
                  lvn_strategy_name(t->settings, t->reduction.sharding.sharded), i, t->leaf[i + 1] - t->leaf[i], rank,
                  t->accumulation, t->n_micro);
        t->reduction.sharding.sharded = LVN_SHARDS_STATE;
    }
    return LVN_OK;
}

/* --- planning --- */

static int last_length(const struct lvn_train_programs *t)
{
    return t->n_lengths ? t->n_lengths - 1 : 0;
}

/* Create one session, or one per planned length, which use the memory of the longest. The collectives are prepared for
 * one of them and must be the same in all. */
static enum lvn_status new_sessions(struct lvn_train_programs *t, struct lvn_session **out,
                                    const struct lvn_session_options *options)
{
    const int last = last_length(t);
    for (int i = last; i >= 0; i--) {
        struct lvn_session_options o = *options;
        struct lvn_fields *fields = &t->fields_of_length[i];
        *fields = t->fields;
        if (t->n_lengths) lvn_fields_set_length(fields, t->length[i]);
        o.fields = fields;
        o.longer = i < last ? out[last] : NULL;
        LVN_TRY(lvn_session_new(&out[i], t->model_state, &o));
        LVN_CHECK(out[i]->program->n_handles == out[last]->program->n_handles, INTERNAL,
                  "samples of %lld and %lld tokens sum gradients differently", (long long)t->length[i],
                  (long long)t->length[last]);
    }
    return LVN_OK;
}

/* Set max_B and max_micro to those of the rank with the most samples, so they are equal on all ranks. */
static void set_max(const struct lvn_train_programs *t, struct lvn_session_options *o)
{
    int64_t max = 0, unit = t->settings->trainer.micro_batch_size ? t->micro_batch : 1;
    for (int i = 0; i < t->reduction.sharding.size; i++) {
        int64_t rows = (t->first_unit[i + 1] - t->first_unit[i]) * unit;
        if (rows <= max) continue;
        max = rows;
        o->max_micro = t->leaf[i + 1] - t->leaf[i];
        o->max_B = rows / o->max_micro;
    }
}

static void drop_plan(struct lvn_train_programs *t)
{
    if (t->planner.forget) t->planner.forget(t->planner.context);
    if (t->model_state) lvn_model_state_drop_sessions(t->model_state);
    t->step_session = t->eval_session = t->next_session = NULL;
    memset(t->step_sessions, 0, sizeof t->step_sessions);
    memset(t->eval_sessions, 0, sizeof t->eval_sessions);
}

/* Bytes of the gathers of a session's micro-batch. */
static int64_t gathered_bytes(const struct lvn_session *t)
{
    int64_t bytes = 0;
    for (int n = 0; n < t->program->n_instrs; n++) {
        const struct lvn_instr *i = &t->program->instrs[n];
        if (i->id == LVN_OP_all_gather)
            bytes += lvn_desc_count(&i->out[0].desc) * lvn_dtype_bytes(i->out[0].desc.dtype);
    }
    return bytes;
}

/* Do samples of all lengths gather parameters in the same types? Multiplications of a few rows round less. */
static bool lengths_agree(const struct lvn_train_programs *t)
{
    for (int i = 0; i < last_length(t); i++)
        if (gathered_bytes(t->step_sessions[i]) != gathered_bytes(t->step_sessions[last_length(t)])) return false;
    return true;
}

/* Plan with t->min_micro and t->recompute. */
static enum lvn_status plan_once(struct lvn_train_programs *t, const struct lvn_model_config *c,
                                 const struct lvn_train_programs_options *options)
{
    const struct levin_settings *s = t->settings;
    int processes = t->ranks ? t->ranks->local_size : options->local_size;
    int threads = lvn_ranks_threads(t->ranks, s->trainer.threads);
    int device;
    LVN_TRY(lvn_ranks_device(t->ranks, s, &device));
    struct lvn_model_state_options state = {.backend = lvn_backend_find(s->trainer.accelerator),
                                            .device = device,
                                            .tf32 = s->trainer.float32_matmul_precision == LVN_TRAINER_FLOAT32_HIGH,
                                            .real = LVN_F32,
                                            .precision = lvn_precision_of(s->trainer.precision),
                                            .threads = threads,
                                            .decay = lvn_decay_of(s->optimizer.decay),
                                            .freeze = s->model.freeze,
                                            .groups = s->optimizer.groups,
                                            .lr = s->optimizer.lr,
                                            .processes = processes,
                                            .machine_bytes = options->machine_bytes};
    struct lvn_model_config model = *c;
    model.lora = (struct lvn_lora){.rank = s->lora.rank,
                                   .alpha = s->lora.alpha,
                                   .rslora = s->lora.use_rslora,
                                   .dropout = s->lora.dropout,
                                   .targets = lvn_lora_targets(c->model, s->lora.targets)};
    LVN_TRY(divide(t, options->shares));
    int64_t weight_bytes = lvn_dtype_bytes(state.precision == LVN_PRECISION_BF16_TRUE ? LVN_BF16 : LVN_F32);
    if (!t->model_state) LVN_TRY(lvn_layers_check(&model, weight_bytes, t->ranks && state.backend->computes));
    if (!t->model_state) LVN_TRY(lvn_model_state_new(&t->model_state, &model, &state));
    lvn_model_state_share(t->model_state, &t->reduction.sharding, t->ranks);
    struct lvn_session_options o = {.B = t->micro_batch, .n_micro = t->accumulation, .task = options->task};
    if (options->validate) LVN_TRY(new_sessions(t, t->eval_sessions, &o));
    o.train = true;
    o.deterministic = s->trainer.deterministic;
    o.recompute = t->recompute;
    o.optimizer = &t->optimizer;
    o.collectives = &t->reduction.calls;
    o.first_leaf = t->leaf[t->reduction.sharding.rank];
    o.n_leaves = t->n_micro;
    set_max(t, &o);
    LVN_TRY(new_sessions(t, t->step_sessions, &o));
    if (t->reduction.sharding.round && !lengths_agree(t)) {
        drop_plan(t);
        t->reduction.sharding.round = false;
        return plan_once(t, c, options);
    }
    t->next_session = t->step_session = t->step_sessions[last_length(t)];
    const bool replicas = t->reduction.sharding.group || !lvn_parameters_sharded(t->model_state, LVN_PARAMETER_VALUES);
    if (t->reduction.sharding.size > 1)
        LVN_TRY(lvn_parameter_sums_new(t->model_state, t->step_session->program, replicas));
    t->eval_session = t->eval_sessions[last_length(t)];
    return t->planner.plan
               ? t->planner.plan(t->planner.context, t->model_state, t->block_size, t->reduction.sharding.rank)
               : LVN_OK;
}

/* With trainer.strategy auto: shard more of the model. False: not possible. */
static bool shard_more(struct lvn_train_programs *t)
{
    if (t->settings->trainer.strategy != LVN_TRAINER_STRATEGY_AUTO || t->reduction.sharding.size == 1) return false;
    const unsigned shards = lvn_strategy_more(t->settings, t->shards);
    if (!shards) return false;
    if (!t->shards) t->whole_bytes = t->needed_bytes;
    t->shards = shards;
    t->recompute = lvn_recompute_of(t->settings->trainer.recompute);
    return true;
}

/* With trainer.recompute auto: use mode CHEAP or BLOCKS. False: the plan does already, or there are no blocks. */
static bool recompute(struct lvn_train_programs *t, enum lvn_recompute mode)
{
    if (t->settings->trainer.recompute != LVN_TRAINER_RECOMPUTE_AUTO) return false;
    if (t->step_session->program->recompute >= mode) return false;
    if (mode == LVN_RECOMPUTE_BLOCKS && t->step_session->graph->n_blocks < 2) return false;
    t->recompute = mode;
    return true;
}

/* Plan with cheap recomputation, then with more and more micro-batches, then with more sharding, then with recomputed
 * blocks, until memory is sufficient or none of these helps. */
static enum lvn_status plan_for_memory(struct lvn_train_programs *t, const struct lvn_model_config *c,
                                       const struct lvn_train_programs_options *options)
{
    bool fixed = t->min_micro > 0;
    if (!fixed) t->min_micro = 1;
    for (;;) {
        LVN_TRY(plan_once(t, c, options));
        const struct lvn_device *d = t->model_state->device;
        int64_t available =
            d->backend->computes ? lvn_model_state_available(t->model_state) : 0; /* 0: not run on this machine */
        int64_t part[LVN_MEMORY_PART_COUNT], needed = lvn_train_programs_memory(t, part) - part[LVN_MEMORY_PROGRAMS];
        if (d->memory_bytes) needed = lvn_model_state_bytes(t->model_state); /* other parts are in host memory */
        needed -= lvn_model_state_allocated_bytes(t->model_state);
        bool fits = available <= 0 || needed <= available;
        int64_t model =
            part[LVN_MEMORY_PARAMETERS] + part[LVN_MEMORY_OPTIMIZER] - lvn_model_state_allocated_bytes(t->model_state);
        /* Fewer activations do not help a model that is itself too large. */
        bool hopeless = needed - part[LVN_MEMORY_ARENA] > available;
        bool smallest = t->settings->trainer.micro_batch_size || fixed || t->micro_batch == 1;
        t->needed_bytes = needed;
        t->free_bytes = available;
        t->exceeds_memory = !fits && model <= available;
        if (fits) return LVN_OK;
        if ((hopeless || smallest) && shard_more(t)) {
            if (!fixed) t->min_micro = 1;
            drop_plan(t);
            continue;
        }
        if (hopeless) return LVN_OK;
        if (!recompute(t, LVN_RECOMPUTE_CHEAP)) {
            if (!smallest)
                t->min_micro = t->accumulation + 1;
            else if (!recompute(t, LVN_RECOMPUTE_BLOCKS))
                return LVN_OK;
        }
        drop_plan(t);
    }
}

/* Gather unrounded parameters if ranks, which may have different devices or numbers of rows, would round different
 * ones. */
static enum lvn_status round_consistently(struct lvn_train_programs *t, const struct lvn_model_config *c,
                                          const struct lvn_train_programs_options *o)
{
    int64_t bytes = 0;
    for (int i = 0; i < t->model_state->n_sessions; i++) bytes += gathered_bytes(t->model_state->sessions[i]);
    int64_t max[2] = {bytes, -bytes};
    if (t->ranks->size > 1) LVN_TRY(lvn_comm_all_reduce_now(t->ranks->comm, max, 2, LVN_I64, LVN_MAX));
    if (max[0] == -max[1]) return LVN_OK;
    drop_plan(t);
    t->reduction.sharding.round = false;
    return plan_once(t, c, o);
}

/* Plan on all ranks, with the maximum number of micro-batches that a rank needs, and with sharding and recomputed
 * blocks if one needs them, because ranks with different programs would wait for each other. */
static enum lvn_status plan_collectively(struct lvn_train_programs *t, const struct lvn_model_config *c,
                                         const struct lvn_train_programs_options *o)
{
    struct lvn_ranks *r = t->ranks;
    LVN_TRY(lvn_ranks_agree(r, plan_for_memory(t, c, o)));
    const int64_t mine[4] = {t->min_micro, (int64_t)t->recompute, t->shards, t->whole_bytes};
    int64_t max[4] = {mine[0], mine[1], mine[2], mine[3]};
    if (r->size > 1) LVN_TRY(lvn_comm_all_reduce_now(r->comm, max, 4, LVN_I64, LVN_MAX));
    const bool replan = max[0] > mine[0] || max[1] > mine[1] || max[2] > mine[2];
    t->min_micro = max[0];
    t->shards = (unsigned)max[2]; /* STATE < STATE | GRADIENTS */
    t->whole_bytes = max[3];
    t->recompute = (enum lvn_recompute)max[1];
    if (replan) drop_plan(t);
    LVN_TRY(lvn_ranks_agree(r, replan ? plan_once(t, c, o) : LVN_OK));
    LVN_TRY(lvn_ranks_agree(r, round_consistently(t, c, o)));
    return lvn_ranks_agree(r, lvn_reduction_prepare(&t->reduction, t->step_session->program, t->leaf));
}

enum lvn_status lvn_train_programs_plan(struct lvn_train_programs *t, const struct levin_settings *s,
                                        const struct lvn_model_config *c, const struct lvn_train_programs_options *o)
{
    struct lvn_ranks *r = o->ranks;
    struct lvn_sharding sharding = {.rank = r ? r->rank : 0,
                                    .size = r             ? r->size
                                            : o->size > 1 ? o->size
                                                          : 1,
                                    .sharded = lvn_strategy_shards(s), /* or more, see divide() */
                                    .tree = s->trainer.deterministic,
                                    .bf16 = s->trainer.reduce_dtype == LVN_TRAINER_REDUCE_BF16,
                                    .sums_every = s->trainer.check_replicas_every_n_steps,
                                    .keep = !s->trainer.fsdp_reshard,
                                    .round = true};
    *t = (struct lvn_train_programs){
        .settings = s, .fields = *o->fields, .block_size = lvn_task_length(o->task, o->fields), .ranks = r};
    t->fill = o->fill > 0 ? o->fill : 1;
    LVN_TRY(lvn_settings_check_strategy(s));
    const struct lvn_optimizer_options optimizer = lvn_optimizer_options_of(s);
    lvn_optimizer_init(&t->optimizer, &optimizer);
    t->min_micro = o->min_micro;
    t->shards = sharding.sharded;
    t->recompute = lvn_recompute_of(s->trainer.recompute);
    t->planner = o->planner;
    t->n_lengths = lvn_fields_lengths(&t->fields, t->length);
    t->leaf = lvn_calloc((size_t)sharding.size + 1, sizeof *t->leaf);
    t->first_unit = lvn_calloc((size_t)sharding.size + 1, sizeof *t->first_unit);
    if (!t->leaf || !t->first_unit) return LVN_MEMORY;
    lvn_reduction_init(&t->reduction, r, &sharding);
    if (!r) return plan_for_memory(t, c, o);
    LVN_TRY(plan_collectively(t, c, o));
    LVN_TRY(lvn_ranks_group(r, t->model_state->device, s));
    return lvn_ranks_divide(r, t->reduction.sharding.group);
}

enum lvn_status lvn_train_programs_replan(struct lvn_train_programs *t, const struct lvn_train_programs_options *o)
{
    const struct lvn_model_config c = t->model_state->config;
    const struct lvn_sharding sharding = t->reduction.sharding;
    drop_plan(t);
    lvn_reduction_release(&t->reduction);
    lvn_reduction_init(&t->reduction, t->ranks, &sharding);
    t->min_micro = o->min_micro;
    t->recompute = lvn_recompute_of(t->settings->trainer.recompute);
    return plan_collectively(t, &c, o);
}

void lvn_train_programs_release(struct lvn_train_programs *t)
{
    drop_plan(t);
    lvn_ranks_ungroup(t->ranks);
    lvn_model_state_free(t->model_state);
    lvn_reduction_release(&t->reduction);
    free(t->leaf);
    free(t->first_unit);
    *t = (struct lvn_train_programs){0};
}

struct lvn_session *lvn_train_programs_session(const struct lvn_train_programs *t, struct lvn_session *const *sessions,
                                               const struct lvn_samples *b)
{
    return sessions[t->n_lengths ? lvn_length_find(t->length, t->n_lengths, lvn_fields_length(&b->fields)) : 0];
}

enum lvn_status lvn_train_programs_feed(struct lvn_train_programs *t, const struct lvn_samples *b, int64_t *labels)
{
    t->next_session = lvn_train_programs_session(t, t->step_sessions, b);
    *labels = lvn_task_count(&t->next_session->outputs, b);
    return lvn_session_feed(t->next_session, 0, b);
}

void lvn_train_programs_prepare(struct lvn_train_programs *t, int64_t step, double lr, int64_t labels)
{
    t->step_session = t->next_session;
    t->step_session->step_args = (struct lvn_step){.seed = (uint64_t)t->settings->trainer.seed,
                                                   .step = step,
                                                   .lr = lr,
                                                   .first_row = t->first_row,
                                                   .grad_scale = labels ? 1.0 / (double)labels : 0.0,
                                                   .unlabeled = t->unlabeled,
                                                   .training = 1};
    t->reduction.waited = t->reduction.summed = 0.0;
}

/* Set the current operation for the heartbeat if sums run between devices, where waiting is not visible to the host. */
static void set_operation(const struct lvn_train_programs *t, const char *operation)
{
    if (t->ranks && t->ranks->device_comm) lvn_member_set_operation(t->ranks->member, operation);
}

static const char on_devices[] = "a step with sums on the devices";

void lvn_train_programs_launch(struct lvn_train_programs *t, int64_t step, double lr, int64_t labels)
{
    lvn_train_programs_prepare(t, step, lr, labels);
    set_operation(t, on_devices);
    lvn_session_launch(t->step_session, t->accumulation);
    set_operation(t, NULL);
}

enum lvn_status lvn_train_programs_finish(struct lvn_train_programs *t)
{
    set_operation(t, on_devices);
    lvn_session_finish(t->step_session, t->accumulation);
    set_operation(t, NULL);
    t->unlabeled += t->step_session->step_args.grad_scale == 0;
    return t->step_session->status;
}

enum lvn_status lvn_train_programs_step(struct lvn_train_programs *t, int64_t step, double lr, int64_t labels)
{
    lvn_train_programs_launch(t, step, lr, labels);
    return lvn_train_programs_finish(t);
}

enum lvn_status lvn_train_programs_explain_nonfinite(struct lvn_train_programs *t, int64_t step, double loss,
                                                     const char *outcome)
{
    static const char format[] = "step %lld: the loss is %g and the gradient norm %g%s; the first value that is not "
                                 "finite is in '%s'; %s; try %s"
                                 "a smaller optimizer.lr, a longer schedule.warmup_steps or clipping";
    double norm = t->step_session->result.grad_norm, scale = t->step_session->result.scaling.scale;
    const char *precision = scale > 0 ? "trainer.precision bf16-mixed or 32-true, " : "";
    char although[80] = "";
    if (scale > 0) snprintf(although, sizeof although, ", although the loss was multiplied by only %g", 2 * scale);
    enum lvn_status found = LVN_OK;
    const char *first = lvn_session_find_nonfinite(t->step_session, t->accumulation);
    if (first)
        found = lvn_fail(LVN_NONFINITE, format, (long long)step + 1, loss, norm, although, first, outcome, precision);
    LVN_TRY(lvn_ranks_agree(t->ranks, found));
    found = lvn_fail(LVN_NONFINITE, format, (long long)step + 1, loss, norm, although, "the sum of the gradient",
                     outcome, precision);
    return lvn_ranks_agree(t->ranks, found);
}
