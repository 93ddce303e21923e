/* plan_operations.c - the operations of a step in a table, for levin plan (--device, --limits) and levin bench --parts:
 * the FLOPs and bytes of each, by the operation's declaration, the least time that they need at the limits of a
 * device, and, if it was measured, the time that they took. */

#include "cli/plan/plan.h"
#include "options/choices.h"

/* FLOP/s of a device for the matrix multiplications of this run, by its data sheet. */
static double flops_of(const struct lvn_plan_device *d, const struct lvn_values *v)
{
    if (lvn_precision_of(v->trainer.precision) != LVN_PRECISION_TRUE) return d->bf16_flops_per_s;
    const bool tf32 = v->trainer.float32_matmul_precision == LVN_TRAINER_FLOAT32_HIGH;
    return tf32 && !strcmp(d->backend, "cuda") ? d->bf16_flops_per_s / 2 : d->flops_per_s;
}

enum lvn_status lvn_plan_limits(const struct lvn_cli *c, const char *text, struct lvn_limits *limits)
{
    char *end = NULL;
    *limits = (struct lvn_limits){.title = "the given limits"};
    if (!*text) return LVN_OK;
    const struct lvn_plan_device *d = lvn_plan_device_named(text);
    if (d) {
        *limits = (struct lvn_limits){d->title, flops_of(d, &c->settings.values), d->bytes_per_s};
        return LVN_OK;
    }
    limits->flops_per_s = strtod(text, &end);
    if (*end == ',') limits->bytes_per_s = strtod(end + 1, &end);
    LVN_CHECK(!*end && limits->flops_per_s > 0 && limits->bytes_per_s > 0, ARG,
              "'%.60s' is neither a device that `levin help plan` lists nor FLOP/s and bytes/s "
              "(--limits=775e12,4.3e12)",
              text);
    return LVN_OK;
}

void lvn_plan_count(const struct lvn_train_programs *programs, struct lvn_parts *parts)
{
    const struct lvn_program *p = programs->step_session->program;
    *parts = (struct lvn_parts){.accumulation = programs->accumulation};
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        const int64_t times = i->when == LVN_EVERY_MICRO_BATCH     ? programs->accumulation
                              : i->when == LVN_LATER_MICRO_BATCHES ? programs->accumulation - 1
                                                                   : 1;
        if (!i->op->collective) lvn_parts_add(parts, i, times, 0);
    }
}

struct line {
    const struct lvn_operation_time *time;
    const char *name, *phase;
    double limit; /* seconds; 0: unknown */
};

static int by_seconds(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    const double s = x->time->seconds, t = y->time->seconds;
    return s != t ? (s < t) - (s > t) : (x->limit < y->limit) - (x->limit > y->limit);
}

static double least_seconds(const struct lvn_operation_time *t, const struct lvn_limits *limits)
{
    if (!(limits->bytes_per_s > 0)) return 0;
    const double computing = t->flops / limits->flops_per_s, moving = (double)t->bytes / limits->bytes_per_s;
    return computing > moving ? computing : moving;
}

/* all: seconds of all operations. */
static void print_line(struct lvn_cli *c, const struct line *l, double all, bool measured)
{
    const struct lvn_operation_time *t = l->time;
    lvn_cli_print(c, "%-21s %-8s %6lld %11.4g %9.4g", l->name, l->phase, (long long)t->calls, t->flops * 1e-9,
                  (double)t->bytes * 1e-9);
    if (l->limit > 0) lvn_cli_print(c, " %10.3f", l->limit * 1e3);
    if (measured) lvn_cli_print(c, " %10.3f %5.1f", t->seconds * 1e3, 100.0 * t->seconds / all);
    if (measured && l->limit > 0) lvn_cli_print(c, " %7.2f", t->seconds / l->limit);
    lvn_cli_print(c, "\n");
}

static json_t *line_json(const struct line *l, bool measured)
{
    const struct lvn_operation_time *t = l->time;
    json_t *one = json_pack("{s:s, s:s, s:I, s:I, s:f}", "operation", l->name, "phase", l->phase, "calls",
                            (json_int_t)t->calls, "bytes", (json_int_t)t->bytes, "flops", t->flops);
    if (measured) json_object_set_new(one, "seconds", json_real(t->seconds));
    if (l->limit > 0) json_object_set_new(one, "limit_s", json_real(l->limit));
    return one;
}

double lvn_plan_operations(struct lvn_cli *c, const struct lvn_parts *p, const struct lvn_limits *limits)
{
    static const char *const phases[LVN_PHASE_COUNT] = {"forward", "backward", "restore"};
    struct line line[LVN_OP_COUNT * LVN_PHASE_COUNT];
    struct lvn_operation_time sum = {0};
    double least = 0;
    int n = 0;
    for (int o = 0; o < LVN_OP_COUNT * LVN_PHASE_COUNT; o++) {
        const struct lvn_operation_time *t = &p->operation[o];
        if (!t->calls) continue;
        line[n] = (struct line){t, lvn_op((enum lvn_op_id)(o / LVN_PHASE_COUNT), LVN_F32)->name,
                                phases[o % LVN_PHASE_COUNT], least_seconds(t, limits)};
        least += line[n++].limit;
        sum.calls += t->calls;
        sum.bytes += t->bytes;
        sum.flops += t->flops;
        sum.seconds += t->seconds;
    }
    const bool measured = sum.seconds > 0;
    qsort(line, (size_t)n, sizeof *line, by_seconds);
    lvn_cli_print(c, "%-30s %6s %11s %9s%s%s%s\n", "operation", "calls", "GFLOP", "GB", least > 0 ? "   limit ms" : "",
                  measured ? "         ms     %" : "", measured && least > 0 ? " x limit" : "");
    json_t *list = json_array();
    for (const struct line *l = line; l < line + n; l++) {
        json_array_append_new(list, line_json(l, measured));
        if (measured ? l->time->seconds >= 0.01 * sum.seconds : l->limit >= 0.01 * least)
            print_line(c, l, sum.seconds, measured);
    }
    print_line(c, &(struct line){&sum, "all of a step", "", least}, sum.seconds, measured);
    lvn_cli_add(c, "operations", list);
    if (least > 0) {
        lvn_cli_print(c, "limit: the larger of FLOPs at %.4g TFLOP/s and bytes at %.4g GB/s (%s)\n",
                      limits->flops_per_s * 1e-12, limits->bytes_per_s * 1e-9, limits->title);
        lvn_cli_add(c, "limits",
                    json_pack("{s:s, s:f, s:f, s:f}", "title", limits->title, "flops_per_s", limits->flops_per_s,
                              "bytes_per_s", limits->bytes_per_s, "step_s", least));
    }
    return least;
}
