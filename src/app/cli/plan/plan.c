/* plan.c - levin plan: what a run will compute and allocate, from the same plan that training runs. Nothing is trained.
 *
 * Sizes of buffers are exact: training allocates the same ones. The estimate for the whole process adds the memory that
 * this process has used for the plan itself (graphs, programs, data), which training uses, too, and stacks and partly
 * used huge pages. */
#include "cli/plan/plan.h"

#include "base/text.h"
#include "cli/args.h"
#include "cli/humanize.h"
#include "data/loader.h"
#include "engine/memory.h"
#include "engine/strategy.h"
#include "host/machine.h"
#include "host/pages.h"
#include "model_io/model_find.h"
#include "models/keys.h"
#include "options/choices.h"
#include "setup/setup.h"
#include "train/callback.h"
#include "train/limits.h"

enum { SHOWN_CLASSES = 20 }; /* at most; --json has all */

struct plan {
    struct lvn_cli *c;
    const struct levin_settings *s;
    struct lvn_model_setup setup;
    struct lvn_callbacks callbacks;
    struct lvn_train_programs training;
    int64_t steps;           /* of the run; 0: not known */
    int64_t steps_per_epoch; /* 0: not known */
    int64_t base;            /* lvn_plan_base_bytes of the first plan; 0: none yet */
    bool validates;
    int64_t *live; /* bytes of the arena that are in use at each instruction of a step */
};

/* --- what is planned --- */

/* Is model.init a published model, which training would download? Its sizes are known without. */
static bool is_published_model(const struct levin_settings *s)
{
    LVN_LOCAL_ARENA(a);
    const struct lvn_model *model;
    return *s->values.model.init && lvn_model_find_size(&a, s->values.model.init, &model);
}

/* Open data and model as the trainer does; without them, assume their sizes. */
static enum lvn_status open_data(struct plan *p)
{
    const struct levin_settings *s = p->s;
    const struct lvn_amount limit = lvn_limits_validation(s);
    struct lvn_loader loader;
    const struct lvn_dataset_kind *kind = lvn_dataset_kind_find(s->values.data.kind);
    p->validates = *s->values.data.val_path || !kind || !kind->needs_val_path;
    p->steps = s->values.trainer.max_steps;
    LVN_TRY(lvn_model_setup_has_data(s) && !is_published_model(s) ? lvn_model_setup_open(&p->setup, s, NULL, NULL)
                                                                  : lvn_model_setup_sizes(&p->setup, s, NULL));
    if (p->setup.data) {
        LVN_TRY(lvn_limits_loader(&loader, p->setup.data, s));
        p->validates = lvn_dataset_has(p->setup.data, LVN_SPLIT_VAL);
        p->steps_per_epoch = loader.steps_per_epoch;
        int64_t last = lvn_limits_last(s, p->steps_per_epoch);
        p->steps = last == INT64_MAX ? 0 : last;
    }
    if (!limit.count && limit.fraction <= 0) p->validates = false;
    return LVN_OK;
}

/* --- the program --- */

static json_t *program_json(const struct lvn_program *p, const int64_t *live)
{
    json_t *list = json_array();
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        const struct lvn_operand *result = lvn_instr_result(i);
        char shape[LVN_SHAPE_TEXT] = "";
        if (result) lvn_shape_text(&result->desc, shape);
        json_t *one = json_object();
        json_object_set_new(one, "phase", json_string(lvn_instr_phase(i)));
        json_object_set_new(one, "operation", json_string(i->op->name));
        json_object_set_new(one, "name", json_string(i->name ? i->name : ""));
        json_object_set_new(one, "writes", json_string(shape));
        json_object_set_new(one, "flops", json_real(lvn_instr_flops(i)));
        json_object_set_new(one, "arena_bytes", json_integer(live[n]));
        json_array_append_new(list, one);
    }
    return list;
}

static enum lvn_status show_program(struct lvn_cli *c, const struct lvn_program *p, const int64_t *live)
{
    LVN_LOCAL_TEXT(listing);
    if (c->json) {
        lvn_cli_add(c, "program", program_json(p, live));
        return LVN_OK;
    }
    LVN_TRY(lvn_program_print(&listing, p, LVN_PRINT_COST));
    lvn_cli_print(c, "\nprogram of one micro-batch: %d instructions\n%s", p->n_instrs, listing.p);
    return LVN_OK;
}

/* With --device or --limits: the operations of a step, and the tokens per second that the device cannot exceed. */
static enum lvn_status show_operations(struct plan *p)
{
    const char *text = p->c->flag[LVN_FLAG_plan_limits].t, *device = p->c->flag[LVN_FLAG_plan_device].t;
    char rate[LVN_NUMBER_TEXT];
    struct lvn_limits limits;
    struct lvn_parts parts;
    LVN_TRY(lvn_plan_limits(p->c, *text ? text : device, &limits));
    if (!(limits.flops_per_s > 0)) return LVN_OK;
    lvn_plan_count(&p->training, &parts);
    const double least = lvn_plan_operations(p->c, &parts, &limits),
                 units = (double)p->training.rows * (double)p->training.block_size * p->training.fill;
    lvn_cli_print(p->c, "a step of a rank takes at least %.4g s there: at most %s %s/s\n", least,
                  lvn_count_text((int64_t)(units / least), rate), lvn_task_unit(p->setup.task));
    return LVN_OK;
}

/* --- memory --- */

int64_t lvn_plan_base_bytes(const struct lvn_train_programs *programs)
{
    int64_t part[LVN_MEMORY_PART_COUNT];
    lvn_train_programs_memory(programs, part);
    return lvn_memory_anonymous() - part[LVN_MEMORY_PROGRAMS]; /* a plan allocates its programs, and nothing else */
}

int64_t lvn_plan_process_bytes(const struct lvn_train_programs *programs, int64_t base)
{
    const int64_t stack = (int64_t)1 << 17;
    const struct lvn_model_state *n = programs->model_state;
    int64_t part[LVN_MEMORY_PART_COUNT], bytes = base + lvn_train_programs_memory(programs, part) + n->threads * stack;
    for (int b = 0; b < LVN_BUFFER_COUNT; b++)
        if (n->bytes[b]) bytes += lvn_pages_bytes(n->bytes[b]) - n->bytes[b];
    return bytes;
}

static void memory_row(struct lvn_cli *c, json_t *object, const char *key, const char *label, int64_t bytes)
{
    char count[LVN_NUMBER_TEXT], text[LVN_NUMBER_TEXT];
    lvn_cli_print(c, "  %-32s %18s  %s\n", label, lvn_count_text(bytes, count), lvn_bytes_text(bytes, text));
    if (object) json_object_set_new(object, key, json_integer(bytes));
}

static void show_memory(struct plan *p)
{
    static const char *const recomputed[][2] = {
        [LVN_RECOMPUTE_NONE] = {"none", "All activations are kept for the backward pass"},
        [LVN_RECOMPUTE_CHEAP] = {"cheap", "To save memory, cheap activations are recomputed in the backward pass"},
        [LVN_RECOMPUTE_BLOCKS] = {
            "blocks", "To save memory, all activations but the inputs of blocks are recomputed in the backward pass"}};
    struct lvn_cli *c = p->c;
    const struct lvn_model_state *n = p->training.model_state;
    int64_t part[LVN_MEMORY_PART_COUNT], total = lvn_train_programs_memory(&p->training, part), rest = total;
    const bool here = n->device->backend->computes; /* the device is in this machine */
    const bool shared = n->device->memory_bytes;    /* by no other rank: a device's own memory is counted elsewhere */
    int64_t process = lvn_plan_process_bytes(&p->training, p->base),
            capacity = shared ? lvn_memory_available() : lvn_model_state_available(n);
    const struct lvn_program *step = p->training.step_session->program;
    int first = lvn_program_first_backward(step);
    json_t *m = c->json ? json_object() : NULL;
    lvn_cli_print(c, "memory in bytes\n");
    for (int i = 0; i < LVN_MEMORY_PART_COUNT; i++) {
        if (part[i] > 0 || c->json) memory_row(c, m, lvn_memory_keys[i], lvn_memory_labels[i], part[i]);
        if (i <= LVN_MEMORY_ARENA) rest -= part[i];
        if (i == LVN_MEMORY_ARENA) memory_row(c, m, "activations", "  kept from forward to backward", p->live[first]);
    }
    if (m) json_object_set_new(m, "rest", json_integer(rest));
    memory_row(c, m, "total", "all of these, exact", total);
    memory_row(c, m, "process", "whole process, about", process);
    memory_row(c, m, "available",
               n->machine_bytes    ? "memory of a rank (--memory)"
               : n->processes == 1 ? "free on this machine"
                                   : "free on this machine, for a rank",
               capacity);
    memory_row(c, m, "unplanned", "(arena without planning)", step->unplaced_bytes);
    struct lvn_machine machine;
    char limit[LVN_NUMBER_TEXT];
    lvn_machine_read(&machine);
    if (machine.memory_limit && !n->machine_bytes)
        lvn_cli_print(c, "The memory limit on this host is %s (%s).\n", lvn_bytes_text(machine.memory_limit, limit),
                      machine.memory_limit_from);
    if (step->n_grad_buffers > 1) {
        lvn_cli_print(c, "%d copies of the gradients are kept, for the tree over micro-batches.\n",
                      step->n_grad_buffers);
    }
    const struct lvn_sharding *sharding = &p->training.collectives.sharding;
    if (sharding->size > 1) {
        const char *name = lvn_strategy_name(&p->s->values, sharding->sharded);
        if (p->s->values.trainer.strategy == LVN_TRAINER_STRATEGY_AUTO && sharding->sharded)
            lvn_cli_print(c, "To save memory, trainer.strategy auto is %s.\n", name);
        lvn_cli_add(c, "strategy", json_string(name));
    }
    lvn_cli_print(c, "%s.\n", recomputed[step->recompute][1]);
    if (n->gradients != n->weights)
        lvn_cli_print(c, "Gradients are summed in fp32: a step has more than %d pieces, too many for sums in bf16.\n",
                      LVN_BF16_PARTIAL_SUMS_MAX);
    const bool fits = capacity <= 0 || process <= capacity;
    lvn_cli_print(c, "%s\n", !here ? "Whether it fits depends on the device." : fits ? "It fits." : "It does NOT fit.");
    if (here && !fits) lvn_cli_add(c, "advice", lvn_plan_advice(c, &p->training, process, capacity));
    lvn_cli_add(c, "memory", m);
    lvn_cli_add(c, "recompute", json_string(recomputed[step->recompute][0]));
    lvn_cli_add(c, "arena_bytes", json_integer(n->bytes[LVN_BUFFER_ARENA]));
    lvn_cli_add(c, "process_bytes", json_integer(process));
    lvn_cli_add(c, "fits", here ? json_boolean(fits) : json_null());
}

/* --- the launches of a step, with the trace backend, which computes nothing --- */

struct listing {
    struct lvn_cli *c;
    const struct lvn_program *program;
    json_t *list; /* NULL: no JSON */
    int64_t n;
    const struct lvn_operand *scratch; /* of the current launch; it has a size, but no shape */
    struct lvn_text reads;             /* operands of the current launch */
    struct lvn_text writes;
};

/* "arena+4096 (12, 64) bf16": one argument of the launch. */
static void add_operand(struct lvn_operand *o, bool written, void *argument)
{
    static const char *const buffers[LVN_BUFFER_COUNT] = {"arena",     "parameters", "packed",         "gradients",
                                                          "moment 1",  "moment 2",   "matrix moments", "scale",
                                                          "checksums", "input",      "cache",          "result"};
    struct listing *l = argument;
    struct lvn_text *text = written ? &l->writes : &l->reads;
    const struct lvn_value *v = &l->program->values[o->value];
    char shape[LVN_SHAPE_TEXT];
    lvn_text_printf(text, "%s%s+%" PRId64, text->n ? ", " : "", buffers[v->buffer],
                    v->offset + o->desc.offset * lvn_dtype_bytes(v->dtype));
    if (o == l->scratch)
        lvn_text_printf(text, " scratch of %" PRId64 " bytes", v->bytes);
    else
        lvn_text_printf(text, " %s %s", lvn_shape_text(&o->desc, shape), lvn_dtype_name(o->desc.dtype));
}

static void add_json(struct listing *l, const struct lvn_launch_order *at)
{
    const struct lvn_instr *i = at->instr;
    json_array_append_new(
        l->list, json_pack("{s:o,s:s,s:s,s:s,s:s,s:s,s:f}", "micro_batch",
                           at->micro_batch < at->n_micro_batches ? json_integer(at->micro_batch) : json_null(), "phase",
                           lvn_instr_phase(i), "operation", i->op->name, "name", i->name ? i->name : "", "reads",
                           l->reads.n ? lvn_text_string(&l->reads) : "", "writes",
                           l->writes.n ? lvn_text_string(&l->writes) : "", "flops", lvn_instr_flops(i)));
}

static void launched(void *context, const struct lvn_launch_order *at)
{
    struct listing *l = context;
    struct lvn_instr i = *at->instr;
    char batch[24] = "";
    if (at->micro_batch < at->n_micro_batches) snprintf(batch, sizeof batch, "%" PRId64, at->micro_batch);
    lvn_text_clear(&l->reads);
    lvn_text_clear(&l->writes);
    l->scratch = &i.scratch;
    lvn_instr_operands(&i, add_operand, l);
    lvn_cli_print(l->c, "%6" PRId64 " %5s  %-8s %-22s %-34s %s%s%s\n", l->n++, batch, lvn_instr_phase(&i), i.op->name,
                  i.name ? i.name : "", l->reads.n ? lvn_text_string(&l->reads) : "", l->writes.n ? " -> " : "",
                  l->writes.n ? lvn_text_string(&l->writes) : "");
    if (l->list) add_json(l, at);
}

static enum lvn_status print_launches(struct lvn_cli *c, const struct lvn_train_programs *programs)
{
    const struct lvn_backend *backend = programs->model_state->device->backend;
    const struct lvn_binding no_memory = {0};
    struct listing l = {.c = c, .program = programs->step_session->program, .list = c->json ? json_array() : NULL};
    const struct lvn_execution execution = {
        .n_micro_batches = programs->accumulation, .context = &l, .launched = launched};
    struct lvn_bound *bound;
    lvn_cli_print(c, "\nlaunches of a step on %s\n%6s %5s  %-8s %-22s %-34s %s\n", backend->name, "", "micro", "phase",
                  "operation", "name", "reads -> writes, each with its buffer and byte offset");
    enum lvn_status status = backend->bind(&bound, programs->step_session->program, &no_memory);
    if (status == LVN_OK) {
        status = backend->run(bound, &execution);
        backend->unbind(bound);
    }
    lvn_text_release(&l.reads);
    lvn_text_release(&l.writes);
    lvn_cli_add(c, "launches", l.list);
    return status;
}

/* --- the report --- */

/* Is the key a whole number of the model, such as n_layer? Not its positions, since rows may be shorter, and not a
 * window of all positions. */
static bool is_size(const struct lvn_model_config *m, const struct lvn_key *k)
{
    const double value = lvn_key_get(k, m), positions = (double)lvn_model_value(m, LVN_ROLE_POSITIONS);
    return k->kind == LVN_KEY_INT && k->recipe && k->role != LVN_ROLE_POSITIONS &&
           lvn_key_find(m->model, k->recipe) == k && !(k->in_positions && (value < 1 || value >= positions));
}

static void sizes_text(const struct lvn_model_config *m, char *text, size_t capacity)
{
    text[0] = '\0';
    for (const struct lvn_key *k = m->model->keys; k->kind; k++)
        if (is_size(m, k)) lvn_print_append(text, capacity, ", %s %" PRId64, k->recipe, (int64_t)lvn_key_get(k, m));
}

static void add_sizes(struct lvn_cli *c, const struct lvn_model_config *m)
{
    for (const struct lvn_key *k = m->model->keys; k->kind; k++)
        if (is_size(m, k)) lvn_cli_add(c, k->recipe, json_integer((json_int_t)lvn_key_get(k, m)));
}

static void show_classes(struct lvn_cli *c, const struct lvn_model_config *m, int64_t classes)
{
    json_t *names = c->json ? json_array() : NULL;
    char text[LVN_CLASS_NAME];
    lvn_cli_print(c, "%" PRId64 " classes", classes);
    for (int64_t k = 0; k < classes && (names || (m->class_names && k < SHOWN_CLASSES)); k++) {
        const char *name = lvn_class_name(m, k, text);
        lvn_cli_print(c, "%s%s", k ? ", " : ": ", name);
        if (names) json_array_append_new(names, json_string(name));
    }
    lvn_cli_print(c, "%s\n", m->class_names && classes > SHOWN_CLASSES ? ", ..." : "");
    lvn_cli_add(c, "classes", names);
}

static void show_model(struct plan *p)
{
    struct lvn_cli *c = p->c;
    const struct lvn_model_config *m = &p->setup.config;
    const struct lvn_train_programs *programs = &p->training;
    char a[LVN_NUMBER_TEXT], b[LVN_NUMBER_TEXT], batch[LVN_BATCH_TEXT], sizes[400];
    int64_t total = lvn_params_total(programs->model_state->params);
    sizes_text(m, sizes, sizeof sizes);
    lvn_cli_print(c, "%s: %s%s%s\n%s parameters\n", p->s->values.name, m->model->name, sizes,
                  p->setup.vocabulary_assumed ? " (assumed: the data are not there)" : "", lvn_count_text(total, a));
    if (p->setup.task->label.label == LVN_LABEL_CLASS) show_classes(c, m, m->head ? m->classes : m->model->classes);
    lvn_cli_print(c, "batch of %s, as %" PRId64 " micro-batch%s of %" PRId64 "\n",
                  lvn_batch_text(lvn_task_unit(p->setup.task), p->s->values.trainer.batch_size, programs->block_size,
                                 programs->fill, batch),
                  programs->accumulation, programs->accumulation == 1 ? "" : "es", programs->micro_batch);
    if (p->steps) lvn_cli_print(c, "%s steps", lvn_count_text(p->steps, a));
    if (p->steps_per_epoch)
        lvn_cli_print(c, "%s%s an epoch", p->steps ? ", " : "", lvn_count_text(p->steps_per_epoch, b));
    if (p->steps || p->steps_per_epoch) lvn_cli_print(c, "\n");
    lvn_cli_add(c, "model", json_string(m->model->name));
    lvn_cli_add(c, "parameters", json_integer(total));
    add_sizes(c, m);
    if (programs->block_size) lvn_cli_add(c, "block_size", json_integer(programs->block_size));
    if (programs->fill < 1)
        lvn_cli_add(c, "tokens_per_step",
                    json_real((double)(p->s->values.trainer.batch_size * programs->block_size) * programs->fill));
    lvn_cli_add(c, "batch_size", json_integer(p->s->values.trainer.batch_size));
    lvn_cli_add(c, "micro_batch_size", json_integer(programs->micro_batch));
    lvn_cli_add(c, "accumulation", json_integer(programs->accumulation));
    lvn_cli_add(c, "steps", p->steps ? json_integer(p->steps) : json_null());
    lvn_cli_add(c, "steps_per_epoch", p->steps_per_epoch ? json_integer(p->steps_per_epoch) : json_null());
}

static void show_flops(struct plan *p)
{
    const double rank = lvn_program_flops(p->training.step_session->program, p->training.accumulation),
                 rows = (double)(p->training.micro_batch * p->training.accumulation),
                 step = rank * (double)p->s->values.trainer.batch_size / rows;
    double tokens = (double)(p->s->values.trainer.batch_size * p->training.block_size) * p->training.fill;
    char count[LVN_NUMBER_TEXT];
    const char *unit = lvn_task_unit(p->setup.task);
    lvn_cli_print(p->c, "arithmetic: %.4g FLOPs a step, %.4g for each of %s %s\n", step, step / tokens,
                  lvn_count_text((int64_t)tokens, count), unit);
    lvn_cli_add(p->c, "flops_per_step", json_real(step));
    lvn_cli_add(p->c, "flops_per_token", json_real(step / tokens));
}

static enum lvn_status show_schedule(struct plan *p)
{
    json_t *list = p->c->json ? json_array() : NULL;
    LVN_CHECK(
        p->steps > 0, ARG,
        "the number of steps is not known: give trainer.max_steps, or trainer.max_epochs with data that are there");
    const struct lvn_schedule_options options = lvn_schedule_options_of(&p->s->values);
    struct lvn_schedule schedule;
    lvn_schedule_init(&schedule, &options, p->steps);
    for (int64_t i = 0; i < p->steps; i++) {
        double lr = lvn_schedule_lr(&schedule, i);
        lvn_cli_print(p->c, "%" PRId64 " %.17g\n", i, lr);
        if (list) json_array_append_new(list, json_real(lr));
    }
    lvn_cli_add(p->c, "lr", list);
    return LVN_OK;
}

/* Does the recipe name a GPU, or a precision that the CPU does not compute in? With --device the plan is for a device
 * that is not here and need not be opened. */
static bool needs_gpu(const struct levin_settings *s, const struct lvn_backend *b)
{
    const bool none = !b->alloc; /* trainer.accelerator gpu or xpu, and this machine has none */
    return b->describe || none || (s->values.trainer.precision == LVN_TRAINER_PRECISION_16_MIXED && !b->fp16);
}

/* A run on a device with separate memory keeps all activations, unless they do not fit. */
static enum lvn_status plan_programs(struct plan *p, const struct lvn_train_programs_options *o)
{
    const bool device = *p->c->flag[LVN_FLAG_plan_device].t && !lvn_cli_on(p->c, LVN_FLAG_plan_fit);
    const enum lvn_trainer_recompute given = p->s->values.trainer.recompute;
    if (!device || given != LVN_TRAINER_RECOMPUTE_AUTO)
        return lvn_train_programs_plan(&p->training, &p->s->values, &p->setup.config, o);
    int64_t needed, available;
    p->c->settings.values.trainer.recompute = LVN_TRAINER_RECOMPUTE_NONE;
    LVN_TRY(lvn_train_programs_plan(&p->training, &p->s->values, &p->setup.config, o));
    LVN_TRY(lvn_plan_device_memory(p->c, &p->training, &needed, &available));
    p->c->settings.values.trainer.recompute = given;
    if (needed <= available) return LVN_OK;
    lvn_train_programs_release(&p->training);
    return lvn_train_programs_plan(&p->training, &p->s->values, &p->setup.config, o);
}

/* Refuse flags that are wrong or have no effect, before anything is shown. */
static enum lvn_status check_flags(const struct lvn_cli *c)
{
    static const enum lvn_flag_id of_ranks[] = {LVN_FLAG_plan_nproc_per_node, LVN_FLAG_plan_cores,
                                                LVN_FLAG_plan_latency, LVN_FLAG_plan_bandwidth},
                                  of_memory[] = {LVN_FLAG_plan_program, LVN_FLAG_plan_measure, LVN_FLAG_plan_device,
                                                 LVN_FLAG_plan_limits, LVN_FLAG_plan_memory};
    struct lvn_limits limits;
    if (lvn_cli_on(c, LVN_FLAG_plan_fit)) LVN_TRY(lvn_plan_fit_check(c));
    if (!c->flag[LVN_FLAG_plan_ranks].i)
        LVN_TRY(lvn_cli_refuse(c, of_ranks, sizeof of_ranks / sizeof *of_ranks,
                               "has no effect without --ranks: add --ranks, or leave it out"));
    if (lvn_cli_on(c, LVN_FLAG_plan_schedule))
        LVN_TRY(lvn_cli_refuse(c, of_memory, sizeof of_memory / sizeof *of_memory,
                               "has no effect with --schedule: leave one of them out"));
    LVN_TRY(lvn_plan_device_check(c));
    return lvn_plan_limits(c, c->flag[LVN_FLAG_plan_limits].t, &limits);
}

static enum lvn_status show(struct plan *p)
{
    LVN_TRY(check_flags(p->c));
    if (lvn_cli_on(p->c, LVN_FLAG_plan_schedule)) {
        if (p->s->values.trainer.max_epochs > 0 || !p->s->values.trainer.max_steps) LVN_TRY(open_data(p));
        if (!p->steps) p->steps = p->s->values.trainer.max_steps;
        return show_schedule(p);
    }
    const struct lvn_backend *b = lvn_backend_find(p->s->values.trainer.accelerator);
    const bool launches = !b->computes;
    LVN_CHECK(
        !p->c->flag[LVN_FLAG_plan_ranks].i || !b->describe, ARG,
        "--ranks measures a step on this machine's processor, and trainer.accelerator %s is %s: set it to cpu, or "
        "leave --ranks out",
        b->name, b->description);
    LVN_CHECK(!p->c->flag[LVN_FLAG_plan_ranks].i || b->computes, ARG,
              "--ranks measures a step on this machine, and trainer.accelerator %s computes nothing: leave one of them "
              "out",
              p->s->values.trainer.accelerator);
    int ranks = (int)p->c->flag[LVN_FLAG_plan_ranks].i;
    if (!ranks && *p->c->flag[LVN_FLAG_plan_device].t && needs_gpu(p->s, b))
        LVN_TRY(lvn_settings_set(&p->c->settings, "trainer.accelerator", "trace", LVN_SOURCE_PROGRAM));
    if (ranks) lvn_plan_threads(p->c);
    LVN_TRY(open_data(p));
    LVN_TRY(lvn_callbacks_init(&p->callbacks, p->s, NULL));
    struct lvn_train_programs_options plan = {.fields = &p->setup.fields,
                                              .task = p->setup.task,
                                              .fill =
                                                  p->setup.data ? lvn_dataset_fill(p->setup.data, LVN_SPLIT_TRAIN) : 0,
                                              .validate = p->validates,
                                              .size = ranks,
                                              .local_size = ranks ? lvn_plan_per_host(p->c) : 1,
                                              .machine_bytes = (int64_t)p->c->flag[LVN_FLAG_plan_memory].r,
                                              .planner = lvn_callbacks_planner(&p->callbacks)};
    if (lvn_cli_on(p->c, LVN_FLAG_plan_fit)) LVN_TRY(lvn_plan_fit(p->c, &p->setup.config, &plan, &p->base));
    LVN_TRY(plan_programs(p, &plan));
    if (!p->base) p->base = lvn_plan_base_bytes(&p->training);
    show_model(p);
    const struct lvn_program *step = p->training.step_session->program;
    p->live = lvn_arena_alloc(&p->c->settings.arena, sizeof *p->live * (size_t)(step->n_instrs + 1));
    if (!p->live) return LVN_MEMORY;
    lvn_program_live_bytes(step, p->live);
    show_flops(p);
    show_memory(p);
    fflush(stdout);                                                   /* show this much before anything is measured */
    if (!ranks) LVN_TRY(lvn_plan_time(p->c, &p->training, p->steps)); /* with --ranks it is predicted below */
    LVN_TRY(lvn_plan_device(p->c, &p->training));
    LVN_TRY(show_operations(p));
    if (lvn_cli_on(p->c, LVN_FLAG_plan_program)) LVN_TRY(show_program(p->c, step, p->live));
    if (launches) LVN_TRY(print_launches(p->c, &p->training));
    return ranks ? lvn_plan_ranks(p->c, &p->training, &p->setup.config) : LVN_OK;
}

enum lvn_status lvn_command_plan(struct lvn_cli *c)
{
    struct plan p = {.c = c, .s = &c->settings};
    unsigned parts = LVN_USES_MODEL | LVN_USES_DATA | LVN_USES_OPTIMIZER | LVN_USES_TRAINER | LVN_USES_SCHEDULE;
    c->settings.values.ranks = c->flag[LVN_FLAG_plan_ranks].i;
    LVN_TRY(lvn_cli_settings(c, c->n_operands ? c->operand[0] : NULL, parts));
    if (lvn_cli_shows_settings(c)) return LVN_OK;
    enum lvn_status status = show(&p);
    lvn_train_programs_release(&p.training);
    lvn_callbacks_release(&p.callbacks);
    lvn_model_setup_close(&p.setup);
    return status;
}
