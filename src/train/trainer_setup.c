/* trainer_setup.c - everything before the first step.
 *
 * Each part that one rank may fail in ends with an agreement. Rank 0 alone opens the run's folder and reads checkpoints
 * and pretrained weights; the others get them from it, so they need no common file system. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "train/alike.h"
#include "train/trainer_state.h"

/* Steps between validations, and how many batches each takes. */
static void plan_validation(struct trainer *t)
{
    const struct lvn_settings *s = t->s;
    const struct lvn_amount *every = &s->trainer.val_check_interval, *limit = &s->trainer.limit_val_batches;
    t->val_every = every->count ? every->count : (int64_t)llround(every->fraction * (double)t->train.steps_per_epoch);
    if (!every->count && every->fraction > 0.0 && t->val_every < 1) t->val_every = 1;
    t->val_batches = limit->count;
    if (!limit->count && limit->fraction < 1.0)
        t->val_batches = (int64_t)ceil(limit->fraction * (double)lvn_loader_eval_batches(&t->val, 0));
    if (!limit->count && limit->fraction <= 0.0) t->has_val = false;
}

static enum lvn_status open_data(struct trainer *t)
{
    const struct lvn_settings *s = t->s;
    LVN_TRY(lvn_model_setup_open(&t->setup, s, t->o->model));
    int64_t T = t->setup.block_size, B = s->trainer.batch_size;
    uint64_t seed = (uint64_t)s->trainer.seed;
    LVN_TRY(
        lvn_loader_init(&t->train, t->setup.data, LVN_SPLIT_TRAIN, (enum lvn_sampling)s->data.sampling, T, B, seed));
    t->has_val = lvn_dataset_has(t->setup.data, LVN_SPLIT_VAL);
    if (t->has_val)
        LVN_TRY(lvn_loader_init(&t->val, t->setup.data, LVN_SPLIT_VAL, LVN_SAMPLING_SEQUENTIAL, T, B, seed));
    t->fingerprint = lvn_dataset_fingerprint(t->setup.data);
    if (t->has_val) plan_validation(t);
    int64_t by_epochs = s->trainer.max_epochs * t->train.steps_per_epoch;
    t->last_step = s->trainer.max_steps ? s->trainer.max_steps : INT64_MAX;
    if (by_epochs && by_epochs < t->last_step) t->last_step = by_epochs;
    return LVN_OK;
}

/* --- the run to continue --- */

static enum lvn_status open_run(struct trainer *t)
{
    if (t->ranks->rank) return LVN_OK;
    LVN_TRY(lvn_run_dir_open(&t->dir, t->s->run_dir, t->o->mode));
    t->dir_open = true;
    if (t->o->mode != LVN_RUN_RESUME) return LVN_OK;
    LVN_TRY(lvn_checkpoint_clean(t->dir.checkpoints));
    LVN_TRY(lvn_checkpoint_open_newest(&t->from, t->dir.checkpoints));
    t->from_open = true;
    for (int i = 0; i < t->from.n_skipped; i++) lvn_trainer_tell(t, LVN_EVENT_NOTE, t->from.skipped[i]);
    t->goes_on = t->from.path != NULL;
    if (!t->goes_on) return LVN_OK;
    LVN_TRY(lvn_snapshot_check(&t->from, t->s));
    LVN_TRY(lvn_snapshot_read(&t->from, &t->at));
    LVN_CHECK(
        t->at.data == t->fingerprint, ARG,
        "'%s' was trained on other data than '%s' holds now: continuing would mix them; set data.path back, or start "
        "a new run",
        t->from.path, t->s->data.path);
    int64_t micro = t->s->trainer.micro_batch_size;
    LVN_CHECK(
        !t->s->trainer.deterministic || t->at.micro_batch == micro, ARG,
        "trainer.micro_batch_size is %lld here and was %lld in '%s': with trainer.deterministic that would change "
        "the bits; set it back",
        (long long)micro, (long long)t->at.micro_batch, t->from.path);
    return LVN_OK;
}

/* Where rank 0's checkpoint stood, to all. */
static enum lvn_status share_run(struct trainer *t)
{
    LVN_TRY_TOGETHER(t->ranks, open_run(t));
    LVN_TRY(lvn_ranks_broadcast(t->ranks, &t->goes_on, (int64_t)sizeof t->goes_on));
    LVN_TRY(lvn_ranks_broadcast(t->ranks, &t->at, (int64_t)sizeof t->at));
    if (!t->goes_on) return LVN_OK;
    t->step = t->saved_step = t->at.step;
    t->e.best_val_loss = t->at.best_val_loss;
    t->e.start_val_loss = t->at.start_val_loss;
    if (!isnan(t->at.val_loss)) t->validated_step = t->at.step;
    return LVN_OK;
}

/* Weights: of the checkpoint to continue from, of model.init, or fresh. */
static enum lvn_status load_weights(struct trainer *t)
{
    struct lvn_network *n = t->training.network;
    uint64_t seed = (uint64_t)t->s->trainer.seed;
    if (t->goes_on) return lvn_snapshot_load(&t->from, n, &t->training.reduction.sharding, t->ranks);
    LVN_TRY_TOGETHER(t->ranks, lvn_network_init_values(n, seed, t->setup.has_pretrained));
    if (!t->setup.has_pretrained) return LVN_OK;
    LVN_TRY_TOGETHER(t->ranks, t->ranks->rank ? LVN_OK
                                              : lvn_pretrained_load(&t->setup.pretrained, n->params,
                                                                    lvn_network_values(n), n->weights));
    return lvn_ranks_broadcast(t->ranks, lvn_network_values(n), n->bytes[LVN_BUFFER_PARAM]);
}

/* --- all of it --- */

static void describe_run(struct trainer *t)
{
    struct lvn_event *e = &t->e;
    e->name = t->s->name;
    e->run_dir = t->dir.url;
    const struct lvn_params *params = t->training.network->params;
    e->parameters = lvn_params_total(params);
    for (int i = 0; i < params->n; i++) e->trained += params->list[i]->trainable ? params->list[i]->count : 0;
    e->max_steps = t->last_step == INT64_MAX ? 0 : t->last_step;
    e->batch_size = t->s->trainer.batch_size;
    e->micro_batch_size = t->training.micro;
    e->accumulation = t->training.n_micro;
    e->ranks = t->ranks->size;
    e->hosts = t->ranks->hosts;
    e->block_size = t->setup.block_size;
    e->steps_per_epoch = t->train.steps_per_epoch;
    e->train_tokens = t->setup.data->split[LVN_SPLIT_TRAIN].n_tokens;
    e->val_tokens = t->has_val ? t->setup.data->split[LVN_SPLIT_VAL].n_tokens : 0;
    e->flops_per_token =
        lvn_program_flops(t->training.step->program) / (double)(t->training.micro * t->setup.block_size);
    e->threads = t->training.network->threads;
    e->isa = lvn_isa_name(lvn_isa_best());
    e->step = t->step;
    e->epoch = t->step / t->train.steps_per_epoch;
}

static enum lvn_status allocate(struct trainer *t)
{
    LVN_TRY(lvn_network_allocate(t->training.network));
    LVN_TRY(lvn_tally_init(&t->tally, t->ranks, t->training.n_micro));
    int64_t batches = t->has_val ? lvn_loader_eval_batches(&t->val, t->val_batches) : 0;
    t->val_losses = lvn_calloc((size_t)(batches * t->training.n_micro + LVN_TALLY_COUNTS), sizeof *t->val_losses);
    return t->val_losses ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_trainer_load_batch(struct trainer *t, int64_t step, int64_t *labels)
{
    const struct lvn_training *n = &t->training;
    LVN_TRY(lvn_loader_batch(&t->train, step, n->first_row, n->rows, n->step->ids, n->step->labels));
    *labels = lvn_labels_valid(n->step->labels, n->rows * n->block_size);
    return LVN_OK;
}

/* The first batch. Later ones are loaded at the end of the step before, with which ranks exchange the counts. */
static enum lvn_status load_first(struct trainer *t)
{
    int64_t labels = 0;
    LVN_TRY_TOGETHER(t->ranks, lvn_trainer_load_batch(t, t->step, &labels));
    double all = (double)labels;
    LVN_TRY(lvn_ranks_sum(t->ranks, &all, 1));
    t->labels = (int64_t)all;
    return LVN_OK;
}

enum lvn_status lvn_trainer_set_up(struct trainer *t)
{
    LVN_TRY(lvn_ranks_check(t->ranks, t->s));
    LVN_TRY(lvn_alike_start(t->ranks, t->s, t->text, sizeof t->text));
    if (*t->text) lvn_trainer_tell(t, LVN_EVENT_NOTE, t->text);
    LVN_TRY_TOGETHER(t->ranks, open_data(t));
    LVN_TRY(lvn_alike_data(t->ranks, t->fingerprint));
    LVN_TRY(share_run(t));
    /* How much memory is free today must not decide on the bits of a run that goes on. */
    bool same_ranks = t->goes_on && t->at.ranks == t->ranks->size;
    struct lvn_training_options plan = {.ranks = t->ranks,
                                        .block_size = t->setup.block_size,
                                        .validate = t->has_val,
                                        .pieces = same_ranks ? t->at.pieces : 0};
    LVN_TRY(lvn_training_plan(&t->training, t->s, &t->setup.config, &plan));
    LVN_TRY_TOGETHER(t->ranks, allocate(t));
    LVN_TRY(load_weights(t));
    LVN_TRY(lvn_alike_replicas(t->ranks, t->training.network, t->step));
    LVN_TRY(load_first(t));
    describe_run(t);
    return LVN_OK;
}
