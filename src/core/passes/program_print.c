/* program_print.c - prints a program as text, for levin plan --program and for the tests of the passes; see program.h.
 *
 * It works after every pass. Before memory_planning, arena values have no offsets and no memory is in use. */

#include "base/text.h"
#include "passes/program.h"

const char *lvn_instr_phase(const struct lvn_instr *i)
{
    static const char *const phases[] = {"forward", "backward", "restore"};
    return i->op->collective                          ? "ranks"
           : i->when == LVN_AFTER_BACKWARD            ? "update"
           : i->when == LVN_AFTER_MICRO_BATCH         ? "sum"
           : i->recomputed && i->phase == LVN_FORWARD ? "again"
                                                      : phases[i->phase];
}

const struct lvn_operand *lvn_instr_result(const struct lvn_instr *i)
{
    for (int k = 0; k < LVN_MAX_OUT && i->phase != LVN_BACKWARD; k++) {
        if (i->out[k].value >= 0) return &i->out[k];
    }
    for (int k = 0; k < LVN_MAX_IN; k++) {
        if (i->din[k].value >= 0) return &i->din[k];
    }
    return NULL;
}

/* --- LVN_PRINT_COST --- */

static void print_cost(struct lvn_text *out, int n, const struct lvn_instr *i, int64_t live_bytes)
{
    const struct lvn_operand *result = lvn_instr_result(i);
    char shape[LVN_SHAPE_TEXT] = "", flops[24] = "";
    double count = lvn_instr_flops(i);
    if (result) lvn_shape_text(&result->desc, shape);
    if (count > 0) snprintf(flops, sizeof flops, "%.2f", count / 1e6);
    lvn_text_printf(out, "%5d  %-8s %-22s %-34s %-22s %10s %10.2f\n", n, lvn_instr_phase(i), i->op->name,
                    i->name ? i->name : "", shape, flops, (double)live_bytes / (1 << 20));
}

static enum lvn_status print_costs(struct lvn_text *out, const struct lvn_program *p)
{
    LVN_LOCAL_ARENA(a);
    int64_t *live = lvn_arena_alloc(&a, sizeof *live * (size_t)(p->n_instrs + 1));
    if (!live) return LVN_MEMORY;
    lvn_program_live_bytes(p, live);
    lvn_text_printf(out, "%5s  %-8s %-22s %-34s %-22s %10s %10s\n", "", "phase", "operation", "name", "writes", "MFLOP",
                    "arena MiB");
    for (int n = 0; n < p->n_instrs; n++) print_cost(out, n, &p->instrs[n], live[n]);
    return lvn_text_status(out);
}

/* --- LVN_PRINT_OPERANDS --- */

/* Is the value a range of a flat buffer, rather than one parameter or its gradient? */
static bool is_range(const struct lvn_value *v)
{
    return !v->param &&
           (v->buffer == LVN_BUFFER_PARAM || v->buffer == LVN_BUFFER_PACKED || v->buffer == LVN_BUFFER_GRAD ||
            v->buffer == LVN_BUFFER_STATE0 || v->buffer == LVN_BUFFER_STATE1 || v->buffer == LVN_BUFFER_LINES ||
            v->buffer == LVN_BUFFER_SUMS);
}

static void print_value(struct lvn_text *out, const struct lvn_program *p, int number)
{
    const struct lvn_value *v = &p->values[number];
    const int64_t first = is_range(v) ? v->offset / lvn_dtype_bytes(v->dtype) : 0;
    if (is_range(v))
        lvn_text_printf(out, "%s[%" PRId64 ":%" PRId64 "]", v->name, first,
                        first + v->bytes / lvn_dtype_bytes(v->dtype));
    else if (v->buffer == LVN_BUFFER_RESULT)
        lvn_text_printf(out, "result@%" PRId64, v->offset);
    else if (v->buffer != LVN_BUFFER_ARENA)
        lvn_text_add(out, v->name);
    else if (p->device)
        lvn_text_printf(out, "%%%d@%" PRId64, number, v->offset);
    else
        lvn_text_printf(out, "%%%d", number);
}

struct operands {
    struct lvn_text *out;
    const struct lvn_program *p;
    const struct lvn_instr *instr;
    bool written;     /* print operands that are written, else those that are read */
    const char *next; /* separator before the next operand */
};

/* Is the operand a gradient with earlier contributions? */
static bool adds(const struct lvn_instr *i, const struct lvn_operand *o)
{
    for (int k = 0; k < LVN_MAX_IN; k++)
        if (o == &i->din[k]) return i->add[k];
    return false;
}

/* Is the operand an output that a restore reads? */
static bool restored_from(const struct lvn_instr *i, const struct lvn_operand *o)
{
    for (int k = 0; k < LVN_MAX_OUT; k++)
        if (o == &i->out[k]) return i->phase == LVN_RESTORE && i->op->restores & LVN_READS_OUT(k);
    return false;
}

static void print_operand(struct lvn_operand *o, bool written, void *argument)
{
    struct operands *all = argument;
    const struct lvn_value *v = &all->p->values[o->value];
    char shape[LVN_SHAPE_TEXT];
    written = written && !restored_from(all->instr, o);
    if (written != all->written) return;
    lvn_text_printf(all->out, "%s%s", all->next, adds(all->instr, o) ? "+" : "");
    all->next = ", ";
    print_value(all->out, all->p, o->value);
    if (o == &all->instr->scratch) {
        lvn_text_printf(all->out, " scratch of %" PRId64 " bytes", v->bytes);
        return;
    }
    if (o->desc.offset) lvn_text_printf(all->out, "+%" PRId64, o->desc.offset);
    if (o->desc.dtype != all->p->real) lvn_text_printf(all->out, ":%s", lvn_dtype_name(o->desc.dtype));
    if (written && !is_range(v) && v->buffer != LVN_BUFFER_RESULT)
        lvn_text_printf(all->out, " %s", lvn_shape_text(&o->desc, shape));
}

static void print_instr(struct lvn_text *out, const struct lvn_program *p, int n)
{
    struct lvn_instr i = p->instrs[n];
    struct operands all = {.out = out, .p = p, .instr = &i, .next = " "};
    lvn_text_printf(out, "%2d %-8s %-20s", n, lvn_instr_phase(&i), i.op->name);
    lvn_instr_operands(&i, print_operand, &all);
    all.written = true;
    all.next = " -> ";
    lvn_instr_operands(&i, print_operand, &all);
    if (i.when == LVN_FIRST_MICRO_BATCH) lvn_text_add(out, " [first]");
    if (i.when == LVN_LATER_MICRO_BATCHES) lvn_text_add(out, " [later]");
    if (i.when == LVN_LAST_MICRO_BATCH) lvn_text_add(out, " [last]");
    if (i.when == LVN_AFTER_MICRO_BATCH) lvn_text_printf(out, " [after %" PRId64 "]", i.micro_batch);
    lvn_text_add(out, "\n");
}

/* The gradient buffer that each micro-batch writes, and the sums that are pending at the end. */
static void print_grad_buffers(struct lvn_text *out, const struct lvn_program *p)
{
    lvn_text_printf(out, "gradients: %d x %" PRId64 " bytes", p->n_grad_buffers, p->grad_buffer_bytes);
    for (int64_t m = 0; p->grad_buffer_of && p->n_pending && m < p->pending[p->n_pending - 1].end - p->pending[0].first;
         m++)
        lvn_text_printf(out, "%s %d", m ? "," : "; micro-batches write", p->grad_buffer_of[m]);
    for (int h = 0; h < p->n_pending; h++)
        lvn_text_printf(out, "%s [%" PRId64 ":%" PRId64 "] in %d", h ? "," : "; sums left:", p->pending[h].first,
                        p->pending[h].end, p->pending[h].buffer);
    lvn_text_add(out, "\n");
}

static enum lvn_status print_operands(struct lvn_text *out, const struct lvn_program *p)
{
    for (int n = 0; n < p->n_instrs; n++) print_instr(out, p, n);
    if (p->n_grad_buffers) print_grad_buffers(out, p);
    if (p->device)
        lvn_text_printf(out, "arena: %" PRId64 " bytes, unplanned %" PRId64 "\n", p->arena_bytes, p->unplaced_bytes);
    return lvn_text_status(out);
}

enum lvn_status lvn_program_print(struct lvn_text *out, const struct lvn_program *p, enum lvn_print columns)
{
    return columns == LVN_PRINT_COST ? print_costs(out, p) : print_operands(out, p);
}
