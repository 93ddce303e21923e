/* bench.c - levin bench [RECIPE]: times real training steps on synthetic data. */

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/cli_ranks.h"
#include "cli/plan/plan.h"
#include "engine/devices.h"
#include "engine/memory_advice.h"
#include "engine/parameters.h"
#include "engine/synthetic_step.h"
#include "host/machine.h"
#include "models/keys.h"
#include "options/choices.h"
#include "schedules/schedule.h"
#include "setup/setup.h"

/* seconds: of n steps, sorted. parts: after each step another step runs with its parts timed, so that both are measured
 * under the same load; NULL: only the steps. */
static enum lvn_status time_steps(struct lvn_cli *c, struct lvn_train_programs *programs, int64_t n, int64_t labels,
                                  double *seconds, struct lvn_parts *parts)
{
    const struct lvn_schedule_options options = lvn_schedule_options_of(&c->settings.values);
    struct lvn_schedule schedule;
    lvn_schedule_init(&schedule, &options, n + 1);
    for (int64_t i = -1; i < n; i++) { /* the first is not counted: it touches the memory for the first time */
        double lr = lvn_schedule_lr(&schedule, i + 1), begin = lvn_seconds();
        LVN_TRY(lvn_train_programs_step(programs, i + 1, lr, labels));
        double loss = lvn_tree_sum(programs->step_session->micro_losses, programs->accumulation);
        LVN_CHECK(isfinite(loss), NONFINITE, "step %lld: the loss is not finite; try a smaller optimizer.lr",
                  (long long)i + 2);
        if (i >= 0) seconds[i] = lvn_seconds() - begin;
        if (parts) LVN_TRY(lvn_parts_try(programs, i + 1, lr, labels, parts));
    }
    qsort(seconds, (size_t)n, sizeof *seconds, lvn_by_number);
    return LVN_OK;
}

static enum lvn_status report(struct lvn_cli *c, const struct lvn_train_programs *programs, int64_t tokens, int64_t n,
                              const double *seconds)
{
    double rate, best = seconds[0], median = n % 2 ? seconds[n / 2] : 0.5 * (seconds[n / 2 - 1] + seconds[n / 2]);
    double flops = lvn_program_flops(programs->step_session->program, programs->accumulation) /
                   (double)(programs->micro_batch * programs->accumulation) *
                   (double)c->settings.values.trainer.batch_size;
    int64_t peak = lvn_memory_peak();
    LVN_TRY(lvn_model_state_rate(programs->model_state, &rate));
    LVN_TRY(lvn_ranks_sum(c->ranks, &rate, 1));
    char bytes[LVN_NUMBER_TEXT], count[LVN_NUMBER_TEXT], share[80] = "";
    if (rate > 0) /* else the backend measures no rates */
        snprintf(share, sizeof share, ", %.0f %% of %.0f GFLOP/s measured", 100.0 * flops / best / rate, rate * 1e-9);
    const char *unit = lvn_task_unit(programs->step_session->options.task);
    lvn_cli_print(c,
                  "%s parameters, %lld %s a step, %d rank%s of %d thread%s\nstep: median %.4f s, best %.4f s of "
                  "%lld\n%.0f %s/s "
                  "(best)%s\npeak memory %s\n",
                  lvn_count_text(lvn_params_total(programs->model_state->params), count), (long long)tokens, unit,
                  c->ranks->size, lvn_plural(c->ranks->size), programs->model_state->threads,
                  lvn_plural(programs->model_state->threads), median, best, (long long)n, (double)tokens / best, unit,
                  share, lvn_bytes_text(peak, bytes));
    lvn_cli_add(c, "median_s", lvn_json_number(median));
    lvn_cli_add(c, "best_s", lvn_json_number(best));
    lvn_cli_add(c, "tokens_per_s", lvn_json_number((double)tokens / best));
    lvn_cli_add(c, "matmul_gflops", lvn_json_number(rate > 0 ? rate * 1e-9 : NAN));
    lvn_cli_add(c, "utilization", lvn_json_number(rate > 0 ? flops / best / rate : NAN));
    lvn_cli_add(c, "peak_bytes", json_integer(peak));
    return LVN_OK;
}

/* The limits of --limits, or, on the CPU, those that are measured here. */
static enum lvn_status find_limits(struct lvn_cli *c, const struct lvn_model_state *n, struct lvn_limits *limits)
{
    LVN_TRY(lvn_plan_limits(c, c->flag[LVN_FLAG_bench_limits].t, limits));
    if (limits->flops_per_s > 0) return LVN_OK;
    limits->title = "measured here";
    LVN_TRY(lvn_model_state_rate(n, &limits->flops_per_s));
    return lvn_device_rate(n->device, LVN_RATE_READING, &limits->bytes_per_s);
}

static enum lvn_status report_parts(struct lvn_cli *c, const struct lvn_train_programs *programs, struct lvn_parts *p,
                                    double best)
{
    struct lvn_limits limits;
    LVN_TRY(lvn_parts_agree(c->ranks, p));
    double bound = lvn_parts_bound(p);
    lvn_cli_print(
        c,
        "forward %.4f s, backward %.4f s, update %.4f s; %s of the gradients %.4f s, of its last part %.4f s, of "
        "parameters %.4f s\nwith reductions overlapped with backward: %.4f s; measured: %.3f of that%s\n",
        p->forward, p->backward, p->update, programs->collectives.sharding.tree ? "sum in order" : "sum", p->reduce,
        p->last, p->share, bound, best / bound,
        programs->collectives.overlapped ? "" : ", because they run after it here");
    lvn_cli_add(c, "forward_s", lvn_json_number(p->forward));
    lvn_cli_add(c, "backward_s", lvn_json_number(p->backward));
    lvn_cli_add(c, "update_s", lvn_json_number(p->update));
    lvn_cli_add(c, "reduce_s", lvn_json_number(p->reduce));
    lvn_cli_add(c, "reduce_last_s", lvn_json_number(p->last));
    lvn_cli_add(c, "share_s", lvn_json_number(p->share));
    lvn_cli_add(c, "bound_s", lvn_json_number(bound));
    lvn_cli_add(c, "overlapped", json_boolean(programs->collectives.overlapped));
    LVN_TRY(find_limits(c, programs->model_state, &limits));
    (void)lvn_plan_operations(c, p, &limits);
    return LVN_OK;
}

static enum lvn_status bench(struct lvn_cli *c, struct lvn_train_programs *programs, const struct lvn_model_setup *m,
                             double *seconds)
{
    struct lvn_parts parts;
    bool with_parts = lvn_cli_on(c, LVN_FLAG_bench_parts);
    int64_t n = c->flag[LVN_FLAG_bench_steps].i, labels;
    int refused;
    struct lvn_train_programs_options plan = {.ranks = c->ranks, .fields = &m->fields, .task = m->task};
    struct lvn_limits limits;
    LVN_TRY(lvn_plan_limits(c, c->flag[LVN_FLAG_bench_limits].t, &limits)); /* refused before anything is measured */
    LVN_TRY(lvn_ranks_check(c->ranks, &c->settings.values));
    LVN_TRY(lvn_train_programs_plan(programs, &c->settings.values, &m->config, &plan));
    LVN_TRY(lvn_ranks_agree(c->ranks, lvn_train_programs_allocate(programs)));
    LVN_TRY(lvn_train_programs_tune(programs, NULL, true, &refused));
    LVN_TRY(lvn_ranks_agree(
        c->ranks, lvn_parameters_init_values(programs->model_state, (uint64_t)c->settings.values.trainer.seed, false)));
    LVN_TRY(lvn_ranks_agree(
        c->ranks, lvn_synthetic_step_fill(programs, lvn_model_value(&m->config, LVN_ROLE_VOCABULARY), &labels)));
    lvn_parts_clear(&parts);
    LVN_TRY(time_steps(c, programs, n, labels, seconds, with_parts ? &parts : NULL));
    LVN_TRY(report(c, programs, c->settings.values.trainer.batch_size * programs->block_size, n, seconds));
    return with_parts ? report_parts(c, programs, &parts, seconds[0]) : LVN_OK;
}

enum lvn_status lvn_command_bench(struct lvn_cli *c)
{
    struct lvn_model_setup m = {0};
    struct lvn_train_programs programs = {0};
    static const enum lvn_flag_id of_parts[] = {LVN_FLAG_bench_limits};
    if (!lvn_cli_on(c, LVN_FLAG_bench_parts))
        LVN_TRY(lvn_cli_refuse(c, of_parts, 1, "has no effect without --parts: add --parts, or leave it out"));
    LVN_TRY(lvn_cli_join(c, c->n_operands ? c->operand[0] : NULL,
                         LVN_USES_MODEL | LVN_USES_OPTIMIZER | LVN_USES_TRAINER | LVN_USES_DEVICE));
    if (lvn_cli_shows_settings(c)) return LVN_OK;
    c->settings.values.sample.every_n_steps = 0;
    double *seconds = lvn_calloc((size_t)c->flag[LVN_FLAG_bench_steps].i, sizeof *seconds);
    enum lvn_status status = seconds ? lvn_model_setup_sizes(&m, &c->settings, NULL) : LVN_MEMORY;
    if (status == LVN_OK && m.vocabulary_assumed)
        lvn_log(LVN_LOG_WARN, "the data are not there: vocab_size %lld is assumed; --model.vocab_size=N sets it",
                (long long)lvn_model_value(&m.config, LVN_ROLE_VOCABULARY));
    if (status == LVN_OK) status = bench(c, &programs, &m, seconds);
    free(seconds);
    lvn_train_programs_release(&programs);
    lvn_model_setup_close(&m);
    return status;
}
