/* model_setup.h - from settings to data, task and the sizes of a model.
 *
 * Training, evaluation, generation, `plan` and `bench` call it. The sizes come from model.init (a model directory), or
 * from the keys of `model` and from the data. It allocates no model: that is engine/model_state.h. */
#ifndef LVN_MODEL_SETUP_H
#define LVN_MODEL_SETUP_H

#include "data/dataset.h"
#include "model_io/pretrained.h"
#include "settings/settings.h"
#include "tasks/task.h"

/* Texts without labels, for data.kind=labelled, instead of its file. */
struct lvn_new_texts {
    const char *const *text; /* [n] */
    const char *const *pair; /* [n] second text of each, or NULL; NULL: none has one */
    int64_t n;
};

struct lvn_model_setup {
    struct lvn_model_config config;
    int64_t block_size; /* tokens of a window; at most the model's positions */
    struct lvn_dataset *data;
    bool vocabulary_assumed;  /* the model, the settings and the data that are here do not determine it */
    struct lvn_fields fields; /* of the data's samples */
    const struct lvn_task *task;
    bool has_pretrained; /* model.init */
    struct lvn_pretrained pretrained;
    struct lvn_codec codec; /* of the pretrained model; empty: none */
    struct lvn_new_texts new_texts;
};

/* Open the data (after downloading data.url, if data.path does not exist) and determine the sizes. Model, task and data
 * that do not match are refused before anything is downloaded or opened. model: a program's own; NULL: settings'
 * model.kind. Close it always. */
enum lvn_status lvn_model_setup_open(struct lvn_model_setup *m, const struct lvn_settings *s,
                                     const struct lvn_model *model) LVN_CHECKED;
/* The same without training: splits may be short, and the test split is opened, too. texts: used instead of the data;
 * NULL: none. */
enum lvn_status lvn_model_setup_evaluation(struct lvn_model_setup *m, const struct lvn_settings *s,
                                           const struct lvn_model *model,
                                           const struct lvn_new_texts *texts) LVN_CHECKED;
void lvn_model_setup_close(struct lvn_model_setup *m);
/* The same for `plan` and `bench`, which do not need the data: if they cannot be opened, m->data stays NULL and the
 * vocabulary, if not given, is the usual one of such data. A published model that is not on this machine has its
 * published sizes. Nothing is downloaded. */
enum lvn_status lvn_model_setup_sizes(struct lvn_model_setup *m, const struct lvn_settings *s,
                                      const struct lvn_model *model) LVN_CHECKED;
/* Are the data on this machine, or generated? */
bool lvn_model_setup_data_is_there(const struct lvn_settings *s);
/* The model of settings' model.init alone, without data. */
enum lvn_status lvn_model_setup_loaded(struct lvn_model_setup *m, const struct lvn_settings *s) LVN_CHECKED;
/* Text <-> ids of the run: the data's codec, or the pretrained model's. Nothing to release. */
struct lvn_codec lvn_model_setup_codec(const struct lvn_model_setup *m);

#endif
