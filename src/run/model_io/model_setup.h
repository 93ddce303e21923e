/* model_setup.h - what a run or an inference begins with: the data, the task, the configuration of the model and its
 * files. setup/setup.h opens it. */
#ifndef LVN_MODEL_SETUP_H
#define LVN_MODEL_SETUP_H

#include "data/dataset.h"
#include "model_io/pretrained.h"
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
    bool vocabulary_assumed;  /* the model, the options and the data that are here do not determine it */
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

void lvn_model_setup_close(struct lvn_model_setup *m);
/* For inference, with model.quantize or a model in packed blocks: keep adapters of the model apart from its weights. */
enum lvn_status lvn_model_setup_quantize(struct lvn_model_setup *m, bool quantize) LVN_CHECKED;
/* How transformers pads texts for a classifier whose config.json does not say it: with the tokenizer's pad_token;
 * without one with the end token, unless the tokenizer ends each text with that: the last token of a text would count
 * as padding. */
enum lvn_status lvn_model_padding(struct lvn_model_config *c, const struct lvn_codec *codec) LVN_CHECKED;
/* Text <-> ids of the run: the data's codec, or the pretrained model's. Nothing to release. */
struct lvn_codec lvn_model_setup_codec(const struct lvn_model_setup *m);

#endif
