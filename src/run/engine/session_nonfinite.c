/* session_nonfinite.c - lvn_session_find_nonfinite() of session.h: finds the instruction whose output is the first that
 * is not finite. */

#include "base/arena.h"
#include "engine/parameters.h"
#include "engine/session.h"

struct search {
    struct lvn_session *session;
    void *buffer; /* as large as the largest value; for values that the host must copy */
    char found[192];
};

/* A value's bytes, in place or copied. NULL: they cannot be read. */
static const void *bytes_of(const struct search *s, const struct lvn_value *v)
{
    const struct lvn_session *session = s->session;
    if (v->buffer != LVN_BUFFER_PARAM || !v->param)
        return lvn_memory_view(session->binding.buffer[v->buffer], v->offset, v->bytes, s->buffer);
    const struct lvn_parameter_window w = lvn_parameters_at(session->model_state, LVN_PARAMETER_VALUES, v->param);
    return lvn_parameter_view(&w, s->buffer);
}

static bool finite_values(const struct search *s, const struct lvn_operand *o)
{
    const struct lvn_value *v = &s->session->program->values[o->value];
    if (v->buffer >= LVN_BUFFER_INPUT) return true;
    const void *p = bytes_of(s, v);
    if (!p) return true;
    /* Values of other types are reductions of values of these, which are checked.
     * The rest of a value may contain data that other ranks have not sent yet, or elements of another type. */
    const bool is_range = lvn_desc_contiguous(&o->desc);
    const int64_t from = is_range ? o->desc.offset : 0;
    const int64_t end = is_range ? from + lvn_desc_count(&o->desc) : v->bytes / lvn_dtype_bytes(o->desc.dtype);
    for (int64_t i = from; o->desc.dtype == LVN_F32 && i < end; i++)
        if (!isfinite(((const float *)p)[i])) return false;
    const bool is_16_bit = o->desc.dtype == LVN_BF16 || o->desc.dtype == LVN_F16;
    const uint16_t exponent = o->desc.dtype == LVN_F16 ? 0x7c00 : 0x7f80; /* exponent all ones: infinity or NaN */
    for (int64_t i = from; is_16_bit && i < end; i++)
        if ((((const uint16_t *)p)[i] & exponent) == exponent) return false;
    return true;
}

static void check_instruction(void *argument, const struct lvn_launch_order *order)
{
    struct search *s = argument;
    const struct lvn_instr *i = order->instr;
    if (s->found[0] || i->op->collective) return;
    const char *found = NULL;
    const struct lvn_program *p = s->session->program;
    for (int k = 0; k < LVN_MAX_IN && !found; k++) {
        int v = i->in[k].value;
        if (v >= 0 && p->values[v].buffer == LVN_BUFFER_PARAM && !finite_values(s, &i->in[k]))
            found = p->values[v].name;
    }
    for (int k = 0; k < LVN_MAX_OUT && !found; k++)
        if (i->out[k].value >= 0 && i->phase != LVN_BACKWARD && !finite_values(s, &i->out[k])) found = i->name;
    if (found) {
        snprintf(s->found, sizeof s->found, "%s", found);
        return;
    }
    for (int k = 0; k < LVN_MAX_IN; k++)
        if (i->din[k].value >= 0 && !finite_values(s, &i->din[k])) {
            snprintf(s->found, sizeof s->found, "%s", p->values[i->din[k].value].name);
            return;
        }
}

/* Run only gathers, because a sum over ranks would include the values of others. */
static void start_gather(void *context, const struct lvn_instr *i, const struct lvn_call *call,
                         const struct lvn_device *d)
{
    const struct lvn_collectives *all = context;
    if (i->id == LVN_OP_all_gather) all->start(all->context, i, call, d);
}

static bool wait_for_gather(void *context, const struct lvn_instr *i)
{
    const struct lvn_collectives *all = context;
    return all->wait(all->context, i);
}

const char *lvn_session_find_nonfinite(struct lvn_session *session, int64_t n_micro_batches)
{
    const struct lvn_collectives *all = lvn_session_collectives(session);
    const struct lvn_collectives gathers = {
        .context = (void *)(uintptr_t)all, .start = start_gather, .wait = wait_for_gather};
    static _Thread_local struct search s;
    int64_t max = 1;
    for (int v = 0; v < session->program->n_values; v++)
        if (session->program->values[v].bytes > max) max = session->program->values[v].bytes;
    s = (struct search){.session = session, .buffer = lvn_malloc((size_t)max)};
    struct lvn_execution execution = {
        .n_micro_batches = n_micro_batches, .without_update = true, .context = &s, .launched = check_instruction};
    if (all && lvn_parameters_sharded(session->model_state, LVN_PARAMETER_VALUES)) execution.collectives = &gathers;
    if (!s.buffer || lvn_session_run_as(session, &execution) != LVN_OK)
        lvn_error_clear(); /* the origin remains unknown */
    free(s.buffer);
    return s.found[0] ? s.found : NULL;
}
