/* prediction.h - predicts class probabilities, or numbers, for new texts with a model that was trained for them.
 *
 * `levin predict` and the C API call it. Texts are evaluated as rows of data without labels (data/texts/labelled.c),
 * cleaned and truncated as in training. */
#ifndef LVN_PREDICTION_H
#define LVN_PREDICTION_H

#include "model_io/model_setup.h"

struct lvn_ranks;

struct lvn_prediction {
    int64_t n;                      /* texts */
    bool is_number;                 /* the model predicts a number for each text instead of a class */
    int64_t columns;                /* the model's classes; 1 if is_number */
    double *value;                  /* (n, columns), in the order of the texts: probabilities, or numbers */
    struct lvn_model_config config; /* for names of classes: lvn_class_name() */
};

/* Predict the texts' classes or numbers with settings' model.init. All ranks pass the same texts and get the whole
 * result. Sets the keys of data and task, which are otherwise unused. Always release the result. */
enum lvn_status lvn_predict(struct levin_settings *s, struct lvn_ranks *ranks, const struct lvn_new_texts *texts,
                            struct lvn_prediction *out) LVN_CHECKED;
void lvn_prediction_release(struct lvn_prediction *p);

#endif
