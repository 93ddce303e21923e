/* jsonl.c - the logger of metrics.jsonl: an object for each step and each validation, with the step and the event's
 * scalars. */

#include "train/callbacks/rows.h"

/* NaN and infinity become null. */
static void add(struct lvn_text *t, const struct lvn_scalar *s)
{
    lvn_text_add(t, ", \"");
    lvn_text_add(t, s->name);
    lvn_text_add(t, "\": ");
    if (isfinite(s->value))
        lvn_rows_number(t, s->value);
    else
        lvn_text_add(t, "null");
}

static void put(struct lvn_rows *r, struct lvn_callback_context *context)
{
    const struct lvn_event *e = &context->event;
    struct lvn_text *row = lvn_rows_begin(r);
    lvn_text_printf(row, "{\"step\": %" PRId64, e->step);
    for (int i = 0; i < e->n_scalars; i++) {
        if (lvn_event_updates(e, i)) add(row, &e->scalar[i]);
    }
    lvn_text_add(row, "}");
    lvn_rows_end(r, context);
}

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    if (context->event.kind == LVN_EVENT_START)
        return lvn_ranks_agree(context->ranks,
                               context->dir ? lvn_rows_open(state, context, "metrics.jsonl", "") : LVN_OK);
    if (context->dir && lvn_event_updates_any(&context->event)) put(state, context);
    return LVN_OK;
}

const struct lvn_callback lvn_callback_jsonl = {.name = "jsonl",
                                                .bytes = sizeof(struct lvn_rows),
                                                .output = "metrics.jsonl",
                                                .call = call,
                                                .flush = lvn_rows_flush,
                                                .close = lvn_rows_close};
