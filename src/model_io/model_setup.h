/* model_setup.h - from settings to data and the sizes of a model.
 *
 * The sizes come from model.init (a model directory), or from the keys of `model` and from what the data need. */
#ifndef LVN_MODEL_SETUP_H
#define LVN_MODEL_SETUP_H

#include "data/dataset.h"
#include "model_io/pretrained.h"
#include "settings/settings.h"
#include "tasks/task.h"

/* Texts that have no labels, for data.kind=labelled, in place of its file. */
struct lvn_new_texts {
    const char *const *text;
    const char *const *pair; /* NULL, or of each text the other one, or NULL */
    int64_t n;
};

struct lvn_model_setup {
    struct lvn_model_config config;
    int64_t block_size; /* tokens of a window; at most the positions that the model has */
    struct lvn_dataset *data;
    bool assumed;             /* the vocabulary: neither the model, nor the settings, nor data that are there say it */
    struct lvn_fields fields; /* of its samples */
    const struct lvn_task *task; /* what the model learns from them */
    bool has_pretrained;
    struct lvn_pretrained pretrained;
    struct lvn_codec codec; /* of the loaded model; empty: it has none */
    struct lvn_new_texts new_texts;
};

/* Open the data (downloading it first where it is missing and data.url says from where) and decide on the sizes. Model,
 * task and data that do not go together are refused before anything is fetched or opened.
 * model: a program's own; NULL: settings' model.kind. Close it always. */
enum lvn_status lvn_model_setup_open(struct lvn_model_setup *m, const struct lvn_settings *s,
                                     const struct lvn_model *model) LVN_CHECKED;
/* The same where nothing is trained: parts may be short, and those that training never sees are opened too. texts:
 * without labels, in place of the data; NULL: none. */
enum lvn_status lvn_model_setup_evaluation(struct lvn_model_setup *m, const struct lvn_settings *s,
                                           const struct lvn_model *model,
                                           const struct lvn_new_texts *texts) LVN_CHECKED;
void lvn_model_setup_close(struct lvn_model_setup *m);
/* The same for `plan` and `bench`, which can do without the data: where they cannot be opened, m->data stays NULL and
 * the vocabulary, if not given, is what such data usually have. A published model that is not on this machine has the
 * sizes that it is known for. Nothing is downloaded. */
enum lvn_status lvn_model_setup_sizes(struct lvn_model_setup *m, const struct lvn_settings *s,
                                      const struct lvn_model *model) LVN_CHECKED;
/* Are the data on this machine, or made up? */
bool lvn_model_setup_data_is_there(const struct lvn_settings *s);
/* The model of settings' model.init alone, without data. */
enum lvn_status lvn_model_setup_loaded(struct lvn_model_setup *m, const struct lvn_settings *s) LVN_CHECKED;
/* Text <-> ids of the run: the data's way, or the loaded model's. Nothing to release. */
struct lvn_codec lvn_model_setup_codec(const struct lvn_model_setup *m);

#endif
