/* callback.c - see callback.h: the table of callbacks, and the list of those that are on. */

#include "train/callback.h"
#include "base/clock.h"
#include "formats/json.h"
#include "settings/callbacks_check.h"

#define LVN_CALLBACK(name) extern const struct lvn_callback lvn_callback_##name;
#define LVN_LOGGER(name, ...) extern const struct lvn_callback lvn_callback_##name;
#include "options/options_each.h"

static const struct {
    const struct lvn_callback *is;
    size_t on; /* of a logger: offset of its switch in the settings; 0: none */
} table[] = {
#define LVN_CALLBACK(name) {&lvn_callback_##name, 0},
#define LVN_LOGGER(name, ...) {&lvn_callback_##name, offsetof(struct levin_settings, values.logger.name)},
#include "options/options_each.h"
};

static bool is_enabled(int i, const struct levin_settings *s)
{
    const struct lvn_callback *is = table[i].is;
    if (s->values.trainer.fast_dev_run && !is->in_fast_dev_run) return false;
    if (table[i].on && !*(const bool *)((const char *)s + table[i].on)) return false;
    return !is->enabled || is->enabled(s);
}

enum lvn_status lvn_callbacks_check(const struct levin_settings *s)
{
    for (int i = 0; i < LVN_CALLBACKS; i++) {
        if (table[i].is->check) LVN_TRY(table[i].is->check(s));
    }
    return LVN_OK;
}

const char *lvn_callbacks_output(int i)
{
    return table[i].is->output;
}

const char *lvn_callbacks_output_pattern(const char *name)
{
    for (int i = 0; i < LVN_CALLBACKS; i++) {
        if (table[i].is->output && !strcmp(table[i].is->output, name)) return table[i].is->output_pattern;
    }
    return NULL;
}

static enum lvn_status add(struct lvn_callbacks *c, const struct lvn_callback *is)
{
    c->callback[c->n] = is;
    c->state[c->n] = lvn_calloc(1, (size_t)is->bytes + 1);
    if (!c->state[c->n]) return LVN_MEMORY;
    c->n++;
    return LVN_OK;
}

enum lvn_status lvn_callbacks_init(struct lvn_callbacks *c, const struct levin_settings *s,
                                   const struct lvn_callback *last)
{
    *c = (struct lvn_callbacks){0};
    for (int i = 0; i < LVN_CALLBACKS; i++) {
        if (is_enabled(i, s)) LVN_TRY(add(c, table[i].is));
    }
    return last ? add(c, last) : LVN_OK;
}

static void forget_sessions(void *callbacks)
{
    struct lvn_callbacks *c = callbacks;
    for (int i = 0; i < c->n; i++) {
        if (c->callback[i]->forget) c->callback[i]->forget(c->state[i]);
    }
}

void lvn_callbacks_release(struct lvn_callbacks *c)
{
    forget_sessions(c);
    lvn_error_save(); /* the failure of the run, if there was one */
    for (int i = 0; i < c->n; i++) {
        if (c->callback[i]->close) c->callback[i]->close(c->state[i]);
        free(c->state[i]);
    }
    lvn_error_restore();
    *c = (struct lvn_callbacks){0};
}

static enum lvn_status plan_sessions(void *callbacks, struct lvn_model_state *n, int64_t block_size, int rank)
{
    struct lvn_callbacks *c = callbacks;
    for (int i = 0; i < c->n; i++) {
        if (c->callback[i]->plan) LVN_TRY(c->callback[i]->plan(c->state[i], n, block_size, rank));
    }
    return LVN_OK;
}

struct lvn_session_planner lvn_callbacks_planner(struct lvn_callbacks *c)
{
    return (struct lvn_session_planner){.context = c, .plan = plan_sessions, .forget = forget_sessions};
}

enum lvn_status lvn_callbacks_call(struct lvn_callbacks *c, struct lvn_callback_context *context,
                                   enum lvn_event_kind kind, const char *text)
{
    context->event.kind = kind;
    context->event.text = text;
    context->event.elapsed_s = lvn_seconds() - context->start_time;
    for (int i = 0; i < c->n; i++) {
        if (c->callback[i]->call)
            LVN_TRY_WHILE(c->callback[i]->call(c->state[i], context), "calling back '%s'", c->callback[i]->name);
    }
    return LVN_OK;
}

/* --- their state in checkpoints: {"NAME": {...}} --- */

enum lvn_status lvn_callbacks_save(const struct lvn_callbacks *c, struct lvn_callback_context *context,
                                   char text[LVN_SNAPSHOT_CALLBACKS])
{
    LVN_LOCAL_TEXT(t);
    long begun = lvn_json_begin();
    json_t *all = json_object();
    text[0] = '\0';
    for (int i = 0; i < c->n; i++) {
        if (c->callback[i]->flush) c->callback[i]->flush(c->state[i], context);
        if (!c->callback[i]->save) continue;
        json_t *state = json_object();
        c->callback[i]->save(c->state[i], state);
        json_object_set_new(all, c->callback[i]->name, state);
    }
    enum lvn_status status = lvn_json_check(begun);
    if (json_object_size(all)) lvn_json_add(&t, begun, all, 0);
    json_decref(all);
    if (status == LVN_OK) status = lvn_text_status(&t);
    if (status == LVN_OK && t.n >= LVN_SNAPSHOT_CALLBACKS)
        status = lvn_fail(LVN_INTERNAL, "the callbacks have %lld bytes of state; at most %d are allowed",
                          (long long)t.n, LVN_SNAPSHOT_CALLBACKS - 1);
    if (status == LVN_OK && t.n) memcpy(text, t.p, (size_t)t.n + 1);
    return status;
}

static enum lvn_status load(struct lvn_callbacks *c, struct lvn_callback_context *context, const char *state)
{
    json_t *all;
    enum lvn_status status = LVN_OK;
    LVN_TRY(lvn_json_parse("the state of the callbacks", state, (int64_t)strlen(state), &all));
    for (int i = 0; i < c->n && status == LVN_OK; i++) {
        const json_t *json = json_object_get(all, c->callback[i]->name);
        if (json && c->callback[i]->load) status = c->callback[i]->load(c->state[i], context, json);
    }
    json_decref(all);
    return status;
}

enum lvn_status lvn_callbacks_open(struct lvn_callbacks *c, struct lvn_callback_context *context, const char *state)
{
    for (int i = 0; i < c->n; i++) {
        if (c->callback[i]->open) LVN_TRY(c->callback[i]->open(c->state[i], context));
    }
    return *state ? load(c, context, state) : LVN_OK;
}

/* --- for callbacks --- */

void lvn_callback_notify(struct lvn_callback_context *context, enum lvn_event_kind kind, const char *text)
{
    struct lvn_event *e = &context->event;
    enum lvn_event_kind was = e->kind;
    const char *text_before = e->text;
    if (context->ranks->rank) return;
    const bool noted = kind == LVN_EVENT_NOTE || kind == LVN_EVENT_SAMPLE;
    e->kind = kind;
    e->text = text;
    for (int i = 0; noted && context->callbacks && i < context->callbacks->n; i++) {
        if (context->callbacks->callback[i]->note)
            context->callbacks->callback[i]->note(context->callbacks->state[i], context);
    }
    lvn_event_send(context->listeners, context->n_listeners, e);
    e->kind = was;
    e->text = text_before;
}

void lvn_callback_warn(struct lvn_callback_context *context, const char *subject)
{
    char text[1400];
    snprintf(text, sizeof text, "%s: %s; the run continues", subject, levin_error_text());
    lvn_error_clear();
    context->ranks->agreed = false; /* all ranks may have agreed on this failure, but not on the next one */
    lvn_callback_notify(context, LVN_EVENT_NOTE, text);
}

const char *lvn_callback_path(const struct lvn_callback_context *context, const char *name,
                              char path[LVN_CALLBACK_PATH_TEXT])
{
    snprintf(path, LVN_CALLBACK_PATH_TEXT, "%s/%s", context->dir->path, name);
    return path;
}

void lvn_callback_request_stop(struct lvn_callback_context *context, const char *format, ...)
{
    va_list args;
    context->control |= LVN_CONTROL_SHOULD_TRAINING_STOP;
    va_start(args, format);
    vsnprintf(context->stop_reason, sizeof context->stop_reason, format, args);
    va_end(args);
}
