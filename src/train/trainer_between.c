/* trainer_between.c - what happens between steps: validation, checkpoints, samples, and the end of a run whose numbers
 * are no longer finite. All ranks call these together; see trainer.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/files.h"
#include "train/alike.h"
#include "train/curve.h"
#include "train/samples.h"
#include "train/trainer_state.h"

/* --- validation --- */

/* The losses of this rank's part of each validation batch, into their places. */
static enum lvn_status evaluate_part(struct trainer *t, int64_t n, double *labels)
{
    struct lvn_training *g = &t->training;
    struct lvn_task *eval = g->eval;
    for (int64_t i = 0; i < n; i++) {
        double *losses = t->val_losses + i * g->n_micro + g->leaf[t->ranks->rank];
        LVN_TRY(
            lvn_loader_eval_batch(&t->val, t->val_batches, i, g->first_row, g->rows, eval->ids, eval->labels, NULL));
        eval->step = (struct lvn_step){.grad_scale = 1.0, .first_row = g->first_row};
        lvn_task_run(eval, g->accumulation);
        memcpy(losses, eval->micro_losses, sizeof *losses * (size_t)g->accumulation);
        *labels += (double)lvn_labels_valid(eval->labels, g->rows * g->block_size);
    }
    return LVN_OK;
}

enum lvn_status lvn_trainer_validate(struct trainer *t)
{
    int64_t n = lvn_loader_eval_batches(&t->val, t->val_batches), n_micro = t->training.n_micro;
    double *count = t->val_losses + n * n_micro, sum = 0.0;
    memset(t->val_losses, 0, sizeof *count * (size_t)(n * n_micro + LVN_TALLY_COUNTS));
    enum lvn_status status = evaluate_part(t, n, &count[LVN_TALLY_LABELS]);
    lvn_trainer_count_flags(t, count);
    count[LVN_TALLY_FAILED] = status != LVN_OK;
    LVN_TRY(lvn_ranks_sum(t->ranks, t->val_losses, n * n_micro + LVN_TALLY_COUNTS));
    if (count[LVN_TALLY_FAILED] > 0) return lvn_ranks_agree(t->ranks, status);
    lvn_trainer_read_flags(t, count);
    for (int64_t i = 0; i < n; i++) sum += lvn_tree_sum(t->val_losses + i * n_micro, n_micro);
    t->e.val_loss = sum / count[LVN_TALLY_LABELS];
    /* Before the first step: what the run has to do better than, and no checkpoint to keep. */
    t->e.best = t->step > 0 && isfinite(t->e.val_loss) && !(t->e.val_loss >= t->e.best_val_loss);
    if (t->step == 0) t->e.start_val_loss = t->e.val_loss;
    if (t->e.best) t->e.best_val_loss = t->e.val_loss;
    t->validated_step = t->step;
    lvn_trainer_tell(t, LVN_EVENT_VALIDATION, NULL);
    return LVN_OK;
}

/* --- checkpoints --- */

/* The picture of all rows so far. */
static void draw_curve(struct trainer *t)
{
    if (lvn_curve_write(t->dir.metrics_csv, t->dir.curve, t->s->name) != LVN_OK)
        lvn_trainer_note_failure(t, "the loss curve could not be drawn");
}

/* A run that lies in a store goes there in the background. */
static void send(struct trainer *t)
{
    char failure[1024];
    lvn_run_dir_push(&t->dir, failure);
    if (!*failure) return;
    snprintf(t->text, sizeof t->text, "the run could not be sent to its store, which is tried again later: %s",
             failure);
    lvn_trainer_tell(t, LVN_EVENT_NOTE, t->text);
}

/* Rank 0: tell it, and what follows. */
static void after_saving(struct trainer *t, int64_t step, enum lvn_status status, const char *why)
{
    int64_t now = t->e.step;
    t->save_failed = status != LVN_OK;
    if (t->save_failed) {
        snprintf(t->text, sizeof t->text, "the checkpoint of step %lld could not be saved: %s; the run goes on",
                 (long long)step, why);
        lvn_trainer_tell(t, LVN_EVENT_NOTE, t->text);
        return;
    }
    if (lvn_checkpoint_prune(t->dir.checkpoints, t->s->checkpoint.top_k) != LVN_OK)
        lvn_trainer_note_failure(t, "old checkpoints could not be removed");
    snprintf(t->text, sizeof t->text, "%s/checkpoints/step-%lld", t->dir.url, (long long)step);
    t->e.step = step;
    lvn_trainer_tell(t, LVN_EVENT_CHECKPOINT, t->text);
    t->e.step = now;
    draw_curve(t);
    send(t);
}

void lvn_trainer_look_after_saving(struct trainer *t, bool wait)
{
    if (!lvn_saver_finished(&t->saver, wait)) return;
    after_saving(t, t->saver.snapshot.step, t->saver.status, t->saver.text);
}

/* All ranks: how did the saving end that was begun? */
static enum lvn_status settle(struct trainer *t)
{
    if (!t->saving) return LVN_OK;
    lvn_trainer_look_after_saving(t, true);
    LVN_TRY(lvn_ranks_broadcast(t->ranks, &t->save_failed, (int64_t)sizeof t->save_failed));
    if (t->save_failed) t->saved_step = -1;
    t->saving = t->save_failed = false;
    return LVN_OK;
}

static enum lvn_status begin(struct trainer *t)
{
    const struct lvn_training *g = &t->training;
    struct lvn_snapshot at = {.step = t->step,
                              .val_loss = t->validated_step == t->step ? t->e.val_loss : NAN,
                              .best_val_loss = t->e.best_val_loss,
                              .start_val_loss = t->e.start_val_loss,
                              .data = t->fingerprint,
                              .micro_batch = g->micro,
                              .pieces = g->pieces,
                              .ranks = t->ranks->size};
    const struct lvn_sharding *sharding = &g->reduction.sharding;
    struct lvn_codec codec = lvn_model_setup_codec(&t->setup);
    struct lvn_snapshot_place to = {.dir = t->dir.checkpoints, .settings = t->s, .codec = &codec};
    bool together = sharding->zero1 && sharding->size > 1, begun = false;
    t->saving = true;
    t->saved_step = t->step;
    if (!together && t->ranks->rank) return LVN_OK;
    if (!together) begun = lvn_saver_start(&t->saver, &to, &at, g->network, sharding, t->ranks) == LVN_OK;
    if (begun) return LVN_OK;
    /* In shards all ranks take part; and without a thread it is written at once. */
    enum lvn_status status = lvn_snapshot_save(&to, &at, g->network, sharding, t->ranks);
    if (t->ranks->rank == 0) after_saving(t, t->step, status, lvn_error_text());
    lvn_error_clear();
    return LVN_OK;
}

enum lvn_status lvn_trainer_save(struct trainer *t)
{
    LVN_TRY(settle(t));
    if (t->saved_step == t->step) return LVN_OK;
    LVN_TRY(lvn_alike_replicas(t->ranks, t->training.network, t->step)); /* nothing doubtful is saved */
    return begin(t);
}

enum lvn_status lvn_trainer_save_now(struct trainer *t, bool *saved)
{
    LVN_TRY(lvn_trainer_save(t));
    LVN_TRY(settle(t));
    *saved = t->saved_step == t->step;
    return LVN_OK;
}

/* Where the good weights are, for the sentence. They are those of the last step that went well: nothing was updated. */
static enum lvn_status save_last_good(struct trainer *t, char text[400])
{
    bool saved;
    snprintf(text, 400, "no step was made before it");
    if (t->step == 0) return LVN_OK;
    LVN_TRY(lvn_trainer_save_now(t, &saved));
    snprintf(text, 400, saved ? "the weights of step %lld are saved" : "the weights of step %lld could not be saved",
             (long long)t->step);
    return LVN_OK;
}

/* The lowest rank that finds where it came from says so. */
enum lvn_status lvn_trainer_explain_nonfinite(struct trainer *t, double loss)
{
    static const char format[] = "step %lld: the loss is %g and the gradient's norm %g; the first number that is not "
                                 "finite lies in '%s'; %s; try "
                                 "a smaller optimizer.lr, a longer schedule.warmup_steps or clipping";
    const char *first = NULL;
    char kept[400];
    int64_t labels;
    double norm = t->training.step->step.grad_norm;
    enum lvn_status found = lvn_trainer_load_batch(t, t->step, &labels); /* the next one lies there */
    if (found == LVN_OK) first = lvn_task_find_nonfinite(t->training.step, t->training.accumulation);
    LVN_TRY(lvn_ranks_agree(t->ranks, found));
    LVN_TRY(save_last_good(t, kept));
    if (first)
        found = lvn_fail_at(__FILE__, __LINE__, LVN_NONFINITE, format, (long long)t->step + 1, loss, norm, first, kept);
    LVN_TRY(lvn_ranks_agree(t->ranks, found));
    found = lvn_fail_at(__FILE__, __LINE__, LVN_NONFINITE, format, (long long)t->step + 1, loss, norm,
                        "the sum of the gradient", kept);
    return lvn_ranks_agree(t->ranks, found);
}

/* --- samples --- */

void lvn_trainer_sample(struct trainer *t)
{
    if (!t->training.sampler) return; /* rank 0's */
    struct lvn_text text = {0};
    struct lvn_codec codec = lvn_model_setup_codec(&t->setup);
    enum lvn_status status = lvn_sampler_text(t->training.sampler, t->s, &codec, t->step, &text);
    if (status == LVN_OK) {
        lvn_trainer_tell(t, LVN_EVENT_SAMPLE, text.p);
        status = lvn_samples_keep(t->dir.samples, t->step, text.p);
    }
    if (status != LVN_OK) lvn_trainer_note_failure(t, "no sample could be made or kept");
    lvn_text_release(&text);
}
