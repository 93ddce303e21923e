/* jsonl.c - metrics.jsonl: an object for every step and every validation, of the step and the event's scalars. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "train/callbacks/rows.h"

/* JSON has no NaN and no infinity: null stands for them. */
static void add(struct lvn_text *t, const struct lvn_scalar *s)
{
    lvn_text_printf(t, ", \"%s\": ", s->name);
    if (isfinite(s->value))
        lvn_rows_number(t, s->value);
    else
        lvn_text_add(t, "null");
}

struct own {
    struct lvn_rows rows;
    struct lvn_text row;
};

static void put(struct own *o, struct lvn_moment *m)
{
    const struct lvn_event *e = &m->event;
    lvn_text_clear(&o->row);
    lvn_text_printf(&o->row, "{\"step\": %" PRId64, e->step);
    for (int i = 0; i < e->n_scalars; i++) {
        if (lvn_event_brings(e, i)) add(&o->row, &e->scalar[i]);
    }
    lvn_text_add(&o->row, "}\n");
    lvn_rows_put(&o->rows, m, o->row.p, o->row.n);
}

static enum lvn_status call(void *own, struct lvn_moment *m)
{
    struct own *o = own;
    if (m->event.kind == LVN_EVENT_START)
        return lvn_ranks_agree(m->ranks, m->dir ? lvn_rows_open(&o->rows, m, "metrics.jsonl", "") : LVN_OK);
    if (m->dir && lvn_event_brings_some(&m->event)) put(o, m);
    return LVN_OK;
}

static void flush(void *own, struct lvn_moment *m)
{
    lvn_rows_flush(&((struct own *)own)->rows, m);
}

static void close_it(void *own)
{
    struct own *o = own;
    lvn_rows_close(&o->rows);
    lvn_text_release(&o->row);
}

const struct lvn_callback lvn_callback_jsonl = {.name = "jsonl",
                                                .bytes = sizeof(struct own),
                                                .leaves = "metrics.jsonl",
                                                .call = call,
                                                .flush = flush,
                                                .close = close_it};
