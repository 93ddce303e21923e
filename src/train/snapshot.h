/* snapshot.h - a training run as a checkpoint: weights, optimizer state, and where it stood.
 *
 *     step-N/config.json, model.safetensors    a Hugging Face directory
 *     step-N/state/optimizer.safetensors       exp_avg.NAME and exp_avg_sq.NAME for each trainable parameter
 *     step-N/state/state.json                  step, best loss, fingerprint of the data, micro-batch
 *     step-N/state/settings.yaml               the resolved settings
 *     step-N/state/vocabulary.json             characters, where the data are text
 *
 * Data order, dropout and the schedule are functions of (seed, step), so the step is all of their state. How files
 * become durable is io/checkpoint.h's business. */
#ifndef LVN_SNAPSHOT_H
#define LVN_SNAPSHOT_H

#include "io/checkpoint.h"
#include "train/network.h"

struct lvn_settings;
struct lvn_vocab;

struct lvn_snapshot {
    int64_t step;         /* finished steps */
    double val_loss;      /* at this step; NaN: not validated here */
    double best_val_loss; /* lowest so far; NaN: none */
    uint64_t data;        /* lvn_dataset_fingerprint() */
    int64_t micro_batch;  /* sequences of a micro-batch */
};

/* Write checkpoints_dir/step-N. On failure (a full disk) nothing is left behind and former checkpoints are untouched.
 * vocabulary: NULL where the data have none. */
enum lvn_status lvn_snapshot_save(const char *checkpoints_dir, const struct lvn_snapshot *s,
                                  const struct lvn_network *n, const struct lvn_settings *settings,
                                  const struct lvn_vocab *vocabulary) LVN_CHECKED;
/* Where the run of the checkpoint stood, without its weights. */
enum lvn_status lvn_snapshot_read(const struct lvn_checkpoint *c, struct lvn_snapshot *s) LVN_CHECKED;
/* Load weights and optimizer state into a network that was allocated, and where the run stood into *s. */
enum lvn_status lvn_snapshot_load(const struct lvn_checkpoint *c, struct lvn_snapshot *s,
                                  struct lvn_network *n) LVN_CHECKED;
/* Refuse, by name, settings that would change the model or the data order of the run that the checkpoint holds. Limits,
 * logging, checkpoints, learning rates and threads may change. */
enum lvn_status lvn_snapshot_check(const struct lvn_checkpoint *c, const struct lvn_settings *now) LVN_CHECKED;

#endif
