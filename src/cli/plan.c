/* plan.c - levin plan RECIPE: parameters, program, FLOPs and memory of a run, without running it. */
#include <inttypes.h>
#include <stdio.h>

#include "backend/backend.h"
#include "cli/cli.h"
#include "data/loader.h"
#include "train/model_setup.h"
#include "train/schedule.h"
#include "train/training.h"

/* What a process takes beside the planned buffers: its own data, the libraries', stacks. Measured with tiny models. */
enum { PROCESS_BYTES = 8 << 20 };

static const char *const phases[] = {[LVN_FORWARD] = "forward", [LVN_BACKWARD] = "backward", [LVN_RESTORE] = "restore"};

static double flops_of(const struct lvn_instr *i)
{
    struct lvn_call call;
    lvn_instr_describe(i, &call);
    return i->op->flops ? i->op->flops(&call) : 0.0;
}

/* Bytes of the arena that are in use while instruction n runs. A value in another one's place is counted with that one.
 */
static int64_t live_bytes(const struct lvn_program *p, int n)
{
    int64_t bytes = 0;
    for (int v = 0; v < p->n_values; v++) {
        const struct lvn_value *x = &p->values[v];
        if (x->buffer == LVN_BUFFER_ARENA && !x->in_place && x->first >= 0 && x->first <= n && n <= x->last)
            bytes += x->bytes;
    }
    return bytes;
}

static void print_program(struct lvn_cli *c, const struct lvn_program *p)
{
    json_t *list = json_array();
    lvn_cli_print(c, "\nprogram: one micro-batch, then the update\n%5s  %-9s %-48s %10s %12s\n", "", "phase",
                  "operation", "MFLOP", "arena MiB");
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        const char *phase = i->when == LVN_AFTER_BACKWARD ? "update" : phases[i->phase];
        double flops = flops_of(i);
        char name[200];
        snprintf(name, sizeof name, "%s", i->name ? i->name : i->op->name);
        lvn_cli_print(c, "%5d  %-9s %-48.48s %10.1f %12.2f  %s\n", n, phase, name, flops * 1e-6,
                      (double)live_bytes(p, n) / (1 << 20), i->op->name);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:f}", "phase", phase, "operation", i->op->name, "name",
                                              name, "flops", flops));
    }
    lvn_cli_add(c, "program", list);
}

static void print_bytes(struct lvn_cli *c, const char *what, const char *key, int64_t bytes, json_t *memory)
{
    lvn_cli_print(c, "  %-28s %12" PRId64 " bytes  %10.1f MiB\n", what, bytes, (double)bytes / (1 << 20));
    json_object_set_new(memory, key, json_integer(bytes));
}

static void print_memory(struct lvn_cli *c, const struct lvn_training *t)
{
    const struct lvn_network *n = t->network;
    json_t *memory = json_object();
    int64_t all = lvn_network_bytes(n), named = 0;
    for (int b = 0; b < LVN_BUFFER_COUNT; b++) named += n->bytes[b];
    lvn_cli_print(c, "\nmemory\n");
    print_bytes(c, "parameters", "parameters", n->bytes[LVN_BUFFER_PARAM], memory);
    print_bytes(c, "gradients", "gradients", n->bytes[LVN_BUFFER_GRAD], memory);
    print_bytes(c, "optimizer state", "optimizer", n->bytes[LVN_BUFFER_STATE0] + n->bytes[LVN_BUFFER_STATE1], memory);
    print_bytes(c, "arena (activations, scratch)", "arena", n->bytes[LVN_BUFFER_ARENA], memory);
    print_bytes(c, "inputs, caches", "inputs", all - named, memory);
    print_bytes(c, "whole process, about", "process", all + PROCESS_BYTES, memory);
    lvn_cli_print(c, "  without planning the arena would take %.1f MiB; gradients are kept %d time%s\n",
                  (double)t->step->program->unplaced_bytes / (1 << 20), t->step->grad_slots,
                  t->step->grad_slots == 1 ? "" : "s, as a tree over micro-batches wants");
    lvn_cli_add(c, "memory", memory);
}

static void print_sizes(struct lvn_cli *c, const struct lvn_training *t, bool data_known)
{
    const struct lvn_program *p = t->step->program;
    const struct lvn_model_config *m = &t->network->config;
    char count[LVN_NUMBER_TEXT];
    int64_t total = lvn_params_total(t->network->params), batch = t->settings->trainer.batch_size;
    double flops = lvn_program_flops(p) * (double)t->accumulation;
    lvn_cli_print(
        c, "model       %s: %" PRId64 " layers, %" PRId64 " heads, %" PRId64 " channels, vocabulary %" PRId64 "%s\n",
        m->model->name, m->n_layer, m->n_head, m->n_embd, m->vocab_size,
        data_known ? "" : " (assumed: the data are not there)");
    lvn_cli_print(c, "parameters  %s\n", lvn_count_text(total, count));
    lvn_cli_print(
        c, "batch       %" PRId64 " sequences of %" PRId64 " tokens = %" PRId64 " micro-batches of %" PRId64 "\n",
        batch, t->block_size, t->accumulation, t->micro);
    lvn_cli_print(c, "compute     %.4g GFLOP a step, %.4g MFLOP a token; %d threads, %s\n", flops * 1e-9,
                  flops * 1e-6 / (double)(batch * t->block_size), t->network->threads, lvn_isa_name(lvn_isa_best()));
    lvn_cli_add(c, "parameters", json_integer(total));
    lvn_cli_add(c, "vocab_size", json_integer(m->vocab_size));
    lvn_cli_add(c, "batch_size", json_integer(batch));
    lvn_cli_add(c, "micro_batch_size", json_integer(t->micro));
    lvn_cli_add(c, "accumulation", json_integer(t->accumulation));
    lvn_cli_add(c, "block_size", json_integer(t->block_size));
    lvn_cli_add(c, "flops_per_step", lvn_cli_number(flops));
    lvn_cli_add(c, "arena_bytes", json_integer(p->arena_bytes));
}

static void print_schedule(struct lvn_cli *c, int64_t steps)
{
    json_t *lr = json_array();
    for (int64_t i = 0; i < steps; i++) {
        double x = lvn_schedule_lr(&c->settings, i, steps);
        lvn_cli_print(c, "%" PRId64 " %.9g\n", i, x);
        json_array_append_new(lr, lvn_cli_number(x));
    }
    lvn_cli_add(c, "lr", lr);
}

/* Steps of the run; 0: limited by time alone. */
static int64_t steps_of(const struct lvn_settings *s, const struct lvn_model_setup *m)
{
    struct lvn_loader loader;
    int64_t steps = s->trainer.max_steps, by_epochs = 0;
    if (!s->trainer.max_epochs || !m->data) return steps;
    if (lvn_loader_init(&loader, m->data, LVN_SPLIT_TRAIN, (enum lvn_sampling)s->data.sampling, m->block_size,
                        s->trainer.batch_size, 0) == LVN_OK)
        by_epochs = s->trainer.max_epochs * loader.steps_per_epoch;
    else
        lvn_error_clear();
    return by_epochs && (!steps || by_epochs < steps) ? by_epochs : steps;
}

static enum lvn_status plan(struct lvn_cli *c, const struct lvn_model_setup *m)
{
    struct lvn_training t = {0};
    int64_t steps = steps_of(&c->settings, m);
    if (lvn_cli_on(c, LVN_FLAG_plan_schedule)) {
        LVN_CHECK(steps > 0, ARG, "the number of steps is not known without the data; give trainer.max_steps");
        print_schedule(c, steps);
        return LVN_OK;
    }
    bool validate = m->data && lvn_dataset_has(m->data, LVN_SPLIT_VAL);
    enum lvn_status status = lvn_training_plan(&t, &c->settings, &m->config, m->block_size, validate);
    if (status == LVN_OK) {
        print_sizes(c, &t, m->data != NULL || c->settings.model.vocab_size > 0);
        print_memory(c, &t);
        print_program(c, t.step->program);
        lvn_cli_add(c, "steps", json_integer(steps));
    }
    lvn_training_release(&t);
    return status;
}

enum lvn_status lvn_command_plan(struct lvn_cli *c)
{
    struct lvn_model_setup m = {0};
    LVN_TRY(lvn_cli_settings(c, c->n_operands ? c->operand[0] : NULL, LVN_USES_ALL));
    if (lvn_cli_on(c, LVN_FLAG_any_show_settings)) {
        lvn_cli_show_settings(c);
        return LVN_OK;
    }
    enum lvn_status status = lvn_model_setup_sizes(&m, &c->settings, NULL);
    if (status == LVN_OK) status = plan(c, &m);
    lvn_model_setup_close(&m);
    return status;
}
