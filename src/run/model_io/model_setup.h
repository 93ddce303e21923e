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
    const char
        *data_kind; /* data.kind; `documents` in place of `chars` for a text that is read with the model's tokenizer */
    bool vocabulary_assumed;  /* the model, the settings and the data that are here do not determine it */
    struct lvn_fields fields; /* of the data's samples */
    const struct lvn_task *task;
    bool has_pretrained; /* model.init */
    struct lvn_pretrained pretrained;
    struct lvn_codec codec;              /* of the pretrained model; empty: none */
    struct lvn_token_bytes *token_bytes; /* of the codec; NULL: ids only */
    struct lvn_new_texts new_texts;
    char *downloaded;                       /* file or folder in the cache in place of data.path; NULL: none */
    bool no_download;                       /* data.url is not used */
    const struct lvn_model_config *trained; /* the model of the run so far, which has the classes; NULL: none */
};

/* Download data.url if data.path does not exist: to data.path, but if only the settings of a run name that, an
 * evaluation downloads to the cache (*cached, to be freed, else NULL), and all else (ARG) only below the run's folder
 * and the current one. */
enum lvn_status lvn_model_setup_download(const struct levin_settings *s, bool evaluates, char **cached) LVN_CHECKED;

/* Open the data (after downloading data.url, if data.path does not exist) and determine the sizes. Model, task and data
 * that do not match are refused before anything is downloaded or opened. model: a program's own; NULL: settings'
 * model.kind. trained: the model of the run that continues, whose classes labels must have; NULL: none. Borrowed. Close
 * it always. */
enum lvn_status lvn_model_setup_open(struct lvn_model_setup *m, const struct levin_settings *s,
                                     const struct lvn_model *model, const struct lvn_model_config *trained) LVN_CHECKED;
/* The same without training: splits may be short, and the test split is opened, too. texts: used instead of the data;
 * NULL: none. */
enum lvn_status lvn_model_setup_evaluation(struct lvn_model_setup *m, const struct levin_settings *s,
                                           const struct lvn_model *model, const struct lvn_new_texts *texts,
                                           const struct lvn_model_config *trained) LVN_CHECKED;
void lvn_model_setup_close(struct lvn_model_setup *m);
/* The same for `plan` and `bench`, which do not need the data: if they cannot be opened, m->data stays NULL and the
 * vocabulary, if not given, is the usual one of such data. A published model that is not on this machine has its
 * published sizes, and model.init may be a folder with a config.json and no weights. Nothing is downloaded. */
enum lvn_status lvn_model_setup_sizes(struct lvn_model_setup *m, const struct levin_settings *s,
                                      const struct lvn_model *model) LVN_CHECKED;
/* Are the data on this machine, or generated? */
bool lvn_model_setup_data_is_there(const struct levin_settings *s);
/* The model of settings' model.init alone, without data. */
enum lvn_status lvn_model_setup_loaded(struct lvn_model_setup *m, const struct levin_settings *s) LVN_CHECKED;
/* For inference, with model.quantize or a model in packed blocks: keeps adapters of the model apart from its weights.
 */
enum lvn_status lvn_model_setup_quantize(struct lvn_model_setup *m, const struct levin_settings *s) LVN_CHECKED;
/* How transformers pads texts for a classifier whose config.json does not say it: with the tokenizer's pad_token;
 * without one with the end token, unless the tokenizer ends each text with that: the last token of a text would count
 * as padding. */
enum lvn_status lvn_model_padding(struct lvn_model_config *c, const struct lvn_codec *codec) LVN_CHECKED;
/* Text <-> ids of the run: the data's codec, or the pretrained model's. Nothing to release. */
struct lvn_codec lvn_model_setup_codec(const struct lvn_model_setup *m);

#endif
