/* evaluate.c - see evaluate.h. */
#include "train/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "data/loader.h"
#include "formats/safetensors.h"
#include "train/model_setup.h"
#include "train/network.h"
#include "train/ranks.h"

struct evaluation {
    const struct lvn_settings *s;
    const struct lvn_evaluate_options *o;
    struct lvn_model_setup setup;
    struct lvn_loader loader;
    struct lvn_network *network;
    struct lvn_task *task;
    int64_t batches, B, T;
    int64_t *window; /* [B] */
    double *sums;    /* [batches], then counts over all of them */
    bool answers;    /* the data has right and wrong answers */
};
enum { LABELS, RIGHT, COUNTS };

/* One pass over all batches as micro-batches of one run: for gradients; else one batch at a time. */
static enum lvn_status plan(struct evaluation *e)
{
    struct lvn_network_options network = {.real = LVN_F32,
                                          .precision = (enum lvn_precision)e->s->trainer.precision,
                                          .threads = lvn_ranks_threads(e->o->ranks, e->s->trainer.threads),
                                          .processes = e->o->ranks->of_host};
    LVN_TRY(lvn_network_new(&e->network, &e->setup.config, &network));
    bool train = e->o->gradients != NULL;
    struct lvn_task_options task = {.B = e->B,
                                    .T = e->T,
                                    .n_micro = train ? e->batches : 1,
                                    .with_loss = true,
                                    .logits = e->o->logits || e->answers,
                                    .train = train};
    LVN_TRY(lvn_task_new(&e->task, e->network, &task));
    LVN_TRY(lvn_network_allocate(e->network));
    return lvn_pretrained_load(&e->setup.pretrained, e->network->params, lvn_network_values(e->network),
                               e->network->weights);
}

static enum lvn_status set_up(struct evaluation *e)
{
    LVN_CHECK(e->o->ranks->size == 1 || (!e->o->batch && !e->o->gradients), ARG,
              "logits, token losses and gradients come from one rank, and %d were started: start one",
              e->o->ranks->size);
    LVN_TRY(lvn_model_setup_open(&e->setup, e->s, NULL));
    const struct lvn_dataset *data = e->setup.data;
    enum lvn_split_id split = lvn_dataset_has(data, LVN_SPLIT_VAL) ? LVN_SPLIT_VAL : LVN_SPLIT_TRAIN;
    e->answers = data->answer_length > 0;
    e->T = e->setup.block_size;
    e->B = e->s->trainer.micro_batch_size ? e->s->trainer.micro_batch_size : e->s->trainer.batch_size;
    LVN_TRY(lvn_loader_init(&e->loader, data, split, LVN_SAMPLING_SEQUENTIAL, e->T, e->B, 0));
    int64_t windows = lvn_loader_eval_count(&e->loader, e->o->limit);
    if (windows < e->B) {
        e->B = windows; /* a smaller batch, not rows to fill it */
        LVN_TRY(lvn_loader_init(&e->loader, data, split, LVN_SAMPLING_SEQUENTIAL, e->T, e->B, 0));
    }
    e->batches = lvn_loader_eval_batches(&e->loader, e->o->limit);
    e->window = lvn_calloc((size_t)e->B, sizeof *e->window);
    e->sums = lvn_calloc((size_t)e->batches + COUNTS, sizeof *e->sums);
    return e->window && e->sums ? plan(e) : LVN_MEMORY;
}

static void report(const struct evaluation *e)
{
    struct lvn_evaluated batch = {.windows = e->B, .T = e->T, .V = e->setup.config.vocab_size, .window = e->window};
    if (!e->o->batch) return;
    batch.losses = lvn_task_losses(e->task);
    batch.logits = e->o->logits ? lvn_task_logits(e->task) : NULL;
    e->o->batch(e->o->context, &batch);
}

static bool is_largest(const float *logits, int64_t V, int64_t label)
{
    for (int64_t i = 0; i < V; i++)
        if (logits[i] > logits[label] || (logits[i] == logits[label] && i < label)) return false;
    return true;
}

/* Greedy decoding gives the right answer exactly when every digit is the likeliest after the right ones before it: so
 * nothing needs to be generated. */
static void count_right(struct evaluation *e)
{
    int64_t V = e->setup.config.vocab_size;
    const float *logits = lvn_task_logits(e->task);
    for (int64_t i = 0; i < e->B; i++) {
        bool right = e->window[i] >= 0;
        for (int64_t t = i * e->T; right && t < (i + 1) * e->T; t++)
            right = e->task->labels[t] < 0 || is_largest(logits + t * V, V, e->task->labels[t]);
        e->sums[e->batches + RIGHT] += right;
    }
}

/* Ranks take turns with the batches. */
static enum lvn_status pass(struct evaluation *e)
{
    struct lvn_task *t = e->task;
    for (int64_t i = e->o->ranks->rank; i < e->batches; i += e->o->ranks->size) {
        LVN_TRY(lvn_loader_eval_batch(&e->loader, e->o->limit, i, 0, e->B, t->ids, t->labels, e->window));
        t->step = (struct lvn_step){.grad_scale = 1.0};
        e->sums[i] = lvn_task_run(t, 1);
        e->sums[e->batches + LABELS] += (double)lvn_labels_valid(t->labels, e->B * e->T);
        if (e->answers) count_right(e);
        report(e);
    }
    return LVN_OK;
}

/* Gradients carry the names of the file that was loaded. */
static enum lvn_status write_gradients(struct evaluation *e)
{
    struct lvn_model_files files;
    const struct lvn_pretrained *p = &e->setup.pretrained;
    LVN_TRY(lvn_model_files_make(&files, p->dialect, &e->setup.config, e->network->params,
                                 e->network->buffer[LVN_BUFFER_GRAD], e->network->weights, true));
    struct lvn_safetensors_item *items = lvn_arena_alloc(&files.arena, sizeof *items * (size_t)files.source.n);
    enum lvn_status status = items ? LVN_OK : LVN_MEMORY;
    for (int i = 0; status == LVN_OK && i < files.source.n; i++) {
        items[i] = files.source.item[i];
        items[i].name = lvn_pretrained_name(p, items[i].name);
    }
    files.source.item = items;
    if (status == LVN_OK) status = lvn_safetensors_write(e->o->gradients, &files.source, &files.arena, NULL);
    lvn_model_files_release(&files);
    return status;
}

static enum lvn_status pass_with_gradients(struct evaluation *e)
{
    struct lvn_task *t = e->task;
    int64_t tokens = e->B * e->T;
    for (int64_t i = 0; i < e->batches; i++)
        LVN_TRY(lvn_loader_eval_batch(&e->loader, e->o->limit, i, 0, e->B, t->ids + i * tokens, t->labels + i * tokens,
                                      NULL));
    int64_t valid = lvn_labels_valid(t->labels, e->batches * tokens);
    t->step = (struct lvn_step){.grad_scale = valid ? 1.0 / (double)valid : 0.0};
    lvn_task_run(t, e->batches);
    LVN_TRY(write_gradients(e));
    if (!e->o->batch && !e->answers) {
        memcpy(e->sums, t->micro_losses, sizeof *e->sums * (size_t)e->batches);
        e->sums[e->batches + LABELS] = (double)valid;
        return LVN_OK;
    }
    /* Losses and logits of every batch: one more pass, whose gradients nobody looks at. */
    return pass(e);
}

enum lvn_status lvn_evaluate(const struct lvn_settings *s, const struct lvn_evaluate_options *o,
                             struct lvn_evaluate_result *r)
{
    struct evaluation e = {.s = s, .o = o};
    enum lvn_status status = lvn_ranks_agree(o->ranks, set_up(&e));
    if (status == LVN_OK) status = lvn_ranks_agree(o->ranks, o->gradients ? pass_with_gradients(&e) : pass(&e));
    if (status == LVN_OK) status = lvn_ranks_sum(o->ranks, e.sums, e.batches + COUNTS);
    if (status == LVN_OK) {
        const double *count = e.sums + e.batches;
        *r = (struct lvn_evaluate_result){.loss = lvn_tree_sum(e.sums, e.batches) / count[LABELS],
                                          .tokens = (int64_t)count[LABELS],
                                          .right = e.answers ? (int64_t)count[RIGHT] : -1,
                                          .windows = lvn_loader_eval_count(&e.loader, o->limit)};
    }
    free(e.window);
    free(e.sums);
    lvn_network_free(e.network);
    lvn_model_setup_close(&e.setup);
    return status;
}
