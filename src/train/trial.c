/* trial.c - see trial.h.
 *
 * A step is timed by its instructions: what they take is forward, backward or update, and what lies between them is
 * waiting for others, which the reduction counts. */
#include "train/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "base/random.h"
#include "formats/checksum.h"
#include "models/model.h"
#include "train/settings.h"

void lvn_trial_fill(struct lvn_training *t, int64_t vocabulary)
{
    int64_t first = t->first_row * t->block_size;
    for (int64_t i = 0; i < t->rows * t->block_size; i++) {
        t->step->ids[i] = (int32_t)lvn_random_below(1, 1, (uint64_t)(first + i), vocabulary);
        t->step->labels[i] = (int32_t)lvn_random_below(1, 2, (uint64_t)(first + i), vocabulary);
    }
}

void lvn_parts_clear(struct lvn_parts *p)
{
    *p = (struct lvn_parts){INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, 1};
}

/* The clock that instructions stop. */
struct watch {
    const struct lvn_reduction *reduction;
    double last, waited; /* when the last instruction ended; how long was waited until then */
    struct lvn_parts parts;
};

static void instr_done(void *argument, const struct lvn_instr *i)
{
    struct watch *w = argument;
    double now = lvn_seconds(), waited = w->reduction->waited, seconds = now - w->last - (waited - w->waited);
    if (i->when == LVN_AFTER_BACKWARD)
        w->parts.update += seconds;
    else if (i->phase == LVN_FORWARD)
        w->parts.forward += seconds;
    else
        w->parts.backward += seconds;
    w->last = now;
    w->waited = waited;
}

static void keep_best(double *best, double seconds)
{
    if (seconds < *best) *best = seconds;
}

/* All ranks begin what follows at once. */
static enum lvn_status meet(const struct lvn_training *t)
{
    int32_t one = 1;
    return lvn_comm_all_reduce_now(t->ranks->comm, &one, 1, LVN_I32, LVN_SUM);
}

/* The sums of the buckets from `first` on, with nothing beside them. */
static enum lvn_status time_buckets(struct lvn_training *t, int first, double *best)
{
    struct lvn_reduction *d = &t->reduction;
    const struct lvn_program *p = t->step->program;
    LVN_TRY(meet(t));
    double begin = lvn_seconds();
    for (int i = first; i < p->n_buckets; i++) d->calls.reduce_start(d, p, i, t->network->buffer[LVN_BUFFER_GRAD]);
    if (!d->calls.reduce_wait(d)) return d->status;
    keep_best(best, lvn_seconds() - begin);
    return LVN_OK;
}

static enum lvn_status reduce_alone(struct lvn_training *t, struct lvn_parts *best)
{
    bool beside = t->reduction.beside;
    t->reduction.beside = true; /* they start when they are asked to */
    enum lvn_status status = time_buckets(t, 0, &best->reduce);
    if (status == LVN_OK) status = time_buckets(t, t->step->program->n_buckets - 1, &best->last);
    t->reduction.beside = beside;
    return status;
}

enum lvn_status lvn_parts_try(struct lvn_training *t, int64_t step, double lr, int64_t labels, struct lvn_parts *best)
{
    struct lvn_task *task = t->step;
    struct lvn_reduction *d = &t->reduction;
    bool together = t->ranks && t->ranks->size > 1, tree = d->sharding.tree;
    int64_t n = t->ranks ? t->accumulation : 1;
    struct lvn_binding binding = task->binding;
    struct watch w = {.reduction = d};
    struct lvn_run_hooks hooks = {.instr_done = instr_done, .argument = &w};
    bool beside = d->beside;
    if (!together) binding.collectives = NULL;
    if (together) LVN_TRY(meet(t));
    lvn_training_begin(t, step, lr, labels);
    d->beside = false;
    w.last = lvn_seconds();
    bool good = lvn_program_run(task->program, &binding, n, task->grad_slots, task->slot_bytes, &hooks);
    d->beside = beside;
    if (!good) return d->status;
    keep_best(&best->forward, w.parts.forward * (double)t->accumulation / (double)n);
    keep_best(&best->backward, w.parts.backward * (double)t->accumulation / (double)n);
    keep_best(&best->update, w.parts.update);
    keep_best(&best->share, d->waited - d->summed);
    best->accumulation = t->accumulation;
    if (together && !tree) return reduce_alone(t, best);
    keep_best(&best->reduce, d->summed);
    best->last = 0.0;
    return LVN_OK;
}

enum lvn_status lvn_parts_agree(struct lvn_ranks *r, struct lvn_parts *p)
{
    double x[] = {p->forward, p->backward, p->update, p->reduce, p->last, p->share};
    LVN_TRY(lvn_comm_all_reduce_now(r->comm, x, sizeof x / sizeof *x, LVN_F64, LVN_MAX));
    *p = (struct lvn_parts){x[0], x[1], x[2], x[3], x[4], x[5], p->accumulation};
    return LVN_OK;
}

double lvn_parts_bound(const struct lvn_parts *p)
{
    double beside = p->backward / (double)p->accumulation, longer = p->reduce > beside ? p->reduce : beside;
    return p->forward + p->backward - beside + longer + p->last + p->share + p->update;
}

/* --- a tiny training --- */

/* Every key that decides on the numbers; dropout, so that random numbers are seen to be the same, too. */
static enum lvn_status tiny_settings(struct lvn_settings *s, const struct lvn_ranks *r, int threads, bool fixed_order)
{
    const enum lvn_source by = LVN_SOURCE_PROGRAM;
    const char *batch = lvn_arena_printf(&s->arena, "%d", r->size > 16 ? r->size : 16);
    if (!batch) return LVN_MEMORY;
    LVN_TRY(lvn_settings_set(s, "trainer.batch_size", batch, by));
    if (fixed_order) LVN_TRY(lvn_settings_set(s, "trainer.micro_batch_size", "1", by));
    LVN_TRY(lvn_settings_set(s, "trainer.deterministic", fixed_order ? "true" : "false", by));
    LVN_TRY(lvn_settings_set(s, "optimizer.lr", "1e-3", by));
    s->trainer.threads = threads;
    s->ranks = r->size;
    return lvn_settings_finish(s, LVN_USES_TRAINER);
}

static enum lvn_status tiny_steps(struct lvn_trial *out, struct lvn_training *t, struct lvn_ranks *r)
{
    int64_t labels = t->settings->trainer.batch_size * t->block_size;
    double *losses = lvn_calloc((size_t)t->n_micro, sizeof *losses);
    enum lvn_status status = losses ? LVN_OK : LVN_MEMORY;
    for (int i = 0; status == LVN_OK && i < LVN_TRIAL_STEPS; i++) {
        memset(losses, 0, sizeof *losses * (size_t)t->n_micro);
        status = lvn_training_step(t, i, t->settings->optimizer.lr, labels);
        memcpy(losses + t->leaf[r->rank], t->step->micro_losses, sizeof *losses * (size_t)t->accumulation);
        if (status == LVN_OK) status = lvn_ranks_sum(r, losses, t->n_micro);
        out->loss[i] = lvn_tree_sum(losses, t->n_micro) / (double)labels;
    }
    free(losses);
    out->weights = lvn_checksum(lvn_network_values(t->network), t->network->bytes[LVN_BUFFER_PARAM]);
    return status;
}

enum lvn_status lvn_trial_run(struct lvn_trial *out, struct lvn_ranks *r, int threads, bool fixed_order)
{
    struct lvn_settings s;
    struct lvn_training t = {0};
    struct lvn_model_config c = {.model = lvn_model_find("nanogpt")};
    struct lvn_training_options o = {.ranks = r, .block_size = 32};
    c.model->defaults(&c);
    c.n_layer = 2, c.n_head = 2, c.n_embd = 32, c.n_positions = o.block_size, c.vocab_size = 65;
    c.dropout_embedding = c.dropout_residual = c.dropout_attention = 0.1;
    enum lvn_status status = lvn_settings_init(&s);
    if (status == LVN_OK) status = tiny_settings(&s, r, threads, fixed_order);
    if (status == LVN_OK) status = lvn_training_plan(&t, &s, &c, &o);
    if (status == LVN_OK) status = lvn_ranks_agree(r, lvn_network_allocate(t.network));
    if (status == LVN_OK) status = lvn_ranks_agree(r, lvn_network_init_values(t.network, 1, false));
    if (status == LVN_OK) {
        lvn_trial_fill(&t, c.vocab_size);
        status = tiny_steps(out, &t, r);
    }
    lvn_training_release(&t);
    lvn_settings_release(&s);
    return status;
}
