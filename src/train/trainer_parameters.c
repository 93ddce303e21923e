/* trainer_parameters.c - the values of the parameters before the first step: those of a checkpoint, of model.init and
 * lora.init, or initial ones.
 *
 * Rank 0 reads files, and sends the values to the others. Where parameters are in shards, and all ranks see the same
 * files, each rank reads its own elements of what has the same order there as in memory. */
#include <string.h>

#include "base/log.h"
#include "engine/parameters.h"
#include "model_io/adapters.h"
#include "model_io/model_find.h"
#include "stores/store.h"
#include "train/trainer_private.h"

/* Rank 0: name and checksum of the adapters' base model, for checkpoints. */
static enum lvn_status find_base(struct trainer *t)
{
    const struct lvn_pretrained *p = &t->opened.setup.pretrained;
    struct lvn_adapter_base *base = &t->opened.adapter_base;
    if (!t->settings->lora.rank || t->ranks->rank) return LVN_OK;
    base->fresh_head = p->fresh_head;
    LVN_TRY(lvn_model_find_name(&t->settings->arena, t->settings->model.init, p->path, &base->name));
    LVN_TRY(lvn_pretrained_checksum(p, &base->checksum));
    if (lvn_store_is_url(t->settings->run_dir) && !t->settings->lora.merge_checkpoints)
        lvn_log(LVN_LOG_INFO,
                "checkpoints go to %s without the base model of their adapters: programs that load them need it as "
                "'%s', or a path to it (lora.merge_checkpoints=true sends it with each)",
                t->settings->run_dir, base->name);
    return LVN_OK;
}

/* Rank 0: the values of lora.init. */
static enum lvn_status load_adapters(struct trainer *t, struct lvn_model_state *n)
{
    if (!*t->settings->lora.init) return LVN_OK;
    lvn_parameters_begin_collecting(n);
    const enum lvn_status status = t->ranks->rank ? LVN_OK : lvn_adapters_read(t->settings->lora.init, n);
    const enum lvn_status ended = lvn_parameters_end_collecting(n);
    return lvn_ranks_agree(t->ranks, status == LVN_OK ? ended : status);
}

enum lvn_status lvn_trainer_load_parameters(struct trainer *t)
{
    const struct lvn_settings *s = t->settings;
    const struct lvn_pretrained *p = &t->opened.setup.pretrained;
    const struct lvn_snapshot_source source = {p, s->lora.merge_checkpoints};
    struct lvn_model_state *n = t->planned.programs.model_state;
    if (t->opened.resuming) {
        LVN_TRY(lvn_ranks_agree(t->ranks, lvn_model_state_set_scaling(n, &t->opened.snapshot.scaling)));
        LVN_TRY(lvn_ranks_agree(t->ranks, find_base(t)));
        return lvn_snapshot_load(&t->opened.checkpoint, n, &source, t->ranks);
    }
    const bool pretrained = t->opened.setup.has_pretrained;
    LVN_TRY(lvn_ranks_agree(t->ranks, lvn_parameters_init_values(n, (uint64_t)s->trainer.seed, pretrained)));
    if (!pretrained) return LVN_OK;
    LVN_TRY(lvn_pretrained_load_on_ranks(p, n, t->ranks));
    LVN_TRY(lvn_ranks_agree(t->ranks, find_base(t)));
    LVN_TRY(load_adapters(t, n));
    return lvn_parameters_broadcast(n, t->ranks);
}
