/* snapshot.h - a training run as a checkpoint: weights, optimizer state, and the progress of the run.
 *
 * saver.h writes checkpoints with it and decides when; the trainer's set-up reads them. checkpoints/checkpoint.h makes
 * their files durable.
 *
 *     step-N/config.json                  sizes and kind of the model, with Hugging Face's names
 *     step-N/model.safetensors            the weights, in several files with an index if they have more bytes than
 *                                         checkpoint.max_shard_size; absent if adapters are trained (lora.rank)
 *     step-N/adapter/                     the adapters as a folder of PEFT, with base.json (adapter_files.h)
 *     step-N/vocab.json, merges.txt       or tokenizer.json: if the data are tokens of a known tokenizer
 *     step-N/generation_config.json, ...  and others of model.init's folder (carried_files.h)
 *     step-N/state/optimizer.safetensors  exp_avg.NAME and exp_avg_sq.NAME of trainable parameters
 *     step-N/state/state.json             step, best loss, fingerprint of the data, micro-batch, ranks
 *     step-N/state/settings.yaml          the resolved settings
 *     step-N/state/vocabulary.json        the characters, if the data are characters
 *
 * The base model of adapters is not copied: base.json refers to it by path or name and by checksum.
 *
 * With lora.merge_checkpoints, model.safetensors contains the model with merged adapters, and
 * state/adapters.safetensors the adapters and the original weights that they change. Such a checkpoint needs no base
 * model.
 *
 * Data order, dropout and the schedule are functions of (seed, step), so the step is their only state. */
#ifndef LVN_SNAPSHOT_H
#define LVN_SNAPSHOT_H

#include "checkpoints/checkpoint.h"
#include "engine/model_state.h"
#include "engine/ranks.h"

struct levin_settings;
struct lvn_codec;
struct lvn_adapter_base;
struct lvn_carried_files;
struct lvn_pretrained;
struct lvn_text;

enum { LVN_SNAPSHOT_CALLBACKS = 64 << 10, LVN_SNAPSHOT_SKIPPED = 16 << 10, LVN_SNAPSHOT_DEVICE = 320 };

struct lvn_snapshot {
    int64_t step;                           /* finished steps */
    double val_loss;                        /* at this step; NaN: not validated */
    unsigned due;                           /* what a resumed run does first: VALIDATION, EPOCH_END of enum lvn_due */
    double best_val_loss;                   /* lowest so far; NaN: none */
    double start_val_loss;                  /* before the first step; NaN: unknown */
    struct lvn_checkpoint_score score;      /* without a name: val_loss */
    uint64_t data;                          /* lvn_dataset_fingerprint() */
    int64_t micro_batch;                    /* sequences per micro-batch on rank 0 */
    int64_t min_micro_batches;              /* lvn_train_programs.min_micro_batches */
    int64_t unlabeled;                      /* number of steps whose batch had no label */
    int64_t ranks;                          /* of the run; 0: not stored */
    struct lvn_scaling scaling;             /* loss scale; all zero: none */
    char skipped[LVN_SNAPSHOT_SKIPPED];     /* shards that are damaged (lvn_dataset_bad_shards()); "": none */
    char device[LVN_SNAPSHOT_DEVICE];       /* lvn_device_text() of rank 0; "": not stored */
    const char *choices;                    /* lines of the device (struct lvn_tuning_ops), to be saved; NULL: none */
    char callbacks[LVN_SNAPSHOT_CALLBACKS]; /* their states as JSON; "": none */
};

/* The folder of a snapshot, and the additional data written into it. */
struct lvn_snapshot_target {
    const char *dir; /* step-N is made in it */
    const struct levin_settings *settings;
    const struct lvn_codec *codec;           /* empty if the data has only ids */
    const struct lvn_carried_files *carried; /* files from model.init's folder */
    const struct lvn_adapter_base *base;     /* of adapters; used if there are some */
    void (*all_read)(void *context);         /* called when the model state has been read; NULL: none */
    void *context;                           /* of all_read */
};

/* Rank 0 writes target->dir/step-N; if something is sharded, all ranks call these functions and write
 * (snapshot_files.h). Rank 0's status decides. After a failure (a full disk) nothing remains and previous
 * checkpoints are untouched. A save has three parts. lvn_snapshot_write(), the second, sends no messages, so a thread
 * may call it if lvn_snapshot_is_async(), which is the same on all ranks. */
struct lvn_snapshot_writing;
/* After a failure *out is NULL; target and n must outlive it. */
enum lvn_status lvn_snapshot_begin(struct lvn_snapshot_writing **out, const struct lvn_snapshot_target *target,
                                   const struct lvn_snapshot *s, const struct lvn_model_state *n,
                                   struct lvn_ranks *ranks) LVN_CHECKED;
bool lvn_snapshot_is_async(const struct lvn_snapshot_writing *writing);
void lvn_snapshot_write(struct lvn_snapshot_writing *writing);
/* Turn the step into a checkpoint, or remove everything after a failure. Frees w. */
enum lvn_status lvn_snapshot_end(struct lvn_snapshot_writing *writing) LVN_CHECKED;
/* Instead of the end, each rank by itself: remove the written files and free w, which may be NULL. */
void lvn_snapshot_cancel(struct lvn_snapshot_writing *writing);
/* Save all three parts. */
enum lvn_status lvn_snapshot_save(const struct lvn_snapshot_target *target, const struct lvn_snapshot *s,
                                  const struct lvn_model_state *n, struct lvn_ranks *ranks) LVN_CHECKED;
/* Read the progress of a checkpoint's run, without weights and choices. */
enum lvn_status lvn_snapshot_read(const struct lvn_checkpoint *c, struct lvn_snapshot *s) LVN_CHECKED;
/* Read its choices into *out. */
enum lvn_status lvn_snapshot_read_choices(const struct lvn_checkpoint *c, struct lvn_text *out) LVN_CHECKED;
/* Models and adapters that the weights of a checkpoint may need. */
struct lvn_snapshot_source {
    const struct lvn_pretrained *base; /* of adapters: model.init; used if there are some */
    bool allows_copies;                /* lora.merge_checkpoints: accept a checkpoint with its own copy of the base */
};
/* All ranks: load weights and optimizer state of rank 0's checkpoint into an allocated model state. c is empty on other
 * ranks. FORMAT: the base's weights are not those with which the adapters were trained. */
enum lvn_status lvn_snapshot_load(const struct lvn_checkpoint *c, struct lvn_model_state *n,
                                  const struct lvn_snapshot_source *source, struct lvn_ranks *ranks) LVN_CHECKED;
/* ARG, with the key: the setting would change the model or the data order of the checkpoint's run. Limits, logging,
 * checkpoints, learning rates and threads may change. */
enum lvn_status lvn_snapshot_check(const struct lvn_checkpoint *c, const struct levin_settings *now,
                                   const struct lvn_model *m) LVN_CHECKED;

#endif
