/* trainer_parameters.c - the values of the parameters before the first step: those of a checkpoint, of model.init and
 * lora.init, or initial ones.
 *
 * Rank 0 reads files, and sends the values to the others. Where parameters are in shards, and all ranks see the same
 * files (shared_files.h), each rank reads its own elements of what has the same order there as in memory. */
#include <string.h>

#include "base/log.h"
#include "engine/parameters.h"
#include "model_io/adapters.h"
#include "model_io/model_find.h"
#include "stores/store.h"
#include "train/shared_files.h"
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

/* Can each rank read its shards of model.init? */
static enum lvn_status share_pretrained(struct trainer *t, bool *shared)
{
    LVN_LOCAL_ARENA(a);
    const struct lvn_pretrained *p = &t->opened.setup.pretrained;
    const bool is_folder = strcmp(p->path, p->dir) == 0; /* or a file of torch.save() */
    const char *path;
    LVN_TRY(lvn_ranks_share_files(t->ranks, &a, is_folder ? p->dir : "", &path));
    *shared = path != NULL;
    return LVN_OK;
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
    enum lvn_status status = LVN_OK;
    bool by_shard = false;
    if (lvn_parameters_sharded(n, LVN_PARAMETER_VALUES)) LVN_TRY(share_pretrained(t, &by_shard));
    if (by_shard) status = lvn_pretrained_load_part(p, n, LVN_PRETRAINED_SHARDS);
    lvn_parameters_begin_collecting(n);
    if (t->ranks->rank == 0) {
        if (status == LVN_OK) status = find_base(t);
        if (status == LVN_OK)
            status = lvn_pretrained_load_part(p, n, by_shard ? LVN_PRETRAINED_OTHERS : LVN_PRETRAINED_ALL);
        if (status == LVN_OK && *s->lora.init) status = lvn_adapters_read(s->lora.init, n);
    }
    enum lvn_status ended = lvn_parameters_end_collecting(n);
    LVN_TRY(lvn_ranks_agree(t->ranks, status == LVN_OK ? ended : status));
    return lvn_parameters_broadcast(n, t->ranks);
}
