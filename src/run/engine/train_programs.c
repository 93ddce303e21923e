/* train_programs.c - see train_programs.h. */
#include "engine/train_programs.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/text.h"
#include "data/dataset.h"
#include "engine/devices.h"
#include "engine/memory.h"
#include "engine/parameter_sums.h"
#include "engine/parameters.h"
#include "engine/rank_groups.h"
#include "engine/shares.h"
#include "engine/strategy.h"
#include "host/machine.h"
#include "models/lora.h"
#include "options/choices.h"
#include "options/values.h"

/* --- the division of the batch --- */

enum { IN_MICRO_BATCH = LVN_SHARDS_GRADIENTS | LVN_SHARDS_PARAMETERS }; /* ranks exchange these in every micro-batch */

/* The smallest number, at least min_micro_batches, of equal micro-batches into which `rows` can be divided. */
static int64_t micro_batches_of(int64_t rows, int64_t min_micro_batches)
{
    if (min_micro_batches > rows) min_micro_batches = rows;
    while (rows % min_micro_batches) min_micro_batches++;
    return min_micro_batches;
}

/* The unit is a micro-batch; rank i computes leaf[i] to leaf[i + 1] - 1. */
static enum lvn_status divide_micro_batches(struct lvn_train_programs *programs, int size, int rank)
{
    int64_t batch = programs->values->trainer.batch_size, micro = programs->values->trainer.micro_batch_size,
            n = batch / micro;
    LVN_CHECK(n >= size, ARG,
              "%d ranks cannot share the %" PRId64 " micro-batch%s of a step (trainer.batch_size %" PRId64
              ", trainer.micro_batch_size %" PRId64 "): start at most %" PRId64
              " rank%s, or use a larger batch or a smaller micro-batch",
              size, n, n == 1 ? "" : "es", batch, micro, n, lvn_plural(n));
    for (int i = 0; i <= size; i++) programs->leaf[i] = programs->first_unit[i];
    programs->micro_batch = micro;
    programs->first_row = programs->leaf[rank] * micro;
    programs->rows = (programs->leaf[rank + 1] - programs->leaf[rank]) * micro;
    return LVN_OK;
}

/* The unit is a row; each rank's rows are divided into equal micro-batches. */
static enum lvn_status divide_rows(struct lvn_train_programs *programs, int size, int rank)
{
    int64_t batch = programs->values->trainer.batch_size;
    LVN_CHECK(batch >= size, ARG,
              "%d ranks cannot share the %" PRId64 " sequence%s of a step (trainer.batch_size): start at most %" PRId64
              " rank%s, or use a larger batch",
              size, batch, lvn_plural(batch), batch, lvn_plural(batch));
    programs->leaf[0] = 0;
    for (int i = 0; i < size; i++) {
        const int64_t rows = programs->first_unit[i + 1] - programs->first_unit[i],
                      n = micro_batches_of(rows, programs->min_micro_batches);
        programs->leaf[i + 1] = programs->leaf[i] + n;
        if (i != rank) continue;
        programs->first_row = programs->first_unit[i];
        programs->rows = rows;
        programs->micro_batch = rows / n;
    }
    return LVN_OK;
}

static enum lvn_status divide(struct lvn_train_programs *programs)
{
    const int64_t units = lvn_shares_units(programs->values);
    const int size = programs->collectives.sharding.size, rank = programs->collectives.sharding.rank;
    const char *shares = programs->values->trainer.shares;
    for (int i = 0; i <= size; i++) programs->first_unit[i] = units * i / size;
    if (*shares) LVN_TRY(lvn_shares_read(shares, units, size, programs->first_unit));
    LVN_TRY(programs->values->trainer.micro_batch_size ? divide_micro_batches(programs, size, rank)
                                                       : divide_rows(programs, size, rank));
    programs->accumulation = programs->leaf[rank + 1] - programs->leaf[rank];
    programs->global_micro_batches = programs->leaf[size];
    programs->collectives.sharding.sharded = programs->shards;
    LVN_TRY(lvn_strategy_group(programs->values, size, &programs->collectives.sharding.group));
    if (!(programs->shards & LVN_SHARDS_PARAMETERS)) programs->collectives.sharding.group = 0;
    for (int i = 0; i < size && programs->collectives.sharding.sharded & IN_MICRO_BATCH; i++) {
        if (programs->leaf[i + 1] - programs->leaf[i] == programs->accumulation) continue;
        LVN_CHECK(
            programs->values->trainer.strategy == LVN_TRAINER_STRATEGY_AUTO, ARG,
            "trainer.strategy %s exchanges gradients or parameters in every micro-batch, so all ranks must have "
            "the same number, but rank %d has %" PRId64 " and rank %d %" PRId64 " of the %" PRId64 " of a step: use a "
            "trainer.batch_size that the ranks can share equally, or zero1",
            lvn_strategy_name(programs->values, programs->collectives.sharding.sharded), i,
            programs->leaf[i + 1] - programs->leaf[i], rank, programs->accumulation, programs->global_micro_batches);
        programs->collectives.sharding.sharded = LVN_SHARDS_STATE;
    }
    return LVN_OK;
}

/* --- planning --- */

static int last_length(const struct lvn_train_programs *programs)
{
    return programs->n_lengths ? programs->n_lengths - 1 : 0;
}

/* Create one session, or one per planned length, which use the memory of the longest. The collectives are prepared for
 * one of them and must be the same in all. */
static enum lvn_status new_sessions(struct lvn_train_programs *programs, struct lvn_session **out,
                                    const struct lvn_session_options *options)
{
    const int last = last_length(programs);
    for (int i = last; i >= 0; i--) {
        struct lvn_session_options o = *options;
        struct lvn_fields *fields = &programs->fields_of_length[i];
        *fields = programs->fields;
        if (programs->n_lengths) lvn_fields_set_length(fields, programs->length[i]);
        o.fields = fields;
        o.longer = i < last ? out[last] : NULL;
        LVN_TRY(lvn_session_new(&out[i], programs->model_state, &o));
        LVN_CHECK(out[i]->program->n_handles == out[last]->program->n_handles, INTERNAL,
                  "samples of %lld and %lld tokens sum gradients differently", (long long)programs->length[i],
                  (long long)programs->length[last]);
    }
    return LVN_OK;
}

/* Set max_B and max_micro_batches to those of the rank with the most samples, so they are equal on all ranks. */
static void set_max(const struct lvn_train_programs *programs, struct lvn_session_options *o)
{
    int64_t max = 0, unit = programs->values->trainer.micro_batch_size ? programs->micro_batch : 1;
    for (int i = 0; i < programs->collectives.sharding.size; i++) {
        int64_t rows = (programs->first_unit[i + 1] - programs->first_unit[i]) * unit;
        if (rows <= max) continue;
        max = rows;
        o->max_micro_batches = programs->leaf[i + 1] - programs->leaf[i];
        o->max_B = rows / o->max_micro_batches;
    }
}

static void drop_plan(struct lvn_train_programs *programs)
{
    if (programs->planner.forget) programs->planner.forget(programs->planner.context);
    if (programs->model_state) lvn_model_state_drop_sessions(programs->model_state);
    programs->step_session = programs->eval_session = programs->next_session = NULL;
    memset(programs->step_sessions, 0, sizeof programs->step_sessions);
    memset(programs->eval_sessions, 0, sizeof programs->eval_sessions);
}

/* Bytes of the gathers of a session's micro-batch. */
static int64_t gathered_bytes(const struct lvn_session *session)
{
    int64_t bytes = 0;
    for (int n = 0; n < session->program->n_instrs; n++) {
        const struct lvn_instr *i = &session->program->instrs[n];
        if (i->id == LVN_OP_all_gather)
            bytes += lvn_desc_count(&i->out[0].desc) * lvn_dtype_bytes(i->out[0].desc.dtype);
    }
    return bytes;
}

/* Do samples of all lengths gather parameters in the same types? Multiplications of a few rows round less. */
static bool lengths_agree(const struct lvn_train_programs *programs)
{
    for (int i = 0; i < last_length(programs); i++)
        if (gathered_bytes(programs->step_sessions[i]) !=
            gathered_bytes(programs->step_sessions[last_length(programs)]))
            return false;
    return true;
}

/* Plan with programs->min_micro_batches and programs->recompute. */
static enum lvn_status plan_once(struct lvn_train_programs *programs, const struct lvn_model_config *c,
                                 const struct lvn_train_programs_options *options)
{
    const struct lvn_values *v = programs->values;
    int processes = programs->ranks ? programs->ranks->local_size : options->local_size;
    int threads = lvn_ranks_threads(programs->ranks, v->trainer.threads);
    int device;
    LVN_TRY(lvn_ranks_device(programs->ranks, v, &device));
    struct lvn_model_state_options state = {.backend = lvn_backend_find(v->trainer.accelerator),
                                            .device = device,
                                            .tf32 = v->trainer.float32_matmul_precision == LVN_TRAINER_FLOAT32_HIGH,
                                            .tunes = !v->trainer.deterministic,
                                            .real = LVN_F32,
                                            .precision = lvn_precision_of(v->trainer.precision),
                                            .threads = threads,
                                            .decay = lvn_decay_of(v->optimizer.decay),
                                            .freeze = v->model.freeze,
                                            .quantize = lvn_quantize_of(v->model.quantize),
                                            .groups = v->optimizer.groups,
                                            .optimizer = v->optimizer.kind,
                                            .lr = v->optimizer.lr,
                                            .processes = processes,
                                            .machine_bytes = options->machine_bytes};
    struct lvn_model_config model = *c;
    model.lora = (struct lvn_lora){.rank = v->lora.rank,
                                   .alpha = v->lora.alpha,
                                   .rslora = v->lora.use_rslora,
                                   .dropout = v->lora.dropout,
                                   .tokens = c->lora.tokens,
                                   .n_tokens = c->lora.n_tokens,
                                   .targets = lvn_lora_targets(c->model, v->lora.targets)};
    LVN_TRY(divide(programs));
    if (!programs->model_state) LVN_TRY(lvn_model_state_new(&programs->model_state, &model, &state));
    lvn_model_state_share(programs->model_state, &programs->collectives.sharding, programs->ranks);
    struct lvn_session_options o = {
        .B = programs->micro_batch, .n_micro_batches = programs->accumulation, .task = options->task};
    if (options->validate) LVN_TRY(new_sessions(programs, programs->eval_sessions, &o));
    o.train = true;
    o.deterministic = v->trainer.deterministic;
    o.recompute = programs->recompute;
    o.round_once = programs->round_once;
    o.optimizer = &programs->optimizer;
    o.collectives = &programs->collectives.calls;
    o.first_leaf = programs->leaf[programs->collectives.sharding.rank];
    o.n_leaves = programs->global_micro_batches;
    set_max(programs, &o);
    LVN_TRY(new_sessions(programs, programs->step_sessions, &o));
    if (programs->collectives.sharding.round && !lengths_agree(programs)) {
        drop_plan(programs);
        programs->collectives.sharding.round = false;
        return plan_once(programs, c, options);
    }
    programs->next_session = programs->step_session = programs->step_sessions[last_length(programs)];
    const bool replicas =
        programs->collectives.sharding.group || !lvn_parameters_sharded(programs->model_state, LVN_PARAMETER_VALUES);
    if (programs->collectives.sharding.size > 1)
        LVN_TRY(lvn_parameter_sums_new(programs->model_state, programs->step_session->program, replicas));
    programs->eval_session = programs->eval_sessions[last_length(programs)];
    return programs->planner.plan ? programs->planner.plan(programs->planner.context, programs->model_state,
                                                           programs->block_size, programs->collectives.sharding.rank)
                                  : LVN_OK;
}

/* With trainer.strategy auto: shard more of the model. False: not possible. */
static bool shard_more(struct lvn_train_programs *programs)
{
    if (programs->values->trainer.strategy != LVN_TRAINER_STRATEGY_AUTO || programs->collectives.sharding.size == 1)
        return false;
    const unsigned shards = lvn_strategy_more(programs->values, programs->shards);
    if (!shards) return false;
    if (programs->model_state->params->packed_bytes && shards & LVN_SHARDS_PARAMETERS)
        return false; /* packed weights cannot be sharded */
    if (!programs->shards) programs->whole_bytes = programs->needed_bytes;
    programs->shards = shards;
    programs->round_once = true;
    programs->recompute = lvn_recompute_of(programs->values->trainer.recompute);
    return true;
}

/* With trainer.recompute auto: use mode CHEAP or BLOCKS. False: the plan does already, or found nothing to recompute
 * (then the mode of its program is NONE), or there are no blocks. */
static bool recompute(struct lvn_train_programs *programs, enum lvn_recompute mode)
{
    if (programs->values->trainer.recompute != LVN_TRAINER_RECOMPUTE_AUTO) return false;
    if (programs->recompute >= mode || programs->step_session->program->recompute >= mode) return false;
    if (mode == LVN_RECOMPUTE_BLOCKS && programs->step_session->graph->n_blocks < 2) return false;
    programs->recompute = mode;
    return true;
}

/* Keep no rounded copies of parameters. False: there are none. */
static bool round_at_each_use(struct lvn_train_programs *programs)
{
    programs->round_once = false;
    return programs->step_session->program->rounds_once;
}

/* The division to begin with: into micro-batches that are large enough to be fast, if all ranks can have the same and
 * exchange nothing in each. */
static int64_t first_division(const struct lvn_train_programs *programs)
{
    const struct lvn_values *v = programs->values;
    const int64_t tokens = lvn_backend_find(v->trainer.accelerator)->micro_batch_tokens, length = programs->block_size;
    const int64_t rows = v->trainer.batch_size / programs->collectives.sharding.size;
    if (!tokens || v->trainer.micro_batch_size || *v->trainer.shares || programs->shards & IN_MICRO_BATCH ||
        rows * programs->collectives.sharding.size != v->trainer.batch_size)
        return 1;
    const int64_t n = micro_batches_of(rows, (rows * length + tokens - 1) / tokens);
    return rows / n * length < tokens / 4 ? 1 : n; /* without a divisor nearby */
}

/* Plan, and while memory is short, first drop the rounded copies of parameters, then add cheap recomputation, then more
 * and more micro-batches, then more sharding, then recomputed blocks, until memory is sufficient or none of these
 * helps. The copies stay dropped, even if smaller micro-batches leave room for them again. */
static enum lvn_status plan_for_memory(struct lvn_train_programs *programs, const struct lvn_model_config *c,
                                       const struct lvn_train_programs_options *options)
{
    const bool fixed = programs->min_micro_batches > 0;
    if (!fixed) programs->min_micro_batches = first_division(programs);
    for (;;) {
        LVN_TRY(plan_once(programs, c, options));
        const struct lvn_device *d = programs->model_state->device;
        int64_t available = d->backend->computes ? lvn_model_state_available(programs->model_state)
                                                 : 0; /* 0: only planned, so memory is not limited */
        int64_t part[LVN_MEMORY_PART_COUNT],
            needed = lvn_train_programs_memory(programs, part) - part[LVN_MEMORY_PROGRAMS];
        if (d->memory_bytes) needed = lvn_model_state_bytes(programs->model_state); /* other parts are in host memory */
        needed -= lvn_model_state_allocated_bytes(programs->model_state);
        bool fits = available <= 0 || needed <= available;
        /* Fewer activations do not help a model that is itself too large. */
        bool hopeless = needed - part[LVN_MEMORY_ARENA] > available;
        bool smallest = programs->values->trainer.micro_batch_size || fixed || programs->micro_batch == 1;
        programs->needed_bytes = needed;
        programs->free_bytes = available;
        if (fits) return LVN_OK;
        if (round_at_each_use(programs)) {
            drop_plan(programs);
            continue;
        }
        if ((hopeless || smallest) && shard_more(programs)) {
            if (!fixed) programs->min_micro_batches = first_division(programs);
            drop_plan(programs);
            continue;
        }
        if (hopeless) return LVN_OK;
        if (!recompute(programs, LVN_RECOMPUTE_CHEAP)) {
            if (!smallest)
                programs->min_micro_batches = programs->accumulation + 1;
            else if (!recompute(programs, LVN_RECOMPUTE_BLOCKS))
                return LVN_OK;
        }
        drop_plan(programs);
    }
}

/* Gather unrounded parameters if ranks, which may have different devices or numbers of rows, would round different
 * ones. */
static enum lvn_status round_consistently(struct lvn_train_programs *programs, const struct lvn_model_config *c,
                                          const struct lvn_train_programs_options *o)
{
    int64_t bytes = 0;
    for (int i = 0; i < programs->model_state->n_sessions; i++)
        bytes += gathered_bytes(programs->model_state->sessions[i]);
    int64_t max[2] = {bytes, -bytes};
    if (programs->ranks->size > 1) LVN_TRY(lvn_comm_all_reduce_now(programs->ranks->comm, max, 2, LVN_I64, LVN_MAX));
    if (max[0] == -max[1]) return LVN_OK;
    drop_plan(programs);
    programs->collectives.sharding.round = false;
    return plan_once(programs, c, o);
}

/* Plan on all ranks, with the maximum number of micro-batches that a rank needs, and with sharding and recomputed
 * blocks if one needs them, because ranks with different programs would wait for each other. */
static enum lvn_status plan_collectively(struct lvn_train_programs *programs, const struct lvn_model_config *c,
                                         const struct lvn_train_programs_options *o)
{
    struct lvn_ranks *r = programs->ranks;
    LVN_TRY(lvn_ranks_agree(r, plan_for_memory(programs, c, o)));
    const int64_t mine[4] = {programs->min_micro_batches, (int64_t)programs->recompute, programs->shards,
                             programs->whole_bytes};
    int64_t max[4] = {mine[0], mine[1], mine[2], mine[3]};
    if (r->size > 1) LVN_TRY(lvn_comm_all_reduce_now(r->comm, max, 4, LVN_I64, LVN_MAX));
    const bool replan = max[0] > mine[0] || max[1] > mine[1] || max[2] > mine[2];
    programs->min_micro_batches = max[0];
    programs->shards = (unsigned)max[2]; /* STATE < STATE | GRADIENTS */
    programs->whole_bytes = max[3];
    programs->recompute = (enum lvn_recompute)max[1];
    if (replan) drop_plan(programs);
    LVN_TRY(lvn_ranks_agree(r, replan ? plan_once(programs, c, o) : LVN_OK));
    LVN_TRY(lvn_ranks_agree(r, round_consistently(programs, c, o)));
    return lvn_ranks_agree(
        r, lvn_collective_runner_prepare(&programs->collectives, programs->step_session->program, programs->leaf));
}

static enum lvn_status replan(struct lvn_train_programs *programs, const struct lvn_train_programs_options *o)
{
    const struct lvn_model_config c = programs->model_state->config;
    const struct lvn_sharding sharding = programs->collectives.sharding;
    drop_plan(programs);
    lvn_collective_runner_release(&programs->collectives);
    lvn_collective_runner_init(&programs->collectives, programs->ranks, &sharding);
    programs->min_micro_batches = o->min_micro_batches;
    programs->round_once = true;
    programs->recompute = lvn_recompute_of(programs->values->trainer.recompute);
    return plan_collectively(programs, &c, o);
}

/* NCCL allocates device memory when ranks join, after the plan, which knew that they can: plan again if a rank's device
 * has too little left. */
static enum lvn_status plan_within_rest(struct lvn_train_programs *programs, const struct lvn_train_programs_options *o)
{
    struct lvn_ranks *r = programs->ranks;
    struct lvn_device *d = programs->model_state->device;
    const int group = programs->collectives.sharding.group;
    if (!r->device_comm) return LVN_OK;
    LVN_TRY(lvn_ranks_agree(r, d->backend->queues->update_memory(d)));
    int64_t too_large = !lvn_model_state_fits(programs->model_state);
    LVN_TRY(lvn_comm_all_reduce_now(r->comm, &too_large, 1, LVN_I64, LVN_MAX));
    if (!too_large) return LVN_OK;
    LVN_TRY(replan(programs, o));
    if (programs->collectives.sharding.group == group) return LVN_OK;
    /* Only this plan shards in groups, whose communicators allocate memory too. There is no third plan: a rank that
     * then has too little left is refused when it allocates, and its message names the bytes. */
    LVN_TRY(lvn_ranks_divide(r, programs->collectives.sharding.group));
    return lvn_ranks_agree(r, d->backend->queues->update_memory(d));
}

enum lvn_status lvn_train_programs_plan(struct lvn_train_programs *programs, const struct lvn_values *v,
                                        const struct lvn_model_config *c, const struct lvn_train_programs_options *o)
{
    struct lvn_ranks *r = o->ranks;
    struct lvn_sharding sharding = {.rank = r ? r->rank : 0,
                                    .size = r             ? r->size
                                            : o->size > 1 ? o->size
                                                          : 1,
                                    .sharded = lvn_strategy_shards(v), /* or more, see divide() */
                                    .tree = v->trainer.deterministic,
                                    .bf16 = v->trainer.reduce_dtype == LVN_TRAINER_REDUCE_BF16,
                                    .sums_every = v->trainer.check_replicas_every_n_steps,
                                    .keep = !v->trainer.fsdp_reshard,
                                    .round = true};
    *programs = (struct lvn_train_programs){
        .values = v, .fields = *o->fields, .block_size = lvn_task_length(o->task, o->fields), .ranks = r};
    programs->fill = o->fill > 0 ? o->fill : 1;
    LVN_TRY(lvn_values_check_strategy(v));
    const struct lvn_optimizer_options optimizer = lvn_optimizer_options_of(v);
    lvn_optimizer_init(&programs->optimizer, &optimizer);
    programs->min_micro_batches = o->min_micro_batches;
    programs->shards = sharding.sharded;
    programs->round_once = true;
    programs->recompute = lvn_recompute_of(v->trainer.recompute);
    programs->planner = o->planner;
    programs->n_lengths = lvn_fields_lengths(&programs->fields, programs->length);
    programs->leaf = lvn_calloc((size_t)sharding.size + 1, sizeof *programs->leaf);
    programs->first_unit = lvn_calloc((size_t)sharding.size + 1, sizeof *programs->first_unit);
    if (!programs->leaf || !programs->first_unit) return LVN_MEMORY;
    lvn_collective_runner_init(&programs->collectives, r, &sharding);
    if (!r) return plan_for_memory(programs, c, o);
    LVN_TRY(plan_collectively(programs, c, o));
    LVN_TRY(lvn_ranks_group(r, programs->model_state->device, v));
    LVN_TRY(lvn_ranks_divide(r, programs->collectives.sharding.group));
    return plan_within_rest(programs, o);
}

static enum lvn_status tune(const struct lvn_model_state *n, const char *lines, bool measure, struct lvn_tuned *t)
{
    const struct lvn_tuning_ops *ops = n->device->backend->tuning;
    LVN_TRY(ops->use_recorded(n->device, lines ? lines : ""));
    for (int i = 0; i < n->n_sessions; i++) LVN_TRY(ops->tune(n->sessions[i]->bound, measure, t));
    return LVN_OK;
}

/* Warn if ranks use the library's first algorithm more often than rank 0, whose count is `first` there. */
static enum lvn_status warn_of_others(struct lvn_ranks *r, int first)
{
    int of_rank_0 = first;
    LVN_TRY(lvn_ranks_broadcast(r, &of_rank_0, (int64_t)sizeof of_rank_0));
    double others = first > of_rank_0;
    LVN_TRY(lvn_ranks_sum(r, &others, 1));
    if (others > 0 && !r->rank)
        lvn_log(LVN_LOG_WARN,
                "%d other rank%s cannot use all of rank 0's algorithms for matrix multiplications, because device, "
                "version of the library or size of the micro-batches differ: bits depend on which rank computes which "
                "rows",
                (int)others, lvn_plural((int64_t)others));
    return LVN_OK;
}

/* Rank 0's choices, on all ranks. *t is rank 0's there, and zero on the others. */
static enum lvn_status share_choices(struct lvn_train_programs *programs, struct lvn_tuned *t)
{
    struct lvn_ranks *r = programs->ranks;
    const struct lvn_model_state *n = programs->model_state;
    LVN_LOCAL_TEXT(list);
    if (!r->rank) n->device->backend->tuning->list(n->device, &list);
    LVN_TRY(lvn_ranks_agree(r, lvn_text_status(&list)));
    char *text = r->rank ? NULL : (char *)(uintptr_t)lvn_text_string(&list);
    int64_t bytes = list.n;
    enum lvn_status status = lvn_ranks_broadcast_text(r, &text, &bytes);
    if (r->rank && status == LVN_OK) status = tune(n, text, false, t);
    if (r->rank) free(text);
    LVN_TRY(lvn_ranks_agree(r, status));
    return bytes ? warn_of_others(r, t->first) : LVN_OK;
}

enum lvn_status lvn_train_programs_tune(struct lvn_train_programs *programs, const char *recorded, bool measure,
                                        int *refused)
{
    struct lvn_ranks *r = programs->ranks;
    const struct lvn_model_state *n = programs->model_state;
    struct lvn_tuned t = {0};
    enum lvn_status status = LVN_OK;
    *refused = 0;
    if (!n->device->backend->tuning) return LVN_OK;
    if (!r->rank) status = tune(n, recorded, measure, &t);
    LVN_TRY(lvn_ranks_agree(r, status));
    if (t.measured)
        lvn_log(LVN_LOG_INFO,
                "the algorithms of %d matrix multiplications were chosen by measuring; later runs on this machine use "
                "the same",
                t.measured);
    *refused = t.refused;
    return r->size > 1 ? share_choices(programs, &t) : LVN_OK;
}

void lvn_train_programs_release(struct lvn_train_programs *programs)
{
    drop_plan(programs);
    lvn_ranks_ungroup(programs->ranks);
    lvn_model_state_free(programs->model_state);
    lvn_collective_runner_release(&programs->collectives);
    free(programs->leaf);
    free(programs->first_unit);
    *programs = (struct lvn_train_programs){0};
}

struct lvn_session *lvn_train_programs_session(const struct lvn_train_programs *programs,
                                               struct lvn_session *const *sessions, const struct lvn_samples *b)
{
    return sessions[programs->n_lengths
                        ? lvn_length_find(programs->length, programs->n_lengths, lvn_fields_length(&b->fields))
                        : 0];
}

enum lvn_status lvn_train_programs_feed(struct lvn_train_programs *programs, const struct lvn_samples *b,
                                        int64_t *labels)
{
    programs->next_session = lvn_train_programs_session(programs, programs->step_sessions, b);
    *labels = lvn_task_count(&programs->next_session->outputs, b);
    return lvn_session_feed(programs->next_session, 0, b);
}

void lvn_train_programs_prepare(struct lvn_train_programs *programs, int64_t step, double lr, int64_t labels)
{
    programs->step_session = programs->next_session;
    programs->step_session->step_args = (struct lvn_step){.seed = (uint64_t)programs->values->trainer.seed,
                                                          .step = step,
                                                          .lr = lr,
                                                          .first_row = programs->first_row,
                                                          .grad_scale = labels ? 1.0 / (double)labels : 0.0,
                                                          .unlabeled = programs->unlabeled,
                                                          .training = 1};
    programs->collectives.waited = programs->collectives.summed = 0.0;
}

/* Set the current operation for the heartbeat if sums run between devices, where waiting is not visible to the host. */
static void set_operation(const struct lvn_train_programs *programs, const char *operation)
{
    if (programs->ranks && programs->ranks->device_comm) lvn_member_set_operation(programs->ranks->member, operation);
}

static const char on_devices[] = "a step with sums on the devices";

void lvn_train_programs_launch(struct lvn_train_programs *programs, int64_t step, double lr, int64_t labels)
{
    lvn_train_programs_prepare(programs, step, lr, labels);
    set_operation(programs, on_devices);
    lvn_session_launch(programs->step_session, programs->accumulation);
    set_operation(programs, NULL);
}

enum lvn_status lvn_train_programs_finish(struct lvn_train_programs *programs)
{
    set_operation(programs, on_devices);
    lvn_session_finish(programs->step_session, programs->accumulation);
    set_operation(programs, NULL);
    programs->unlabeled += programs->step_session->step_args.grad_scale == 0;
    return programs->step_session->status;
}

enum lvn_status lvn_train_programs_step(struct lvn_train_programs *programs, int64_t step, double lr, int64_t labels)
{
    lvn_train_programs_launch(programs, step, lr, labels);
    return lvn_train_programs_finish(programs);
}

enum lvn_status lvn_train_programs_explain_nonfinite(struct lvn_train_programs *programs, int64_t step, double loss,
                                                     bool fed, const char *outcome)
{
    static const char format[] = "step %lld: the loss is %g and the gradient norm %g%s; %s%s%s; %s; try %s"
                                 "a smaller optimizer.lr, a longer schedule.warmup_steps or clipping";
    double norm = programs->step_session->result.grad_norm, scale = programs->step_session->result.scaling.scale;
    const char *precision = scale > 0 ? "trainer.precision bf16-mixed or 32-true, " : "";
    char although[80] = "";
    if (scale > 0) snprintf(although, sizeof although, ", although the loss was multiplied by only %g", 2 * scale);
    enum lvn_status found = LVN_OK;
    const char *begin = "the first value that is not finite is in '", *end = "'";
    const char *first = fed ? lvn_session_find_nonfinite(programs->step_session, programs->accumulation) : NULL;
    if (first)
        found = lvn_fail(LVN_NONFINITE, format, (long long)step + 1, loss, norm, although, begin, first, end, outcome,
                         precision);
    LVN_TRY(lvn_ranks_agree(programs->ranks, found));
    first = "the sum of the gradient";
    if (!fed) begin = end = "", first = "the origin is unknown, because the data of the step cannot be read again";
    found = lvn_fail(LVN_NONFINITE, format, (long long)step + 1, loss, norm, although, begin, first, end, outcome,
                     precision);
    return lvn_ranks_agree(programs->ranks, found);
}
