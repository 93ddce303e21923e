/* trainer_notes.c - notes to the user before the first step, about settings and plans whose effect may surprise.
 * lvn_trainer_set_up() calls them. */

#include "base/text.h"
#include "engine/strategy.h"
#include "host/machine.h"
#include "train/trainer_private.h"

/* In Lightning the option multiplies the batch instead. */
static void note_accumulation(struct lvn_trainer *trainer)
{
    long long n = trainer->settings->values.trainer.accumulate_grad_batches,
              batch = trainer->settings->values.trainer.batch_size;
    if (n <= 1) return;
    snprintf(
        trainer->text, sizeof trainer->text,
        "trainer.accumulate_grad_batches %lld divides the batch of %lld into micro-batches of %lld. Lightning would "
        "accumulate %lld such batches per step; for that, set trainer.batch_size to %lld",
        n, batch, batch / n, n, n * batch);
    lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->text);
}

static void note_repeated_rows(struct lvn_trainer *trainer)
{
    const struct lvn_loader *l = &trainer->opened.train_loader;
    const struct lvn_amount *overfit = &trainer->settings->values.trainer.overfit_batches;
    if (l->batch_size <= l->samples || l->sampling == LVN_SAMPLING_RANDOM || overfit->count || overfit->fraction > 0)
        return;
    snprintf(trainer->text, sizeof trainer->text,
             "a batch of %" PRId64 " repeats rows, because there %s only %" PRId64
             "; set trainer.batch_size to at most %" PRId64 ", or use more data",
             l->batch_size, l->samples == 1 ? "is" : "are", l->samples, l->samples);
    lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->text);
}

static void note_threads(struct lvn_trainer *trainer)
{
    const int64_t given = trainer->settings->values.trainer.threads;
    const int threads = trainer->planned.programs.model_state->threads;
    struct lvn_machine m;
    lvn_machine_read(&m);
    const int cpus = lvn_machine_cpus(&m);
    if (!given && m.requested < 0) {
        snprintf(trainer->text, sizeof trainer->text,
                 "OMP_NUM_THREADS must be between 1 and %d, got '%.60s'; it is ignored, and trainer.threads is %d",
                 LVN_MAX_THREADS, getenv("OMP_NUM_THREADS"), threads);
    } else if (threads > 2 * cpus) {
        snprintf(trainer->text, sizeof trainer->text,
                 "%s sets %d threads, but this process may use %d CPU%s, so steps are slower than with %d thread%s",
                 given ? "trainer.threads" : "OMP_NUM_THREADS", threads, cpus, lvn_plural(cpus), cpus,
                 lvn_plural(cpus));
    } else {
        return;
    }
    lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->text);
}

static void note_recompute(struct lvn_trainer *trainer)
{
    const struct lvn_program *step = trainer->planned.programs.step_session->program;
    bool requested = trainer->settings->values.trainer.recompute == LVN_TRAINER_RECOMPUTE_BLOCKS;
    if (requested == (step->recompute == LVN_RECOMPUTE_BLOCKS)) return;
    snprintf(trainer->text, sizeof trainer->text,
             requested
                 ? "this %s has no blocks to recompute, so trainer.recompute=blocks has no effect"
                 : "the activations of this %s do not fit into memory, so the forward pass of each block runs twice "
                   "(trainer.recompute=auto chose blocks)",
             trainer->opened.setup.config.model->name);
    lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->text);
}

static void note_strategy(struct lvn_trainer *trainer)
{
    const struct lvn_train_programs *programs = &trainer->planned.programs;
    const bool is_auto = trainer->settings->values.trainer.strategy == LVN_TRAINER_STRATEGY_AUTO;
    char whole[LVN_NUMBER_TEXT], available[LVN_NUMBER_TEXT];
    if (is_auto && programs->shards) {
        snprintf(trainer->text, sizeof trainer->text,
                 "trainer.strategy auto chose %s, because with ddp a rank needs %s, but %s are free",
                 lvn_strategy_name(&trainer->settings->values, programs->collectives.sharding.sharded),
                 lvn_bytes_text(programs->whole_bytes, whole), lvn_bytes_text(programs->free_bytes, available));
        lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->text);
    }
    const struct lvn_sharding *sharding = &programs->collectives.sharding;
    const bool regroups = trainer->settings->values.trainer.fsdp_size,
               keeps = !trainer->settings->values.trainer.fsdp_reshard;
    if (is_auto && (regroups || keeps) && sharding->size > 1 && !(sharding->sharded & LVN_SHARDS_PARAMETERS)) {
        snprintf(trainer->text, sizeof trainer->text,
                 "%s%s%s no effect, because trainer.strategy auto chose %s; set trainer.strategy=fsdp to use %s",
                 regroups ? "trainer.fsdp_size" : "trainer.fsdp_reshard",
                 regroups && keeps ? " and trainer.fsdp_reshard" : "", regroups && keeps ? " have" : " has",
                 lvn_strategy_name(&trainer->settings->values, sharding->sharded), regroups && keeps ? "them" : "it");
        lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->text);
    }
    if (lvn_strategy_note(&trainer->settings->values, trainer->text, sizeof trainer->text))
        lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->text);
}

void lvn_trainer_note_data(struct lvn_trainer *trainer)
{
    note_accumulation(trainer);
    note_repeated_rows(trainer);
}

void lvn_trainer_note_plan(struct lvn_trainer *trainer)
{
    note_threads(trainer);
    note_strategy(trainer);
    note_recompute(trainer);
}
