/* plan_launches.c - levin plan with the trace backend, which computes nothing: lists the kernel launches of one step.
 * Called by plan.c. */

#include "base/text.h"
#include "cli/plan/plan.h"

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

enum lvn_status lvn_plan_launches(struct lvn_cli *c, const struct lvn_train_programs *programs)
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
