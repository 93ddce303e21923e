/* train_metrics.c - the callback that computes train_loss, train_accuracy and others: the metrics of steps, summed from
 * one validation to the next or, in runs without validation, over an epoch. It sets scalars for the monitors and
 * loggers after it.
 *
 * Checkpoints contain the sums, unless they have more than MAX_SAVED_COUNTS counts, so a resumed run reports the same
 * as one that was never interrupted. */

#include "base/arena.h"
#include "formats/json.h"
#include "train/callback.h"

enum { MAX_SAVED_COUNTS = 4096 }; /* with more, nothing is restored: a resumed run sums from its first step */

struct state {
    double loss;
    int64_t labels;
    double *counts;
    int64_t n_counts;
};

static enum lvn_status open_it(void *state, struct lvn_callback_context *context)
{
    struct state *o = state;
    o->n_counts = lvn_task_counts(context->task);
    o->counts = lvn_calloc((size_t)o->n_counts + 1, sizeof *o->counts);
    return o->counts ? LVN_OK : LVN_MEMORY;
}

/* A step that 16-mixed skips because the forward pass overflows changes nothing, and is not counted. */
static void add(struct state *o, const struct lvn_callback_context *context)
{
    if (!isfinite(context->loss_sum)) return;
    o->loss += context->loss_sum;
    o->labels += context->labels;
    for (int64_t i = 0; i < o->n_counts; i++) o->counts[i] += context->counts[i];
}

static void conclude(struct state *o, struct lvn_callback_context *context)
{
    struct lvn_scalar *s = &context->event.scalar[context->train_metrics];
    const struct lvn_metric_sums sums = {.loss = o->loss, .labels = o->labels};
    s->value = o->labels ? o->loss / (double)o->labels : NAN;
    for (int i = 0; i < context->task->n_metrics; i++)
        s[1 + i].value = o->labels ? lvn_task_metric(context->task, i, sums, o->counts) : (double)NAN;
    o->loss = 0.0;
    o->labels = 0;
    memset(o->counts, 0, sizeof *o->counts * (size_t)o->n_counts);
}

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    struct state *o = state;
    if (context->event.kind == LVN_EVENT_STEP) add(o, context);
    if (context->event.kind == context->event.scalar[context->train_metrics].kind) conclude(o, context);
    return LVN_OK;
}

static double number_of(const json_t *x)
{
    return json_is_null(x) ? (double)NAN : json_number_value(x);
}

static void save(const void *state, json_t *json)
{
    const struct state *o = state;
    json_t *counts = json_array();
    for (int64_t i = 0; i < o->n_counts && o->n_counts <= MAX_SAVED_COUNTS; i++)
        json_array_append_new(counts, lvn_json_number(o->counts[i]));
    json_object_set_new(json, "loss", lvn_json_number(o->loss));
    json_object_set_new(json, "labels", json_integer(o->labels));
    json_object_set_new(json, "counts", counts);
}

static enum lvn_status load(void *state, struct lvn_callback_context *context, const json_t *json)
{
    struct state *o = state;
    const json_t *counts = json_object_get(json, "counts");
    (void)context;
    if ((int64_t)json_array_size(counts) != o->n_counts) return LVN_OK;
    o->loss = number_of(json_object_get(json, "loss"));
    o->labels = json_integer_value(json_object_get(json, "labels"));
    for (int64_t i = 0; i < o->n_counts; i++) o->counts[i] = number_of(json_array_get(counts, (size_t)i));
    return LVN_OK;
}

static void close_it(void *state)
{
    free(((struct state *)state)->counts);
}

const struct lvn_callback lvn_callback_train_metrics = {.name = "train_metrics",
                                                        .bytes = sizeof(struct state),
                                                        .in_fast_dev_run = true,
                                                        .open = open_it,
                                                        .call = call,
                                                        .save = save,
                                                        .load = load,
                                                        .close = close_it};
