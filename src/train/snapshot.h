/* snapshot.h - a training run as a checkpoint: weights, optimizer state, and the progress of the run.
 *
 * saver.h writes checkpoints with it, the trainer's set-up reads them. When a checkpoint is made is saver.h's business,
 * how its files become durable checkpoints/checkpoint.h's.
 *
 *     step-N/config.json                  sizes and kind of the model, with Hugging Face's names
 *     step-N/model.safetensors            the weights, in several files with an index if they have more bytes than
 *                                         checkpoint.max_shard_size; absent if adapters are trained (lora.rank)
 *     step-N/adapter/                     the adapters as a folder of PEFT, with base.json (adapter_files.h)
 *     step-N/vocab.json, merges.txt       or tokenizer.json: if the data are tokens of a known tokenizer
 *     step-N/state/optimizer.safetensors  exp_avg.NAME and exp_avg_sq.NAME of trainable parameters
 *     step-N/state/state.json             step, best loss, fingerprint of the data, micro-batch, ranks
 *     step-N/state/settings.yaml          the resolved settings
 *     step-N/state/vocabulary.json        the characters, if the data are characters
 *
 * The base model of adapters is not copied: base.json names it by path or name and by checksum.
 *
 * With lora.merge_checkpoints, and in checkpoints of older versions, model.safetensors holds the model with adapters
 * merged, and state/adapters.safetensors the adapters and the original weights that they change: such a checkpoint
 * needs no base model.
 *
 * Data order, dropout and the schedule are functions of (seed, step), so the step is all of their state. */
#ifndef LVN_SNAPSHOT_H
#define LVN_SNAPSHOT_H

#include "checkpoints/checkpoint.h"
#include "engine/load_balance.h"
#include "engine/model_state.h"
#include "engine/ranks.h"

struct lvn_settings;
struct lvn_codec;
struct lvn_adapter_base;
struct lvn_pretrained;

enum { LVN_SNAPSHOT_CALLBACKS = 64 << 10 };

struct lvn_snapshot {
    int64_t step;                             /* finished steps */
    double val_loss;                          /* at this step; NaN: not validated at it */
    double best_val_loss;                     /* lowest so far; NaN: none */
    double start_val_loss;                    /* before the first step; NaN: not known */
    struct lvn_checkpoint_score score;        /* without a name: val_loss */
    uint64_t data;                            /* lvn_dataset_fingerprint() */
    int64_t micro_batch;                      /* sequences of a micro-batch, of rank 0 */
    int64_t min_micro;                        /* lvn_train_programs.min_micro; 0: not stored */
    int64_t ranks;                            /* of the run; 0: not stored */
    struct lvn_scaling scaling;               /* of the loss; all zero: it was not scaled */
    char load_weights[LVN_LOAD_WEIGHTS_TEXT]; /* of the ranks, see load_balance.h; "": equal */
    char callbacks[LVN_SNAPSHOT_CALLBACKS];   /* their states as JSON; "": none */
};

/* The folder of a snapshot, and what else is written into it. */
struct lvn_snapshot_target {
    const char *dir; /* step-N is made in it */
    const struct lvn_settings *settings;
    const struct lvn_codec *codec;       /* empty if there are only ids */
    const struct lvn_adapter_base *base; /* of adapters; read if there are some */
    void (*all_read)(void *context);     /* called when the model state has been read; NULL: nothing */
    void *context;                       /* of all_read */
};

/* Rank 0 writes target->dir/step-N; where something is in shards all ranks call these, and write (snapshot_files.h).
 * Rank 0's status counts. After a failure (a full disk) nothing is left behind and former checkpoints are untouched.
 * A save has three parts. lvn_snapshot_write(), the second, sends no messages, so a thread may call it where
 * lvn_snapshot_is_async(), which is the same on all ranks. */
struct lvn_snapshot_writing;
/* After a failure *out is NULL; target and n must outlive it. */
enum lvn_status lvn_snapshot_begin(struct lvn_snapshot_writing **out, const struct lvn_snapshot_target *target,
                                   const struct lvn_snapshot *s, const struct lvn_model_state *n,
                                   struct lvn_ranks *ranks) LVN_CHECKED;
bool lvn_snapshot_is_async(const struct lvn_snapshot_writing *w);
void lvn_snapshot_write(struct lvn_snapshot_writing *w);
/* The step has become a checkpoint, or nothing is left. Frees w. */
enum lvn_status lvn_snapshot_end(struct lvn_snapshot_writing *w) LVN_CHECKED;
/* In place of the end, each rank for itself: removes what was written, and frees w, which may be NULL. */
void lvn_snapshot_cancel(struct lvn_snapshot_writing *w);
/* All three parts. */
enum lvn_status lvn_snapshot_save(const struct lvn_snapshot_target *target, const struct lvn_snapshot *s,
                                  const struct lvn_model_state *n, struct lvn_ranks *ranks) LVN_CHECKED;
/* The progress of a checkpoint's run, without weights. */
enum lvn_status lvn_snapshot_read(const struct lvn_checkpoint *c, struct lvn_snapshot *s) LVN_CHECKED;
/* Models and adapters that the weights of a checkpoint may need. */
struct lvn_snapshot_source {
    const struct lvn_pretrained *base; /* of adapters: model.init; read if there are some */
    bool allows_copies;                /* lora.merge_checkpoints: accept a checkpoint with its own copy of the base */
};
/* All ranks call it: load weights and optimizer state of rank 0's checkpoint into an allocated model state. c on other
 * ranks: empty. FORMAT if the base's weights are not those with which the adapters were trained. */
enum lvn_status lvn_snapshot_load(const struct lvn_checkpoint *c, struct lvn_model_state *n,
                                  const struct lvn_snapshot_source *source, struct lvn_ranks *ranks) LVN_CHECKED;
/* ARG, by name, for settings that would change the model or the data order of the checkpoint's run. Limits, logging,
 * checkpoints, learning rates and threads may change. */
enum lvn_status lvn_snapshot_check(const struct lvn_checkpoint *c, const struct lvn_settings *now,
                                   const struct lvn_model *m) LVN_CHECKED;

#endif
