/* task.c - every task, their table, the choice of one, and the graph of a task on a model; see task.h.
 *
 * A new task is a row of the table, a function if no operation is its loss, and rows of tasks.def if it has options. */
#include "tasks/task.h"

#include "base/text.h"
#include "models/transformer.h"

/* Regression: one logit for each sample, and the mean squared error, as of a model of Hugging Face with problem_type
 * "regression". prediction (B,1), target (B) */
static struct levin_tensor *loss_of_numbers(struct levin_graph *g, struct levin_tensor *prediction,
                                            struct levin_tensor *target)
{
    if (!prediction || !target) return NULL;
    return levin_squared_error(g, prediction, levin_reshape(g, target, 2, (const int64_t[]){target->desc.dim[0], 1}));
}

const struct lvn_task lvn_tasks[] = {
    {.name = "lm", /* at every position the next token, or another one that `labels` contains */
     .help = "language modeling, a label for each token",
     .label = {.name = "labels", .dtype = LVN_I32, .rank = 1, .label = LVN_LABEL_TOKEN},
     .loss = levin_cross_entropy,
     .counted = "tokens",
     .peft = "CAUSAL_LM",
     .output_name = "logits",
     .max_printed = 8},
    {.name = "classify", /* the prediction has one logit for each class */
     .help = "a class for each sample",
     .label = {.name = "label", .dtype = LVN_I32, .label = LVN_LABEL_CLASS},
     .loss = levin_cross_entropy,
     .peft = "SEQ_CLS",
     .output_name = "logits"},
    {.name = "mlm", /* predict the masked tokens from all others (data/mask.h) */
     .help = "masked language modeling",
     .label = {.name = "labels", .dtype = LVN_I32, .rank = 1, .label = LVN_LABEL_TOKEN},
     .loss = levin_cross_entropy,
     .counted = "tokens",
     .masks = true,
     .output_name = "logits",
     .max_printed = 8},
    {.name = "reconstruct", /* the target is the model's input (lvn_model.target) */
     .help = "the input is reproduced (autoencoder)",
     .label = {.label = LVN_LABEL_VECTOR},
     .loss = levin_squared_error,
     .output_name = "outputs"},
    {.name = "regress",
     .help = "a number for each sample",
     .label = {.name = "label", .dtype = LVN_F32, .label = LVN_LABEL_NUMBER},
     .loss = loss_of_numbers,
     .peft = "SEQ_CLS",
     .output_name = "outputs"},
    {0}};

const struct lvn_task *lvn_task_find(const char *name)
{
    char names[256] = "";
    for (const struct lvn_task *t = lvn_tasks; t->name; t++) {
        if (strcmp(t->name, name) == 0) return t;
        lvn_print_append(names, sizeof names, "%s%s", t > lvn_tasks ? ", " : "", t->name);
    }
    lvn_fail(LVN_ARG, "task.kind is '%s'; levin knows %s", name, names);
    return NULL;
}

const struct lvn_task *lvn_task_of(enum lvn_label_kind label)
{
    for (const struct lvn_task *t = lvn_tasks; t->name; t++)
        if (t->label.label == label && !t->masks) return t;
    return NULL;
}

/* --- does it fit? --- */

static enum lvn_status check_model(const struct lvn_task *t, const struct lvn_model *m)
{
    char names[256] = "";
    for (int i = 0; m->tasks[i]; i++) {
        if (strcmp(m->tasks[i], t->name) == 0) return LVN_OK;
        lvn_print_append(names, sizeof names, "%s%s", i ? ", " : "", m->tasks[i]);
    }
    LVN_FAIL(ARG, "task.kind is '%s', and the model '%s' learns %s: leave task.kind out or use another model", t->name,
             m->name, names);
}

/* Do the data have the labels of the task? A task without a label field needs none. */
static bool has_labels(const struct lvn_task *t, const struct lvn_fields *data)
{
    const int k = t->label.name ? lvn_fields_find(data, t->label.name) : -1;
    if (k < 0) return !t->label.name;
    const struct lvn_field *f = &data->field[k];
    return f->label == t->label.label || (f->label_is_text && !t->label.rank);
}

/* `preferred`, or else the first of the model's tasks whose labels the data have; NULL: none. Tasks that mask tokens
 * make their labels themselves; they are never chosen automatically. */
static const struct lvn_task *learnable(const char *preferred, const struct lvn_model *m, const struct lvn_fields *data)
{
    const struct lvn_task *t = lvn_task_find(preferred);
    if (!t || has_labels(t, data)) return t;
    for (int i = 0; m->tasks[i]; i++)
        for (t = lvn_tasks; t->name; t++)
            if (strcmp(t->name, m->tasks[i]) == 0 && !t->masks && has_labels(t, data)) return t;
    return NULL;
}

enum lvn_status lvn_task_choose(const struct lvn_task **out, const char *name, const struct lvn_model_config *c,
                                const struct lvn_fields *data)
{
    const char *preferred = c->head && *c->head->task ? c->head->task : c->model->tasks[0];
    bool automatic = strcmp(name, "auto") == 0;
    const struct lvn_task *found = automatic ? learnable(preferred, c->model, data) : NULL;
    *out = found ? found : lvn_task_find(automatic ? preferred : name);
    return *out ? check_model(*out, c->model) : LVN_ARG;
}

enum lvn_status lvn_task_check(const struct lvn_task *t, const struct lvn_model *m, const struct lvn_fields *data,
                               const char *has)
{
    char reader[128];
    const struct lvn_head *head = lvn_model_head(m, t->name);
    const struct lvn_field *inputs = head && head->inputs ? head->inputs : m->inputs;
    const int segments = lvn_fields_find(data, LVN_SEGMENTS);
    LVN_CHECK(
        segments < 0 || (m->generates && t->label.label == LVN_LABEL_TOKEN), ARG,
        "samples of several documents (data.pack, or a field '%s') are for decoders that learn the next token, and "
        "the model '%s' with task.kind=%s is none: leave data.pack out",
        LVN_SEGMENTS, m->name, t->name);
    snprintf(reader, sizeof reader, "the model '%.60s' reads", m->name);
    for (int i = 0; inputs[i].name; i++) LVN_TRY(lvn_fields_check(data, has, &inputs[i], reader));
    if (segments >= 0) {
        struct lvn_field like_ids = {.name = LVN_SEGMENTS,
                                     .dtype = LVN_I32,
                                     .rank = 1,
                                     .dim = {data->field[lvn_fields_find(data, "ids")].dim[0]}};
        LVN_TRY(lvn_fields_check(data, has, &like_ids, reader));
    }
    const struct lvn_task *other = has_labels(t, data) ? NULL : learnable(t->name, m, data);
    const int k = t->label.name ? lvn_fields_find(data, t->label.name) : -1;
    LVN_CHECK(!other || k >= 0, ARG, "task.kind=%s learns from '%s', and %s none: give --task.kind=%s, or other data",
              t->name, t->label.name, has, other->name);
    LVN_CHECK(!other, ARG, "task.kind=%s learns from '%s' of %s, and %s %s there: give --task.kind=%s, or other data",
              t->name, t->label.name, lvn_dtype_name(t->label.dtype), has, lvn_dtype_name(data->field[k].dtype),
              other->name);
    snprintf(reader, sizeof reader, "task.kind=%s learns from", t->name);
    return t->label.name ? lvn_fields_check(data, has, &t->label, reader) : LVN_OK;
}

/* --- the graph --- */

/* The graph's input `name` for B samples, added if it is new. */
static struct levin_tensor *input(struct levin_graph *g, const struct lvn_fields *fields, const char *name, int64_t B)
{
    int k = lvn_fields_find(fields, name);
    for (int i = 0; i < g->n_inputs; i++)
        if (strcmp(g->inputs[i]->name, name) == 0) return g->inputs[i];
    return k < 0 ? NULL : lvn_input(g, name, lvn_field_desc(&fields->field[k], B));
}

/* Add the task's metrics and their counts; metrics with the same counting operation share its output. text: of the
 * labels; NULL: not known. */
static void add_metrics(struct lvn_task_graph *t, struct levin_graph *g, struct levin_tensor *label,
                        const struct lvn_token_bytes *text)
{
    for (const struct lvn_metric *m = lvn_metrics; m->name; m++) {
        if (!lvn_metric_is_for(m, t->task->label.label) || (m->of_text && !text)) continue;
        if (m->of_text) t->text = text;
        if (t->n_metrics == LVN_TASK_METRICS) return;
        int index = -1;
        for (int i = 0; m->counts && i < t->n_metrics; i++)
            if (t->metrics[i]->counts == m->counts) index = t->counts_of[i];
        if (m->counts && index < 0) {
            index = t->n_counts++;
            t->counts[index] = m->counts(g, t->prediction, label);
        }
        t->counts_of[t->n_metrics] = index;
        t->metrics[t->n_metrics++] = m;
    }
}

static enum lvn_status check_classes(const struct lvn_task_graph *t, const struct lvn_model *m,
                                     const struct lvn_fields *fields)
{
    const struct lvn_desc *d = &t->prediction->desc;
    if (t->label < 0 || !lvn_label_is_integer(t->task->label.label)) return LVN_OK;
    const struct lvn_field *f = &fields->field[t->label];
    LVN_CHECK(f->below <= d->dim[d->rank - 1], ARG,
              "the data have %lld classes in '%s', and the model '%s' supports %lld: use another model or other data",
              (long long)f->below, f->name, m->name, (long long)d->dim[d->rank - 1]);
    return LVN_OK;
}

enum lvn_status lvn_task_build(struct lvn_task_graph *out, struct levin_graph *g, const struct lvn_model_config *c,
                               const struct lvn_task *task, const struct lvn_fields *fields, int64_t B)
{
    struct levin_tensor *in[LVN_MODEL_INPUTS], *target = NULL;
    *out = (struct lvn_task_graph){.task = task, .label = -1};
    const struct lvn_field *inputs = lvn_model_inputs(c);
    for (int i = 0; inputs[i].name; i++) in[i] = input(g, fields, inputs[i].name, B);
    if (task && task->label.name) {
        out->label = lvn_fields_find(fields, task->label.name);
        target = input(g, fields, task->label.name, B);
    }
    if (lvn_fields_find(fields, LVN_SEGMENTS) >= 0) g->segments = input(g, fields, LVN_SEGMENTS, B);
    if (lvn_fields_find(fields, LVN_HIDDEN) >= 0) g->hidden = input(g, fields, LVN_HIDDEN, B);
    if (lvn_fields_find(fields, LVN_SELECTED) >= 0) g->selected = input(g, fields, LVN_SELECTED, B);
    out->prediction = lvn_model_build(g, c, in);
    if (g->selected && out->prediction && /* a program's own model, whose head computes all tokens */
        lvn_desc_rows(&out->prediction->desc) != lvn_desc_count(&g->selected->desc))
        out->prediction = lvn_selected(g, out->prediction);
    if (task && !task->label.name && c->model->target) target = c->model->target(g, c, in);
    if (task) out->loss = task->loss(g, out->prediction, target);
    /* Masked tokens are a sample of a text, which has no bits per byte. */
    const struct lvn_token_bytes *text =
        task && !task->masks && out->label >= 0 ? fields->field[out->label].text : NULL;
    if (task) add_metrics(out, g, target, text);
    LVN_TRY(lvn_graph_status(g));
    if (!task) return LVN_OK;
    out->losses = out->loss->node->out[1];
    out->numbers = lvn_desc_count(&target->desc) / B;
    return check_classes(out, c->model, fields);
}

/* --- counting --- */

static int64_t bytes_of(const struct lvn_token_bytes *text, int32_t id)
{
    return id < text->n ? text->bytes[id] : 0;
}

int64_t lvn_task_count(const struct lvn_task_graph *t, const struct lvn_samples *b)
{
    if (t->label < 0 || !lvn_label_is_integer(t->task->label.label)) return b->n_valid * t->numbers;
    const int32_t *labels = b->p[t->label];
    int64_t valid = 0, n = b->rows * t->numbers;
    for (int64_t i = 0; i < n; i++) valid += labels[i] >= 0;
    return valid;
}

enum lvn_status lvn_task_text(const struct lvn_task_graph *t, const struct lvn_samples *b, double loss,
                              const float *(*losses)(void *context), void *context, struct lvn_text_sums *out)
{
    const int32_t *labels = b->p[t->label];
    const int64_t n = b->rows * t->numbers;
    bool only_text = true;
    *out = (struct lvn_text_sums){.loss = loss};
    for (int64_t i = 0; i < n; i++) {
        if (labels[i] < 0) continue;
        out->bytes += bytes_of(t->text, labels[i]);
        only_text = only_text && bytes_of(t->text, labels[i]);
    }
    if (only_text) return LVN_OK;
    const float *x = losses(context);
    if (!x) return LVN_MEMORY;
    out->loss = 0;
    for (int64_t i = 0; i < n; i++)
        if (labels[i] >= 0 && bytes_of(t->text, labels[i])) out->loss += (double)x[i];
    return LVN_OK;
}

enum lvn_status lvn_task_check_shift(const struct lvn_task *t, const struct lvn_samples *b)
{
    const int from = lvn_fields_find(&b->fields, "ids"), to = lvn_fields_find(&b->fields, "labels");
    if (t->label.label != LVN_LABEL_TOKEN || t->masks || from < 0 || to < 0) return LVN_OK;
    const int64_t T = lvn_field_count(&b->fields.field[from]), n = b->n_valid * T;
    const int32_t *ids = b->p[from], *labels = b->p[to];
    int64_t differs_from_next = 0; /* labels that are certainly not the next token; equal neighbors prove nothing */
    if (lvn_field_count(&b->fields.field[to]) != T) return LVN_OK;
    for (int64_t i = 0; i < n; i++) {
        if (labels[i] < 0) continue;
        if (labels[i] != ids[i]) return LVN_OK;
        if ((i + 1) % T) differs_from_next += labels[i] != ids[i + 1];
    }
    LVN_CHECK(
        !differs_from_next, ARG,
        "all labels of the first batch equal the ids at their own positions, so the model would learn to copy its "
        "input: a label is the next token here (Hugging Face's trainers shift labels, levin does not), so shift "
        "them by one: ids = tokens[:-1], labels = tokens[1:]");
    return LVN_OK;
}

int64_t lvn_task_length(const struct lvn_task *task, const struct lvn_fields *fields)
{
    int k = task->counted ? lvn_fields_find(fields, task->label.name) : -1;
    return k < 0 ? 1 : lvn_field_count(&fields->field[k]);
}

const char *lvn_task_unit(const struct lvn_task *task)
{
    return task->counted ? task->counted : "samples";
}

int64_t lvn_task_counts(const struct lvn_task_graph *t)
{
    int64_t n = 0;
    for (int i = 0; i < t->n_counts; i++) n += lvn_desc_count(&t->counts[i]->desc);
    return n;
}

double lvn_task_metric(const struct lvn_task_graph *t, int i, struct lvn_metric_sums s, const double *counts)
{
    int index = t->counts_of[i];
    for (int k = 0; k < index; k++) counts += lvn_desc_count(&t->counts[k]->desc);
    if (index >= 0) {
        s.counts = counts;
        s.shape = &t->counts[index]->desc;
    }
    return t->metrics[i]->value(&s);
}
