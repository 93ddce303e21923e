/* evaluation.c - see evaluation.h. */
#include "inference/evaluation.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/log.h"
#include "base/target.h"
#include "base/work.h"
#include "data/loader.h"
#include "engine/ranks.h"
#include "engine/session.h"
#include "formats/safetensors.h"
#include "inference/model_shards.h"
#include "model_io/model_files.h"

/* Labels; bytes of those that are text; then counts of metrics. */
enum { LABELS, TEXT_BYTES, COUNTS };

struct part {
    struct lvn_loader loader;
    int64_t first;          /* index of its first sample among those of all splits */
    int64_t limit, batches; /* limit: evaluate this many, evenly spaced; 0: all */
};

struct evaluation {
    const struct lvn_values *v;
    const struct lvn_evaluate_options *o;
    struct lvn_model_setup *setup;
    struct part part[LVN_SPLIT_COUNT];
    int n_parts;
    struct lvn_model_state *model_state;
    struct lvn_session *sessions[LVN_LENGTHS]; /* [n_lengths], by planned length, the longest first; else [1] */
    struct lvn_session *session;               /* the session whose inputs were fed */
    int n_sessions;
    struct lvn_fields fields[LVN_LENGTHS]; /* of the sessions' samples */
    struct lvn_samples batch;
    int64_t *number;    /* index of each sample of the batch among those of all splits */
    int64_t batches, B; /* batches of all splits */
    int64_t n_counts;   /* of the metrics */
    double *sums;       /* [batches] losses, [batches] those of text, then counts over all batches, see below */
    double *count;      /* in `sums` */
};

/* Make the sessions. For gradients all batches are micro-batches of one run, of one length; otherwise each batch is a
 * run. */
static enum lvn_status new_sessions(void *context)
{
    struct evaluation *e = context;
    const struct lvn_dataset *d = e->setup->data;
    bool train = e->o->gradients != NULL;
    e->n_sessions = 0;
    for (int k = train || !d->n_lengths ? 0 : d->n_lengths - 1; k >= 0; k--) {
        struct lvn_fields *fields = &e->fields[e->n_sessions];
        *fields = e->setup->fields;
        if (d->n_lengths && !train) lvn_fields_set_length(fields, d->length[k]);
        struct lvn_session_options session = {.fields = fields,
                                              .B = e->B,
                                              .n_micro_batches = train ? e->batches : 1,
                                              .task = e->setup->task,
                                              .prediction = e->o->prediction,
                                              .train = train,
                                              .longer = e->n_sessions ? e->sessions[0] : NULL};
        LVN_TRY(lvn_session_new(&e->sessions[e->n_sessions], e->model_state, &session));
        LVN_CHECK(e->sessions[e->n_sessions++]->program->n_handles == e->sessions[0]->program->n_handles, INTERNAL,
                  "samples of different lengths gather parameters differently");
    }
    e->session = e->sessions[0];
    return LVN_OK;
}

static enum lvn_status allocate(struct evaluation *e)
{
    e->n_counts = lvn_task_counts(&e->session->outputs);
    e->sums = lvn_calloc((size_t)(2 * e->batches + COUNTS + e->n_counts), sizeof *e->sums);
    if (!e->sums) return LVN_MEMORY;
    e->count = e->sums + 2 * e->batches;
    e->number = lvn_malloc(sizeof *e->number * (size_t)e->B);
    if (!e->number) return LVN_MEMORY;
    return lvn_samples_init(&e->batch, &e->setup->fields, e->B);
}

static int64_t limit_of(const struct lvn_evaluate_options *o, const struct lvn_loader *l)
{
    bool share = !o->limit && o->fraction > 0.0 && o->fraction < 1.0;
    return share ? (int64_t)ceil(o->fraction * (double)lvn_loader_eval_batches(l, 0)) : o->limit;
}

/* Loaders of the splits, in order, with e->B rows to a batch; *max: samples of the largest. */
static enum lvn_status open_parts(struct evaluation *e, const struct lvn_split_list *parts, int64_t *max)
{
    *max = e->batches = 0;
    e->n_parts = parts->n;
    for (int i = 0; i < parts->n; i++) {
        struct lvn_loader *l = &e->part[i].loader;
        LVN_TRY(lvn_loader_init(l, e->setup->data, parts->id[i], LVN_SAMPLING_SEQUENTIAL, e->B, 0));
        if (e->o->split == LVN_SPLIT_ALL) lvn_loader_keep_last(l);
        l->pad_to_max_length = e->o->gradients != NULL;
        e->part[i].first = i ? e->part[i - 1].first + e->part[i - 1].loader.eval_samples : 0;
        int64_t limit = limit_of(e->o, l), samples = lvn_loader_eval_count(l, limit);
        if (samples > *max) *max = samples;
        e->part[i].limit = limit;
        e->part[i].batches = lvn_loader_eval_batches(l, limit);
        e->batches += e->part[i].batches;
    }
    return LVN_OK;
}

static enum lvn_status set_up(struct evaluation *e)
{
    LVN_CHECK(e->o->ranks->size == 1 || ((!e->o->batch || e->o->each_rank) && !e->o->gradients), ARG,
              "logits, token losses and gradients require a single rank, but %d were started; start one",
              e->o->ranks->size);
    struct lvn_split_list parts;
    int64_t max;
    LVN_TRY(lvn_dataset_splits(e->setup->data, e->o->split, &parts));
    e->B = e->v->trainer.micro_batch_size ? e->v->trainer.micro_batch_size : e->v->trainer.batch_size;
    LVN_TRY(open_parts(e, &parts, &max));
    if (max < e->B) {
        e->B = max; /* a smaller batch instead of padding */
        LVN_TRY(open_parts(e, &parts, &max));
    }
    struct lvn_values v = *e->v;
    if (e->o->gradients) { /* packed blocks have none */
        e->setup->config.n_stored = 0;
        v.model.quantize = LVN_MODEL_QUANTIZE_NONE;
    }
    if (v.model.quantize != e->v->model.quantize)
        lvn_log(LVN_LOG_INFO, "model.quantize is ignored, because quantized weights have no gradients");
    return lvn_model_shards_new(&e->model_state, e->setup, &v, e->o->ranks, true);
}

/* Open the model with its sessions and weights, on all ranks. */
static enum lvn_status open_model(struct evaluation *e)
{
    struct lvn_ranks *ranks = e->o->ranks;
    LVN_TRY(lvn_ranks_agree(ranks, set_up(e)));
    LVN_TRY(lvn_model_shards_plan(e->model_state, ranks, e->v, new_sessions, e));
    LVN_TRY(lvn_ranks_agree(ranks, allocate(e)));
    return lvn_model_shards_load(e->model_state, ranks, e->v, &e->setup->pretrained);
}

static void report(const struct evaluation *e)
{
    const struct lvn_task_graph *t = &e->session->outputs;
    struct lvn_evaluated batch = {.samples = e->batch.n_valid,
                                  .number = e->number,
                                  .config = &e->setup->config,
                                  .task = t->task,
                                  .n_losses = lvn_desc_count(&t->losses->desc) / e->B,
                                  .losses = lvn_session_losses(e->session),
                                  .shape = &t->prediction->desc};
    if (!e->o->batch) return;
    if (t->label >= 0 && lvn_label_is_integer(t->task->label.label)) batch.labels = e->batch.p[t->label];
    if (e->o->prediction) batch.prediction = lvn_session_prediction(e->session);
    e->o->batch(e->o->context, &batch);
}

/* Feed batch i of all splits, as micro-batch `at` of the next run. */
static enum lvn_status feed(struct evaluation *e, int64_t i, int64_t at)
{
    const struct part *p = e->part;
    int64_t number;
    for (; i >= p->batches; p++) i -= p->batches;
    LVN_TRY(lvn_loader_eval_batch(&p->loader, p->limit, i, 0, &e->batch, &number));
    for (int64_t r = 0; r < e->batch.n_valid; r++)
        e->number[r] = p->first + lvn_loader_eval_sample(&p->loader, number + r);
    for (int k = 0; k < e->n_sessions; k++)
        if (lvn_fields_length(&e->fields[k]) == lvn_fields_length(&e->batch.fields)) e->session = e->sessions[k];
    LVN_TRY(lvn_session_feed(e->session, at * e->B, &e->batch));
    e->count[LABELS] += (double)lvn_task_count(&e->session->outputs, &e->batch);
    return LVN_OK;
}

static enum lvn_status feed_padding(struct evaluation *e)
{
    e->batch.n_valid = 0;
    for (int64_t r = 0; r < e->batch.rows; r++) lvn_samples_pad(&e->batch, r);
    return lvn_session_feed(e->session, 0, &e->batch);
}

static void add_counts(struct evaluation *e)
{
    for (int64_t k = 0; k < e->n_counts; k++) e->count[COUNTS + k] += e->session->counts[k];
}

static enum lvn_status add_text(struct evaluation *e, int64_t batch)
{
    struct lvn_text_sums text;
    LVN_TRY(lvn_session_text_sums(e->session, &e->batch, &text));
    e->sums[e->batches + batch] = text.loss;
    e->count[TEXT_BYTES] += (double)text.bytes;
    return LVN_OK;
}

/* Batches are distributed over ranks round-robin. If ranks gather parameters, each runs equally often: one without a
 * batch, or whose batch failed, runs ignored rows. */
static enum lvn_status pass(struct evaluation *e)
{
    const struct lvn_ranks *ranks = e->o->ranks;
    const bool collective = lvn_parameters_sharded(e->model_state, LVN_PARAMETER_VALUES);
    const int64_t rounds = (e->batches + ranks->size - 1) / ranks->size;
    enum lvn_status status = LVN_OK;
    for (int64_t i = ranks->rank; i < (collective ? rounds * ranks->size : e->batches); i += ranks->size) {
        if (status == LVN_OK) status = lvn_interrupt_check();
        if (i < e->batches && status == LVN_OK) status = feed(e, i, 0);
        if (status != LVN_OK && !collective) return status;
        const bool counts = i < e->batches && status == LVN_OK;
        struct lvn_session *session = e->session;
        if (!counts) LVN_TRY(feed_padding(e));
        session->step_args = (struct lvn_step){.grad_scale = 1.0, .end_row = e->batch.n_valid};
        const double loss = lvn_session_run(session, 1);
        LVN_TRY(session->status);
        if (!counts) continue;
        e->sums[i] = loss;
        if (session->outputs.text) status = add_text(e, i);
        add_counts(e);
        report(e);
    }
    return status;
}

static enum lvn_status replace_file(const char *path, struct lvn_model_files *files)
{
    const char *part;
    LVN_TRY(lvn_target_file(&files->arena, path, &path));
    if (!(part = lvn_arena_printf(&files->arena, "%s.part", path))) return LVN_MEMORY;
    LVN_TRY(lvn_safetensors_write(part, &files->source, &files->arena, NULL));
    return lvn_file_rename(part, path);
}

/* Gradients have the names of the loaded file. */
static enum lvn_status write_gradients(struct evaluation *e)
{
    struct lvn_model_files files;
    const struct lvn_pretrained *p = &e->setup->pretrained;
    LVN_TRY(lvn_model_files_make(&files, p->variant, e->model_state, LVN_PARAMETER_GRADIENTS, true));
    struct lvn_safetensors_item *items = lvn_arena_alloc(&files.arena, sizeof *items * (size_t)files.source.n);
    enum lvn_status status = items ? LVN_OK : LVN_MEMORY;
    for (int i = 0; status == LVN_OK && i < files.source.n; i++) {
        items[i] = files.source.item[i];
        items[i].name = lvn_pretrained_name(p, items[i].name);
    }
    files.source.item = items;
    if (status == LVN_OK) status = replace_file(e->o->gradients, &files);
    lvn_model_files_release(&files);
    return status;
}

static enum lvn_status pass_with_gradients(struct evaluation *e)
{
    struct lvn_session *session = e->session;
    for (int64_t i = 0; i < e->batches; i++) {
        LVN_TRY(lvn_interrupt_check());
        LVN_TRY(feed(e, i, i));
    }
    double valid = e->count[LABELS];
    session->step_args = (struct lvn_step){.grad_scale = valid > 0.0 ? 1.0 / valid : 0.0,
                                           .end_row = (e->batches - 1) * e->B + e->batch.n_valid};
    lvn_session_run(session, e->batches);
    LVN_TRY(session->status);
    LVN_TRY(write_gradients(e));
    if (!e->o->batch) {
        memcpy(e->sums, session->micro_losses, sizeof *e->sums * (size_t)e->batches);
        add_counts(e);
        return LVN_OK;
    }
    /* Losses and predictions of each batch need another pass, whose gradients are not used. */
    e->count[LABELS] = 0.0;
    return pass(e);
}

/* Compute the result from sums over all ranks. */
static enum lvn_status conclude(const struct evaluation *e, struct lvn_evaluate_result *r)
{
    const struct lvn_task_graph *t = &e->session->outputs;
    const double *counts = e->count + COUNTS;
    const int64_t labels = (int64_t)e->count[LABELS];
    const struct lvn_metric_sums sums = {
        .loss = lvn_tree_sum(e->sums, e->batches),
        .labels = labels,
        .text = {.loss = lvn_tree_sum(e->sums + e->batches, e->batches), .bytes = (int64_t)e->count[TEXT_BYTES]}};
    LVN_CHECK(labels > 0 || e->setup->new_texts.n, ARG, /* new texts are predicted, not scored */
              "no label of '%s' counts, so there is no loss to compute; use more or other data, or a larger "
              "task.mask_fraction if tokens are masked",
              lvn_split_names[e->o->split]);
    *r = (struct lvn_evaluate_result){.task = t->task,
                                      .loss = labels ? sums.loss / (double)labels : NAN,
                                      .labels = labels,
                                      .split = e->o->split,
                                      .n_metrics = t->n_metrics};
    r->config = e->setup->config;
    r->columns = t->prediction->desc.dim[t->prediction->desc.rank - 1];
    r->skipped = e->setup->data->skipped;
    if (r->skipped && !(r->skipped_rows = lvn_strdup(e->setup->data->skipped_rows))) return LVN_MEMORY;
    for (int i = 0; i < e->n_parts; i++) r->samples += lvn_loader_eval_count(&e->part[i].loader, e->part[i].limit);
    for (int i = 0; i < t->n_metrics; i++) {
        r->metrics[i] = t->metrics[i];
        r->value[i] = lvn_task_metric(t, i, sums, counts);
    }
    for (int k = 0; k < t->n_counts; k++) {
        int64_t n = lvn_desc_count(&t->counts[k]->desc);
        if (t->counts[k]->desc.rank == 2) {
            r->classes = t->counts[k]->desc.dim[0];
            r->confusion = lvn_malloc(sizeof *counts * (size_t)n);
            if (!r->confusion) return LVN_MEMORY;
            memcpy(r->confusion, counts, sizeof *counts * (size_t)n);
        }
        counts += n;
    }
    return LVN_OK;
}

void lvn_evaluate_result_release(struct lvn_evaluate_result *r)
{
    free(r->confusion);
    free(r->skipped_rows);
    r->confusion = NULL;
    r->skipped_rows = NULL;
}

enum lvn_status lvn_evaluate(struct lvn_model_setup *setup, const struct lvn_values *v,
                             const struct lvn_evaluate_options *o, struct lvn_evaluate_result *r)
{
    struct evaluation e = {.setup = setup, .v = v, .o = o};
    *r = (struct lvn_evaluate_result){0};
    enum lvn_status status = open_model(&e);
    if (status == LVN_OK) status = lvn_ranks_agree(o->ranks, o->gradients ? pass_with_gradients(&e) : pass(&e));
    if (status == LVN_OK) status = lvn_ranks_sum(o->ranks, e.sums, 2 * e.batches + COUNTS + e.n_counts);
    if (status == LVN_OK) status = conclude(&e, r);
    free(e.sums);
    free(e.number);
    lvn_samples_release(&e.batch);
    lvn_model_shards_free(e.model_state, o->ranks);
    return status;
}
