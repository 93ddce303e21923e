/* events.c - the logger of events.jsonl: an object for each start, note, sample, validation, checkpoint and end of a
 * run.
 *
 * The report (train/report) reads it. Rows begin with the step, the event and the time. A resumed run removes rows of
 * later steps, as metrics.jsonl does, and begins with a row `resume`. Notes from before the file is open follow the
 * first row. Confusion matrices of more than LARGEST_MATRIX classes are omitted. */

#include "base/clock.h"
#include "formats/json.h"
#include "host/machine.h"
#include "models/model.h"
#include "train/callbacks/rows.h"

enum { LARGEST_MATRIX = 64, HOSTS = 1024, LONGEST_TEXT = 1 << 20 };

static const char *const names[] = {[LVN_EVENT_START] = "start",
                                    [LVN_EVENT_VALIDATION] = "validation",
                                    [LVN_EVENT_CHECKPOINT] = "checkpoint",
                                    [LVN_EVENT_SAMPLE] = "sample",
                                    [LVN_EVENT_NOTE] = "note",
                                    [LVN_EVENT_END] = "end"};

struct state {
    struct lvn_rows rows;
    struct lvn_text early; /* rows of notes from before the file is open */
    bool first;            /* the first step of a resumed run is not finished yet */
};

/* --- rows --- */

static json_t *text_of(const char *s)
{
    return lvn_json_text(s, LONGEST_TEXT);
}

static void put_text(json_t *row, const char *key, const char *s)
{
    if (s && *s) json_object_set_new(row, key, text_of(s));
}

static void put_count(json_t *row, const char *key, int64_t n)
{
    json_object_set_new(row, key, json_integer(n));
}

static void put_number(json_t *row, const char *key, double x)
{
    if (isfinite(x)) json_object_set_new(row, key, json_real(x));
}

static json_t *begin(const char *event, int64_t step)
{
    json_t *row = json_object();
    put_count(row, "step", step);
    put_text(row, "event", event);
    put_number(row, "time", lvn_wall_seconds());
    return row;
}

/* Write the row, or keep it until the file is open; releases it. */
static void end(struct state *o, struct lvn_callback_context *context, long begun, json_t *row)
{
    const bool open = o->rows.file.is_open;
    struct lvn_text *t = open ? lvn_rows_begin(&o->rows) : &o->early;
    lvn_json_add(t, begun, row, 0);
    json_decref(row);
    if (open)
        lvn_rows_end(&o->rows, context);
    else
        lvn_text_add(t, "\n");
}

/* --- the start --- */

/* Keys that were given or derived: [key, value, default, origin]. */
static json_t *settings(const struct levin_settings *s)
{
    json_t *all = json_array();
    char value[LVN_VALUE_TEXT], origin[LVN_VALUE_TEXT];
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        if (!lvn_settings_given(s, o->id) && s->origin[o->id].source != LVN_SOURCE_DERIVED) continue;
        json_t *one = json_array();
        json_array_append_new(one, json_string(o->key));
        json_array_append_new(one, text_of(lvn_settings_value(s, o->id, value)));
        json_array_append_new(one, text_of(o->default_text));
        json_array_append_new(one, text_of(lvn_settings_origin(s, o->id, origin)));
        json_array_append_new(all, one);
    }
    return all;
}

static void put_machine(json_t *row, const struct lvn_callback_context *context)
{
    struct lvn_machine here;
    const struct lvn_device *d = context->model_state ? context->model_state->device : NULL;
    json_t *hosts = json_array();
    for (int i = 0; context->ranks->host && i < context->ranks->size && i < HOSTS; i++)
        json_array_append_new(hosts, text_of(context->ranks->host[i]));
    lvn_machine_read(&here);
    put_count(row, "ranks", context->ranks->size);
    put_count(row, "hosts", context->ranks->hosts);
    json_object_set_new(row, "host", hosts);
    put_count(row, "threads", context->event.threads);
    put_text(row, "isa", context->event.isa);
    put_text(row, "cpu", here.cpu);
    put_count(row, "cores", here.cores);
    put_count(row, "memory", here.memory);
    if (d) put_text(row, "device", lvn_device_text(d));
}

static json_t *start_row(const struct lvn_callback_context *context)
{
    const struct lvn_event *e = &context->event;
    json_t *row = begin(context->resumed_step < 0 ? "start" : "resume", e->step);
    put_text(row, "name", e->name);
    put_text(row, "run_dir", e->run_dir);
    put_text(row, "version", LVN_VERSION);
    put_text(row, "checkpoint", e->text);
    put_number(row, "goodput", lvn_event_value(e, "goodput"));
    put_number(row, "restarts", lvn_event_value(e, "restarts"));
    put_count(row, "parameters", e->parameters);
    put_count(row, "trained", e->trained);
    put_count(row, "max_steps", e->max_steps);
    put_count(row, "batch_size", e->batch_size);
    put_count(row, "micro_batch_size", e->micro_batch_size);
    put_count(row, "accumulation", e->accumulation);
    put_count(row, "block_size", e->block_size);
    put_text(row, "unit", e->unit);
    put_count(row, "steps_per_epoch", e->steps_per_epoch);
    put_count(row, "train_tokens", e->train_tokens);
    put_count(row, "val_tokens", e->val_tokens);
    put_count(row, "train_samples", e->train_samples);
    put_count(row, "val_samples", e->val_samples);
    put_number(row, "flops_per_token", e->flops_per_token);
    put_machine(row, context);
    if (context->settings) json_object_set_new(row, "settings", settings(context->settings));
    return row;
}

static enum lvn_status start(struct state *o, struct lvn_callback_context *context)
{
    long begun = lvn_json_begin();
    LVN_TRY(lvn_rows_open(&o->rows, context, "events.jsonl", ""));
    end(o, context, begun, start_row(context));
    if (o->early.failed) lvn_error_clear(); /* out of memory for a note */
    if (o->early.n && !o->early.failed) {
        lvn_text_add_bytes(lvn_rows_begin(&o->rows), o->early.p, o->early.n - 1);
        lvn_rows_end(&o->rows, context);
    }
    o->first = context->resumed_step >= 0;
    return LVN_OK;
}

/* --- the other events --- */

/* The confusion matrix of the last validation, rows of true classes, and the names of classes, if they have any. */
static void put_confusion(json_t *row, const struct lvn_callback_context *context)
{
    const struct lvn_task_graph *t = context->val_task;
    const double *count = context->val_counts;
    char name[LVN_CLASS_NAME];
    for (int i = 0; t && count && i < t->n_counts; count += lvn_desc_count(&t->counts[i++]->desc)) {
        const struct lvn_desc *d = &t->counts[i]->desc;
        const int64_t classes = d->dim[0];
        if (d->rank != 2 || classes != d->dim[1] || classes < 2 || classes > LARGEST_MATRIX) continue;
        json_t *matrix = json_array(), *classes_of = json_array();
        for (int64_t k = 0; k < classes; k++) {
            json_t *line = json_array();
            for (int64_t j = 0; j < classes; j++)
                json_array_append_new(line, json_integer((json_int_t)count[k * classes + j]));
            json_array_append_new(matrix, line);
            if (context->config) json_array_append_new(classes_of, text_of(lvn_class_name(context->config, k, name)));
        }
        json_object_set_new(row, "confusion", matrix);
        json_object_set_new(row, "classes", classes_of);
        return;
    }
}

static json_t *event_row(const struct lvn_callback_context *context)
{
    const struct lvn_event *e = &context->event;
    const bool setting_up = e->step < context->resumed_step; /* the event's step is not set yet */
    json_t *row = begin(names[e->kind], setting_up ? context->resumed_step : e->step);
    if (e->kind == LVN_EVENT_VALIDATION) {
        for (int i = 0; i < e->n_scalars; i++) {
            if (e->scalar[i].kind == e->kind) put_number(row, e->scalar[i].name, e->scalar[i].value);
        }
        if (e->best) json_object_set_new(row, "best", json_true());
        put_confusion(row, context);
    }
    put_text(row, "text", e->text);
    return row;
}

/* After the first step of a resumed run: the cost of its restart. */
static void put_first_step(struct state *o, struct lvn_callback_context *context)
{
    static const char *const scalars[] = {"goodput", "restarts", "restart_seconds"};
    long begun = lvn_json_begin();
    json_t *row = begin("resumed", context->event.step);
    o->first = false;
    for (int i = 0; i < 3; i++) put_number(row, scalars[i], lvn_event_value(&context->event, scalars[i]));
    end(o, context, begun, row);
    lvn_rows_flush(o, context);
}

static void note(void *state, struct lvn_callback_context *context)
{
    long begun = lvn_json_begin();
    end(state, context, begun, event_row(context));
}

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    struct state *o = state;
    const enum lvn_event_kind kind = context->event.kind;
    if (kind == LVN_EVENT_START) return lvn_ranks_agree(context->ranks, context->dir ? start(o, context) : LVN_OK);
    if (!context->dir) return LVN_OK;
    if (kind == LVN_EVENT_STEP && o->first) put_first_step(o, context);
    if (kind == LVN_EVENT_VALIDATION || kind == LVN_EVENT_CHECKPOINT || kind == LVN_EVENT_END) note(o, context);
    return LVN_OK;
}

static void close_it(void *state)
{
    lvn_text_release(&((struct state *)state)->early);
    lvn_rows_close(state);
}

const struct lvn_callback lvn_callback_events = {.name = "events",
                                                 .bytes = sizeof(struct state),
                                                 .output = "events.jsonl",
                                                 .call = call,
                                                 .note = note,
                                                 .flush = lvn_rows_flush,
                                                 .close = close_it};
