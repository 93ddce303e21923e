/* snapshot.h - a training run as a checkpoint: weights, optimizer state, and where it stood.
 *
 *     step-N/config.json                  sizes and kind of the model, as Hugging Face names them
 *     step-N/model.safetensors            the weights; absent where adapters are trained (lora.rank)
 *     step-N/adapter/                     the adapters as a folder of PEFT, with base.json (adapter_files.h)
 *     step-N/vocab.json, merges.txt       or tokenizer.json: if the data are tokens of a known tokenizer
 *     step-N/state/optimizer.safetensors  exp_avg.NAME and exp_avg_sq.NAME for each trainable parameter
 *     step-N/state/state.json             step, best loss, fingerprint of the data, micro-batch, ranks
 *     step-N/state/settings.yaml          the resolved settings
 *     step-N/state/vocabulary.json        the characters, if the data are characters
 *
 * The base model of adapters stays where it is: base.json names it by path or name and by checksum.
 *
 * With lora.merge_checkpoints, and in checkpoints of older versions, model.safetensors is there with the adapters
 * merged, and state/adapters.safetensors holds the adapters and the weights that they change, as they were loaded: such
 * a checkpoint needs no base.
 *
 * Data order, dropout and the schedule are functions of (seed, step), so the step is all of their state. How files
 * become durable is checkpoints/checkpoint.h's business. */
#ifndef LVN_SNAPSHOT_H
#define LVN_SNAPSHOT_H

#include "checkpoints/checkpoint.h"
#include "engine/model_state.h"
#include "engine/ranks.h"
#include "engine/shares.h"

struct lvn_settings;
struct lvn_codec;
struct lvn_adapter_base;
struct lvn_pretrained;

enum { LVN_SNAPSHOT_CALLBACKS = 64 << 10 };

struct lvn_snapshot {
    int64_t step;                           /* finished steps */
    double val_loss;                        /* at this step; NaN: not validated here */
    double best_val_loss;                   /* lowest so far; NaN: none */
    double start_val_loss;                  /* before the first step; NaN: not known */
    struct lvn_checkpoint_score score;      /* without a name: val_loss */
    uint64_t data;                          /* lvn_dataset_fingerprint() */
    int64_t micro_batch;                    /* sequences of a micro-batch, of rank 0 */
    int64_t pieces;                         /* into which memory had each rank's rows cut; 0: not kept */
    int64_t ranks;                          /* how many took part; 0: not kept */
    struct lvn_scaling scaling;             /* of the loss; all zero: it was not scaled */
    char shares[LVN_LOAD_WEIGHTS_TEXT];     /* what each of them computed, see shares.h; "": equal shares */
    char callbacks[LVN_SNAPSHOT_CALLBACKS]; /* what those remember, as JSON; "": nothing */
};

/* Where a snapshot goes, and what else belongs into it. */
struct lvn_snapshot_target {
    const char *dir; /* step-N is made in it */
    const struct lvn_settings *settings;
    const struct lvn_codec *codec;       /* empty where ids are all there is */
    const struct lvn_adapter_base *base; /* of adapters; read where there are some */
    void (*all_read)(void *context);     /* called when the network is no longer read; NULL: nobody waits for that */
    void *context;
};

/* All ranks call it; rank 0 writes to->dir/step-N, and its status counts. On failure (a full disk) nothing is left
 * behind and former checkpoints are untouched. */
enum lvn_status lvn_snapshot_save(const struct lvn_snapshot_target *to, const struct lvn_snapshot *s,
                                  const struct lvn_model_state *n, const struct lvn_sharding *sharding,
                                  struct lvn_ranks *ranks) LVN_CHECKED;
/* Where the run of the checkpoint stood, without its weights. */
enum lvn_status lvn_snapshot_read(const struct lvn_checkpoint *c, struct lvn_snapshot *s) LVN_CHECKED;
/* Models and adapters that a checkpoint's weights may need. */
struct lvn_snapshot_from {
    const struct lvn_pretrained *base; /* of adapters, as model.init has it; read where there are some */
    bool keeps_copies; /* lora.merge_checkpoints: a checkpoint with its own copy of the base may go on */
};
/* All ranks call it: weights and optimizer state of rank 0's checkpoint into a network that was allocated. c on other
 * ranks: empty. FORMAT where the weights of the base are not those that its adapters were trained beside. */
enum lvn_status lvn_snapshot_load(const struct lvn_checkpoint *c, struct lvn_model_state *n,
                                  const struct lvn_snapshot_from *from, const struct lvn_sharding *sharding,
                                  struct lvn_ranks *ranks) LVN_CHECKED;
/* Refuse, by name, settings that would change the model or the data order of the run that the checkpoint holds. Limits,
 * logging, checkpoints, learning rates and threads may change. */
enum lvn_status lvn_snapshot_check(const struct lvn_checkpoint *c, const struct lvn_settings *now,
                                   const struct lvn_model *m) LVN_CHECKED;

#endif
